"""Curves in few points: each against the plain way to the same numbers, however the file was cut."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from rlwatch.runs.reader import read_records
from rlwatch.runs.records import StepRecord
from rlwatch_dashboard import sparklines
from rlwatch_dashboard.sparklines import POINTS, Buckets, Curves
from test_dashboard import new_run, record, resume

METRIC = "reward/mean"


def plainly(run: Path, metric: str = METRIC) -> dict[str, Any] | None:
    """The same from all records at once."""
    points = [(r.step, r.metrics[metric]) for r in read_records(run).items if metric in r.metrics]
    if not points:
        return None
    width = 1
    while points[-1][0] // width - points[0][0] // width >= POINTS:
        width *= 2
    first = points[0][0] // width
    y: list[Any] = []
    for bucket in range(first, points[-1][0] // width + 1):
        values = [value for step, value in points if step // width == bucket]
        sound = [value for value in values if value is not None and math.isfinite(value)]
        mean = float(f"{math.fsum(sound) / len(values):.4g}") if values and len(sound) == len(values) else None
        y.append(mean if values else False)
    return {"x": first * width, "dx": width, "y": y}


def same(found: dict[str, Any] | None, wanted: dict[str, Any] | None) -> bool:
    """Whether two lines are the same, but for the last digit of a mean."""
    if found is None or wanted is None:
        return found is wanted
    if (found["x"], found["dx"], len(found["y"])) != (wanted["x"], wanted["dx"], len(wanted["y"])):
        return False
    for a, b in zip(found["y"], wanted["y"], strict=True):
        if type(a) is not type(b) or (isinstance(a, float) and not math.isclose(a, b, rel_tol=1.1e-3, abs_tol=1e-12)):
            return False
    return True


def read_all(curves: Curves) -> None:
    while not curves.advance():
        pass


@pytest.mark.parametrize("steps", [1, 2, 59, 60, 61, 119, 120, 121, 1000])
@pytest.mark.parametrize("first", [0, 1, 63, 1000])
def test_a_line_has_the_means_of_its_buckets(tmp_path: Path, steps: int, first: int) -> None:
    writer = new_run(tmp_path)
    for step in range(first, first + steps):
        writer.append(StepRecord(step, 1.0, {METRIC: math.sin(step / 7) + 2}))
    curves = Curves(writer.path, [METRIC])
    read_all(curves)
    line = curves.lines[METRIC]
    assert line is not None
    assert len(line["y"]) <= POINTS
    assert len(line["y"]) > POINTS // 2 - 1 or steps <= POINTS // 2 + 1
    assert same(line, plainly(writer.path))


@pytest.mark.parametrize("seed", range(12))
def test_however_the_file_is_cut_and_whatever_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(sparklines, "PIECE", chance.choice([64, 700, 5000, 1 << 22]))
    writer = new_run(tmp_path)
    curves = Curves(writer.path, [METRIC, "entropy/mean"])
    step = 0
    for _ in range(chance.randrange(4, 12)):
        for _ in range(chance.randrange(1, 60)):
            step += chance.choice([1, 1, 1, 10])
            metrics: dict[str, float | None] = {METRIC: chance.uniform(1, 2)}
            kind = chance.random()
            if kind < 0.05:
                metrics[METRIC] = chance.choice([math.nan, math.inf, -math.inf, None])
            elif kind < 0.3:
                del metrics[METRIC]
            if step % 10 == 0:
                metrics["entropy/mean"] = step / 10
            writer.append(StepRecord(step, 1.0, metrics))
        if chance.random() < 0.2:
            with (writer.path / "metrics.rank0.jsonl").open("a") as file:
                file.write(chance.choice(["not ours\n", "\n", '{"step":"x"}\n']))
        if chance.random() < 0.3:
            writer.close()
            step = chance.randrange(0, step + 1)
            writer = resume(writer.path, step)
        if chance.random() < 0.7:
            read_all(curves)
            for metric in curves.metrics:
                assert same(curves.lines[metric], plainly(writer.path, metric)), metric
    read_all(curves)
    for metric in curves.metrics:
        assert same(curves.lines[metric], plainly(writer.path, metric)), metric


def test_a_nan_is_a_gap_and_a_metric_that_is_logged_seldom_is_a_line(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    for step in range(240):
        metrics: dict[str, float | None] = {METRIC: math.nan if step == 100 else 1.0}
        if step % 10 == 0:
            metrics["entropy/mean"] = 2.0
        writer.append(StepRecord(step, 1.0, metrics))
    curves = Curves(writer.path, [METRIC, "entropy/mean", "loss"])
    read_all(curves)
    reward, entropy = curves.lines[METRIC], curves.lines["entropy/mean"]
    assert reward is not None
    assert entropy is not None
    assert reward["dx"] == 4
    assert [i for i, y in enumerate(reward["y"]) if y is None] == [25], "one of four values is enough"
    assert set(entropy["y"]) == {2.0, False}
    assert curves.lines["loss"] is None


def test_a_line_in_flight_is_left_for_the_next_time(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=2)
    metrics = writer.path / "metrics.rank0.jsonl"
    curves = Curves(writer.path, [METRIC])
    with metrics.open("a") as file:
        file.write('{"step":3,"time":1.0,"metr')
    read_all(curves)
    assert curves.lines[METRIC] == {"x": 1, "dx": 1, "y": [0.5, 0.5]}
    with metrics.open("a") as file:
        file.write('ics":{"reward/mean":0.25}}\n')
    read_all(curves)
    assert curves.lines[METRIC] == {"x": 1, "dx": 1, "y": [0.5, 0.5, 0.25]}


def test_a_look_reads_what_is_new_and_not_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = new_run(tmp_path, steps=200)
    curves = Curves(writer.path, [METRIC])
    read_all(curves)
    decoded: list[bytes] = []
    real = sparklines.decode
    monkeypatch.setattr(sparklines, "decode", lambda line: decoded.append(line) or real(line))
    read_all(curves)
    assert decoded == []
    writer.append(record(201))
    read_all(curves)
    assert [json.loads(line)["step"] for line in decoded] == [201]


def test_a_long_run_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = new_run(tmp_path, steps=100)
    size = (writer.path / "metrics.rank0.jsonl").stat().st_size
    monkeypatch.setattr(sparklines, "PIECE", size // 4)
    curves = Curves(writer.path, [METRIC])
    answers = []
    while not answers or not answers[-1]:
        answers.append(curves.advance())
        assert bool(curves.lines) is answers[-1], "a curve is shown when it is whole"
    assert len(answers) >= 4
    assert same(curves.lines[METRIC], plainly(writer.path))


def test_a_file_that_is_shorter_than_what_was_read_begins_anew(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=50)
    metrics = writer.path / "metrics.rank0.jsonl"
    curves = Curves(writer.path, [METRIC])
    read_all(curves)
    metrics.write_text('{"step":7,"time":1.0,"metrics":{"reward/mean":9.0}}\n')
    read_all(curves)
    assert curves.lines[METRIC] == {"x": 7, "dx": 1, "y": [9.0]}


@pytest.mark.parametrize(
    "line", ['{"step":1e400}', '{"step":18446744073709551616,"time":1,"metrics":{}}', "[]", "1", '"x"']
)
def test_lines_that_are_no_steps_do_no_harm(tmp_path: Path, line: str) -> None:
    writer = new_run(tmp_path, steps=2)
    with (writer.path / "metrics.rank0.jsonl").open("a") as file:
        file.write(line + "\n")
    writer.append(record(3))
    curves = Curves(writer.path, [METRIC])
    read_all(curves)
    assert curves.lines[METRIC] == {"x": 1, "dx": 1, "y": [0.5] * 3}


def test_a_run_without_the_file_has_no_curve(tmp_path: Path) -> None:
    curves = Curves(tmp_path, [METRIC])
    assert curves.advance()
    assert curves.lines == {}


def test_steps_far_apart_need_no_memory(tmp_path: Path) -> None:
    buckets = Buckets()
    for step in (0, 10**6, 10**12, 2**52):
        buckets.extend([step], [1.0])
        assert len(buckets.sums) <= POINTS
    line = buckets.line()
    assert line is not None
    assert len(line["y"]) <= POINTS
