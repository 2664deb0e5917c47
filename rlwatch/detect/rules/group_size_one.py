"""group-size-one: the advantage is the reward itself, because nothing is taken off it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import LARGER_GROUPS
from rlwatch.detect.glance import Glance
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import Cause, Severity, StepRecord


class GroupSizeOne(Rule):
    """The mean advantage follows the mean reward.

    With a baseline from siblings the mean advantage is 0 whatever the reward is. Where it equals the reward, there are
    no siblings (a group of one), or no baseline: every answer that earns anything is pushed up, the bad ones too.

    A record without one of the two, or with NaN, cannot tell.
    """

    name = "group-size-one"
    needs = ("advantage/mean",)
    hold = Hold(steps=10, records=10)
    release = Hold(steps=20, records=10)

    half_life = Setting(20.0, "optimizer steps", "convention: of the smoothing, as in the rules on groups", least=0.1)
    same = Setting(
        0.05,
        "share of the reward's size",
        "theory: how far the two may be apart; under a group's baseline they are a whole one apart",
        most=1.0,
    )

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._apart, self._size = Ewma(self.half_life), 0.0  # two means of the same weights

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        advantage, reward = finite(record, "advantage/mean"), finite(record, "reward/mean")
        if advantage is None or reward is None:
            return NO_DATA
        apart = self._apart.update(record.step, abs(advantage - reward))
        self._size = size = self._size + (abs(reward) - self._size) / self._apart.weight
        if size == 0 or apart > self.same * size:
            return CLEAR
        return Untold(Severity.CRITICAL, lambda: self._finding(advantage, reward))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        advantage, reward = log.values("advantage/mean"), log.values("reward/mean")
        return bool((abs(advantage - reward) <= (self.same + 1e-9) * abs(reward)).any())

    def _finding(self, advantage: float, reward: float) -> Finding:
        return Finding(
            severity=Severity.CRITICAL,
            value=advantage,
            reference=0.0,
            message=f"the mean advantage is the mean reward ({advantage:.3g}, {reward:.3g}): nothing is taken off it",
            evidence={"advantage/mean": advantage, "reward/mean": reward},
            causes=[Cause("groups of one completion, whose baseline is 0")],
            advice=[LARGER_GROUPS],
        )
