"""The dashboard's columns of a run: the same as the reader's records, whatever is in the file and however it grew."""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from rlwatch.runs.reader import METRICS_FILE, read_records
from rlwatch.runs.records import StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import columns
from rlwatch_dashboard.column_store import ColumnStore, Reading

VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53), 2**53),
    st.sampled_from(["NaN", "Infinity", "-Infinity", None]),
)
NAMES = st.sampled_from(["loss", "entropy/mean", "reward/<b>", "ü"])
STEP = st.builds(
    lambda step, metrics: json.dumps({"step": step, "time": 1.5 * step, "metrics": metrics}).encode() + b"\n",
    st.integers(0, 12),
    st.dictionaries(NAMES, VALUES, max_size=3),
)
MARKER = st.integers(-1, 12).map(lambda step: b'{"resume":%d,"time":1.0}\n' % step)
BROKEN = st.sampled_from(
    [
        b"\n",
        b"  \r\n",
        b"not ours\n",
        b"[]\n",
        b'"resume"\n',
        b'{"step":1}\n',
        b'{"step":3,"time":1,"metrics":[]}\n',
        b'{"step":3,"time":1,"metrics":{"loss":true}}\n',
        b'{"step":3,"time":1,"metrics":{"loss":"fast"}}\n',
        b'{"step":3,"time":1,"metrics":{"loss":"0.5"}}\n',
        b'{"step":"4","time":"NaN","metrics":{"loss":NaN}}\r\n',
        b'{"step":5,"time":1,\r"metrics":{}}\n',
        b'{"resume":true}\n',
        b"\xff\xfe\n",
    ]
)
LINES = st.lists(st.one_of(STEP, STEP, STEP, MARKER, BROKEN), max_size=25)


def as_read(records: list[StepRecord]) -> list[Any]:
    """Records in a form that compares: NaN equal to NaN, None apart from it, names in any order."""
    return [(r.step, repr(float(r.time)), {n: v if v is None else repr(float(v)) for n, v in r.metrics.items()})
            for r in records]  # fmt: skip


def records_of(reading: Reading) -> list[StepRecord]:
    return [reading.columns.record(row) for row in range(len(reading.columns.steps))]


def store(folder: Path, content: bytes = b"") -> ColumnStore:
    (folder / METRICS_FILE).write_bytes(content)
    return ColumnStore(folder)


