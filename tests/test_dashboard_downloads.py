"""What is taken away from the site is what was recorded: read back, and compared with the records."""

from __future__ import annotations

import csv
import io
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

import rlwatch
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import create_app, downloads

NUMBERS: dict[str, list[float | None]] = {
    "reward/mean": [0.1, math.nan, -1e-300, 1 / 3, 5e-324],
    "grad/norm": [math.inf, None, 1e308, -math.inf, 0.0],
}


def new_run(root: Path, name: str = "run") -> RunWriter:
    (root / name).mkdir(parents=True)
    return RunWriter(root / name, {"config": {"loss_type": "dapo"}})


def odd_run(root: Path, name: str = "run") -> list[StepRecord]:
    """A run with all that a number can be, metrics that come late, and one that is missing now and then."""
    writer = new_run(root, name)
    records = []
    for i in range(5):
        metrics = {metric: values[i] for metric, values in NUMBERS.items()}
        if i >= 2:
            metrics["eval/late"] = float(i)
        if i % 2:
            metrics["length/mean"] = 200.0
        records.append(StepRecord(i + 1, 1.7e9 + i, metrics))
        writer.append(records[-1])
    return records


def get(root: Path, path: str) -> Any:
    return create_app(root).server.test_client().get(path)


def value_of(cell: str) -> float | None:
    return None if cell == "none" else float(cell)


def same(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))


def test_csv_gives_every_number_back_and_tells_what_is_missing_from_what_is_none(tmp_path: Path) -> None:
    records = odd_run(tmp_path)
    answer = get(tmp_path, "/run/run/data.csv")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    head, *rows = list(csv.reader(io.StringIO(answer.get_data(as_text=True))))
    assert head == ["step", "time", "reward/mean", "grad/norm", "length/mean", "eval/late"]
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        cells = dict(zip(head, row, strict=True))
        assert (int(cells.pop("step")), float(cells.pop("time"))) == (record.step, record.time)
        assert {name for name, cell in cells.items() if cell} == record.metrics.keys()
        assert all(same(value_of(cells[name]), value) for name, value in record.metrics.items())


def test_what_was_downloaded_can_be_read_as_a_log_again(tmp_path: Path) -> None:
    records = odd_run(tmp_path)
    (tmp_path / "again.csv").write_bytes(get(tmp_path, "/run/run/data.csv").data)
    again = rlwatch.load(tmp_path / "again.csv")
    assert [record.step for record in again.records] == [record.step for record in records]
    for read, record in zip(again.records, records, strict=True):
        found = {name.removeprefix("raw/"): value for name, value in read.metrics.items()}
        assert found.keys() == record.metrics.keys()
        assert all(same(found[name], value) for name, value in record.metrics.items())


def test_parquet_is_the_frame_of_metrics(tmp_path: Path) -> None:
    odd_run(tmp_path)
    answer = get(tmp_path, "/run/run/data.parquet")
    frame = pl.read_parquet(io.BytesIO(answer.data))
    expected = rlwatch.load(tmp_path / "run").metrics
    assert frame.equals(expected)
    assert frame.schema == expected.schema
    assert frame["reward/mean"].is_nan().to_list() == [False, True, False, False, False]
    assert frame["grad/norm"].is_null().to_list() == [False, True, False, False, False]
    assert frame["eval/late"].is_null().to_list() == [True, True, False, False, False]


