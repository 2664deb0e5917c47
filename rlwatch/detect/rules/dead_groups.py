"""dead-groups: siblings earn the same reward, so there is no advantage and no gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import (
    CHECK_REWARD,
    EASIER_PROMPTS,
    GO_BACK,
    HARDER_PROMPTS,
    LARGER_GROUPS,
    MORE_EXPLORATION,
    RAISE_CLIP_HIGH,
)
from rlwatch.detect.config import number_of, updates_of
from rlwatch.detect.deadness import Deadness
from rlwatch.detect.glance import Glance, largest, only
from rlwatch.detect.level import Level
from rlwatch.detect.progress import PATIENCE, Progress
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline
from rlwatch.detect.undivided import Undivided, dead_shares
from rlwatch.runs.records import Cause, Severity, StepRecord


class DeadGroups(Rule):
    """Zero-variance groups that are not solved take over.

    A high zero-variance share by itself is no failure: a run that has solved its prompts has it too. With smoothed
    shares, unsolved = failed + stuck:

    - critical: unsolved ≥ 0.995; or unsolved ≥ 0.75, the reward has not gained for 50 steps, and either three quarters
      of the groups that did not fail are stuck, or unsolved ≥ 0.95;
    - warning: stuck ≥ 0.3, or unsolved ≥ 0.75; sooner, where stuck groups come up: over a few rows they are 0.2, and
      0.15 more than at first, beyond six standard errors;
    - info: solved ≥ 0.9 (it is done), or failed ≥ 0.5 (compute that teaches nothing).

    A log that does not tell these apart but has `groups/zero_std`, or a within-group deviation that is exactly 0, can
    only show that every group is dead: that is critical, unless the reward is the best that was seen. A record with
    none of these, or with NaN for them, says nothing.
    """

    name = "dead-groups"
    needs = ("groups/solved", "groups/failed", "groups/stuck")
    hold = Hold(steps=20, records=3)
    release = Hold(steps=40, records=3)
    symptom_of = ("non-finite", "group-size-one", "truncation")

    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    half_life = Setting(
        20.0, "optimizer steps", "lab: groups/stuck smoothed over 20 steps had 50 steps of lead", least=0.1
    )
    all_dead = Setting(
        0.995,
        "share of groups",
        "theory: no gradient from rewards could change anything; reached at once where every group is dead from the "
        "beginning, later only after some 150 steps of nothing else",
        most=1.0,
    )
    dead_critical = Setting(
        0.75, "share of groups", "lab: 8 of 8 collapsing runs got there, none of 16 good ones", most=1.0
    )
    hopeless = Setting(
        0.95,
        "share of groups",
        "theory: hardly any group is mixed; hard prompts leave most groups failed in runs that learn well from the "
        "rest, so a large failed share is critical only here, whereas stuck groups are not there to begin with",
        most=1.0,
    )
    stuck_warning = Setting(
        0.3, "share of groups", "lab: led the collapse by 50 steps and flagged none of 12 good small runs", most=1.0
    )
    stuck_soon = Setting(
        0.2,
        "share of groups",
        "calibration (made-up runs of even seeds): on its way to the mark above, which a mean over 20 steps gets to 10 "
        "to 20 steps later; of 236 trainings of the lab that were fine it told of none that the mark had not told of",
        most=1.0,
    )
    stuck_risen = Setting(0.15, "share of groups", "calibration: with the one before", most=1.0)
    noise = Setting(
        6.0,
        "standard errors",
        "calibration: of a share that wanders (0.08 ± 0.06, autocorrelation 0.9, rows of one step) it blamed 1 of 60 "
        "runs; with 0.15, 0.12 and four it was 11",
    )
    soon_half_life = Setting(
        5.0, "optimizer steps", "convention: of the smoothing, as in the rules on lengths", least=0.1
    )
    dead_warning = Setting(0.75, "share of groups", "as dead_critical, without its witness", most=1.0)
    solved_info = Setting(0.9, "share of groups", "convention: nine in ten are done", most=1.0)
    failed_info = Setting(0.5, "share of groups", "convention: half of the compute teaches nothing", most=1.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._groups = Deadness(self.half_life)
        self._at_first = Baseline(int(self.at_first))
        self._progress = Progress()
        self._stuck = Level(self.soon_half_life, first=int(self.at_first))
        self._undivided = Undivided(self.half_life, self.all_dead)

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        groups = self._groups
        self._progress.update(record)
        groups.update(record)
        now_failed, now_stuck = finite(record, "groups/failed"), finite(record, "groups/stuck")
        if now_failed is None or now_stuck is None or finite(record, "groups/solved") is None:
            dead = self._undivided.update(record)
            if dead is None:
                return NO_DATA
            return Untold(Severity.CRITICAL, lambda: self._all_dead(record)) if dead else CLEAR
        solved, failed, stuck, at_first = groups.solved, groups.failed, groups.stuck, self._at_first.value
        if at_first is None:
            at_first = self._at_first.update(now_failed + now_stuck)
        severity = self._severity(solved, failed, stuck, record.step)
        if self._comes_up(record.step, now_stuck) and (severity is None or severity is Severity.INFO):
            return Untold(Severity.WARNING, lambda: self._rise(record), hold=SOON)
        if severity is None:
            return CLEAR
        if severity is Severity.INFO and solved >= self.solved_info:
            return Untold(severity, lambda: self._done(solved))
        return Untold(severity, lambda: self._finding(severity, solved, failed, stuck, at_first, record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        solved, failed, stuck = (log.values(name) for name in self.needs)
        unsolved, half_life = failed + stuck, self.half_life
        split, dead = solved + unsolved == solved + unsolved, dead_shares(log)
        return (
            log.reaches(only(unsolved, split), min(self.all_dead, self.dead_critical, self.dead_warning), half_life)
            or log.reaches(only(stuck, split), self.stuck_warning, half_life)
            or largest(log.smoothed(only(stuck, split), self.soon_half_life, rows=1)) >= self.stuck_soon
            or log.reaches(only(solved, split), self.solved_info, half_life)
            or log.reaches(only(failed, split), self.failed_info, half_life)
            or log.reaches(only(dead, ~split), self.all_dead, half_life)
        )

    def _comes_up(self, step: int, stuck: float) -> bool:
        mean = self._stuck
        now, first = mean.update(step, stuck), mean.start
        if first is None or now - first < self.stuck_risen / 2:
            mean.keep()
        if first is None or now < self.stuck_soon or now - first < self.stuck_risen:
            return False
        return now - first >= self.noise * mean.error_of_move

    def _severity(self, solved: float, failed: float, stuck: float, step: int) -> Severity | None:
        unsolved = failed + stuck
        if unsolved >= self.all_dead:
            return Severity.CRITICAL
        if unsolved >= self.dead_critical:
            mostly_stuck = stuck >= self.dead_critical * (1 - failed)
            if (mostly_stuck or unsolved >= self.hopeless) and self._progress.stalled(step):
                return Severity.CRITICAL
        if stuck >= self.stuck_warning or unsolved >= self.dead_warning:
            return Severity.WARNING
        if solved >= self.solved_info or failed >= self.failed_info:
            return Severity.INFO
        return None

    def _finding(
        self,
        severity: Severity,
        solved: float,
        failed: float,
        stuck: float,
        at_first: float | None,
        record: StepRecord,
    ) -> Finding:
        mostly_stuck, reward = stuck >= failed, self._progress.level
        return Finding(
            severity=severity,
            value=failed + stuck,
            reference=at_first,
            message=(
                f"{failed + stuck:.0%} of the groups are dead and not solved (stuck {stuck:.0%}, failed {failed:.0%})"
                + (f", from {at_first:.0%} at first" if at_first is not None else "")
            ),
            evidence={
                "groups/stuck": stuck, "groups/failed": failed, "groups/solved": solved, "reward/mean": reward,
            },
            causes=self._causes(failed, stuck, record),
            advice=[RAISE_CLIP_HIGH, MORE_EXPLORATION, GO_BACK] if mostly_stuck else [EASIER_PROMPTS, LARGER_GROUPS],
        )  # fmt: skip

    def _rise(self, record: StepRecord) -> Finding:
        now, first = self._stuck.now, self._stuck.start
        return Finding(
            severity=Severity.WARNING,
            value=now,
            reference=first,
            message=f"{now:.0%} of the groups are stuck, from {first:.0%} at first: siblings earn one and the same "
            "reward, neither the worst nor the best",
            evidence=present(record, "groups/stuck", "groups/failed", "groups/solved", "reward/mean", "entropy/mean"),
            causes=self._causes(0.0, now, record),
            advice=[RAISE_CLIP_HIGH, MORE_EXPLORATION, GO_BACK],
        )

    def _done(self, solved: float) -> Finding:
        return Finding(
            severity=Severity.INFO,
            value=solved,
            reference=self.solved_info,
            message=f"{solved:.0%} of the groups are solved: nothing is left to learn from these prompts",
            advice=[HARDER_PROMPTS],
        )

    def _all_dead(self, record: StepRecord) -> Finding:
        reward, truncated = finite(record, "reward/mean"), finite(record, "length/truncated")
        earned = f", and the reward is {reward:.3g}" if reward is not None else ""
        causes = []
        if truncated is not None and truncated >= self.all_dead:
            causes.append(Cause("every completion is cut off by the length limit", {"length/truncated": truncated}))
        return Finding(
            severity=Severity.CRITICAL,
            value=self._undivided.level,
            reference=None,
            message=f"in every group all completions earn the same{earned}: there is nothing to learn from",
            evidence=present(
                record, "groups/zero_std", "groups/reward_std", "reward/mean", "grad/norm", "length/truncated"
            ),
            causes=causes,
            advice=[CHECK_REWARD, EASIER_PROMPTS, LARGER_GROUPS],
        )

    def _causes(self, failed: float, stuck: float, record: StepRecord) -> list[Cause]:
        causes = []
        if stuck >= failed:
            alike = f"siblings are alike: {stuck:.0%} of the groups earn one and the same reward, neither the worst nor"
            causes.append(Cause(f"{alike} the best", {"groups/stuck": stuck}))
            updates, epsilon = updates_of(self.config), number_of(self.config, "epsilon_high")
            if updates > 1:
                bound = f" under epsilon_high={epsilon:g}" if epsilon is not None else ""
                causes.append(Cause(f"{updates:g} updates a rollout{bound}: rare, better tokens are clipped early"))
        else:
            hard = f"the prompts are too hard so far: in {failed:.0%} of the groups all earn the worst reward"
            causes.append(Cause(hard, {"groups/failed": failed}))
        if self._progress.stalled(record.step):
            causes.append(Cause(f"the reward has not gained anything for at least {PATIENCE} steps"))
        return causes
