"""How many of the groups teach nothing although they are not solved: from the split, or bounded where it is missing."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlwatch.detect.rule import finite
from rlwatch.detect.sharing import Shared
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.runs.records import StepRecord

AT_FIRST = 10
"""Records that make up what was usual at first."""


@dataclass
class Deadness(Shared):
    """Follows the smoothed shares of dead groups.

    A log that does not tell solved from stuck and failed groups still bounds them, where no reward is below 0: groups
    at the best reward b earn at least solved·b of the mean, so solved ≤ mean/b; and b ≥ E[r²]/E[r], for no reward is
    above it (equal for rewards of 0 and b).

    Args:
        half_life: Optimizer steps.

    Attributes:
        split: Whether a record has told them apart: from then on, one that does not changes nothing.
    """

    half_life: float
    split: bool = False
    _solved: Ewma = field(init=False)
    _unsolved: float = 0.0  # smoothed with the same weights
    _stuck: float = 0.0
    _at_first: Baseline = field(init=False)
    _best: float = 0.0
    _below_zero: bool = False
    _seen: int | None = None

    def __post_init__(self) -> None:
        self._solved = Ewma(self.half_life)
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
        solved, failed = finite(record, "groups/solved"), finite(record, "groups/failed")
        stuck = finite(record, "groups/stuck")
        if solved is not None and failed is not None and stuck is not None:
            if not self.split and self.known:  # what was only bounded before
                self._solved = Ewma(self.half_life)
            self.split = True
            self._smooth(step, solved, failed + stuck, stuck)
            if self._at_first.value is None:
                self._at_first.update(stuck)
            return
        if self.split:
            return
        dead, mean = finite(record, "groups/zero_std"), finite(record, "reward/mean")
        if dead is None or mean is None:
            return
        std = finite(record, "reward/std") or 0.0
        if mean > 0:
            self._best = max(self._best, mean + std * std / mean)
        self._below_zero = self._below_zero or mean < 0
        most = 1.0 if self._below_zero or not self._best else min(1.0, mean / self._best)
        self._smooth(step, most, max(0.0, dead - most), 0.0)

    def _smooth(self, step: int, solved: float, unsolved: float, stuck: float) -> None:
        """One mean keeps the weights for all three."""
        mean = self._solved
        mean.update(step, solved)
        share = 1.0 / mean.weight  # of the newest value
        self._unsolved += share * (unsolved - self._unsolved)
        self._stuck += share * (stuck - self._stuck)

    @property
    def known(self) -> bool:
        """There was a record with groups."""
        return self._solved.weight > 0

    @property
    def unsolved(self) -> float:
        """Dead and not solved, a share of all groups: at least so many where the log has no split; 0 if unknown."""
        return self._unsolved if self.known else 0.0

    @property
    def solved(self) -> float:
        """Dead and solved, a share of all groups: at most so many where the log has no split; 0 if unknown."""
        return self._solved.level if self.known else 0.0

    @property
    def of_the_rest(self) -> float:
        """Of the groups that are not solved, the share that is dead; at least so many where the log has no split."""
        rest = 1 - self.solved
        return min(1.0, self.unsolved / rest) if rest > 1e-9 else 0.0

    @property
    def stuck(self) -> float:
        """Alike, and neither the best nor the worst; 0 without the split."""
        return self._stuck if self.split else 0.0

    @property
    def failed(self) -> float:
        """Alike, and the worst; 0 without the split."""
        return max(0.0, self._unsolved - self._stuck) if self.split else 0.0

    @property
    def stuck_risen(self) -> float:
        """By how much more groups are stuck than at first; 0 while that is not known."""
        first = self._at_first.value
        return self.stuck - first if self.split and first is not None else 0.0