def test_a_training_that_went_back_is_given_as_it_was_done_last(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    for step in range(1, 9):
        writer.append(StepRecord(step, 1.7e9, {"reward/mean": 0.1, "only/before": 1.0} if step > 5 else {"loss": 1.0}))
    path = tmp_path / "run" / "metrics.rank0.jsonl"
    with path.open("a") as file:
        file.write('{"resume":5,"time":1.7e9}\n')
        file.write('{"step":6,"time":1.7e9,"metrics":{"reward/mean":0.9}}\n{"step":7,"time":1.7e9,"metr')
    head, *rows = list(csv.reader(io.StringIO(get(tmp_path, "/run/run/data.csv").get_data(as_text=True))))
    assert head == ["step", "time", "loss", "reward/mean"]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert rows[-1][3] == "0.9"


def test_alerts_are_the_lines_of_the_file_without_one_in_flight(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    alert = Alert("dead-groups", Severity.WARNING, AlertState.FIRING, 3, 5, 1.7e9, 0.8, 0.2, "80% of the groups")
    writer.alert(alert)
    with (tmp_path / "run" / "alerts.jsonl").open("a") as file:
        file.write('{"rule":"torn')
    answer = get(tmp_path, "/run/run/alerts.jsonl")
    assert [json.loads(line)["rule"] for line in answer.get_data(as_text=True).splitlines()] == ["dead-groups"]
    assert answer.headers["Content-Disposition"].startswith("attachment; ")
    new_run(tmp_path, "calm")
    assert get(tmp_path, "/run/calm/alerts.jsonl").data == b""


def test_a_run_without_a_step_gives_an_empty_table(tmp_path: Path) -> None:
    new_run(tmp_path)
    assert get(tmp_path, "/run/run/data.csv").data == b"step,time\n"
    assert pl.read_parquet(io.BytesIO(get(tmp_path, "/run/run/data.parquet").data)).columns == ["step", "time"]


@pytest.mark.parametrize("part", ["data.csv", "data.parquet", "alerts.jsonl"])
def test_what_is_no_run_gives_no_file(tmp_path: Path, part: str) -> None:
    (tmp_path / "runs" / "folder").mkdir(parents=True)
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text("{")
    new_run(tmp_path, "outside")
    for name in ("nope", "folder", "broken", "..", "%2e%2e", "..%2foutside", ".hidden"):
        answer = get(tmp_path / "runs", f"/run/{name}/{part}")
        assert "Content-Disposition" not in answer.headers, name
        assert answer.status_code == 404 or answer.data.startswith(b"<!DOCTYPE html>"), name  # the site's own page
    assert get(tmp_path, f"/run/outside/{part}").status_code == 200


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("plain-1.0", "plain-1.0"),
        ('a "b"; c', "a-b-c"),
        ("ü 漢", "-"),
        ("x\\y", None),
        ("a\r\nSet-Cookie: b", "a-Set-Cookie-b"),
    ],
)
def test_a_file_is_named_after_its_run_whatever_that_is_called(tmp_path: Path, name: str, plain: str | None) -> None:
    odd_run(tmp_path, name)
    answer = get(tmp_path, f"/run/{quote(name, safe='')}/data.csv")
    if plain is None:  # no address leads to it
        assert answer.status_code == 404
        return
    assert answer.status_code == 200
    sent = answer.headers["Content-Disposition"]
    assert sent.startswith(f'attachment; filename="{plain}.csv"; ')
    assert "\r" not in sent
    assert "\n" not in sent
    extended = sent.partition("filename*=UTF-8''")[2]
    assert extended.isascii()
    assert not set('"; /\\') & set(extended)
    assert "Set-Cookie" not in answer.headers


def test_a_spreadsheet_runs_nothing(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    evil = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", 'a","b\n=c']
    writer.append(StepRecord(1, 1.7e9, {**dict.fromkeys(evil, 1.0), "fine": -0.5}))
    head, row = list(csv.reader(io.StringIO(get(tmp_path, "/run/run/data.csv").get_data(as_text=True), newline="")))
    assert [name[0] for name in head[2:8]] == ["'"] * 6
    assert not [name for name in head if name.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert head[8] == 'a","b =c'
    assert row[head.index("fine")] == "-0.5"  # a number is no text


def test_csv_comes_in_pieces_and_its_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    RunWriter(tmp_path / "run", {}).close()
    metrics = ",".join(f'"raw/m{i}":0.123456789012345' for i in range(40))

    def peak_of(steps: int) -> tuple[int, int]:
        with (tmp_path / "run" / "metrics.rank0.jsonl").open("w") as file:
            file.writelines(f'{{"step":{step},"time":1.0,"metrics":{{{metrics}}}}}\n' for step in range(1, steps + 1))
        tracemalloc.start()
        pieces = sum(1 for _ in downloads.csv_of(tmp_path / "run"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return pieces, peak

    few, small = peak_of(300)
    many, large = peak_of(6000)
    assert many > 10 * few
    assert large < 2 * small + 200_000
    assert large < 6000 * 40 * 8  # less than the numbers alone


def test_links_are_made_where_addresses_are_made(tmp_path: Path) -> None:
    hrefs = [part.href for part in downloads.links("a b").children if hasattr(part, "href")]
    assert hrefs == [f"/run/a%20b/{part}" for part in downloads.FILES]
