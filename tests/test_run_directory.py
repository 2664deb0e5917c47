"""The run directory: written live, read live, and nothing that lies in it can break the reader."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
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
    stream_records,
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


# A run that was resumed


def write_lines(run: Path, *lines: str, file: str = "metrics.rank0.jsonl") -> None:
    with (run / file).open("a") as out:
        out.write("".join(line + "\n" for line in lines))


def go_on(run: Path, back_to: int) -> RunWriter:
    """A second process goes on with a run."""
    info = read_info(run)
    info.pop("ended", None)
    resumed = [*info.get("resumed", []), {"step": back_to, "time": 5000.0}]
    return RunWriter(run, {**info, "resumed": resumed}, back_to=back_to)


def test_a_run_that_goes_on_has_each_step_once_as_it_was_done_last(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_steps(run, 12, created=900.0).close()
    before = read_info(run)
    assert read_summary(run, now=1020.0).state == "ended"
    writer = go_on(run, 10)
    summary = read_summary(run, now=5010.0)
    assert summary.state == "live", "its last step is old, but it has only just been resumed"
    assert summary.last is not None
    assert summary.last.step == 10, "what was done after the checkpoint is gone"
    for step in range(11, 15):
        writer.append(StepRecord(step, 6000.0, {"loss": 7.0}))
    records = read_records(run)
    assert not records.skipped
    assert [record.step for record in records.items] == list(range(1, 15))
    assert [record.metrics["loss"] for record in records.items[10:]] == [7.0] * 4
    assert list(stream_records(run)) == records.items
    after = read_info(run)
    assert (after["id"], after["created"], after["name"]) == (before["id"], 900.0, "run")
    writer.close()
    assert read_summary(run).state == "ended"


def test_alerts_that_were_taken_back_are_gone_and_the_others_are_as_they_were(tmp_path: Path) -> None:
    run = tmp_path / "run"
    writer = write_steps(run, 120)
    early = alert(rule="a", since=80, step=90)
    was_over = alert(rule="b", since=30, step=40, state=AlertState.RESOLVED, resolved_step=38)
    worse = alert(rule="a", since=80, step=105, severity=Severity.CRITICAL)
    over = alert(rule="a", since=80, step=112, severity=Severity.CRITICAL, state=AlertState.RESOLVED)
    late = alert(rule="c", since=95, step=110)
    for change in (was_over, early, worse, late, over):
        writer.alert(change)
    cursor = read_alerts(run).cursor
    writer.close()
    writer = go_on(run, 100)
    assert latest_alerts(read_alerts(run).items) == [was_over, early]
    assert read_summary(run).open_alerts == [early]
    chunk = read_alerts(run, cursor)
    assert chunk.restarted, "whoever knows of step 110 has to forget it"
    assert chunk.items == [was_over, early]
    again = alert(rule="c", since=96, step=111)
    writer.alert(again)
    assert read_alerts(run, chunk.cursor).items == [again]
    assert not read_alerts(run, chunk.cursor).restarted


def test_a_live_reader_is_told_only_if_what_it_has_is_no_longer_true(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_steps(run, 10)
    everything = read_records(run).cursor
    writer = go_on(run, 10)  # nothing had been done after the checkpoint
    nothing_lost = read_records(run, everything)
    assert (nothing_lost.restarted, nothing_lost.items) == (False, [])
    writer.append(StepRecord(11, 1.0, {}))
    in_between = read_records(run, nothing_lost.cursor)
    assert [record.step for record in in_between.items] == [11]
    writer = go_on(run, 10)
    for cursor in (in_between.cursor, nothing_lost.cursor):
        chunk = read_records(run, cursor)
        assert chunk.restarted == (cursor == in_between.cursor), "step 11 was not known to the one before it"
        assert [record.step for record in chunk.items] == (list(range(1, 11)) if chunk.restarted else [])
        assert not read_records(run, chunk.cursor).restarted, "and it is told once"


@pytest.mark.parametrize("value", ['"4"', "null", "-1", "2.5", "true", "[4]", "1e999"])
def test_a_marker_with_a_foreign_value_is_skipped_and_named(tmp_path: Path, value: str) -> None:
    run = tmp_path / "run"
    writer = write_steps(run, 5)
    write_lines(run, f'{{"resume":{value},"time":1.0}}')
    write_lines(run, f'{{"resume":{value},"time":1.0}}', file="alerts.jsonl")
    writer.append(StepRecord(6, 1.0, {}))
    chunk = read_records(run)
    assert [record.step for record in chunk.items] == [1, 2, 3, 4, 5, 6]
    assert ["line at byte" in item.why for item in chunk.skipped] == [True]
    assert len(read_alerts(run).skipped) == 1
    assert [record.step for record in stream_records(run)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("torn", ['{"step":6,"time":10', '{"resume":4,"ti', '{"resume":4}', "\x00\x00"])
def test_a_line_that_a_killed_process_left_torn_does_not_swallow_the_marker(tmp_path: Path, torn: str) -> None:
    run = tmp_path / "run"
    writer = write_steps(run, 5)
    writer.alert(alert(since=1, step=2))
    writer.close()
    for file in ("metrics.rank0.jsonl", "alerts.jsonl"):
        with (run / file).open("a") as out:
            out.write(torn)
    assert [record.step for record in read_records(run).items] == [1, 2, 3, 4, 5], "a torn marker takes nothing back"
    writer = go_on(run, 4)
    assert [record.step for record in read_records(run).items] == [1, 2, 3, 4]
    assert len(read_alerts(run).items) == 1
    writer.append(StepRecord(5, 1.0, {"loss": 7.0}))
    assert read_records(run).items[-1].metrics == {"loss": 7.0}


ops = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(1, 12)),
        st.tuples(st.just("next"), st.just(0)),
        st.tuples(st.just("marker"), st.integers(0, 14)),
        st.tuples(st.just("junk"), st.sampled_from(['{"resume":"x"}', "{", "[]", '{"step":1e999}', '{"resume":3'])),
    ),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(ops, st.data())
def test_any_records_and_markers_read_back_as_each_step_once(
    tmp_path_factory: pytest.TempPathFactory, ops: list[tuple[str, object]], data: st.DataObject
) -> None:
    run = tmp_path_factory.mktemp("run")
    RunWriter(run, {}).close()
    expected: list[tuple[int, float]] = []
    history = []  # where a reader may have stopped, and what it should have then
    for number, (kind, value) in enumerate(ops):
        if kind == "junk":
            write_lines(run, str(value))
        elif kind == "marker":
            write_lines(run, f'{{"resume":{value},"time":1.0}}')
            expected = [pair for pair in expected if pair[0] <= int(str(value))]
        else:
            step = int(str(value)) if kind == "record" else (expected[-1][0] + 1 if expected else 1)
            write_lines(run, encode({"step": step, "time": 1.0, "metrics": {"n": number}}))
            expected = [*(pair for pair in expected if pair[0] < step), (step, number)]
        history.append(((run / "metrics.rank0.jsonl").stat().st_size, list(expected)))

    def pairs(records: list[StepRecord]) -> list[tuple[int, float]]:
        return [(record.step, record.metrics["n"]) for record in records]

    whole = read_records(run)
    assert pairs(whole.items) == expected
    assert pairs(list(stream_records(run))) == expected
    last = read_summary(run).last
    assert (pairs([last]) if last else []) == expected[-1:]
    if not history:
        return
    cursor, held = data.draw(st.sampled_from(history))
    chunk = read_records(run, cursor)
    assert (pairs(chunk.items) if chunk.restarted else held + pairs(chunk.items)) == expected
    if chunk.restarted:
        assert held != expected[: len(held)], "nobody is made to read again what is true"
    assert chunk.cursor == whole.cursor


def test_records_are_streamed_in_bounded_memory(tmp_path: Path) -> None:
    run = tmp_path / "run"
    writer = write_steps(run, 0)
    for step in range(1, 3001):
        writer.append(StepRecord(step, 1.0, {f"metric {n}": 0.5 for n in range(30)}))
    for record in stream_records(run):  # once, for what Python itself allocates
        last = record
    tracemalloc.start()
    try:
        for record in stream_records(run):
            last = record
        streamed = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        read_records(run)
        read = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"peak: {streamed / 1e3:.0f} kB streamed, {read / 1e3:.0f} kB read whole")
    assert last.step == 3000
    assert streamed < 200_000 < read


def test_shards_of_steps_that_were_taken_back_are_set_aside(tmp_path: Path) -> None:
    writer = write_steps(tmp_path / "run", 1)
    for step in (1, 9, 10, 11, 1_000_000):
        writer.rollouts(step, lambda: pl.DataFrame({"reward": [1.0]}))
    writer.close()
    shards = tmp_path / "run" / "rollouts"
    (shards / "notes.txt").write_text("mine")
    (shards / "step-x.parquet").write_text("mine too")
    (shards / ".step-000012.parquet.1").write_text("half a shard")
    writer = go_on(tmp_path / "run", 10)
    writer.set_aside(10)
    writer.set_aside(10)
    assert sorted(path.name for path in shards.glob("step-0*.parquet")) == [
        f"step-{step:06d}.parquet" for step in (1, 9, 10)
    ]
    assert sorted(os.listdir(shards / "abandoned")) == ["step-000011.parquet", "step-1000000.parquet"]
    assert {"notes.txt", "step-x.parquet"} <= set(os.listdir(shards))
    assert not list(shards.glob(".*"))


def test_a_run_without_rollouts_has_none_to_set_aside(tmp_path: Path) -> None:
    write_steps(tmp_path / "run", 1)
    go_on(tmp_path / "run", 0).set_aside(0)
    assert not (tmp_path / "run" / "rollouts").exists()


def test_a_process_that_is_slow_to_die_does_not_end_a_run_that_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    old = write_steps(run, 2)
    new = go_on(run, 2)
    old.update_info(correct="late words")
    old.close()
    info = read_info(run)
    assert "ended" not in info
    assert "correct" not in info
    assert len(info["resumed"]) == 1
    new.update_info(correct="accuracy is 1")
    new.close()
    assert {"ended", "correct"} <= set(read_info(run))


@pytest.mark.parametrize("value", [3, "x", [], [3], [{}], [{"time": "x"}], [{"time": None}], {}, None])
def test_strange_words_about_resumptions_do_no_harm(tmp_path: Path, value: object) -> None:
    run = tmp_path / "run"
    write_steps(run, 2, resumed=value)
    assert read_summary(run, now=1003.0).state == "live"


def test_the_table_of_metrics_describes_every_name_and_makes_none_up() -> None:
    assert all(metric.meaning and metric.unit and metric.formula for metric in METRICS.values())
    assert describe("reward/accuracy").unit == "reward"
    assert describe("my/own").meaning == ""
