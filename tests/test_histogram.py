"""Quantiles from a histogram: within the stated error of the sorted values, however the tokens were split up."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlwatch.signals.histogram import (
    BINS,
    HIGHEST,
    LOWEST,
    RELATIVE_ERROR,
    entropy_histogram,
    mean_of_top,
    middle,
    quantiles,
)

ENTROPIES = st.lists(st.floats(0, HIGHEST, width=32), min_size=1, max_size=300)
SHARES = (0.1, 0.5, 0.9)


def counted(values: list[float]) -> torch.Tensor:
    tensor = torch.tensor(values, dtype=torch.float32)
    return entropy_histogram(tensor, torch.ones_like(tensor))


def test_the_stated_error_is_what_it_says() -> None:
    assert pytest.approx(0.0118, abs=1e-4) == RELATIVE_ERROR
    edges = [LOWEST * (HIGHEST / LOWEST) ** (i / (BINS - 1)) for i in range(BINS)]
    for index, (low, high) in enumerate(itertools.pairwise(edges), start=1):
        assert middle(index) / low - 1 <= RELATIVE_ERROR + 1e-12
        assert 1 - middle(index) / high <= RELATIVE_ERROR


@settings(max_examples=200, deadline=None, derandomize=True)
@given(ENTROPIES)
def test_a_quantile_is_within_the_stated_error_of_the_exact_one(values: list[float]) -> None:
    exact = np.quantile(np.array(values, dtype=np.float32), SHARES, method="inverted_cdf")
    for found, true in zip(quantiles(counted(values).tolist(), SHARES), exact, strict=True):
        assert found == pytest.approx(true, rel=RELATIVE_ERROR * 1.001, abs=LOWEST)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(ENTROPIES)
def test_so_is_the_mean_of_the_top_fifth(values: list[float]) -> None:
    ordered, left, total = sorted(values, reverse=True), 0.2 * len(values), 0.0
    for value in ordered:
        taken = min(1.0, left)
        total, left = total + taken * value, left - taken
    found = mean_of_top(counted(values).tolist(), 0.2)
    assert found == pytest.approx(total / (0.2 * len(values)), rel=RELATIVE_ERROR * 1.001, abs=LOWEST)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(ENTROPIES, st.integers(0, 300))
def test_parts_add_up_to_the_whole(values: list[float], at: int) -> None:
    """Over micro-batches and over ranks."""
    parts = [part for part in (values[:at], values[at:]) if part]
    assert torch.equal(sum(counted(part) for part in parts), counted(values))


def test_masked_tokens_and_those_without_a_value_are_not_counted() -> None:
    values = torch.tensor([[0.5, 9.0, torch.nan, torch.inf, 0.0]])
    counts = entropy_histogram(values, torch.tensor([[1, 0, 1, 1, 1]]))
    assert counts.sum() == 2
    assert counts[0] == 1, "what is below the lowest bin has one of its own"


def test_what_is_above_the_highest_bin_is_in_it() -> None:
    assert counted([100.0])[-1] == 1
