"""Curves of several seeds as one: the median over the runs, and from the lowest to the highest of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlwatch.runs.records import Run

BINS = 240
"""Stretches of steps that a curve is made of at most."""


@dataclass(frozen=True)
class Band:
    """A group's curve, a point a stretch of steps in which any of its runs has a number.

    Args:
        steps: (k,) the middle of each stretch.
        median: (k,) of the runs' means, in the metric's unit.
        low: (k,) the lowest of them.
        high: (k,) the highest of them.
        runs: (k,) how many runs have a number there: they end at different steps.
    """

    steps: list[float]
    median: list[float]
    low: list[float]
    high: list[float]
    runs: list[int]


def points_of(run: Run, metric: str) -> tuple[list[int], list[float]]:
    """The steps at which a metric is a number, and the numbers. What is missing or NaN is no point."""
    found = [
        (record.step, value)
        for record in run.records
        if (value := record.metrics.get(metric)) is not None and math.isfinite(value)
    ]
    return [step for step, _ in found], [value for _, value in found]


def width_of(last: int, curves: Sequence[Sequence[int]], bins: int = BINS) -> int:
    """Steps to a stretch: so many that there are at most `bins`, and that the sparsest run has a point in each.

    >>> width_of(480, [[1, 2, 3]], bins=240), width_of(100, [[10, 20, 30], [1, 2]], bins=240)
    (2, 10)
    """
    gaps = [float(np.median(np.diff(steps))) for steps in curves if len(steps) > 1]
    return max(1, math.ceil(last / bins), math.ceil(max(gaps, default=1.0)))


def band(curves: Sequence[tuple[Sequence[int], Sequence[float]]], width: int) -> Band:
    """Median, lowest and highest over the runs, from one stretch of steps to the next.

    Stretch j holds the steps j·w + 1 .. (j + 1)·w. Of a run with numbers y(s) there, its value is their mean
    m_r(j) = Σ y(s) / n; over the runs r that have one, the point is median, min and max of m_r(j). So runs that log at
    other steps, or end sooner, are beside each other at the same steps.

    Args:
        curves: One a run: (n,) steps, ascending, and (n,) numbers, in the metric's unit.
        width: w, steps to a stretch.
    """
    of_runs: dict[int, list[float]] = {}
    for steps, values in curves:
        if not len(steps):
            continue
        places = (np.asarray(steps, dtype=np.int64) - 1) // width
        unique, inverse = np.unique(places, return_inverse=True)
        means = np.bincount(inverse, weights=np.asarray(values, dtype=np.float64)) / np.bincount(inverse)
        for place, mean in zip(unique.tolist(), means.tolist(), strict=True):
            of_runs.setdefault(place, []).append(mean)
    places_in_order = sorted(of_runs)
    return Band(
        steps=[place * width + (width + 1) / 2 for place in places_in_order],
        median=[float(np.median(of_runs[place])) for place in places_in_order],
        low=[min(of_runs[place]) for place in places_in_order],
        high=[max(of_runs[place]) for place in places_in_order],
        runs=[len(of_runs[place]) for place in places_in_order],
    )