@settings(max_examples=150, deadline=None)
@given(lines=LINES, cuts=st.lists(st.integers(0, 2000), max_size=4), data=st.data())
def test_it_reads_what_the_reader_reads_however_the_file_grew(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("run")
    whole = b"".join(lines)
    followed, cursors = store(folder), [0]
    for cut in [*sorted(cuts), len(whole)]:
        with (folder / METRICS_FILE).open("r+b") as file:
            file.write(whole[:cut])
        reading = followed.read()
        expected = read_records(folder)
        assert as_read(records_of(reading)) == as_read(expected.items)
        assert reading.cursor == expected.cursor
        assert [skipped for _, skipped in reading.skipped] == expected.skipped
        earlier = data.draw(st.sampled_from(cursors))
        since = read_records(folder, earlier)
        assert reading.went_back(earlier) == since.restarted
        if not since.restarted:
            new = records_of(reading)[reading.columns.row_after(earlier) :]
            assert as_read(new) == as_read(since.items)
        cursors.append(reading.cursor)


def test_a_carriage_return_ends_no_line(tmp_path: Path) -> None:
    first, second = b'{"step":5,"time":1,\r"metrics":{}}\n', b'{"step":6,"time":2,"metrics":{}}\r\n'
    reading = store(tmp_path, first + second).read()
    assert as_read(records_of(reading)) == as_read(read_records(tmp_path).items)
    assert reading.columns.steps.tolist() == [5, 6]
    assert [record.step for record in read_records(tmp_path, len(first)).items] == [6]


UNLIKE = [
    '{"step":2,"time":2.5,"metrics":{"a":true,"b":1.5}}',
    '{"step":2,"time":2.5,"metrics":{"a":"NaN","b":null}}',
    '{"step":2,"time":2.5,"metrics":{"a":"fast","b":1.5}}',
    '{"step":2,"time":2.5,"metrics":{"a":3,"b":1.5}}',
    '{"step":2,"time":2.5,"metrics":{"b":1.5,"a":0.5}}',
    '{"step":2,"time":2.5,"metrics":{"a":0.5}}',
    '{"step":2,"time":2.5,"metrics":{"a":0.5,"b":1.5,"c":2.5}}',
    '{"step":2,"time":2.5,"metrics":{"a":0.5,"b":1.5},"resume":1}',
    '{"step":2,"time":2.5,"metrics":{"a":0.5,"b":1.5},"more":1}',
    '{"step":2,"time":2.5,"metrics":["a","b"]}',
    '{"step":2,"time":2.5,"metrics":"ab"}',
    '{"step":2,"time":2,"metrics":{"a":0.5,"b":1.5}}',
    '{"step":2.5,"time":2.5,"metrics":{"a":0.5,"b":1.5}}',
    '{"step":true,"time":2.5,"metrics":{"a":0.5,"b":1.5}}',
    '{"step":1,"time":2.5,"metrics":{"a":7.5,"b":1.5}}',
    '{"step":0,"time":2.5,"metrics":{"a":"fast","b":1.5}}',
    '{"step":9223372036854775807,"time":2.5,"metrics":{"a":0.5,"b":1.5}}',
    '{"a":0.5,"b":1.5}',
    "[1,2,3]",
]


@pytest.mark.parametrize("line", UNLIKE)
def test_a_line_that_is_nearly_like_the_one_before_is_read_as_the_reader_reads_it(tmp_path: Path, line: str) -> None:
    plain = '{{"step":{0},"time":1.5,"metrics":{{"a":{0}.5,"b":1.5}}}}'
    content = "".join(f"{one}\n" for one in (plain.format(1), line, plain.format(3), plain.format(4)))
    reading = store(tmp_path, content.encode()).read()
    expected = read_records(tmp_path)
    if "9223372036854775807" in line:  # the reader takes any whole number, a column those that fit
        assert [record.step for record in records_of(reading)] == [1, 3, 4]
        return
    assert as_read(records_of(reading)) == as_read(expected.items)
    assert [skipped for _, skipped in reading.skipped] == expected.skipped


def test_each_metric_has_its_points_and_only_those(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, {})
    writer.append(StepRecord(1, 10.0, {"a": 1.0}))
    writer.append(StepRecord(2, 11.0, {"a": math.nan, "b": None}))
    writer.append(StepRecord(4, 12.0, {"b": math.inf, "c": 10**400}))
    now = ColumnStore(tmp_path).read().columns
    assert now.steps.tolist() == [1, 2, 4]
    points = {name: [array.tolist() for array in now.points(name)] for name in "abc"}
    assert points["a"][0] == [0, 1]
    assert points["b"][0] == [1, 2]
    assert points["c"] == [[2], [math.inf]]
    assert columns.is_none(now.points("a")[1]).tolist() == [False, False]
    assert columns.is_none(now.points("b")[1]).tolist() == [True, False]
    assert now.points("b", 2)[0].tolist() == [2]
    assert [len(part) for part in now.points("nothing")] == [0, 0]
    assert now.newest(["b", "nothing"]) == {"b": math.inf}
    assert now.record(1).metrics["b"] is None


def test_a_file_that_is_another_one_is_read_from_its_start(tmp_path: Path) -> None:
    line = b'{"step":%d,"time":1.0,"metrics":{"a":%d}}\n'
    followed = store(tmp_path, line % (1, 1) + line % (2, 2))
    assert followed.read().columns.steps.tolist() == [1, 2]
    path = tmp_path / METRICS_FILE
    path.write_bytes(line % (5, 1))
    assert followed.read().columns.steps.tolist() == [5], "shorter"
    path.write_bytes(line % (7, 1) + line % (8, 2))
    assert followed.read().columns.steps.tolist() == [7, 8], "longer, and not what it was"
    other = tmp_path / "other"
    other.write_bytes(line % (3, 1) + line % (4, 2))
    os.replace(other, path)
    assert followed.read().columns.steps.tolist() == [3, 4], "of the same size"
    path.unlink()
    assert followed.read().columns.steps.tolist() == []


def test_what_was_handed_out_stays_as_it_was(tmp_path: Path) -> None:
    line = b'{"step":%d,"time":1.0,"metrics":{"a":%d}}\n'
    followed = store(tmp_path, b"".join(line % (step, step) for step in range(1, 9)))
    before = followed.read().columns
    with (tmp_path / METRICS_FILE).open("ab") as file:
        file.write(b'{"resume":3}\n' + line % (4, 40) + line % (5, 50))
    now = followed.read().columns
    assert before.points("a")[1].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert now.points("a")[1].tolist() == [1, 2, 3, 40, 50]


def test_threads_that_ask_at_once_all_get_a_whole_answer(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, {})
    followed = ColumnStore(tmp_path)
    wrong: list[str] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            now = followed.read().columns
            steps, values = now.steps, now.points("a")[1]
            if steps.tolist() != list(range(1, len(steps) + 1)) or (values != steps).any():
                wrong.append(f"{len(steps)} steps, {len(values)} values")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for step in range(1, 400):
        writer.append(StepRecord(step, float(step), {"a": float(step)}))
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(followed.read().columns.steps) == 399


def test_broken_lines_without_end_are_named_up_to_a_bound(tmp_path: Path) -> None:
    reading = store(tmp_path, b"no\n" * 5000).read()
    assert 0 < len(reading.skipped) < 1000
    assert reading.cursor == 15000


def test_a_training_that_goes_back_all_the_time_is_remembered_up_to_a_bound(tmp_path: Path) -> None:
    line = b'{"step":%d,"time":1.0,"metrics":{"a":1.0}}\n'
    reading = store(tmp_path, b"".join(line % (2 - i % 2) for i in range(20_000))).read()
    assert len(reading.returns) <= 1000
    recent = reading.cursor - 10 * len(line % 1)
    assert reading.went_back(recent) == read_records(tmp_path, recent).restarted
    assert reading.went_back(20 * len(line % 1)), "that long ago it is not known any more: better anew than wrong"
    assert not reading.went_back(reading.cursor)


def test_its_memory_is_what_it_says(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, {})
    for step in range(1, 1001):
        writer.append(StepRecord(step, float(step), {"a": 1.0, **({"b": 2.0} if step % 10 == 0 else {})}))
    followed = ColumnStore(tmp_path)
    now = followed.read().columns
    assert now.nbytes == 8 * (3 * 1000 + 1000 + 2 * 100)
    assert now.nbytes <= followed.nbytes <= 2 * now.nbytes
    assert np.shares_memory(now.steps, followed.read().columns.steps), "nothing is copied where nothing is new"
