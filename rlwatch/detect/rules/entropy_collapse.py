"""entropy-collapse: the policy has stopped exploring before it was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import ADAPTIVE_ENTROPY, FEWER_UPDATES, GO_BACK, RAISE_CLIP_HIGH
from rlwatch.detect.progress import Progress
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord

HALF_LIFE = 20.0  # optimizer steps
FALLEN = 0.3
"""Share of the first entropy below which it has fallen: the mark that the papers on collapse measure the time to."""
DEAD_WARNING = 0.3
DEAD_CRITICAL = 0.5
REWARD_LOST = 0.2

_WITNESSES = ("groups/stuck", "groups/failed", "groups/solved")


class EntropyCollapse(Rule):
    """Entropy has fallen to under 0.3 of what it was at first, and the run has stopped getting better.

    A fall by itself is how learning looks: 19 of 37 good real runs fell below 0.35 of their start. So it takes a second
    witness, from the same record:

    - critical: at least half of the groups are dead and not solved, and the reward has not gained for 50 steps;
    - warning: at least 0.3 of the groups are, or the smoothed reward is a fifth below its best;
    - info: neither, and the reward has not gained for 50 steps: it may be done, or have narrowed too early;
    - nothing: the reward still gains, or at least half of the groups are solved.

    Says nothing before ten records with an entropy, its baseline. Without `groups/` metrics only the reward can bear
    witness, and it is never critical.
    """

    name = "entropy-collapse"
    needs = ("entropy/mean",)
    hold = Hold(steps=20, records=3)
    release = Hold(steps=40, records=3)

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._entropy = Ewma(HALF_LIFE)
        self._at_first = Baseline(records=10)
        self._dead = Ewma(HALF_LIFE)
        self._solved = Ewma(HALF_LIFE)
        self._progress = Progress()

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        self._progress.update(record)
        solved, failed, stuck = (
            finite(record, "groups/solved"),
            finite(record, "groups/failed"),
            finite(record, "groups/stuck"),
        )
        if solved is not None and failed is not None and stuck is not None:
            self._dead.update(record.step, failed + stuck)
            self._solved.update(record.step, solved)
        entropy = finite(record, "entropy/mean")
        if entropy is None:
            return NO_DATA
        level = self._entropy.update(record.step, entropy)
        at_first = self._at_first.update(entropy)
        if at_first is None or at_first <= 0:
            return NO_DATA
        if level >= FALLEN * at_first:
            return CLEAR
        severity = self._severity(record.step)
        if severity is None:
            return CLEAR
        return Untold(severity, lambda: self._finding(severity, level, at_first, record))

    def _finding(self, severity: Severity, level: float, at_first: float, record: StepRecord) -> Finding:
        return Finding(
            severity=severity,
            value=level,
            reference=at_first,
            message=(
                f"entropy is down to {level / at_first:.2f} of its start "
                f"({level:.3g} nats per token, from {at_first:.3g})"
            ),
            evidence={
                "entropy/mean": record.metrics["entropy/mean"],
                **{name: value for name, value in record.metrics.items() if name in _WITNESSES},
                "reward/mean": self._progress.level,
            },
            causes=self._causes(),
            advice=self._advice(),
        )

    def _severity(self, step: int) -> Severity | None:
        dead = self._dead.level if self._dead.weight else 0.0
        if self._solved.weight and self._solved.level >= 0.5:
            return None
        stalled = self._progress.stalled(step)
        if dead >= DEAD_CRITICAL and stalled:
            return Severity.CRITICAL
        best, level = self._progress.best, self._progress.level
        lost = best is not None and level is not None and best > 0 and level < (1 - REWARD_LOST) * best
        if dead >= DEAD_WARNING or lost:
            return Severity.WARNING
        return Severity.INFO if stalled else None

    def _causes(self) -> list[Cause]:
        causes = []
        updates = self.config.get("num_iterations") or 1
        if updates > 1:
            epsilon = self.config.get("epsilon_high")
            bound = f" under epsilon_high={epsilon:g}" if isinstance(epsilon, (int, float)) else ""
            causes.append(Cause(f"{updates} updates a rollout{bound}: what is likely grows, what is rare is clipped"))
        if self._dead.weight:
            dead = self._dead.level
            causes.append(Cause(f"{dead:.0%} of the groups are dead and not solved: they have nothing left to compare"))
        return causes

    def _advice(self) -> list[Advice]:
        reuse = (self.config.get("num_iterations") or 1) > 1
        return [RAISE_CLIP_HIGH, *([FEWER_UPDATES] if reuse else []), ADAPTIVE_ENTROPY, GO_BACK]
