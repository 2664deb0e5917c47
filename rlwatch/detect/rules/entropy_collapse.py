"""entropy-collapse: the policy has stopped exploring before it was done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import ADAPTIVE_ENTROPY, FEWER_UPDATES, GO_BACK, RAISE_CLIP_HIGH
from rlwatch.detect.config import number_of, updates_of
from rlwatch.detect.deadness import Deadness, most_unsolved
from rlwatch.detect.forecast import forecast
from rlwatch.detect.glance import Glance, best_so_far
from rlwatch.detect.progress import Progress
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.detect.trend import Trend
from rlwatch.runs.records import Advice, Cause, Forecast, Severity, StepRecord

_CALIBRATED = "calibrated on the even seeds of benchmarks/detectors.py"


class EntropyCollapse(Rule):
    """Entropy has fallen to under 0.3 of what it was at first, and the run has stopped getting better.

    A fall by itself is how learning looks: 19 of 37 good real runs fell below 0.35 of their start. So it takes a second
    witness, from the same record:

    - critical: half of the groups are stuck, and at least 0.3 of all have become so since the start: the policy has
      narrowed onto answers that are not the best, whatever the reward does meanwhile;
    - critical: at least half of the groups are dead and not solved, and the reward has not gained for 50 steps; where
      the log does not tell solved groups apart, three quarters of those that cannot be solved;
    - warning: at least 0.3 of the groups are, or the smoothed reward is a fifth below its best;
    - info: neither, and the reward has not gained for 50 steps: it may be done, or have narrowed too early;
    - nothing: the reward still gains, or at least half of the groups are solved.

    While entropy has not fallen so far, but is on its way there by a real trend, the same witnesses make it a warning,
    with the step at which it gets there.

    Says nothing before ten records with an entropy, its baseline. A record without one, or with a NaN, tells nothing.
    Without `groups/` metrics only the reward can bear witness, and it is never critical.
    """

    name = "entropy-collapse"
    needs = ("entropy/mean",)
    hold = Hold(steps=10, records=3)
    release = Hold(steps=40, records=3)

    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    half_life = Setting(
        20, "optimizer steps", "exponential mean of groups/stuck over 20 steps: 50 steps of lead (lab)", least=1
    )
    groups_half_life = Setting(10, "optimizer steps", _CALIBRATED, least=1)
    trend_half_life = Setting(50, "optimizer steps", "as long as a stall of the reward has to be (Progress)", least=1)
    trend_spacing = Setting(5, "optimizer steps", "theory: a tenth of the half-life loses nothing of a line", least=1)
    fallen = Setting(0.3, "share of the first entropy", "the mark that time to collapse is measured to", most=1)
    stuck_critical = Setting(0.5, "share of groups", "half of the rollouts teach nothing", most=1)
    stuck_risen = Setting(
        0.3, "share of groups", "groups/stuck at 0.3 led the collapse and flagged none of 12 good runs (lab)", most=1
    )
    dead_warning = Setting(0.3, "share of groups", "the same", most=1)
    dead_critical = Setting(0.5, "share of groups", "half of the rollouts teach nothing", most=1)
    rest_critical = Setting(0.75, "share of the groups that cannot be solved", _CALIBRATED, most=1)
    solved = Setting(0.5, "share of groups", "theory: with most of its groups solved, a policy may be sure", most=1)
    reward_lost = Setting(0.2, "share of the best reward", "science of real runs: survivors lose less", most=1)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._entropy = Ewma(self.half_life)
        self._at_first = Baseline(int(self.at_first))
        self._first_step: int | None = None
        self._log_entropy = Trend(self.trend_half_life)
        self._sum, self._values = 0.0, 0  # of the entropies since the trend's last value
        self._followed: int | None = None
        self._dead = Deadness(self.groups_half_life)
        self._progress = Progress()

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step = record.step
        self._progress.update(record)
        self._dead.update(record)
        entropy = finite(record, "entropy/mean")
        if entropy is None:
            return NO_DATA
        if self._first_step is None:
            self._first_step = step
        level = self._entropy.update(step, entropy)
        self._follow(step, entropy)
        at_first = self._at_first.value or self._at_first.update(entropy)
        if at_first is None or at_first <= 0:
            return NO_DATA
        if level >= self.fallen * at_first:
            return self._on_its_way(level, at_first, record)
        severity = self._severity(step)
        if severity is None:
            return CLEAR
        hold = SOON if severity is Severity.WARNING else None
        return Untold(severity, lambda: self._finding(severity, level, at_first, record, None), hold=hold)

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        first = log.at_first(log.values("entropy/mean"), self.at_first)
        if (log.level("entropy/mean", self.half_life) < self.fallen * first).any():
            return True
        reward = log.level("reward/mean", self._progress.half_life)
        reward = reward[reward == reward]
        best, _ = best_so_far(reward)
        lost = (reward < (1 - self.reward_lost) * best) & (best > 0)
        return bool(lost.any()) or most_unsolved(log) >= self.dead_warning

    def _follow(self, step: int, entropy: float) -> None:
        """The trend's values are means over a few steps: a line through fewer of them is as good, and cheaper."""
        if entropy <= 0:
            return
        self._sum += entropy
        self._values += 1
        if self._followed is None or step - self._followed >= self.trend_spacing:
            self._log_entropy.update(step, math.log(self._sum / self._values))
            self._sum, self._values, self._followed = 0.0, 0, step

    def _on_its_way(self, level: float, at_first: float, record: StepRecord) -> Untold | Quiet:
        if self._dead.unsolved < self.dead_warning and not self._lost():  # the cheap question first
            return CLEAR
        severity = self._severity(record.step)
        if severity is None or severity is Severity.INFO or self._first_step is None:
            return CLEAR
        seen, mark = record.step - self._first_step + 1, self.fallen * at_first
        arrives = forecast(self._log_entropy, "entropy/mean", mark, seen=seen, is_log=True)
        if arrives is None:
            return CLEAR
        return Untold(Severity.WARNING, lambda: self._finding(Severity.WARNING, level, at_first, record, arrives))

    def _severity(self, step: int) -> Severity | None:
        dead, stalled = self._dead, self._progress.stalled(step)
        if dead.split and dead.solved >= self.solved:
            return None
        narrowed = dead.stuck >= self.stuck_critical and dead.stuck_risen >= self.stuck_risen
        much = dead.unsolved >= self.dead_critical if dead.split else dead.of_the_rest >= self.rest_critical
        if narrowed or (much and stalled):
            return Severity.CRITICAL
        if dead.unsolved >= self.dead_warning or self._lost():
            return Severity.WARNING
        return Severity.INFO if stalled else None

    def _lost(self) -> bool:
        best, level = self._progress.best, self._progress.level
        return best is not None and level is not None and best > 0 and level < (1 - self.reward_lost) * best

    def _finding(
        self, severity: Severity, level: float, at_first: float, record: StepRecord, arrives: Forecast | None
    ) -> Finding:
        down = "is down to" if arrives is None else "falls, and is at"
        return Finding(
            severity=severity,
            value=level,
            reference=at_first,
            message=(
                f"entropy {down} {level / at_first:.2f} of its start ({level:.3g} nats per token, from {at_first:.3g})"
            ),
            evidence={
                **present(record, "entropy/mean", "groups/stuck", "groups/failed", "groups/solved", "groups/zero_std"),
                "reward/mean": self._progress.level,
            },
            causes=self._causes(record),
            advice=self._advice(),
            forecast=arrives,
        )

    def _causes(self, record: StepRecord) -> list[Cause]:
        causes = []
        updates, epsilon = updates_of(self.config), number_of(self.config, "epsilon_high")
        rare = present(record, "clip/high", "clip/high_rare", "cov/logp_advantage")
        if updates > 1:
            bound = f" under epsilon_high={epsilon:g}" if epsilon is not None else ""
            causes.append(
                Cause(f"{updates:g} updates a rollout{bound}: what is likely grows, what is rare is clipped", rare)
            )
        dead = self._dead
        if dead.known and dead.unsolved > 0:
            least = "" if dead.split else "at least "
            causes.append(
                Cause(
                    f"{least}{dead.unsolved:.0%} of the groups are dead and not solved: they have nothing left to "
                    "compare",
                    present(record, "groups/stuck", "groups/failed", "groups/zero_std"),
                )
            )
        return causes

    def _advice(self) -> list[Advice]:
        reuse = updates_of(self.config) > 1
        return [RAISE_CLIP_HIGH, *([FEWER_UPDATES] if reuse else []), ADAPTIVE_ENTROPY, GO_BACK]
