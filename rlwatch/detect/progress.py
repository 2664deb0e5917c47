"""Whether the reward still gets better: what tells a run that has lost its signal from one that has used it up."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlwatch.detect.rule import finite
from rlwatch.detect.sharing import Shared
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import StepRecord

PATIENCE = 50
"""Optimizer steps in which the smoothed reward must have gained something for a run to be getting on."""

GAIN = 0.05
"""What it must have gained, as a share of the reward's spread: at that pace a run gains one spread in 1000 steps."""


@dataclass(slots=True)
class Progress(Shared):
    """Follows the smoothed `reward/mean` and when it last made a gain worth the name.

    The spread is the largest smoothed `reward/std` so far: it falls when a policy collapses, and a falling yardstick
    would turn noise into progress. Where it is not logged, the spread is the size of the best smoothed reward.

    Args:
        half_life: Of the smoothing, in optimizer steps.

    Attributes:
        best: The smoothed reward at its last gain.
        best_step: Where that was.
        most: What a right answer earns at least: E[r²]/E[r] is no more than the best reward, where none is below 0.
    """

    half_life: float = 20.0
    best: float | None = None
    best_step: int = 0
    most: float = 0.0
    _reward: Ewma = field(init=False)
    _std: Ewma = field(init=False)
    _spread: float = 0.0
    _below_zero: bool = False
    _seen: int | None = None

    def __post_init__(self) -> None:
        self._reward, self._std = Ewma(self.half_life), Ewma(self.half_life)

    @property
    def key(self) -> tuple[object, ...]:
        """See the base class."""
        return (self.half_life,)

    def update(self, record: StepRecord) -> None:
        """Take in a record; one without a reward changes nothing, and nor does one that was seen."""
        step = record.step
        if step == self._seen:
            return
        self._seen = step
        reward = finite(record, "reward/mean")
        if reward is None:
            return
        std = finite(record, "reward/std")
        if std is not None:
            spread = self._std.update(step, std)
            if spread > self._spread:
                self._spread = spread
            if reward > 0 and (most := reward + std * std / reward) > self.most:
                self.most = most
        if reward < 0:
            self._below_zero = True
        level, best = self._reward.update(step, reward), self.best
        if best is None or (level > best and level > best + GAIN * (self._spread or abs(best))):
            self.best, self.best_step = level, step

    @property
    def level(self) -> float | None:
        """The smoothed reward, or None before the first."""
        return self._reward.level if self.best is not None else None

    def stalled(self, step: int) -> bool:
        """There was a reward, and for [`PATIENCE`][rlwatch.detect.progress.PATIENCE] steps no gain in it."""
        return self.best is not None and step - self.best_step >= PATIENCE

    def is_near_best(self, reward: float | None, share: float) -> bool:
        """Whether a reward is this share of what a right answer earns, as far as can be told: no more can be gained."""
        return reward is not None and not self._below_zero and 0 < share * self.most <= reward
