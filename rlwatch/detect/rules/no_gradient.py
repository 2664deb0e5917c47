"""no-gradient: rewards differ within groups, so there is something to learn, and yet no gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import CHECK_TRAINABLE
from rlwatch.detect.glance import Glance
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import Cause, Severity, StepRecord


class NoGradient(Rule):
    """The gradient is exactly 0 although groups have variance in their rewards.

    A row that stands for several steps tells the gradient of the last of them and the groups of all, so a 0 in it shows
    nothing: real runs that learn print it in up to 93 % of such rows. There the KL to the reference has to be exactly 0
    too: the policy has not moved at all.

    A record without the norm (or with NaN), without `groups/zero_std` and `groups/reward_std`, or, where it stands for
    several steps, without the KL, cannot tell.
    """

    name = "no-gradient"
    needs = ("grad/norm",)
    hold = Hold(steps=10, records=5)
    release = Hold(steps=10, records=3)

    half_life = Setting(
        2.0,
        "optimizer steps",
        "theory: after a healthy beginning, nine rows of nothing are then seen as that",
        least=0.1,
    )
    nearly_always = Setting(0.95, "share of rows", "convention: a gradient that is there shows in most rows", most=1.0)
    alive = Setting(
        0.9,
        "share of groups",
        "theory: up to this share of dead groups a tenth is alive, and a gradient of exactly 0 has another reason",
        most=1.0,
    )

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._still = Ewma(self.half_life)
        self._step: int | None = None

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        passed = 1 if self._step is None else record.step - self._step
        self._step = record.step
        norm, dead = finite(record, "grad/norm"), finite(record, "groups/zero_std")
        spread = finite(record, "groups/reward_std") if dead is None else None
        kl = finite(record, "kl/ref") if passed != 1 else 0.0  # nobody asks in a row of one step
        if norm is None or (dead is None and spread is None) or (kl is None and passed > 1):
            return NO_DATA
        alive = dead <= self.alive if dead is not None else bool(spread)
        still = norm == 0 and alive and kl == 0
        share = self._still.update(record.step, float(still))
        if share < self.nearly_always:
            return CLEAR
        return Untold(Severity.CRITICAL, lambda: self._finding(share, record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        return self.nearly_always <= 0 or bool((log.values("grad/norm") == 0).any())

    def _finding(self, share: float, record: StepRecord) -> Finding:
        evidence = present(record, "grad/norm", "kl/ref", "groups/zero_std", "groups/reward_std", "lr", "loss")
        moved = ", and the policy has not moved from its reference" if evidence.get("kl/ref") == 0 else ""
        return Finding(
            severity=Severity.CRITICAL,
            value=0.0,
            reference=None,
            message=f"the gradient is 0 in {share:.0%} of the rows although rewards differ within groups{moved}",
            evidence=evidence,
            causes=[
                Cause("the loss does not reach the weights: frozen, detached, masked out, or a learning rate of 0")
            ],
            advice=[CHECK_TRAINABLE],
        )
