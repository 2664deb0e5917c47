"""Records in a table are the records that they would be one by one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rlwatch.readers import load
from rlwatch.report.analysis import analyze_run
from rlwatch.runs.records import Run, StepRecord
from rlwatch.runs.table import Table, glimpses

ROWS = 1234
NAMES = ["loss", "reward/mean", "raw/x"]


def table() -> Table:
    numbers = np.random.default_rng(0).normal(size=(len(NAMES), ROWS))
    numbers[0, 700] = math.inf
    times = np.full(ROWS, math.nan)
    times[10:] = 1.7e9 + np.arange(ROWS - 10)
    return Table(np.arange(ROWS) * 3 + 1, times, NAMES, numbers)


def one_by_one(of: Table) -> list[StepRecord]:
    return [
        StepRecord(
            int(of.steps[at]),
            math.nan if at < 10 else float(of.times[at]),
            {name: float(of.numbers[row, at]) for row, name in enumerate(NAMES)},
        )
        for at in range(len(of))
    ]


def test_it_is_a_sequence_of_them() -> None:
    wanted = one_by_one(table())
    assert list(table()) == wanted
    assert table() == wanted
    assert table() == table()
    assert table() != wanted[:-1]
    assert len(table()) == ROWS
    assert table()[0] == wanted[0]
    assert table()[-1] == wanted[-1]
    assert table()[5:900:7] == wanted[5:900:7]
    assert repr(table()) == repr(wanted)
    with pytest.raises(IndexError):
        table()[ROWS]


def test_whoever_goes_through_it_twice_or_by_half_gets_the_same() -> None:
    found = table()
    part = [record for record, _ in zip(found, range(600), strict=False)]
    assert list(found) == list(found) == one_by_one(found)
    assert part == found[:600]


def test_a_glimpse_is_a_record() -> None:
    found = list(glimpses(table()))
    assert found == one_by_one(table())
    metrics = found[700].metrics
    assert metrics.get("loss") == metrics["loss"] == math.inf
    assert metrics.get("no such") is None
    assert metrics.get("no such", 3.0) == 3.0
    assert "no such" not in metrics
    assert "raw/x" in metrics
    assert list(metrics) == NAMES
    with pytest.raises(KeyError):
        metrics["no such"]
    assert glimpses(one_by_one(table())) == one_by_one(table())


def test_a_run_of_it_has_the_names_and_columns_of_its_records() -> None:
    one, other = (Run("run", "path", "jsonl", None, records) for records in (table(), one_by_one(table())))
    assert one.names == other.names
    assert one.metrics.equals(other.metrics)
    assert one.metrics.schema == other.metrics.schema


def test_a_log_is_judged_alike_in_a_table_and_row_by_row(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    with (tmp_path / "log.jsonl").open("w") as file:
        for step in range(1, 3001):
            bad = step % 1000 > 500
            row = {
                "step": step,
                "entropy": (0.1 if bad else 1.0) + draw.normal(0, 0.02),
                "reward": (0.2 if bad else 0.2 + step % 1000 / 1000) + draw.normal(0, 0.03),
                "frac_reward_zero_std": 0.9 if bad else 0.1,
                "grad_norm": abs(draw.normal(0.3, 0.1)),
                "completions/mean_length": 300 + draw.normal(0, 20),
            }
            file.write(json.dumps(row) + "\n")
    [run] = load(tmp_path / "log.jsonl")
    assert isinstance(run.records, Table)
    rows = Run(run.name, run.path, run.format, run.framework, list(run.records), run.info, run.notes)
    quick, slow = analyze_run(run), analyze_run(rows)
    assert repr(quick.changes) == repr(slow.changes)
    assert (quick.verdict, quick.unchecked, quick.waste) == (slow.verdict, slow.unchecked, slow.waste)
    assert len({change.rule for change in quick.changes}) > 2
