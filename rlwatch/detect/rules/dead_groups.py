"""dead-groups: siblings earn the same reward, so there is no advantage and no gradient."""

from __future__ import annotations

import math
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
from rlwatch.detect.progress import PATIENCE, Progress
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord

HALF_LIFE = 20.0  # optimizer steps
SOLVED = 0.9
FAILED_INFO = 0.5
STUCK_WARNING = 0.3
"""An exponential mean of groups/stuck at 0.3 led the collapse by 50 steps and flagged none of 12 good small runs."""
DEAD_WARNING = 0.75
DEAD_CRITICAL = 0.75
HOPELESS = 0.95
"""Where hardly any group is mixed. Hard prompts leave most groups failed in runs that learn well from the rest, so a
large failed share is critical only here, whereas stuck groups are not there to begin with."""

ALL = 0.995
"""Of a smoothed share: reached at once where every group is dead from the beginning, later only after some 150 steps of
nothing else. Then there is no gradient from rewards that could change anything."""


class DeadGroups(Rule):
    """Zero-variance groups that are not solved take over.

    A high zero-variance share by itself is no failure: a run that has solved its prompts has it too. With smoothed
    shares, unsolved = failed + stuck:

    - critical: unsolved ≥ 0.995; or unsolved ≥ 0.75, the reward has not gained for 50 steps, and either three quarters
      of the groups that did not fail are stuck, or unsolved ≥ 0.95;
    - warning: stuck ≥ 0.3, or unsolved ≥ 0.75;
    - info: solved ≥ 0.9 (it is done), or failed ≥ 0.5 (compute that teaches nothing).

    A log that does not tell these apart but has `groups/zero_std`, or a within-group deviation that is exactly 0, can
    only show that every group is dead: that is critical, unless the reward is the best that was seen.
    """

    name = "dead-groups"
    needs = ("groups/solved", "groups/failed", "groups/stuck")
    hold = Hold(steps=20, records=3)
    release = Hold(steps=40, records=3)

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._solved, self._failed, self._stuck = Ewma(HALF_LIFE), Ewma(HALF_LIFE), Ewma(HALF_LIFE)
        self._at_first = Baseline(records=10)
        self._progress = Progress()
        self._dead, self._seen = Ewma(HALF_LIFE), (math.inf, -math.inf)  # where the kinds are not told apart

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        self._progress.update(record)
        now_solved, now_failed, now_stuck = (
            finite(record, "groups/solved"),
            finite(record, "groups/failed"),
            finite(record, "groups/stuck"),
        )
        if now_solved is None or now_failed is None or now_stuck is None:
            return self._undivided(record)
        solved = self._solved.update(record.step, now_solved)
        failed = self._failed.update(record.step, now_failed)
        stuck = self._stuck.update(record.step, now_stuck)
        at_first = self._at_first.update(now_failed + now_stuck)
        severity = self._severity(solved, failed, stuck, record.step)
        if severity is None:
            return CLEAR
        return Untold(severity, lambda: self._finding(severity, solved, failed, stuck, at_first, record))

    def _undivided(self, record: StepRecord) -> Untold | Quiet:
        dead = finite(record, "groups/zero_std")
        if dead is None:
            spread = finite(record, "groups/reward_std")
            if spread is None:
                return NO_DATA
            dead = 1.0 if spread == 0 else 0.0  # some group is alive, so not all are dead
        reward = finite(record, "reward/mean")
        if reward is not None:
            self._seen = (min(self._seen[0], reward), max(self._seen[1], reward))
        if self._dead.update(record.step, dead) < ALL:
            return CLEAR
        worst, best = self._seen
        if reward is not None and reward >= best and (best > worst or (reward > 0 and not _loses_somewhere(record))):
            return CLEAR  # solved, as far as can be told
        return Untold(Severity.CRITICAL, lambda: self._all_dead(record))

    def _all_dead(self, record: StepRecord) -> Finding:
        names = ("groups/zero_std", "groups/reward_std", "reward/mean", "grad/norm", "length/truncated")
        reward = finite(record, "reward/mean")
        earned = f", and the reward is {reward:.3g}" if reward is not None else ""
        return Finding(
            severity=Severity.CRITICAL,
            value=self._dead.level,
            reference=None,
            message=f"in every group all completions earn the same{earned}: there is nothing to learn from",
            evidence={name: value for name in names if (value := finite(record, name)) is not None},
            causes=self._causes_of_all(record),
            advice=[CHECK_REWARD, EASIER_PROMPTS, LARGER_GROUPS],
        )

    def _causes_of_all(self, record: StepRecord) -> list[Cause]:
        truncated = finite(record, "length/truncated")
        if truncated is not None and truncated >= ALL:
            return [Cause("every completion is cut off by the length limit", {"length/truncated": truncated})]
        return []

    def _finding(
        self,
        severity: Severity,
        solved: float,
        failed: float,
        stuck: float,
        at_first: float | None,
        record: StepRecord,
    ) -> Finding:
        unsolved = failed + stuck
        if severity is Severity.INFO and solved >= SOLVED:
            return Finding(
                severity=severity,
                value=solved,
                reference=SOLVED,
                message=f"{solved:.0%} of the groups are solved: nothing is left to learn from these prompts",
                advice=[HARDER_PROMPTS],
            )
        return Finding(
            severity=severity,
            value=unsolved,
            reference=at_first,
            message=(
                f"{unsolved:.0%} of the groups are dead and not solved (stuck {stuck:.0%}, failed {failed:.0%})"
                + (f", from {at_first:.0%} at first" if at_first is not None else "")
            ),
            evidence={
                "groups/stuck": stuck,
                "groups/failed": failed,
                "groups/solved": solved,
                "reward/mean": self._progress.level,
            },
            causes=self._causes(failed, stuck, record),
            advice=self._advice(failed, stuck),
        )

    def _severity(self, solved: float, failed: float, stuck: float, step: int) -> Severity | None:
        unsolved = failed + stuck
        if unsolved >= ALL:
            return Severity.CRITICAL
        mostly_stuck = stuck >= DEAD_CRITICAL * (1 - failed)
        if unsolved >= DEAD_CRITICAL and (mostly_stuck or unsolved >= HOPELESS) and self._progress.stalled(step):
            return Severity.CRITICAL
        if stuck >= STUCK_WARNING or unsolved >= DEAD_WARNING:
            return Severity.WARNING
        if solved >= SOLVED or failed >= FAILED_INFO:
            return Severity.INFO
        return None

    def _causes(self, failed: float, stuck: float, record: StepRecord) -> list[Cause]:
        causes = []
        if stuck >= failed:
            causes.append(
                Cause(
                    f"siblings are alike: {stuck:.0%} of the groups earn one and the same reward, "
                    "neither the worst nor the best",
                    {"groups/stuck": stuck},
                )
            )
            updates = self.config.get("num_iterations") or 1
            if updates > 1:
                epsilon = self.config.get("epsilon_high")
                bound = f" under epsilon_high={epsilon:g}" if isinstance(epsilon, (int, float)) else ""
                causes.append(Cause(f"{updates} updates a rollout{bound}: rare, better tokens are clipped early"))
        else:
            causes.append(
                Cause(
                    f"the prompts are too hard so far: in {failed:.0%} of the groups all earn the worst reward",
                    {"groups/failed": failed},
                )
            )
        if self._progress.stalled(record.step):
            causes.append(Cause(f"the reward has not gained anything for at least {PATIENCE} steps"))
        return causes

    def _advice(self, failed: float, stuck: float) -> list[Advice]:
        if stuck >= failed:
            return [RAISE_CLIP_HIGH, MORE_EXPLORATION, GO_BACK]
        return [EASIER_PROMPTS, LARGER_GROUPS]


def _loses_somewhere(record: StepRecord) -> bool:
    """A reward function takes something off: the best that there is would not lose anything."""
    parts = (value for name, value in record.metrics.items() if name.startswith("reward/"))
    return any(value is not None and value < 0 for value in parts)
