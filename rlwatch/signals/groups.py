"""Groups: the completions that share a prompt, and what their rewards leave to learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

TIE_TOLERANCE = 8 * float(np.finfo(np.float32).eps)
"""Rewards closer than this share of their size are equal.

TRL holds rewards in float32. A weighted sum of a few of them carries a rounding error of a few units in the last
place of its largest term; 8 of them (1e-6 of the size) is above that and far below any difference that is meant.
"""


@dataclass(frozen=True)
class RewardRange:
    """The worst and the best reward that a run has seen."""

    worst: float = np.inf
    best: float = -np.inf

    def including(self, rewards: FloatArray) -> RewardRange:
        """The range widened by some rewards; NaN (no reward) is passed over."""
        finite = rewards[np.isfinite(rewards)]
        if finite.size == 0:
            return self
        return RewardRange(min(self.worst, float(finite.min())), max(self.best, float(finite.max())))


@dataclass(frozen=True)
class GroupCounts:
    """How many groups there are of each kind; counts of several generations add up.

    Args:
        groups: Groups with at least one reward.
        solved: Zero-variance groups at the best reward seen.
        failed: Zero-variance groups at the worst reward seen.
        stuck: Zero-variance groups in between.
        std_sum: Sum of the within-group standard deviations (n−1), in reward units.
        std_groups: Groups with at least two rewards, which have such a deviation.
    """

    groups: int = 0
    solved: int = 0
    failed: int = 0
    stuck: int = 0
    std_sum: float = 0.0
    std_groups: int = 0

    def __add__(self, other: GroupCounts) -> GroupCounts:
        return GroupCounts(
            self.groups + other.groups,
            self.solved + other.solved,
            self.failed + other.failed,
            self.stuck + other.stuck,
            self.std_sum + other.std_sum,
            self.std_groups + other.std_groups,
        )


def total_rewards(per_function: FloatArray, weights: FloatArray) -> FloatArray:
    """The reward of each completion: r_i = Σ_f w_f · r_if over the functions that scored it.

    Args:
        per_function: (completions, functions), NaN where a function gave no reward.
        weights: (functions,).

    Returns:
        (completions,), NaN where no function gave a reward.
    """
    missing, terms = np.isnan(per_function), per_function * weights
    total = np.where(np.isnan(terms), 0.0, terms).sum(axis=1)
    if missing.any():
        total[missing.all(axis=1)] = np.nan
    return np.asarray(total)


def zero_variance(per_function: FloatArray, weights: FloatArray, group_size: int, *, each: bool = False) -> BoolArray:
    """Which groups have rewards that are all equal: max r − min r ≤ TIE_TOLERANCE · max Σ_f |w_f·r_f|.

    The range is exact where a standard deviation is not: eight rewards of 3.3 have a float32 deviation of 4e-7.

    Args:
        per_function: (completions, functions), a group's completions side by side, NaN where there is no reward.
        weights: (functions,).
        group_size: Completions a group.
        each: Ask it of every function by itself, as suits advantages that are normalised a function and then summed.

    Returns:
        (groups,). A group with one reward has no variance; a group with none is False: it is not known.

    Raises:
        ValueError: The completions do not divide into groups.
    """
    terms = _grouped(per_function * weights, group_size)
    size = np.nansum(np.abs(terms), axis=2).max(axis=1)
    if each:
        spread = _span(terms, axis=1).max(axis=1, initial=0.0)
    else:
        totals = _grouped(total_rewards(per_function, weights)[:, None], group_size)[:, :, 0]
        spread = _span(totals, axis=1)
    has_reward = ~np.isnan(per_function).all(axis=1).reshape(-1, group_size).all(axis=1)
    equal: BoolArray = ((spread == 0) | (spread <= TIE_TOLERANCE * size) & np.isfinite(size)) & has_reward
    return equal


def count_groups(
    per_function: FloatArray,
    weights: FloatArray,
    group_size: int,
    seen: RewardRange,
    *,
    each: bool = False,
    dead: BoolArray | None = None,
) -> GroupCounts:
    """Sort a generation's groups into solved, failed, stuck and those with something to learn from.

    Args:
        per_function: As in [`zero_variance`][rlwatch.signals.groups.zero_variance].
        weights: (functions,).
        group_size: Completions a group.
        seen: The run's range of rewards, this generation's included. While it is a single value, a group at that value
            is solved if the value is above zero and failed if not: a run that has only ever earned nothing is not done.
        each: As in [`zero_variance`][rlwatch.signals.groups.zero_variance].
        dead: What that gives for them, where it has been asked already.

    Raises:
        ValueError: The completions do not divide into groups.
    """
    totals = _grouped(total_rewards(per_function, weights)[:, None], group_size)[:, :, 0]
    known = np.sum(~np.isnan(totals), axis=1)
    if dead is None:
        dead = zero_variance(per_function, weights, group_size, each=each)
    level = _mean(totals[dead])
    tolerance = TIE_TOLERANCE * max(abs(seen.best), abs(seen.worst), 1e-30) if np.isfinite(seen.best) else 0.0
    if seen.best - seen.worst <= tolerance:
        solved = np.full(level.shape, seen.best > 0)
        failed = ~solved
    else:
        solved = level >= seen.best - tolerance
        failed = level <= seen.worst + tolerance
    several = known >= 2
    deviations = _deviation(totals[several])
    return GroupCounts(
        groups=int((known >= 1).sum()),
        solved=int(solved.sum()),
        failed=int(failed.sum()),
        stuck=int((~solved & ~failed).sum()),
        std_sum=float(deviations.sum()),
        std_groups=int(several.sum()),
    )


def expected_zero_std(correct: FloatArray, group_size: int) -> float | None:
    """The share of groups whose completions would all be right or all be wrong if each were drawn by itself.

    mean over groups of p^G + (1 − p)^G, with the group's success rate p estimated as (right + ½)/(G + 1): the plain
    rate of a group that is all right is 1, which would make every such group expected.

    Args:
        correct: (completions,), 1 or 0; groups with a NaN in them are left out.
        group_size: G.

    Returns:
        The share, or None where no group is known.
    """
    groups = correct.reshape(-1, group_size)
    groups = groups[~np.isnan(groups).any(axis=1)]
    if len(groups) == 0:
        return None
    rate = (groups.sum(axis=1) + 0.5) / (group_size + 1)
    return float((rate**group_size + (1 - rate) ** group_size).mean())


def wasted_tokens(dead: BoolArray, lengths: FloatArray, group_size: int) -> float | None:
    """The share of the generated tokens that are in zero-variance groups; None where nothing was generated.

    Args:
        dead: (groups,), as [`zero_variance`][rlwatch.signals.groups.zero_variance] gives it.
        lengths: (completions,), tokens.
        group_size: Completions a group.
    """
    tokens = lengths.reshape(-1, group_size).sum(axis=1)
    return float(tokens[dead].sum() / tokens.sum()) if tokens.sum() else None


def unique_share(fingerprints: NDArray[np.int64], group_size: int) -> float:
    """Distinct completions / completions, the mean over groups: 1 where no two siblings are the same.

    Args:
        fingerprints: (completions,), equal where the completions' tokens are.
        group_size: Completions a group.
    """
    groups = fingerprints.reshape(-1, group_size).tolist()
    return sum(len(set(group)) for group in groups) / (group_size * len(groups))


def _mean(groups: FloatArray) -> FloatArray:
    """Of each row, NaN passed over; each has a value."""
    missing = np.isnan(groups)
    return np.asarray(np.where(missing, 0.0, groups).sum(axis=1) / (~missing).sum(axis=1))


def _deviation(groups: FloatArray) -> FloatArray:
    """Of each row with n−1, NaN passed over; each has two values."""
    missing = np.isnan(groups)
    away = np.where(missing, 0.0, groups - _mean(groups)[:, None])
    return np.asarray(np.sqrt((away**2).sum(axis=1) / ((~missing).sum(axis=1) - 1)))


def _grouped(rows: FloatArray, group_size: int) -> FloatArray:
    if group_size < 1 or len(rows) % group_size:
        raise ValueError(f"{len(rows)} completions do not divide into groups of {group_size}")
    return rows.reshape(-1, group_size, rows.shape[1])


def _span(values: FloatArray, axis: int) -> FloatArray:
    """max − min over an axis, NaN passed over; 0 where all is NaN, inf where one of several values is infinite."""
    missing = np.isnan(values)
    high = np.max(np.where(missing, -np.inf, values), axis=axis)
    low = np.min(np.where(missing, np.inf, values), axis=axis)
    same = (high == low) | missing.all(axis=axis)
    return np.asarray(np.subtract(high, low, out=np.zeros_like(high), where=~same))
