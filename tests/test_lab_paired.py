"""Statistics of pairs, and verdicts, against brute force and numbers worked out by hand."""

from __future__ import annotations

import doctest
import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlwatch.lab import paired
from rlwatch.lab.experiment import Arm, Claim, Experiment, Measure
from rlwatch.lab.measures import at_start, change, falls_from_best, falls_to, first_step, number, reaches
from rlwatch.lab.paired import effect_size, mean_interval, pairs_needed, sign_flip
from rlwatch.lab.verdicts import Judged, Measured, Verdict, judge
from rlwatch.runs.records import StepRecord

FINITE = st.floats(-100, 100, allow_nan=False)


def test_the_docstrings_examples_hold() -> None:
    assert doctest.testmod(paired).failed == 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(FINITE, min_size=1, max_size=9))
def test_flipping_signs_against_every_way(values: list[float]) -> None:
    total = sum(values)
    ways = [
        sum(s * v for s, v in zip(signs, values, strict=True))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    slack = 1e-9 * sum(map(abs, values))
    assert sign_flip(values) == sum(way >= total - slack for way in ways) / len(ways)


def test_no_effect_is_shown_as_often_as_promised() -> None:
    """Under no effect a one-sided p is below 5 % in at most about 5 % of cases, whatever the distribution."""
    draw = random.Random(3)
    low = sum(sign_flip([draw.choice((-1, 1)) * draw.expovariate(1) for _ in range(6)]) <= 0.05 for _ in range(2000))
    assert low / 2000 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


def test_of_many_pairs_the_normal_approximation_is_near_what_drawing_gives() -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(0.3, 1, 30)
    flips = draw.choice([-1, 1], (20_000, 30)) @ values
    assert sign_flip(values.tolist()) == pytest.approx((flips >= values.sum()).mean(), abs=0.01)


def test_the_interval_holds_the_mean_as_often_as_promised() -> None:
    draw = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        interval = mean_interval(draw.normal(2, 3, 5).tolist())
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= 2 <= interval.high
    assert held / 1000 == pytest.approx(0.95, abs=0.025)
    alone = mean_interval([3.0])
    assert (alone.value, alone.low, alone.high) == (3.0, None, None)


def test_an_effect_is_the_mean_in_deviations() -> None:
    values = [1.0, 2.0, 4.0]
    assert effect_size(values) == pytest.approx(np.mean(values) / np.std(values, ddof=1))
    assert effect_size([2.0, 2.0]) == math.inf
    assert effect_size([-2.0, -2.0]) == -math.inf
    assert effect_size([0.0, 0.0]) is None
    assert effect_size([1.0]) is None


@pytest.mark.parametrize("effect", [0.5, 0.8, 1.2])
def test_so_many_pairs_have_the_power_that_they_are_said_to_have(effect: float) -> None:
    n = pairs_needed(effect)
    assert n is not None
    draw = np.random.default_rng(4)
    shown = 0
    for _ in range(600):
        interval = mean_interval(draw.normal(effect, 1, n).tolist())
        assert interval.low is not None
        shown += interval.low > 0
    assert 0.76 <= shown / 600 <= 0.88  # the formula is on the safe side, and 600 draws are right to 0.03
    assert pairs_needed(0.0) is None
    assert pairs_needed(None) is None
    assert pairs_needed(math.inf) == 5


# --- measures -------------------------------------------------------------------------------------------------------


def rows(values: Sequence[float | None], metric: str = "m") -> list[StepRecord]:
    return [StepRecord(step, 0.0, {} if x is None else {metric: x}) for step, x in enumerate(values, 1)]


def test_measures_of_a_run() -> None:
    assert change("m", 2)(rows([1, 3, 9, 5, 7])) == 6 - 2
    assert change("m", 2)(rows([1, 3, 9])) is None
    assert at_start("m", 3)(rows([1, None, 5, 9])) == 3
    assert at_start("m", 1)(rows([None, 5])) is None
    assert first_step(lambda r: (r.metrics.get("m") or 0) > 2, 2)(rows([3, 1, 3, 4, 1])) == 3
    assert first_step(lambda r: (r.metrics.get("m") or 0) > 9)(rows([3, 1])) is None
    falls = falls_to("m", 0.5, first=2, rows=2)
    assert falls(rows([4, -4, 4, 3, 1, 0])) == 5  # 3 and 1 have the mean 2; the sign does not count
    assert falls(rows([4, 4, 4, 3, 3])) is None
    assert falls(rows([4, 4, None, 1, None, 1])) == 6
    loses = falls_from_best("m", 1 / 3, rows=2)
    assert loses(rows([1, 1, 4, 2, None, 2])) == 6  # of the best mean, 3, and not of the best row
    assert loses(rows([1, 1, 4, 2, 3, 2])) is None
    assert loses(rows([-3, -3, -4, -4])) == 4
    assert loses(rows([0, 0, 0])) is None
    dead = reaches(lambda r: number(r, "m"), 3, rows=2)
    assert dead(rows([2, 3, 4, 1])) == 3
    assert dead(rows([2, 3, None, 4, 2])) == 5
    assert dead(rows([2, 3])) is None
    assert falls(rows([4])) is None


# --- verdicts -------------------------------------------------------------------------------------------------------


def judged(
    kind: Any, a: Sequence[float | None], b: Sequence[float | None] = (), *, bound: float = 0.0, last: int = 100
) -> Judged:
    claim = Claim("a claim", kind, "m", "a", "b" if b else "", bound)
    measure = Measure("m", lambda records: None, is_time=kind == "sooner")
    experiment = Experiment("x", "X", "?", "", (Arm("a", ""), Arm("b", "")), ("a",), 10, (measure,), (claim,), "none")
    runs = [Measured("a", seed, last, {"m": x}) for seed, x in enumerate(a)]
    runs += [Measured("b", seed, last, {"m": x}) for seed, x in enumerate(b)]
    (found,) = judge(experiment, runs)
    return found


def test_an_order_is_shown_not_shown_or_reversed() -> None:
    high, low = [2.0, 2.1, 2.2, 2.0, 2.1], [1.0, 1.0, 1.3, 1.1, 0.9]
    assert judged("more", high, low).verdict is Verdict.SHOWN
    assert judged("less", low, high).verdict is Verdict.SHOWN
    assert judged("more", low, high).verdict is Verdict.REVERSED
    assert judged("less", high, low).verdict is Verdict.REVERSED
    found = judged("more", high, low)
    assert (found.pairs, found.agree, found.p) == (5, 5, 1 / 32)
    assert found.difference is not None
    assert found.difference.value == pytest.approx(np.mean(high) - np.mean(low))


def test_few_seeds_show_nothing_however_clear() -> None:
    """Four pairs of one sign have p = 1/16, and one pair has no interval."""
    assert judged("more", [2.0] * 4, [1.0, 1.1, 0.9, 1.0]).verdict is Verdict.NOT_SHOWN
    assert judged("more", [2.0], [1.0]).verdict is Verdict.NOT_SHOWN


def test_one_seed_of_five_the_other_way_is_not_shown() -> None:
    assert judged("more", [2, 2, 2, 2, 0], [1, 1, 1, 1, 1]).verdict is Verdict.NOT_SHOWN


def test_pairs_are_of_one_seed_and_those_without_a_number_are_left_out() -> None:
    found = judged("more", [5, None, 7], [1, 2, None])
    assert found.pairs == 1
    assert "1 of 1 seeds as claimed" in found.numbers
    assert judged("more", [None], [1]).verdict is Verdict.NOT_SHOWN


def test_what_is_the_same_lies_within_the_bound_with_its_whole_interval() -> None:
    assert judged("same", [1.0, 2.0, 3.0], [1.01, 2.0, 2.99], bound=0.1).verdict is Verdict.SHOWN
    assert judged("same", [1.0, 2.0, 3.0], [1.1, 1.9, 3.0], bound=0.1).verdict is Verdict.NOT_SHOWN
    assert judged("same", [1.0], [1.0], bound=0.1).verdict is Verdict.NOT_SHOWN


def test_against_a_number() -> None:
    assert judged("below", [0.0, 0.0, 0.0], bound=0.01).verdict is Verdict.SHOWN
    assert judged("below", [1.0, 1.1, 1.2], bound=0.01).verdict is Verdict.REVERSED
    assert judged("above", [1.0, 1.1, 1.2], bound=0.01).verdict is Verdict.SHOWN
    assert judged("above", [1.0, -1.0, 0.5], bound=0.01).verdict is Verdict.NOT_SHOWN
    assert judged("above", [None], bound=0.01).verdict is Verdict.NOT_SHOWN


def test_times_are_compared_with_those_that_never_came() -> None:
    early, late = [10, 12, 14, 16, 11], [None, 90, None, None, 80]
    assert judged("sooner", early, late).verdict is Verdict.SHOWN
    assert judged("sooner", late, early).verdict is Verdict.REVERSED
    assert judged("sooner", early, [11, 13, 12, 15, 16]).verdict is Verdict.NOT_SHOWN
    assert judged("sooner", [None] * 5, [None] * 5).verdict is Verdict.NOT_SHOWN
    found = judged("sooner", early, late)
    assert (found.agree, found.pairs) == (5, 5)
    assert found.numbers.startswith("a: 5 of 5 runs, half of them by step 12; b: 2 of 5 runs;")
