"""Which examples an update is made of: kinds of completions that |w| is added up by, and how few of them carry it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

KINDS = ("q1", "q2", "q3", "q4", "hard", "easy", "graded", "truncated")
"""Quarters by length, the shortest first; groups by success rate and whether that is known; what was cut off."""

HARD, EASY = 0.25, 0.75
"""Success rates of a group up to which it is hard, and from which on it is easy."""


def kinds_of(lengths: FloatArray, correct: FloatArray | None, truncated: FloatArray, group_size: int) -> FloatArray:
    """Of each completion of a generation, whether it is of each kind: (len(KINDS), completions), of 1 and 0.

    The quarters' marks are the quartiles of the generation's lengths; a completion on a mark belongs to the shorter
    quarter, so completions of one length are always in one quarter. A group's success rate is that of its completions
    whose correctness is known.

    Args:
        lengths: (completions,), tokens; NaN where nobody knows, which makes all quarters unknown (NaN).
        correct: (completions,), 1, 0 or NaN; None where nobody knows.
        truncated: (completions,), 1 or 0, or NaN.
        group_size: Completions a group; siblings stand side by side.
    """
    count = len(lengths)
    marks = np.quantile(lengths, [0.25, 0.5, 0.75]) if count and not np.isnan(lengths).any() else np.full(3, np.nan)
    quarter = np.where(np.isnan(marks).any(), np.nan, (lengths[:, None] > marks).sum(axis=1))
    rate = np.full(count, np.nan)
    if correct is not None:
        groups = correct.reshape(-1, group_size)
        known = ~np.isnan(groups)
        sums, counts = np.where(known, groups, 0).sum(axis=1), known.sum(axis=1)
        rate = np.repeat(np.divide(sums, counts, out=np.full(len(groups), np.nan), where=counts > 0), group_size)
    rows = [np.where(np.isnan(quarter), np.nan, quarter == number) for number in range(4)]
    with np.errstate(invalid="ignore"):
        rows += [rate <= HARD, rate >= EASY, ~np.isnan(rate)]
    return np.stack([*(np.asarray(row, dtype=float) for row in rows), truncated])


def largest_group(weights: FloatArray, group_size: int) -> float | None:
    """The largest share of Σ|w| that one group has; None where nothing weighs anything.

    Args:
        weights: (completions,), |w| of each; NaN where it is not known, which counts as nothing.
        group_size: Completions a group; siblings stand side by side.
    """
    groups = np.nan_to_num(weights).reshape(-1, group_size).sum(axis=1)
    total = groups.sum()
    return float(groups.max() / total) if total > 0 else None


def carried_by(weights: FloatArray, share: float) -> float | None:
    """The share of Σ|w| on the heaviest `share` of the completions; None where nothing weighs anything.

    The number of completions need not be whole: with n completions, the heaviest ⌊share·n⌋ count whole and the next one
    in part, so that the answer grows from 0 to 1 without jumps (a point of the Lorenz curve).

    Args:
        weights: (completions,), |w| of each; those that are not known (NaN) are left out.
        share: From 0 to 1.
    """
    known = np.sort(weights[~np.isnan(weights)])[::-1]
    total = known.sum()
    if total <= 0:
        return None
    count = share * len(known)
    whole = int(count)
    rest = (count - whole) * known[whole] if whole < len(known) else 0.0
    return float((known[:whole].sum() + rest) / total)


def needed_for(weights: FloatArray, share: float) -> float | None:
    """The smallest share of the completions that carries `share` of Σ|w|: how few of them the update is made of.

    Args:
        weights: (completions,), |w| of each; those that are not known (NaN) are left out.
        share: From 0 to 1.
    """
    known = np.sort(weights[~np.isnan(weights)])[::-1]
    total = known.sum()
    if total <= 0:
        return None
    carried = np.cumsum(known) / total
    index = min(int(np.searchsorted(carried, share)), len(known) - 1)
    before = carried[index - 1] if index else 0.0
    part = (share - before) / (carried[index] - before) if carried[index] > before else 0.0
    return float((index + min(1.0, max(0.0, part))) / len(known))
