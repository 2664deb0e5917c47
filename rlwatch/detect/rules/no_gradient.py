"""no-gradient: rewards differ within groups, so there is something to learn, and yet no gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import CHECK_TRAINABLE, FEWER_UPDATES, WIDER_CLIP
from rlwatch.detect.glance import Glance
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import Cause, Severity, StepRecord


class NoGradient(Rule):
    """The gradient is exactly 0 although groups have variance in their rewards, or few of their tokens have one.

    - critical: the norm of the gradient is 0;
    - warning: a tenth of the groups or more is alive, and of their tokens at most a fifth moves the policy
      (`signal/active_tokens`): the others are masked out or clipped.

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

    idle = Setting(
        0.2,
        "share of the tokens of live groups",
        "theory: four of five tokens that have an advantage move nothing; in made-up good runs it is never below 0.65",
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
        if norm is None or (dead is None and spread is None):
            return NO_DATA
        alive = dead <= self.alive if dead is not None else bool(spread)
        active, share = finite(record, "signal/active_tokens"), 0.0
        if kl is not None or passed <= 1:
            share = self._still.update(record.step, float(norm == 0 and alive and kl == 0))
            if share >= self.nearly_always:
                return Untold(Severity.CRITICAL, lambda: self._finding(share, record))
        if active is not None and dead is not None and alive and active <= self.idle * (1 - dead):
            return Untold(Severity.WARNING, lambda: self._idle(active, 1 - dead, record), hold=SOON)
        return NO_DATA if kl is None and passed > 1 else CLEAR

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        active, dead = log.values("signal/active_tokens"), log.values("groups/zero_std")
        idle = (dead <= self.alive) & (active <= self.idle * (1 - dead))
        return self.nearly_always <= 0 or bool((log.values("grad/norm") == 0).any() or idle.any())

    def _idle(self, active: float, alive: float, record: StepRecord) -> Finding:
        clipped = present(record, "clip/high", "clip/low")
        cut = sum(share or 0.0 for share in clipped.values())
        text = "a mask takes the tokens out, or their advantages: nothing says that they are clipped"
        if cut >= alive / 2:
            text = f"{cut:.0%} of the tokens are clipped"
        return Finding(
            severity=Severity.WARNING,
            value=active,
            reference=alive,
            message=f"{alive:.0%} of the groups have an advantage, and {active:.1%} of the tokens move the policy",
            evidence=present(record, "signal/active_tokens", "groups/zero_std", "grad/norm", "reward/mean", "lr"),
            causes=[Cause(text, clipped)],
            advice=[FEWER_UPDATES, WIDER_CLIP] if cut >= alive / 2 else [CHECK_TRAINABLE],
        )

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
