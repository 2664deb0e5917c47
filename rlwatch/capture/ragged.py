"""Groups of different sizes: each size is a generation of its own, and each group counts once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from rlwatch.capture.generation import Generation
from rlwatch.signals.groups import (
    BoolArray,
    GroupCounts,
    count_groups,
    expected_zero_std,
    unique_share,
    zero_variance,
)

_ONE = np.ones(1)


class OwnGeneration(Generation):
    """A generation whose total reward was given as such: its functions' scores are told beside it and not summed."""

    @cached_property
    def counts(self) -> GroupCounts:
        """Its groups by kind."""
        return count_groups(self.rewards[:, None], _ONE, self.group_size, self.seen)

    @cached_property
    def dead(self) -> BoolArray:
        """(groups,), which have no variance."""
        return zero_variance(self.rewards[:, None], _ONE, self.group_size)


def group_metrics(generations: Sequence[Generation], *, completions: bool = True) -> dict[str, float]:
    """The `groups/` family and `length/gap`, over groups of any size, each group counting once.

    Of generations of one size it is what [`rollout_metrics`][rlwatch.capture.generation.rollout_metrics] gives.

    Args:
        generations: Groups of one size each.
        completions: Fingerprints are known, so that different completions can be counted.
    """
    counts = sum((g.counts for g in generations), GroupCounts())
    metrics: dict[str, float] = {}
    if counts.groups:
        metrics["groups/zero_std"] = (counts.solved + counts.failed + counts.stuck) / counts.groups
        metrics["groups/solved"] = counts.solved / counts.groups
        metrics["groups/failed"] = counts.failed / counts.groups
        metrics["groups/stuck"] = counts.stuck / counts.groups
        expected = _mean_over_groups([_expected(g) for g in generations])
        if expected is not None and all(g.correct is not None for g in generations):
            metrics["groups/excess"] = metrics["groups/zero_std"] - expected
    if counts.std_groups:
        metrics["groups/reward_std"] = counts.std_sum / counts.std_groups
    if completions:
        unique = [(unique_share(g.fingerprints, g.group_size), len(g.dead)) for g in generations]
        metrics["groups/unique"] = _mean_over_groups(unique) or 0.0
    tokens = [(g.lengths.reshape(-1, g.group_size).sum(axis=1), g.dead) for g in generations]
    total = sum(float(group.sum()) for group, _ in tokens)
    if total > 0:
        metrics["groups/wasted_tokens"] = sum(float(group[dead].sum()) for group, dead in tokens) / total
    gaps = [gap for g in generations for gap in _gaps(g)]
    if gaps:
        metrics["length/gap"] = float(np.mean(gaps))
    return metrics


def _expected(generation: Generation) -> tuple[float | None, int]:
    """The share of zero-variance groups that chance gives, and of how many groups that is known."""
    if generation.correct is None:
        return None, 0
    known = ~np.isnan(generation.correct.reshape(-1, generation.group_size)).any(axis=1)
    return expected_zero_std(generation.correct, generation.group_size), int(known.sum())


def _mean_over_groups(shares: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(share, groups) for share, groups in shares if share is not None]
    total = sum(groups for _, groups in known)
    return sum(share * groups for share, groups in known) / total if total else None


def _gaps(generation: Generation) -> list[float]:
    """Mean incorrect − mean correct length of each group that has both."""
    if generation.correct is None or np.isnan(generation.lengths).any():
        return []
    size = generation.group_size
    rows = zip(generation.lengths.reshape(-1, size), generation.correct.reshape(-1, size), strict=True)
    return [
        float(lengths[correct == 0].mean() - lengths[correct == 1].mean())
        for lengths, correct in rows
        if (correct == 0).any() and (correct == 1).any()
    ]
