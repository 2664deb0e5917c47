"""Whether every group is dead, from a log that does not tell solved groups from failed and stuck ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlwatch.detect.glance import Glance
from rlwatch.detect.rule import finite
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import StepRecord

if TYPE_CHECKING:
    from rlwatch.detect.glance import Numbers


@dataclass(slots=True)
class Undivided:
    """Follows the share of dead groups, and the rewards that were seen.

    Args:
        half_life: Of the share, in optimizer steps.
        nearly_all: The smoothed share from which all of them are dead.
    """

    half_life: float
    nearly_all: float
    _dead: Ewma = field(init=False)
    _worst: float = math.inf
    _best: float = -math.inf

    def __post_init__(self) -> None:
        self._dead = Ewma(self.half_life)

    @property
    def level(self) -> float:
        """The smoothed share of dead groups; NaN before the first."""
        return self._dead.level

    def update(self, record: StepRecord) -> bool | None:
        """Whether all groups are dead and this is not, as far as can be told, because they are solved.

        None where the record does not say. Groups are solved where the reward is the best that was seen, if there was
        another one, or else if it is above 0 and no part of it takes something off.
        """
        dead = dead_share(record)
        if dead is None:
            return None
        reward = finite(record, "reward/mean")
        if reward is not None:
            self._worst, self._best = min(self._worst, reward), max(self._best, reward)
        if self._dead.update(record.step, dead) < self.nearly_all:
            return False
        if reward is None or reward < self._best:
            return True
        return not (self._best > self._worst or (reward > 0 and not _loses_somewhere(record)))


def dead_share(record: StepRecord) -> float | None:
    """The share of groups without variance; None where that is not known.

    Where only a mean deviation within groups is logged, a 0 means all of them, and anything else that one is alive.
    """
    dead = finite(record, "groups/zero_std")
    if dead is not None:
        return dead
    spread = finite(record, "groups/reward_std")
    return None if spread is None else float(spread == 0)


def dead_shares(log: Glance) -> Numbers:
    """The same for each record of a log; NaN where it is not known."""
    dead: Numbers = log.values("groups/zero_std").copy()
    spread = log.values("groups/reward_std")
    bounded = (dead != dead) & (spread == spread)
    dead[bounded] = spread[bounded] == 0
    return dead


def _loses_somewhere(record: StepRecord) -> bool:
    """A reward function takes something off: the best that there is would not lose anything."""
    parts = (value for name, value in record.metrics.items() if name.startswith("reward/"))
    return any(value is not None and value < 0 for value in parts)
