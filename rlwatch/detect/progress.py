"""Whether the reward still gets better: what tells a run that has lost its signal from one that has used it up."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlwatch.detect.rule import finite
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import StepRecord

PATIENCE = 50
"""Optimizer steps in which the smoothed reward must have gained something for a run to be getting on."""

GAIN = 0.05
"""What it must have gained, as a share of the reward's spread: at that pace a run gains one spread in 1000 steps."""


@dataclass(slots=True)
class Progress:
    """Follows the smoothed `reward/mean` and when it last made a gain worth the name.

    The spread is the largest smoothed `reward/std` so far: it falls when a policy collapses, and a falling yardstick
    would turn noise into progress. Where it is not logged, the spread is the size of the best smoothed reward.

    Args:
        half_life: Of the smoothing, in optimizer steps.
    """

    half_life: float = 20.0
    best: float | None = None
    best_step: int = 0
    _reward: Ewma = field(init=False)
    _std: Ewma = field(init=False)
    _spread: float = 0.0

    def __post_init__(self) -> None:
        self._reward, self._std = Ewma(self.half_life), Ewma(self.half_life)

    def update(self, record: StepRecord) -> None:
        """Take in a record; one without a reward changes nothing."""
        reward = finite(record, "reward/mean")
        if reward is None:
            return
        std = finite(record, "reward/std")
        if std is not None:
            spread = self._std.update(record.step, std)
            if spread > self._spread:
                self._spread = spread
        level, best = self._reward.update(record.step, reward), self.best
        if best is None or (level > best and level > best + GAIN * (self._spread or abs(best))):
            self.best, self.best_step = level, record.step

    @property
    def level(self) -> float | None:
        """The smoothed reward, or None before the first."""
        return self._reward.level if self.best is not None else None

    def stalled(self, step: int) -> bool:
        """There was a reward, and for [`PATIENCE`][rlwatch.detect.progress.PATIENCE] steps no gain in it."""
        return self.best is not None and step - self.best_step >= PATIENCE
