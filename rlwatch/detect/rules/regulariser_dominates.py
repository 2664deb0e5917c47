"""regulariser-dominates: the gradient is alive, and hardly any of it comes from the rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import CHECK_REWARD, GO_BACK, LOWER_REGULARISER
from rlwatch.detect.config import number_of, updates_of
from rlwatch.detect.deadness import Deadness
from rlwatch.detect.forecast import REAL
from rlwatch.detect.glance import Glance, largest
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.detect.trend import Trend
from rlwatch.detect.unbroken import Unbroken
from rlwatch.detect.undivided import dead_share
from rlwatch.runs.records import Cause, Severity, StepRecord

_ALL = 1 - 1e-9  # of the groups: a mean of ones may be off by a rounding


class _Groups(Deadness):
    """This rule's own, shared with none: it is not given every record."""

    __slots__ = ()


class RegulariserDominates(Rule):
    """What moves the policy is the KL term, an entropy bonus or an auxiliary loss, and not the rewards.

    Such a run does not merely stand still: under a gradient norm that looks alive its weights leave what was rewarded.
    The policy's part of the gradient is `grad/policy_norm`, between two splits `grad/effective_estimate` /
    `grad/clip_coef`, and 0 where every group is dead: without an advantage there is none. The regulariser's part is
    `grad/regulariser_norm`; where that is not logged, it is all of `grad/norm` while every group is dead, and `kl/ref`
    has to move as well. The policy's share is policy / (policy + regulariser), both smoothed.

    - critical: the policy's part is nothing, for so many rows on end as chance would not give at the run's own rate of
      such rows, and no fewer groups are dead without being solved than are solved;
    - warning: the same, but more groups are solved, or nobody knows; or the share is below a tenth and less than half
      of what it was at first, and fewer than half of the groups are solved;
    - info: the same where nine tenths (half) of the groups are solved, or the share was that small from the beginning.

    A record that shows neither the policy's part nor whether groups are dead says nothing, and nor does one in which
    nothing proves that the regulariser moves the policy. A log that does not split dead groups counts as solved those
    that may be, by the reward. Rows without rollouts of their own (`rollouts/age` > 0) do not lengthen a streak.
    """

    name = "regulariser-dominates"
    needs = ("grad/regulariser_norm",)
    hold = Hold(steps=20, records=3)
    release = Hold(steps=40, records=3)

    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    splits = Setting(
        3, "records", "convention: splits come every 20 steps, and three are the least of a median", least=1.0
    )
    half_life = Setting(20, "optimizer steps", "convention: as in the rules on groups", least=0.1)
    groups_half_life = Setting(
        5, "optimizer steps", "theory: within the least streak of ten rows it shows what these groups are", least=0.1
    )
    kl_half_life = Setting(
        50, "optimizer steps", "calibration (even seeds): a fall by half in 150 steps is then a real trend", least=1.0
    )
    kl_moves = Setting(0.05, "share of kl/ref in kl_half_life", "theory: less may be rounding in the log", least=0.0)
    least_share = Setting(
        0.1,
        "share of the two norms",
        "theory: at a regularised optimum the parts cancel, so the share is 1/2, and a batch's noise only adds to the "
        "policy's; below 1/10 a step is within asin(1/9), 6 degrees, of the regulariser's own",
        most=1.0,
    )
    fallen = Setting(0.5, "share of its start", "convention: what was weak from the first was chosen", most=1.0)
    nothing = Setting(
        0.01, "share of its start, and of the regulariser's", "lab: exactly 0 in 5 of 5; 1 % for rounding", most=1.0
    )
    least_rows = Setting(10, "rows with rollouts of their own", "convention: no alarm rests on fewer", least=1.0)
    chance = Setting(1e-5, "probability", "theory: with 1000 chances a run, 1 run in 100 has one", most=1.0)
    patience = Setting(
        100, "optimizer steps", "theory: five times the default split_every; then it is split no more", least=1.0
    )
    mostly = Setting(0.5, "share of groups", "theory: more of them are done than not", most=1.0)
    done = Setting(0.9, "share of groups", "as solved_info of dead-groups", most=1.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._policy, self._regulariser = Ewma(self.half_life), Ewma(self.half_life)
        self._policy_first, self._norm_first, self._share_first = (
            Baseline(int(self.at_first)),
            Baseline(int(self.at_first)),
            Baseline(int(self.splits)),
        )
        self._groups = _Groups(self.groups_half_life)
        self._streak = Unbroken()
        self._kl = Trend(self.kl_half_life)  # of its logarithm, while every group is dead
        self._step: int | None = None
        self._passed = 1

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step, regulariser = record.step, finite(record, "grad/regulariser_norm")
        passed = 1 if self._step is None or step <= self._step else step - self._step
        self._step = step
        if regulariser == 0:
            return CLEAR  # all of the gradient is the policy's
        dead, policy = dead_share(record), self._policy_norm(record)
        if policy is None and dead is None:
            return NO_DATA
        if dead is None or dead >= self.mostly or "groups/solved" not in record.metrics:
            self._groups.update(record)  # else most groups are alive, and solved ones are few
        if regulariser is not None:
            self._regulariser.update(step, regulariser)
        if policy is not None:
            self._policy_first.update(policy)
        elif dead is not None and dead >= _ALL:
            policy = 0.0
        nothing = policy is not None and self._is_nothing(policy)
        age = finite(record, "rollouts/age") if nothing else None  # else nobody asks
        if not age:
            self._streak.update(step, nothing)
        split_at = self._regulariser.step
        if split_at is not None and step - split_at <= self.patience:
            if policy is not None:
                self._policy.update(step, policy)
                if regulariser is not None and policy + regulariser > 0:
                    self._share_first.update(policy / (policy + regulariser))
            size = self._regulariser.level
            found = self._judge_nothing(size, passed, age, record) if nothing else None
            return found or self._judge_share(size, dead, record)
        if not nothing:
            norm = finite(record, "grad/norm")
            if norm:
                self._norm_first.update(norm)
            if self._kl.count:
                self._kl = Trend(self.kl_half_life)
            return CLEAR
        return self._judge_nothing(self._moving(record), passed, age, record) or NO_DATA

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        if log.most("groups/zero_std") >= _ALL or (log.values("groups/reward_std") == 0).any():
            return True  # a policy's part may be 0
        estimate, coefficient = log.values("grad/effective_estimate"), log.values("grad/clip_coef")
        whole = estimate[coefficient != 0] / coefficient[coefficient != 0]
        policy = min(log.least("grad/policy_norm"), -largest(-whole))
        regulariser = max(0.0, log.most("grad/regulariser_norm"))
        if log.least("grad/regulariser_norm") < 0 or policy <= self.nothing * regulariser:
            return True
        return not policy >= self.least_share * (policy + regulariser)

    def _policy_norm(self, record: StepRecord) -> float | None:
        exact = finite(record, "grad/policy_norm")
        if exact is not None:
            return exact
        estimate = finite(record, "grad/effective_estimate")
        coefficient = None if estimate is None else finite(record, "grad/clip_coef")
        return estimate / coefficient if estimate is not None and coefficient else None

    def _is_nothing(self, policy: float) -> bool:
        first, regulariser = self._policy_first.value, self._regulariser
        if policy > (self.nothing * regulariser.level if regulariser.weight else 0.0):
            return False
        return first is None or policy <= self.nothing * first

    def _moving(self, record: StepRecord) -> float:
        """The gradient's norm if it moves the policy though every group is dead; 0 where nothing proves it."""
        norm, kl = finite(record, "grad/norm"), finite(record, "kl/ref")
        if kl is not None and kl > 0:
            self._kl.update(record.step, math.log(kl))
        if norm is None or norm <= self.nothing * (self._norm_first.value or 0.0):
            return 0.0
        moves = abs(self._kl.slope) * self.kl_half_life >= self.kl_moves and abs(self._kl.significance) >= REAL
        return norm if moves else 0.0

    def _judge_nothing(self, size: float, passed: int, age: float | None, record: StepRecord) -> Untold | None:
        groups, streak = self._groups, self._streak
        # Without an age nobody knows whether a row has rollouts of its own: as many as may be have the same.
        same = 1.0 if age is not None else max(1.0, updates_of(self.config) / passed)
        if size <= 0 or streak.length < self.least_rows * same or streak.chance(same) > self.chance:
            return None
        streak.odd = True
        severity = Severity.WARNING
        if groups.known and groups.solved >= self.done:
            severity = Severity.INFO
        elif groups.known and groups.unsolved >= groups.solved:
            severity = Severity.CRITICAL
        return Untold(severity, lambda: self._finding(severity, 0.0, size, record), streak.since)

    def _judge_share(self, size: float, dead: float | None, record: StepRecord) -> Untold | Quiet:
        first = self._share_first.value
        if first is None or size <= 0:
            return CLEAR
        policy = self._policy.level
        share = policy / (policy + size)
        if share >= self.least_share:
            return CLEAR
        most_dead = dead is not None and dead >= self.mostly
        chosen, solved = share >= self.fallen * first, most_dead and self._groups.solved >= self.mostly
        severity = Severity.INFO if chosen or solved else Severity.WARNING
        return Untold(severity, lambda: self._finding(severity, policy, size, record))

    def _finding(self, severity: Severity, policy: float, size: float, record: StepRecord) -> Finding:
        share, first = policy / (policy + size), self._share_first.value
        before = f", from {first:.0%} at first" if first is not None else ""
        return Finding(
            severity=severity,
            value=share,
            reference=first,
            message=f"{share:.0%} of the gradient comes from the rewards{before}: its norm of {size:.2g} is the "
            "regulariser's",
            evidence={
                "grad/policy_norm": policy,
                "grad/regulariser_norm": size,
                **present(
                    record, "grad/norm", "kl/ref", "groups/zero_std", "groups/solved", "groups/failed", "groups/stuck",
                    "reward/mean",
                ),
            },
            causes=self._causes(record),
            advice=[LOWER_REGULARISER, CHECK_REWARD, GO_BACK],
        )  # fmt: skip

    def _causes(self, record: StepRecord) -> list[Cause]:
        causes, dead = [], dead_share(record)
        if dead is not None and dead >= self.mostly:
            kinds = present(record, "groups/failed", "groups/stuck", "groups/solved")
            split = ", ".join(f"{name.removeprefix('groups/')} {share:.0%}" for name, share in kinds.items())
            text = f"{dead:.0%} of the groups are dead{f' ({split})' if split else ''}: they have no policy gradient"
            causes.append(Cause(text, {"groups/zero_std": dead, **kinds}))
        beta, kl = number_of(self.config, "beta"), present(record, "kl/ref")
        if beta:
            causes.append(Cause(f"the KL penalty (beta={beta:g}) pulls the policy to its reference", kl))
        bonus = number_of(self.config, "entropy_coef")
        if bonus or self.config.get("use_adaptive_entropy") is True:
            causes.append(Cause("an entropy bonus pushes the policy towards chance", present(record, "entropy/mean")))
        if not beta and not bonus and kl:
            causes.append(Cause("a KL penalty or an entropy bonus, of which the log does not say which", kl))
        return causes
