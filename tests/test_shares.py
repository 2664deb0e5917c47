"""Kinds of completions, and how few of them carry an update."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlwatch.signals.shares import KINDS, carried_by, kinds_of, largest_group, needed_for

WEIGHTS = st.lists(st.floats(0, 100) | st.just(math.nan), min_size=4, max_size=40).map(
    lambda values: values[: len(values) // 4 * 4]
)


def known(weights: list[float]) -> list[float]:
    return sorted((w for w in weights if not math.isnan(w)), reverse=True)


@given(WEIGHTS)
def test_the_largest_group(weights: list[float]) -> None:
    groups = [sum(w for w in weights[i : i + 4] if not math.isnan(w)) for i in range(0, len(weights), 4)]
    expected = max(groups) / sum(groups) if sum(groups) else None
    assert largest_group(np.array(weights), 4) == pytest.approx(expected)


@given(WEIGHTS, st.floats(0, 1))
def test_the_heaviest_and_how_few_they_are_are_inverse(weights: list[float], share: float) -> None:
    values = np.array(weights)
    needed = needed_for(values, share)
    if needed is None:
        assert sum(known(weights)) == 0
        assert carried_by(values, share) is None
        return
    assert 0 <= needed <= 1
    assert carried_by(values, needed) == pytest.approx(share, abs=1e-6)


def test_equal_weights_carry_what_they_are() -> None:
    equal = np.ones(20)
    assert carried_by(equal, 0.1) == pytest.approx(0.1)
    assert needed_for(equal, 0.5) == pytest.approx(0.5)
    one = np.array([0.0] * 9 + [1.0])
    assert (carried_by(one, 0.1), needed_for(one, 0.5)) == (1.0, 0.05)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.0, 1.0, math.nan])), min_size=4, max_size=32))
def test_kinds_are_their_definition(rows: list[tuple[int, float]]) -> None:
    rows = rows[: len(rows) // 4 * 4]
    lengths, correct = [float(n) for n, _ in rows], [c for _, c in rows]
    kinds = dict(zip(KINDS, kinds_of(np.array(lengths), np.array(correct), np.zeros(len(rows)), 4), strict=True))
    marks = statistics.quantiles(lengths, n=4, method="inclusive")
    for i, length in enumerate(lengths):
        quarter = sum(length > mark for mark in marks)
        assert [kinds[f"q{n}"][i] for n in (1, 2, 3, 4)] == [float(n == quarter) for n in range(4)]
        group = [c for c in correct[i // 4 * 4 : i // 4 * 4 + 4] if not math.isnan(c)]
        rate = statistics.fmean(group) if group else math.nan
        assert [kinds[k][i] for k in ("graded", "hard", "easy")] == [bool(group), rate <= 0.25, rate >= 0.75]


def test_what_nobody_knows_is_not_zero() -> None:
    kinds = dict(zip(KINDS, kinds_of(np.array([1.0, math.nan]), None, np.array([0.0, math.nan]), 2), strict=True))
    assert all(np.isnan(kinds[name]).all() for name in ("q1", "q2", "q3", "q4"))
    assert kinds["graded"].tolist() == [0, 0]
    assert math.isnan(kinds["truncated"][1])
