"""Which examples an update is made of: kinds of completions that |w| is added up by, and how few of them carry it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

KINDS = ("q1", "q2", "q3", "q4", "hard", "easy", "graded", "truncated")
"""Quarters by length, the shortest first; groups by success rate and whether that is known; what was cut off."""

HARD, EASY = 0.25, 0.75
"""Success rates of a group up to which it is hard, and from which on it is easy."""


def kinds_of(
    lengths: FloatArray, correct: FloatArray | None, truncated: FloatArray, groups: int | NDArray[np.int64]
) -> FloatArray:
    """Of each completion of a generation, whether it is of each kind: (len(KINDS), completions), of 1 and 0.

    The quarters' marks are the quartiles of the generation's lengths; a completion on a mark belongs to the shorter
    quarter, so completions of one length are always in one quarter. A group's success rate is that of its completions
    whose correctness is known.

    Args:
        lengths: (completions,), tokens; NaN where nobody knows, which makes all quarters unknown (NaN).
        correct: (completions,), 1, 0 or NaN; None where nobody knows.
        truncated: (completions,), 1 or 0, or NaN.
        groups: Completions a group, whose siblings stand side by side; or (completions,), the number of each one's.
    """
    count = len(lengths)
    marks = np.quantile(lengths, [0.25, 0.5, 0.75]) if count and not np.isnan(lengths).any() else np.full(3, np.nan)
    quarter = np.where(np.isnan(marks).any(), np.nan, (lengths[:, None] > marks).sum(axis=1))
    rate = np.full(count, np.nan)
    if correct is not None:
        numbers = _numbers(groups, count)
        known = ~np.isnan(correct)
        counts = np.bincount(numbers, known)[numbers]
        sums = np.bincount(numbers, np.where(known, correct, 0))[numbers]
        rate = np.divide(sums, counts, out=rate, where=counts > 0)
    rows = [np.where(np.isnan(quarter), np.nan, quarter == number) for number in range(4)]
    with np.errstate(invalid="ignore"):
        rows += [rate <= HARD, rate >= EASY, ~np.isnan(rate)]
    return np.stack([*(np.asarray(row, dtype=float) for row in rows), truncated])


def share_metrics(
    weights: FloatArray,
    lengths: FloatArray,
    correct: FloatArray | None,
    truncated: FloatArray | None,
    groups: NDArray[np.int64],
) -> dict[str, float]:
    """What a step's |w| lies on, by the names that the `weight/` family has after its slash; nothing if all is 0.

    Args:
        weights: (completions,), |w| of each.
        lengths: (completions,), tokens.
        correct: (completions,), 1, 0 or NaN; None where nobody knows.
        truncated: (completions,), 1 or 0; None where nobody knows.
        groups: (completions,), the number of each one's group.
    """
    total = float(weights.sum())
    if not total > 0 or not np.isfinite(total):
        return {}
    cut = np.full(len(weights), np.nan) if truncated is None else truncated
    of = dict(zip(KINDS, (kinds_of(lengths, correct, cut, groups) * weights).sum(axis=1).tolist(), strict=True))
    found = {f"length_{q}": of[q] / total for q in ("q1", "q2", "q3", "q4")}
    found["truncated"] = of["truncated"] / total
    if of["graded"] > 0:
        found["hard"], found["easy"] = of["hard"] / of["graded"], of["easy"] / of["graded"]
    if correct is not None and not np.isnan(correct).all():
        known = weights[~np.isnan(correct)].sum()
        if known > 0:
            found["incorrect"] = float(weights[correct == 0].sum() / known)
    for name, value in (
        ("largest_group", largest_group(weights, groups)),
        ("top_tenth", carried_by(weights, 0.1)),
        ("half", needed_for(weights, 0.5)),
    ):
        if value is not None:
            found[name] = value
    return {name: value for name, value in found.items() if not np.isnan(value)}


def _numbers(groups: int | NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.arange(count) // groups if isinstance(groups, int) else groups


def largest_group(weights: FloatArray, groups: int | NDArray[np.int64]) -> float | None:
    """The largest share of Σ|w| that one group has; None where nothing weighs anything.

    Args:
        weights: (completions,), |w| of each; NaN where it is not known, which counts as nothing.
        groups: Completions a group, whose siblings stand side by side; or (completions,), the number of each one's.
    """
    sums = np.bincount(_numbers(groups, len(weights)), np.nan_to_num(weights))
    total = sums.sum()
    return float(sums.max() / total) if total > 0 else None


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
