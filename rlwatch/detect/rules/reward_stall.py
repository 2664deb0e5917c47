"""reward-stall: the reward gains nothing, and what it could learn from is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import (
    CHECK_REWARD,
    CHECK_TRAINABLE,
    EASIER_PROMPTS,
    HARDER_PROMPTS,
    LARGER_GROUPS,
    MORE_EXPLORATION,
)
from rlwatch.detect.deadness import Deadness
from rlwatch.detect.glance import Glance
from rlwatch.detect.progress import Progress
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord


class RewardStall(Rule):
    """The smoothed reward has not gained a twentieth of its spread (see Progress) for long.

    - warning: for 50 steps, and the signal is absent: hardly any token is active, the policy's part of the gradient is
      a tenth of what it was at first, or at least half of the groups are dead and not solved (and a fifth more than at
      first, or nearly all) but too few of them for dead-groups to warn of them;
    - info: for 200 steps, and nothing of that is seen: a plateau;
    - nothing: half of the groups are solved, or the reward is nine tenths of what a right answer earns (no reward is
      above E[r²]/E[r] where none is below 0), where that can be told.

    A record without a reward, or with NaN, cannot tell; of the other numbers, those that are logged bear witness, with
    their last smoothed value, as long as they are still logged.
    """

    name = "reward-stall"
    needs = ("reward/mean",)
    hold = Hold(steps=10, records=3)
    release = Hold(steps=20, records=3)
    symptom_of = (
        "non-finite", "dead-groups", "no-gradient", "entropy-collapse", "reward-collapse", "truncation",
        "group-size-one", "regulariser-dominates",
    )  # fmt: skip

    half_life = Setting(20.0, "optimizer steps", "convention: of the smoothing, as in the rules on groups", least=0.1)
    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    long = Setting(
        50.0, "optimizer steps", "convention: what dead-groups and entropy-collapse take for a stall with a cause"
    )
    very_long = Setting(
        200.0, "optimizer steps", "convention: a plateau by itself is worth a line after four times as long"
    )
    dead = Setting(0.5, "share of groups", "theory: half of the batch, or more, moves nothing", most=1.0)
    dead_risen = Setting(
        0.2,
        "share of groups",
        "calibration (made-up runs of even seeds): with hard prompts more than half fail from the first row on, and "
        "the run learns slowly from the rest",
        most=1.0,
    )
    hopeless = Setting(0.95, "share of groups", "calibration: as in dead-groups; so many need not have risen", most=1.0)
    told_stuck = Setting(
        DeadGroups.stuck_warning.default,
        "share of groups",
        "convention: stuck_warning of dead-groups, which tells it",
        most=1.0,
    )
    told_dead = Setting(
        DeadGroups.dead_warning.default,
        "share of groups",
        "convention: dead_warning of dead-groups, which tells it",
        most=1.0,
    )
    active = Setting(0.05, "share of tokens", "theory: nineteen of twenty tokens move nothing", most=1.0)
    gradient = Setting(
        0.1,
        "share of the gradient at first",
        "measurement (science.md): while a policy dies its gradient falls to a quarter and |A| to 12 %, and good runs "
        "come near that: only less says something",
        most=1.0,
    )
    solved = Setting(0.5, "share of groups", "calibration: as in entropy-collapse", most=1.0)
    near_best = Setting(
        0.9,
        "share of what a right answer earns",
        "theory: no reward is above E[r²]/E[r] where none is below 0",
        most=1.0,
    )
    rate = Setting(0.1, "share of the largest learning rate", "convention: a cause is named below it", most=1.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._progress = Progress(self.half_life)
        self._dead = Deadness(self.half_life)
        self._dead_start = Baseline(int(self.at_first))
        self._active, self._effective = Ewma(self.half_life), Ewma(self.half_life)
        self._effective_start = Baseline(int(self.at_first))
        self._most_lr = 0.0

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step, reward = record.step, finite(record, "reward/mean")
        progress, dead = self._progress, self._dead
        progress.update(record)
        dead.update(record)
        if self._dead_start.value is None and dead.known:
            self._dead_start.update(dead.unsolved)
        active, effective = finite(record, "signal/active_tokens"), finite(record, "grad/effective_norm")
        if active is not None:
            self._active.update(step, active)
        if effective is None:
            effective = finite(record, "grad/effective_estimate")
        if effective is not None:
            self._effective.update(step, effective)
            if self._effective_start.value is None:
                self._effective_start.update(effective)
        rate = finite(record, "lr")
        if rate is not None and rate > self._most_lr:
            self._most_lr = rate
        if reward is None:
            return NO_DATA
        still = step - progress.best_step
        if still < self.long or self._is_done():
            return CLEAR
        causes = self._absent(step)
        if dead.unsolved >= self.dead and (found := self._dead_groups()) is not None:
            if not causes and self._is_told():
                return CLEAR
            causes = [found, *causes]
        if not causes and still < self.very_long:
            return CLEAR
        severity = Severity.WARNING if causes else Severity.INFO
        return Untold(severity, lambda: self._finding(severity, still, causes, record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        steps = log.steps[log.values("reward/mean") == log.values("reward/mean")]
        return bool(len(steps) and steps[-1] - steps[0] >= self.long)

    def _is_done(self) -> bool:
        if self._dead.split:
            return self._dead.solved >= self.solved
        return self._progress.is_near_best(self._progress.level, self.near_best)

    def _is_told(self) -> bool:
        """Dead-groups warns of them by itself."""
        dead = self._dead
        return dead.split and (dead.stuck >= self.told_stuck or dead.unsolved >= self.told_dead)

    def _dead_groups(self) -> Cause | None:
        dead = self._dead
        if not dead.known or not (self._dead_risen() or dead.unsolved >= self.hopeless):
            return None
        least = "" if dead.split else "at least "
        return Cause(
            f"{least}{dead.unsolved:.0%} of the groups are dead and not solved: they have no advantage",
            {"groups dead and not solved": dead.unsolved, "groups/stuck": dead.stuck if dead.split else None},
        )

    def _absent(self, step: int) -> list[Cause]:
        """What else shows that there is nothing to learn from."""
        causes = []
        share, level = self._active.level, self._effective.level  # NaN, which is not below anything, before the first
        if share <= self.active and self._is_fresh(self._active, step):
            causes.append(Cause(f"{share:.1%} of the tokens move the policy", {"signal/active_tokens": share}))
        start = self._effective_start.value
        if start is not None and level <= self.gradient * start and self._is_fresh(self._effective, step):
            causes.append(
                Cause(
                    f"the gradient from the rewards is down to {level:.2g}, from {start:.2g} at first",
                    {"grad/effective_norm": level, "grad/effective_norm at first": start},
                )
            )
        return causes

    def _dead_risen(self) -> bool:
        start = self._dead_start.value
        return start is not None and self._dead.unsolved - start >= self.dead_risen

    def _is_fresh(self, mean: Ewma, step: int) -> bool:
        return mean.step is not None and step - mean.step <= self.long

    def _finding(self, severity: Severity, still: int, causes: list[Cause], record: StepRecord) -> Finding:
        level, best = self._progress.level, self._progress.best
        rate = finite(record, "lr")
        if rate is not None and rate < self.rate * self._most_lr:
            text = f"the learning rate is down to {rate:.2g}, from {self._most_lr:.2g}"
            causes = [*causes, Cause(text, {"lr": rate, "lr at most": self._most_lr})]
        return Finding(
            severity=severity,
            value=level if level is not None else 0.0,
            reference=best,
            message=f"the reward has gained nothing for {still} steps: {level:.3g}, and {best:.3g} at step "
            f"{self._progress.best_step}",
            evidence={
                "reward/mean": level,
                **present(
                    record, "reward/std", "groups/solved", "groups/failed", "groups/stuck", "groups/zero_std",
                    "signal/active_tokens", "grad/norm", "lr", "entropy/mean",
                ),
            },
            causes=causes,
            advice=self._advice(severity),
        )  # fmt: skip

    def _advice(self, severity: Severity) -> list[Advice]:
        if severity is Severity.INFO:
            return [HARDER_PROMPTS, EASIER_PROMPTS]
        if not self._dead.known or self._dead.unsolved < self.dead:
            return [CHECK_TRAINABLE, CHECK_REWARD]
        if self._dead.split and self._dead.stuck >= self._dead.unsolved / 2:
            return [MORE_EXPLORATION, CHECK_REWARD]
        return [EASIER_PROMPTS, LARGER_GROUPS]
