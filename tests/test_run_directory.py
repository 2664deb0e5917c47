"""The run directory: written live, read live, and nothing that lies in it can break the reader."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlwatch.runs.jsonl import encode, restore_floats
from rlwatch.runs.metrics import METRICS, describe
from rlwatch.runs.reader import (
    latest_alerts,
    list_runs,
    read_alerts,
    read_info,
    read_records,
    read_summary,
)
from rlwatch.runs.records import Advice, Alert, AlertState, Cause, Severity, StepRecord
from rlwatch.runs.writer import RunWriter, create_run_directory

values = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(-(2**53), 2**53))


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other


def alert(**changes: object) -> Alert:
    fields: dict[str, object] = {
        "rule": "dead-groups",
        "severity": Severity.WARNING,
        "state": AlertState.FIRING,
        "since": 3,
        "step": 5,
        "time": 1.0,
        "value": 0.8,
        "reference": 0.1,
        "message": "80% of the groups are dead",
        "evidence": {"groups/stuck": 0.8},
        "causes": (Cause("siblings are alike", {"groups/stuck": 0.8}),),
        "advice": (Advice("raise epsilon_high", "DAPO"),),
        "run": "run",
    }
    return Alert(**{**fields, **changes})  # type: ignore[arg-type]


def write_steps(path: Path, count: int, **info: object) -> RunWriter:
    path.mkdir(parents=True)
    writer = RunWriter(path, info)
    for step in range(1, count + 1):
        writer.append(StepRecord(step, 1000.0 + step, {"loss": 1.0 / step}))
    return writer


@given(st.dictionaries(st.text(min_size=1), values, max_size=8))
def test_metrics_come_back_as_they_were(metrics: dict[str, float | None]) -> None:
    line = encode(metrics)
    assert "\n" not in line
    back = restore_floats(json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON")))
    assert back.keys() == metrics.keys()
    assert all(same(metrics[name], back[name]) for name in metrics)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(st.dictionaries(st.sampled_from(["loss", "entropy/mean", "Δ\n"]), values), max_size=6))
def test_records_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, steps: list[dict]) -> None:
    path = tmp_path_factory.mktemp("run")
    writer = RunWriter(path, {})
    for step, metrics in enumerate(steps, 1):
        writer.append(StepRecord(step, float(step), metrics))
    back = read_records(path)
    assert [record.step for record in back.items] == list(range(1, len(steps) + 1))
    for record, metrics in zip(back.items, steps, strict=True):
        assert all(same(metrics[name], record.metrics[name]) for name in metrics)
    assert not back.skipped


def test_an_alert_comes_back_as_it_was(tmp_path: Path) -> None:
    writer = write_steps(tmp_path / "run", 1)
    fired = alert(value=math.inf, evidence={"grad/norm": -math.inf, "kl": None})
    over = alert(state=AlertState.RESOLVED, step=9, resolved_step=8)
    writer.alert(fired)
    writer.alert(over)
    changes = read_alerts(tmp_path / "run").items
    assert changes == [fired, over]
    assert latest_alerts(changes) == [over]


def test_reading_on_from_a_cursor_gives_what_is_new(tmp_path: Path) -> None:
    run = tmp_path / "run"
    writer = write_steps(run, 2)
    first = read_records(run)
    writer.append(StepRecord(3, 1003.0, {"loss": 0.1}))
    second = read_records(run, first.cursor)
    assert [record.step for record in second.items] == [3]
    assert read_records(run, second.cursor).items == []


def test_a_half_written_last_line_is_left_for_later(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_steps(run, 2)
    path = run / "metrics.rank0.jsonl"
    whole = path.stat().st_size
    with path.open("a") as file:
        file.write('{"step":3,"time":1003.0,"met')
    chunk = read_records(run)
    assert [record.step for record in chunk.items] == [1, 2]
    assert chunk.cursor == whole
    assert not chunk.skipped
    assert read_summary(run).last == chunk.items[-1]
    with path.open("a") as file:
        file.write('rics":{}}\n')
    assert [record.step for record in read_records(run, chunk.cursor).items] == [3]


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        "3",
        "{}",
        '{"step":"x","time":1,"metrics":{}}',
        '{"step":3,"time":1,"metrics":{"loss":"high"}}',
        '{"step":3,"time":1,"metrics":[]}',
        "[" * 100_000,
        "\x00\x00",
    ],
)
def test_a_line_that_is_none_is_skipped_and_named(tmp_path: Path, line: str) -> None:
    run = tmp_path / "run"
    writer = write_steps(run, 1)
    with (run / "metrics.rank0.jsonl").open("a") as file:
        file.write(line + "\n")
    writer.append(StepRecord(2, 1002.0, {}))
    chunk = read_records(run)
    assert [record.step for record in chunk.items] == [1, 2]
    [skipped] = chunk.skipped
    assert skipped.path == run / "metrics.rank0.jsonl"
    assert "line at byte" in skipped.why


def test_a_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_steps(run, 5)
    cursor = read_records(run).cursor
    (run / "metrics.rank0.jsonl").write_text('{"step":1,"time":1,"metrics":{}}\n')
    chunk = read_records(run, cursor)
    assert chunk.restarted
    assert [record.step for record in chunk.items] == [1]


def test_a_folder_with_everything_in_it_that_should_not_be(tmp_path: Path) -> None:
    write_steps(tmp_path / "good", 3).close()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "run.json").write_text("[]")
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "run.json").write_text('{"schema": 99}')
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "run.json").write_text('{"schema": 1, "created": "yesterday"}')
    runs, skipped = list_runs(tmp_path)
    assert {run.name for run in runs} == {"good", "odd"}
    assert {item.path.name: item.why for item in skipped} == {
        "notes.txt": "it is a file, not a run directory",
        "loop": "it is a file, not a run directory",
        "empty": "it holds no run.json, so it is no run of rlwatch",
        "broken": "its run.json is not JSON",
        "list": "its run.json is not a JSON object",
        "newer": "its layout has the version 99; this rlwatch reads version 1",
    }


def test_a_missing_and_an_empty_folder(tmp_path: Path) -> None:
    runs, [skipped] = list_runs(tmp_path / "nowhere")
    assert not runs
    assert "no such folder" in skipped.why
    assert list_runs(tmp_path) == ([], [])


def test_a_run_is_empty_then_live_then_stalled_then_ended(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    writer = RunWriter(run, {"created": 1000.0})
    assert read_summary(run, now=1010.0).state == "empty"
    writer.append(StepRecord(1, 1010.0, {"step_seconds": 60.0}))
    assert read_summary(run, now=1500.0).state == "live", "its steps take a minute"
    assert read_summary(run, now=1700.0).state == "stalled"
    writer.close()
    assert read_summary(run, now=9999.0).state == "ended"
    assert "ended" in read_info(run)


def test_the_newest_step_of_a_long_run_is_found_from_its_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    writer = write_steps(run, 500)
    writer.append(StepRecord(501, 2.0, {f"metric {n}": 0.5 for n in range(3000)}))  # one line of more than 32 kB
    last = read_summary(run).last
    assert last is not None
    assert last.step == 501


def test_names_never_collide_and_never_leave_the_folder(tmp_path: Path) -> None:
    names = ["run", "run", "run", "../evil", "a/b c", "..", ""]
    paths = [create_run_directory(tmp_path, name) for name in names]
    assert [path.name for path in paths[:5]] == ["run", "run-2", "run-3", "evil", "a-b-c"]
    assert {path.parent for path in paths} == {tmp_path}
    assert len(set(paths)) == len(paths)


def test_shards_are_written_off_the_thread_and_whole(tmp_path: Path) -> None:
    writer = write_steps(tmp_path / "run", 1)
    threads = []

    def table() -> pl.DataFrame:
        threads.append(threading.current_thread())
        return pl.DataFrame({"reward": [1.0, 0.0]})

    assert writer.rollouts(1, table)
    writer.close()
    assert threads[0] is not threading.main_thread()
    assert os.listdir(tmp_path / "run" / "rollouts") == ["step-000001.parquet"]
    assert pl.read_parquet(tmp_path / "run" / "rollouts" / "step-000001.parquet")["reward"].to_list() == [1.0, 0.0]


def test_a_slow_disk_drops_the_oldest_shard_and_never_blocks(tmp_path: Path) -> None:
    writer = write_steps(tmp_path / "run", 1)
    release, started = threading.Event(), threading.Event()

    def slow() -> pl.DataFrame:
        started.set()
        assert release.wait(30)
        return pl.DataFrame({"reward": [1.0]})

    writer.rollouts(1, slow)
    assert started.wait(30)
    kept = [writer.rollouts(step, lambda: pl.DataFrame({"reward": [1.0]})) for step in range(2, 12)]
    release.set()
    writer.close()
    assert kept == [True] * 8 + [False] * 2
    names = sorted(os.listdir(tmp_path / "run" / "rollouts"))
    assert names == [f"step-{step:06d}.parquet" for step in (1, *range(4, 12))]


def test_a_shard_that_fails_is_told_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    faults: list[Exception] = []
    run = tmp_path / "run"
    run.mkdir()
    writer = RunWriter(run, {}, on_fault=faults.append)
    writer.rollouts(1, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    writer.rollouts(2, lambda: pl.DataFrame({"reward": [1.0]}))
    writer.close()
    assert [type(fault) for fault in faults] == [ZeroDivisionError]
    assert os.listdir(run / "rollouts") == ["step-000002.parquet"]


def test_kill_9_loses_at_most_the_step_in_flight(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rlwatch.runs.writer import RunWriter;"
        "from rlwatch.runs.records import StepRecord; path = Path(sys.argv[1]); path.mkdir();"
        "writer = RunWriter(path, {}); step = 0\n"
        "while True:\n"
        "    step += 1\n"
        "    writer.append(StepRecord(step, 1.0, {'loss': 0.5}))\n"
        "    print(step, flush=True)\n"
    )
    run = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for _ in range(200):
            process.stdout.readline()
    finally:
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait(timeout=30)
    told = int(rest[-1]) if rest else 200
    records = read_records(run)
    assert not records.skipped
    assert [record.step for record in records.items] == list(range(1, len(records.items) + 1))
    assert len(records.items) >= told


def test_a_full_disk_is_an_error_and_the_next_line_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    writer = write_steps(run, 1)
    real_write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(
            os, "write", lambda fd, data: real_write(fd, data[:7]) if len(data) > 7 else real_write(fd, data)
        )
        with pytest.raises(OSError, match="only 7 of"):
            writer.append(StepRecord(2, 1.0, {}))
    writer.append(StepRecord(3, 1.0, {}))
    chunk = read_records(run)
    assert [record.step for record in chunk.items] == [1, 3]
    assert len(chunk.skipped) == 1


def test_the_table_of_metrics_describes_every_name_and_makes_none_up() -> None:
    assert all(metric.meaning and metric.unit and metric.formula for metric in METRICS.values())
    assert describe("reward/accuracy").unit == "reward"
    assert describe("my/own").meaning == ""
