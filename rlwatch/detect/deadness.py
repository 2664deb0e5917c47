"""How many of the groups teach nothing although they are not solved: from the split, or bounded where it is missing."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlwatch.detect.glance import Glance, largest, only
from rlwatch.detect.rule import finite
from rlwatch.detect.sharing import Shared
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.runs.records import StepRecord

AT_FIRST = 10
"""Records that make up what was usual at first."""


@dataclass(slots=True)
class Deadness(Shared):
    """Follows the smoothed shares of dead groups.

    A log that does not tell solved from stuck and failed groups still bounds them, where no reward is below 0: groups
    at the best reward b earn at least solved·b of the mean, so solved ≤ mean/b; and b ≥ E[r²]/E[r], for no reward is
    above it (equal for rewards of 0 and b).

    Args:
        half_life: Optimizer steps.

    Attributes:
        split: Whether a record has told them apart: from then on, one that does not changes nothing.
        solved: Dead and solved, a share of all groups: at most so many where the log has no split; 0 if unknown.
        unsolved: Dead and not solved, a share of all groups: at least so many where the log has no split; 0 if unknown.
        stuck: Alike, and neither the best nor the worst; 0 without the split.
    """

    half_life: float
    split: bool = False
    solved: float = 0.0
    unsolved: float = 0.0
    stuck: float = 0.0
    _mean: Ewma = field(init=False)  # of the solved ones; the others are smoothed with its weights
    _at_first: Baseline = field(init=False)
    _best: float = 0.0
    _below_zero: bool = False
    _seen: int | None = None

    def __post_init__(self) -> None:
        self._mean = Ewma(self.half_life)
        self._at_first = Baseline(AT_FIRST)

    @property
    def key(self) -> tuple[object, ...]:
        """See the base class."""
        return (self.half_life,)

    def update(self, record: StepRecord) -> None:
        """Take in a record; one without groups changes nothing, and nor does one that was seen."""
        step = record.step
        if step == self._seen:
            return
        self._seen = step
        solved = finite(record, "groups/solved")
        failed = stuck = None
        if solved is not None:
            failed, stuck = finite(record, "groups/failed"), finite(record, "groups/stuck")
        if solved is not None and failed is not None and stuck is not None:
            unsolved = failed + stuck
            if not self.split:
                self.split, self._mean = True, Ewma(self.half_life)  # what was only bounded before is no mean
            if self._at_first.value is None:
                self._at_first.update(stuck)
        elif self.split:
            return
        else:
            dead, mean = finite(record, "groups/zero_std"), finite(record, "reward/mean")
            if dead is None or mean is None:
                return
            solved, stuck = self._most_solved(mean, finite(record, "reward/std") or 0.0), 0.0
            unsolved = dead - solved if dead > solved else 0.0
        self.solved = self._mean.update(step, solved)
        share = 1.0 / self._mean.weight  # of the newest value
        self.unsolved += share * (unsolved - self.unsolved)
        self.stuck += share * (stuck - self.stuck)

    def _most_solved(self, mean: float, std: float) -> float:
        best = self._best
        if mean > 0:
            most = mean + std * std / mean
            if most > best:
                self._best = best = most
        elif mean < 0:
            self._below_zero = True
        return 1.0 if self._below_zero or mean >= best else mean / best

    @property
    def known(self) -> bool:
        """There was a record with groups."""
        return self._mean.weight > 0

    @property
    def of_the_rest(self) -> float:
        """Of the groups that are not solved, the share that is dead; at least so many where the log has no split."""
        rest = 1 - self.solved
        return min(1.0, self.unsolved / rest) if rest > 1e-9 else 0.0

    @property
    def failed(self) -> float:
        """Alike, and the worst; 0 without the split."""
        return max(0.0, self.unsolved - self.stuck) if self.split else 0.0

    @property
    def stuck_risen(self) -> float:
        """By how much more groups are stuck than at first; 0 while that is not known."""
        first = self._at_first.value
        return self.stuck - first if self.split and first is not None else 0.0


def most_unsolved(log: Glance) -> float:
    """The most that `Deadness.unsolved` can be at any record of a log."""
    import numpy as np

    failed, stuck = log.values("groups/failed"), log.values("groups/stuck")
    unsolved = only(failed + stuck, ~np.isnan(log.values("groups/solved")))
    dead, mean = log.values("groups/zero_std"), log.values("reward/mean")
    bounds = ((unsolved == unsolved).cumsum() == 0) & ~np.isnan(dead + mean)  # before the first split
    dead, mean, std = dead[bounds], mean[bounds], np.nan_to_num(log.values("reward/std")[bounds])
    with np.errstate(all="ignore"):
        best = np.maximum.accumulate(np.where(mean > 0, mean + std * std / mean, 0.0))
        known = (best > 0) & ~np.logical_or.accumulate(mean < 0)
        solved = np.where(known, np.minimum(1.0, mean / best), 1.0)
    return max(0.0, largest(unsolved), largest(dead - solved))
