"""The columns of a log: what a rule would see of a metric, and its levels, to the last bit."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from rlwatch.detect.deadness import Deadness, most_unsolved
from rlwatch.detect.glance import Glance, among, best_so_far
from rlwatch.detect.level import Level
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.runs.records import StepRecord
from test_glance import log

DRAW = random.Random(3)
STEPS = sorted(DRAW.sample(range(1, 900), 300))
VALUES = [DRAW.choice((DRAW.gauss(0, 1), DRAW.gauss(0, 1), None, math.nan, math.inf, 1e120)) for _ in STEPS]
RECORDS = [StepRecord(step, 1.0, {} if step % 7 == 0 else {"x": x}) for step, x in zip(STEPS, VALUES, strict=True)]
FINITE = [x if step % 7 and x is not None and abs(x) < 1e100 else None for step, x in zip(STEPS, VALUES, strict=True)]


def test_a_value_that_is_none_for_a_rule_is_nan() -> None:
    found = [None if math.isnan(x) else x for x in Glance(RECORDS).values("x").tolist()]
    assert found == FINITE
    assert np.isnan(Glance(RECORDS).values("y")).all()


@pytest.mark.parametrize(("half_life", "rows"), [(5.0, 0.0), (0.1, 0.0), (20.0, 1.0), (3.0, 2.0)])
def test_levels_are_those_of_the_rules_to_the_last_bit(half_life: float, rows: float) -> None:
    one = Level(half_life, rows) if rows else Ewma(half_life)
    there = [(step, x) for step, x in zip(STEPS, FINITE, strict=True) if x is not None]
    wanted = [one.update(step, x) for step, x in there]
    found = Glance(RECORDS).level("x", half_life, rows)
    assert found[~np.isnan(found)].tolist() == wanted
    assert (~np.isnan(found)).tolist() == [x is not None for x in FINITE]


def test_values_below_the_least_do_not_count() -> None:
    one, there = (
        Ewma(5.0),
        [(s, x) for s, x in zip(STEPS, FINITE, strict=True) if x is not None and x >= 0],
    )
    found = Glance(RECORDS).level("x", 5.0, least=0.0)
    assert found[~np.isnan(found)].tolist() == [one.update(step, x) for step, x in there]


def test_the_start_is_a_baseline() -> None:
    log = Glance(RECORDS)
    for count in (1, 4, 5):
        start = Baseline(count)
        for x in FINITE:
            if x is not None:
                start.update(x)
        assert log.at_first(log.values("x"), count) == start.value
    assert math.isnan(log.at_first(log.values("x"), 1000))


def test_the_most_is_more_by_a_rounding_at_most() -> None:
    there = [x for x in FINITE if x is not None]
    log = Glance(RECORDS)
    assert max(there) <= log.most("x") <= max(there) + 1e-8
    assert min(there) - 1e-8 <= log.least("x") <= min(there)
    assert (log.most("y"), log.least("y")) == (-math.inf, math.inf)


def test_the_best_so_far_and_the_lowest_up_to_it() -> None:
    levels = [x for x in FINITE if x is not None]
    best, lowest = best_so_far(np.array(levels))
    for at in range(len(levels)):
        top = max(levels[: at + 1])
        assert best[at] == top
        assert lowest[at] == min(0.0, *levels[: levels.index(top) + 1])
    assert [len(part) for part in best_so_far(np.array([]))] == [0, 0]


def test_among_the_last_rows() -> None:
    holds = np.array([x is not None for x in FINITE])
    for rows in (1, 7, 1000):
        wanted = [int(holds[max(0, at - rows + 1) : at + 1].sum()) for at in range(len(holds))]
        assert among(holds, rows).tolist() == wanted


@pytest.mark.parametrize("seed", range(20))
def test_no_more_groups_are_dead_than_the_bound_says(seed: int) -> None:
    records, groups = log("entropy-collapse", seed), Deadness(10.0)
    most = -math.inf
    for record in records:
        groups.update(record)
        if groups.known:
            most = max(most, groups.unsolved)
    assert most <= most_unsolved(Glance(records))


def test_a_number_that_is_none_is_seen() -> None:
    rows = [StepRecord(step, 1.0, {"x": 1.0, "y": None}) for step in range(5)]
    assert Glance(rows).is_finite
    assert not Glance([*rows, StepRecord(6, 1.0, {"x": math.nan, "y": None})]).is_finite
    assert not Glance([*rows, StepRecord(6, 1.0, {"x": math.inf, "z": -math.inf})]).is_finite
