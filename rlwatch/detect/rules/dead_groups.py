"""dead-groups: siblings earn the same reward, so there is no advantage and no gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import (
    EASIER_PROMPTS,
    GO_BACK,
    HARDER_PROMPTS,
    LARGER_GROUPS,
    MORE_EXPLORATION,
    RAISE_CLIP_HIGH,
)
from rlwatch.detect.progress import PATIENCE, Progress
from rlwatch.detect.rule import Finding, Hold, Quiet, Rule, finite
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


class DeadGroups(Rule):
    """Zero-variance groups that are not solved take over.

    A high zero-variance share by itself is no failure: a run that has solved its prompts has it too. With smoothed
    shares, unsolved = failed + stuck:

    - critical: unsolved ≥ 0.75, the reward has not gained for 50 steps, and either three quarters of the groups that
      did not fail are stuck, or unsolved ≥ 0.95;
    - warning: stuck ≥ 0.3, or unsolved ≥ 0.75;
    - info: solved ≥ 0.9 (it is done), or failed ≥ 0.5 (compute that teaches nothing).

    Needs `groups/solved`, `groups/failed` and `groups/stuck`; says nothing without them.
    """

    name = "dead-groups"
    hold = Hold(steps=20, records=3)
    release = Hold(steps=40, records=3)

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._solved, self._failed, self._stuck = Ewma(HALF_LIFE), Ewma(HALF_LIFE), Ewma(HALF_LIFE)
        self._at_first = Baseline(records=10)
        self._progress = Progress()

    def update(self, record: StepRecord) -> Finding | Quiet:
        """See the class."""
        self._progress.update(record)
        shares = [finite(record, f"groups/{kind}") for kind in ("solved", "failed", "stuck")]
        if any(share is None for share in shares):
            return Quiet.NO_DATA
        solved, failed, stuck = (
            mean.update(record.step, share)  # type: ignore[arg-type]  # none is None
            for mean, share in zip((self._solved, self._failed, self._stuck), shares, strict=True)
        )
        at_first = self._at_first.update(shares[1] + shares[2])  # type: ignore[operator]
        unsolved = failed + stuck
        severity = self._severity(solved, failed, stuck, record.step)
        if severity is None:
            return Quiet.CLEAR
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
