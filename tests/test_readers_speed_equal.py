"""The quick ways through a log give what the slow ones give, whatever its rows hold."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rlwatch.readers import UnreadableError, json_columns, load, parts
from rlwatch.readers.fields import Rows
from rlwatch.readers.jsontext import line
from rlwatch.readers.rows import Row
from rlwatch.readers.source import Source
from rlwatch.runs.table import Table

QUICK = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))

FLOATS = st.sampled_from([0.5, 0.0, -0.0, 1e-300, 1e300, 3.0])
ODD = st.sampled_from(
    [None, True, 7, 10**15, 2**70, 10**400, "NaN", "nan", "-inf", "0.25", "x", "", [1.0], {}, {"step": 3, "a": 0.5}]
)
STEPS = st.integers(-1, 12) | st.sampled_from([0.0, 4.0, 2.5, "3", "3/9", None, True, 10**15, 10**30, math.inf])
NAMES = ["loss", "reward", "entropy", "epoch", "eval_loss", "eval_reward", "train_runtime", "mine", "time"]


@st.composite
def logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of which most have the names of the one before and floats under them, with a step that mostly grows."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    counters = draw(st.lists(st.sampled_from(["step", "global_step", "_step", "timestamp"]), max_size=3, unique=True))
    rows: list[dict[str, Any]] = []
    step = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 14))):
        step += draw(st.sampled_from([1, 1, 1, 1, 0, 10, -3]))
        row: dict[str, Any] = {}
        for counter in counters:
            usual = 1.7e9 + step if counter == "timestamp" else step
            row[counter] = usual if draw(st.integers(0, 9)) else draw(STEPS)
        row |= {name: draw(FLOATS) if draw(st.integers(0, 14)) else draw(ODD) for name in names}
        match draw(st.integers(0, 12)):
            case 0:
                row.pop(draw(st.sampled_from(list(row))))
            case 1:
                row[draw(st.sampled_from(["extra", *NAMES]))] = draw(FLOATS | ODD)
            case 2:
                row = dict(reversed(row.items()))
            case 3:
                row = {name: draw(FLOATS) for name in draw(st.permutations(["eval_loss", "epoch"]))}
        rows.append(row)
    return rows


def exact(value: Any) -> str:
    """Tells 1 from 1.0, -0.0 from 0.0 and one order of names from another; NaN is NaN."""
    return repr(value)


class TestRowsOfDicts:
    @QUICK
    @example([{"step": 1, "loss": 0.5}, {"step": {"step": 2}, "loss": 0.5}])
    @example([{"step": 1, "loss": 0.5}, {"step": 2, "loss": {"global_step": 7}}])
    @given(logs())
    def test_a_row_is_the_same_whatever_row_was_before_it(self, rows: list[dict[str, Any]]) -> None:
        make = Rows()
        one_after_the_other = [make.row(dict(row)) for row in rows]
        assert exact(one_after_the_other) == exact([Rows().row(dict(row)) for row in rows])


class TestLinesOfJson:
    @QUICK
    @given(logs(), st.sampled_from(["\n", "\r\n", "\n\n", "\n \t\n", ",\n", "\n\x1c\u00a0\n"]))
    def test_a_log_read_by_the_quick_way_is_that_read_by_the_slow_one(
        self, tmp_path: Path, rows: list[dict[str, Any]], ends: str
    ) -> None:
        lines = [json.dumps(row) for row in rows] + ['{"torn": ']
        path = tmp_path / "log.jsonl"
        path.write_bytes(ends.join(lines).encode())
        quick = loaded(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_columns, "_block", lambda names, lines: None)
            patch.setattr(parts, "_is_in_order", lambda rows: False)
            patch.setattr(Rows, "row", lambda self, data, evaluation=False: self._any_row(data, evaluation))
            assert loaded(path) == quick

    @QUICK
    @given(logs())
    def test_the_encoding_makes_no_difference(self, tmp_path: Path, rows: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps({**row, "größe": 1.5}, ensure_ascii=False) + "\n" for row in rows)
        found = []
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            (tmp_path / "log.jsonl").write_bytes(text.encode(encoding))
            found.append(loaded(tmp_path / "log.jsonl"))
        assert found[0] == found[1] == found[2]

    def test_bytes_that_are_no_text_are_replaced_and_nothing_else_is_lost(self) -> None:
        assert line(b'{"a\xff": 1, "b": 2.5}') == {"a\ufffd": 1, "b": 2.5}
        assert line(b'{"a\xed\xa0\x80": NaN} tail').keys() == {"a\ufffd\ufffd\ufffd"}
        assert line(b"\xef\xbb\xbf\x1e {} x") == {}
        assert line(b"\xff") is None

    @QUICK
    @example("a\r\nb\rc\n\nd\r", 2)
    @example("\r", 1)
    @example("a\r" + "x" * 70000 + "\r\ny", 1 << 16)
    @given(
        st.lists(st.sampled_from(["a", "é", "\n", "\r", "\r\n", "\f", "\u2028", "x" * 9])).map("".join),
        st.sampled_from([1, 2, 3, 7, 1 << 16]),
    )
    def test_lines_of_bytes_are_lines_of_text_wherever_blocks_end(self, tmp_path: Path, text: str, size: int) -> None:
        (tmp_path / "a").write_bytes(text.encode())
        source = Source(tmp_path / "a")
        wanted = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n") if text else []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rlwatch.readers.source.BLOCK", size)
            assert [one.decode() for one in source.utf8_lines()] == list(source.lines()) == wanted


TEXTS = [
    '{"step": %d, "loss": 0.5, "reward": 1}', '{"step": %d, "loss": 0.5, "reward": 0.25}',
    '{"step": %d, "loss": NaN, "reward": 1.5}', '{"step": %d, "loss": null, "reward": 1.5}',
    '{"step": %d, "loss": true, "reward": 1.5}', '{"step": %d, "loss": "0.5", "reward": 1.5}',
    '{"step": %d, "loss": 1e999, "reward": -0}', '{"step": %d, "loss": [0.5], "reward": 1.5}',
    '{"step": %d, "loss": {}, "reward": 1.5}', '{"step": %d, "reward": 1.5, "loss": 0.5}',
    '{"step": %d, "loss": 0.5, "reward": 1, "loss": 2}', '{"step": %d, "loss": 0.5', '"reward": 1.5}',
    '{"step": %d, "loss": 0.5, "reward": 1}, {"step": 77, "loss": 0.5, "reward": 1}', "", " ", "5", "[1, 2]",
    '{"step": %d, "loss": 0.5, "reward": 1},', '{"step": %d, "loss": 0.5, "reward": 1} tail',
    '{"step": %d, "lo\\u0073s": 0.5, "reward": 1}', '{"step": %d.0, "loss": 0.5, "reward": 1}',
    '{"step": %d.5, "loss": 0.5, "reward": 1}', '\ufeff{"step": %d, "loss": 0.5, "reward": 1}',
    '{"step": %d, "loss": 123456789012345678901234567890, "reward": 1}', '{"step": -%d, "loss": 0.5, "reward": 1}',
    '{"step": %d, "loss": [{}', '{}], "reward": 1}', '{"step": %d, "train_runtime": 0.5, "reward": 1}',
]  # fmt: skip
"""Lines that are rows, and lines that only look like one: the first two are what nearly every log has."""


class TestManyLinesAtOnce:
    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @example(["", *TEXTS], 2)
    @example([TEXTS[11], TEXTS[12], TEXTS[13]], 3)
    @example([TEXTS[26], TEXTS[27], TEXTS[13]], 3)
    @given(
        st.lists(st.sampled_from(TEXTS) | st.sampled_from(TEXTS[:2]) | st.just(TEXTS[1]), max_size=12),
        st.integers(1, 4),
    )
    def test_columns_are_what_rows_would_be(self, tmp_path: Path, texts: list[str], at_once: int) -> None:
        self.compare(tmp_path, [text.replace("%d", str(3 * step)) for step, text in enumerate(texts, 1)], at_once)

    @QUICK
    @given(logs(), st.integers(1, 4))
    def test_the_same_of_logs(self, tmp_path: Path, rows: list[dict[str, Any]], at_once: int) -> None:
        self.compare(tmp_path, [json.dumps(row) for row in rows], at_once)

    @pytest.mark.parametrize("times", [
        [1.7e9, 1.8e9, 1.9e9], [1.7e12, 1.7e9, 1.7e12 + 1], [0.5, 0.25, 3.0], [1.7e9, 2.5, 1.7e9], [1e9, 1e11, 1e12],
    ])  # fmt: skip
    def test_times(self, tmp_path: Path, times: list[float]) -> None:
        self.compare(tmp_path, [f'{{"step": {i}, "time": {t}, "loss": 0.5}}' for i, t in enumerate(times)] * 1, 3)

    @pytest.mark.parametrize("names", [
        ("step", "global_step", "loss"), ("reward", "rewards/mean", "step"), ("step",), ("loss",),
        ("step", "train/loss", "loss"), ("step", "eval_loss", "eval_reward"), ("train/loss", "epoch"),
        ("step", "_timestamp"),
    ])  # fmt: skip
    def test_names(self, tmp_path: Path, names: tuple[str, ...]) -> None:
        self.compare(tmp_path, [json.dumps({name: i + k / 8 for k, name in enumerate(names)}) for i in range(6)], 3)

    def test_they_are_columns_where_all_lines_are_alike(self, tmp_path: Path) -> None:
        path = tmp_path / "log.jsonl"
        path.write_text("".join(f'{{"step": {i}, "loss": 0.5}}\n' for i in range(1, 1201)))
        [run] = load(path)
        assert isinstance(run.records, Table)
        path.write_text(path.read_text() + '{"step": 1201, "loss": null}\n')
        [longer] = load(path)
        assert isinstance(longer.records, list)
        assert repr(longer.records[:-1]) == repr(list(run.records))  # a time that is not known is NaN

    @staticmethod
    def compare(folder: Path, lines: list[str], at_once: int) -> None:
        path = folder / "log.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_columns, "AT_ONCE", at_once)
            quick = loaded(path)
            patch.setattr(json_columns, "_block", lambda names, lines: None)
            assert quick == loaded(path)


class TestOneTraining:
    @QUICK
    @given(st.lists(st.none() | st.integers(0, 5), max_size=8), st.booleans())
    def test_rows_in_order_are_one_training(self, steps: list[int | None], sort: bool) -> None:
        if sort:
            steps = sorted(step for step in steps if step is not None)
        rows = [Row({"loss": 0.5}, step) for step in steps]
        quick = parts.trainings(rows, lambda row: False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parts, "_is_in_order", lambda rows: False)
            assert parts.trainings(rows, lambda row: False) == quick


def loaded(path: Path) -> str:
    """All that was read, or why nothing could be."""
    try:
        return exact([(run.framework, run.info, run.notes, run.names, run.records) for run in load(path)])
    except UnreadableError as error:
        return str(error)
