"""Kinds of completions, and how few of them carry an update."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlwatch.readers import load
from rlwatch.runs.metrics import METRICS
from rlwatch.signals.shares import KINDS, carried_by, kinds_of, largest_group, needed_for, share_metrics

WEIGHTS = st.lists(st.just(0.0) | st.floats(1e-3, 100) | st.just(math.nan), min_size=4, max_size=40).map(
    lambda values: values[: len(values) // 4 * 4]
)


def known(weights: list[float]) -> list[float]:
    return sorted((w for w in weights if not math.isnan(w)), reverse=True)


@settings(deadline=None)
@given(WEIGHTS)
def test_the_largest_group(weights: list[float]) -> None:
    groups = [sum(w for w in weights[i : i + 4] if not math.isnan(w)) for i in range(0, len(weights), 4)]
    expected = max(groups) / sum(groups) if sum(groups) else None
    assert largest_group(np.array(weights), 4) == pytest.approx(expected)


@settings(deadline=None)
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


@settings(deadline=None)
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


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 10), st.integers(1, 30), st.sampled_from([0.0, 1.0]), st.integers(0, 4)), min_size=2
    )
)
def test_shares_of_uneven_groups_are_plain_sums(rows: list[tuple[float, int, float, int]]) -> None:
    weights, lengths, correct = (np.array([float(row[i]) for row in rows]) for i in range(3))
    groups = np.array([row[3] for row in rows])
    truncated = (lengths > 20).astype(float)
    found = share_metrics(weights, lengths, correct, truncated, groups)
    total = sum(weights)
    if not total > 0:
        assert found == {}
        return
    marks = statistics.quantiles(lengths.tolist(), n=4, method="inclusive")
    for number in range(4):
        mine = sum(w for w, n in zip(weights, lengths, strict=True) if sum(n > m for m in marks) == number)
        assert found[f"length_q{number + 1}"] == pytest.approx(mine / total, abs=1e-9)
    assert found["incorrect"] == pytest.approx(sum(weights[correct == 0]) / total, abs=1e-9)
    assert found["truncated"] == pytest.approx(sum(weights[lengths > 20]) / total, abs=1e-9)
    assert found["largest_group"] == pytest.approx(max(sum(weights[groups == g]) for g in set(groups.tolist())) / total)
    rates = {g: statistics.fmean(correct[groups == g].tolist()) for g in set(groups.tolist())}
    hard = sum(w for w, g in zip(weights, groups.tolist(), strict=True) if rates[g] <= 0.25)
    assert found["hard"] == pytest.approx(hard / total, abs=1e-9)


def test_a_dump_says_what_its_completions_would_have_weighed(tmp_path: Path) -> None:
    """Long wrong answers: a fair share of the update under grpo, most of it under dapo."""
    rows = [
        {"step": step, "prompt": f"p{group}", "completion": f"c{k}", "completion_length": 90 if k else 10,
         "reward": float(k == 0), "correct": k == 0}
        for step in (1, 2) for group in range(3) for k in range(4)
    ]  # fmt: skip
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run,) = load(path)
    for record in run.records:
        # A is 1.5 for the right one and −0.5 for each of the three wrong ones
        assert record.metrics["weight_grpo/incorrect"] == pytest.approx(0.5)
        assert record.metrics["weight_dapo/incorrect"] == pytest.approx(3 * 45 / (3 * 45 + 15))
        assert record.metrics["weight_grpo/half"] == pytest.approx(0.25), "the right one of each four"
        assert set(record.metrics) <= {*METRICS}
