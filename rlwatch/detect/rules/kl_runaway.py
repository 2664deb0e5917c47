"""kl-runaway: the policy leaves its reference faster and faster, and gains nothing by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import FEWER_UPDATES, GO_BACK, LOWER_LEARNING_RATE, RAISE_BETA
from rlwatch.detect.config import number_of, updates_of
from rlwatch.detect.forecast import ENOUGH, REAL, forecast
from rlwatch.detect.glance import Glance
from rlwatch.detect.level import WILD
from rlwatch.detect.progress import Progress
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.trend import Trend
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord


class KLRunaway(Rule):
    """`kl/ref` grows exponentially at a level that matters, and the reward does not gain.

    KL that grows is how a run without a KL penalty learns. A policy that drifts at constant speed is at a KL that grows
    with the square of the step (its Fisher metric), under a warm-up of the learning rate with the fourth power: from
    its start on, a power k takes ln 2/k of the time passed to double. So only a doubling time that is shorter than that
    of every such power is a runaway. It is that of a line through the logarithm, in which single spikes are held at
    three deviations (but at least twofold); and the level has to be above the highest before 0.64 to 0.8 of the time
    passed by what such growth comes to (2.5-fold), with a real trend by the slope's error or at least eightfold.

    - critical: the reward falls by a real trend, and a fifth of its best is gone;
    - warning: the reward has no trend upwards of two standard errors;
    - info: no reward is logged, or nine tenths of the groups are solved;
    - nothing: the reward gains.

    Where it has got to by running away it is not said to be over while it stays there, unless the reward really gains
    (four standard errors).

    A record without a KL, with one that is not finite, or with 0 (at its first step the policy is its reference) says
    nothing.
    """

    name = "kl-runaway"
    needs = ("kl/ref",)
    hold = SOON
    release = Hold(steps=40, records=3)

    half_life = Setting(
        30,
        "optimizer steps",
        "calibration (even seeds): shorter than PATIENCE of Progress; a fall of a few doublings is seen within one",
        least=1.0,
    )
    reward_half_life = Setting(
        15,
        "optimizer steps",
        "calibration (even seeds): 30 still showed a gain that had ended 30 steps before",
        least=1.0,
    )
    new_ground = Setting(
        8.0,
        "factor",
        "theory: three doublings above all before need no line; growth that speeds up leaves residuals that look "
        "autocorrelated, which makes the slope's error too wide",
        least=1.0,
    )
    least_rows = Setting(
        4,
        "rows",
        "theory: a half-life of four rows is the least that a line through ten equal weights can have",
        least=1.0,
    )
    matters = Setting(
        0.25,
        "nats per token",
        "theory: by Pinsker's inequality the total variation is up to (KL/2)^0.5, at a quarter of a nat 0.35: below it "
        "the policy's next token is still the reference's in about two of three cases",
        least=1e-6,
    )
    nearly = Setting(
        8.0, "factor", "theory: three doublings before it matters the reward is looked at, to know by then", least=1.0
    )
    later = Setting(
        0.8,
        "share of the steps so far",
        "convention: the ages whose highest level is kept are this far apart, and the level is compared with that of "
        "the one before the last",
        least=0.1,
        most=0.99,
    )
    far = Setting(1.0, "nats per token", "theory: the policy's tokens are e times less likely under the reference")
    gone = Setting(
        10.0, "nats per token", "theory: about the logarithm of a vocabulary, so nothing is left of the reference"
    )
    doubling = Setting(
        0.15,
        "share of the steps so far",
        "theory: a constant drift takes 0.35 of the time passed to double, one under warm-up 0.17",
        least=0.001,
        most=1.0,
    )
    early = Setting(
        64.0, "times", "theory: six doublings before it matters are enough for a trend, and less is not followed"
    )
    fold = Setting(2.0, "factor", "convention: no spike up to this size is held back", least=1.0)
    gaining = Setting(2.0, "standard errors", "theory: below it a slope is in doubt", least=0.0)
    reward_lost = Setting(0.2, "share of the best reward", "as in entropy-collapse", most=1.0)
    solved = Setting(0.9, "share of groups", "as solved_info of dead-groups", most=1.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._log_kl, self._reward = Trend(self.half_life), Trend(self.reward_half_life)
        self._progress = Progress()
        self._first: int | None = None
        self._passed: int | None = None
        self._log_fold = math.log(self.fold)
        self._matters, self._near = math.log(self.matters), math.log(self.matters / self.nearly)
        self._shown = 0.0  # the last logarithm, without what made it a spike
        self._ran_to = math.inf  # the smoothed log KL
        self._marks = [1.0, -math.inf, -math.inf, -math.inf]  # an age, the highest level then, at the age before, now

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step, kl = record.step, finite(record, "kl/ref")
        self._progress.update(record)
        if kl is None or kl <= 0:
            return NO_DATA
        if self._log_kl.step is None and kl < self.matters / self.early:
            self._first = step if self._first is None else self._first
            return CLEAR
        if self._marks[3] >= self._near:  # before that nobody asks what the reward does
            reward = finite(record, "reward/mean")
            if reward is not None:
                self._reward.update(step, reward)
        trend = self._log_kl
        if self._first is None:
            self._first = step
        elif self._passed is None and trend.step is not None and step > trend.step:
            self._passed = step - trend.step
            trend.half_life = max(self.half_life, self.least_rows * self._passed)
            self._reward.half_life = max(self.reward_half_life, self.least_rows * self._passed)
        self._shown = self._held(step, math.log(kl))
        trend.update(step, self._shown)
        level, age = trend.level, step - self._first + (self._passed or 1)
        self._mark(age, level)
        if level < self._matters and self._ran_to == math.inf:
            return CLEAR
        there = level > self._ran_to - self._log_fold
        if not there and self._ran_to < math.inf:
            self._ran_to, self._marks = math.inf, [float(age), level, level, level]  # it has come back: once more
        if level < self._matters or not self._runs_away(age):
            return NO_DATA if there and self._reward.significance < REAL else CLEAR
        if self._reward.significance >= self.gaining:
            return NO_DATA if there else CLEAR
        self._ran_to = level
        severity = self._severity(record)
        return Untold(severity, lambda: self._finding(severity, age, record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        kl, least = log.values("kl/ref"), self.matters / self.early
        there = (kl >= least).cumsum() * (kl > 0) > 0  # what is looked at: what is above 0, from the first such on
        kl, steps = kl[there], log.steps[there]
        if not len(kl):
            return False
        apart = int((steps[1:] - steps[:-1]).max(initial=1))
        highest, spread = math.log(kl.max()), math.log(kl.max()) - math.log(kl.min())
        # A line's end is beyond all of its points by at most μ/2σ of their spread, with the mean and the deviation of
        # their weighted ages, and μ²/σ² is at most the sum of the weights of the older ones, half-life / ln 2.
        beyond = 0.61 * math.sqrt(max(self.half_life, self.least_rows * apart)) * spread
        return spread >= 0.99 * self._log_fold or highest + beyond >= self._matters - 1e-3

    def _held(self, step: int, value: float) -> float:
        """The value, or what is left of it where it is a spike."""
        trend, bound = self._log_kl, self._log_fold
        if abs(value - self._shown) <= bound or trend.count < 6 or trend.step is None:
            return value
        expected = trend.level + trend.slope * (step - trend.step)
        if abs(value - expected) <= bound:
            return value
        bound = max(bound, WILD * trend.scatter)
        return max(expected - bound, min(expected + bound, value))

    def _mark(self, age: int, level: float) -> None:
        marks = self._marks
        if age >= marks[0] / self.later:
            marks[:3] = float(age), marks[3], marks[1]
        if level > marks[3]:
            marks[3] = level

    def _runs_away(self, age: int) -> bool:
        trend, doublings = self._log_kl, (1 - self.later) / self.doubling  # at least, between two marks
        grown = trend.level - self._marks[2]
        if trend.slope * self.doubling * age < math.log(2) or grown < doublings * math.log(2):
            return False
        if trend.effective_count < ENOUGH:
            return False
        return grown >= math.log(self.new_ground) or trend.significance >= REAL

    def _falls(self) -> bool:
        best, level = self._progress.best, self._progress.level
        if best is None or level is None or best - level < self.reward_lost * abs(best):
            return False
        return self._reward.significance <= -REAL

    def _severity(self, record: StepRecord) -> Severity:
        solved = finite(record, "groups/solved")
        if self._progress.level is None or (solved is not None and solved >= self.solved):
            return Severity.INFO
        return Severity.CRITICAL if self._falls() else Severity.WARNING

    def _finding(self, severity: Severity, age: int, record: StepRecord) -> Finding:
        trend, progress = self._log_kl, self._progress
        level, doubles = math.exp(min(trend.level, 200.0)), math.log(2) / trend.slope
        words = ""
        if progress.level is not None and progress.best is not None:
            does = "falls" if severity is Severity.CRITICAL else "does not gain"
            words = f", and the reward {does} ({progress.level:.3g}, best {progress.best:.3g})"
        return Finding(
            severity=severity,
            value=level,
            reference=self.matters,
            message=f"KL to the reference is {level:.2g} nats per token and doubles every {doubles:.3g} steps{words}",
            evidence={
                "steps to double": doubles,
                **present(record, "kl/ref", "reward/mean", "entropy/mean", "lr", "ratio/max", "kl/old", "grad/norm"),
            },
            causes=self._causes(record),
            advice=self._advice(),
            forecast=forecast(trend, "kl/ref", self.far if level < self.far else self.gone, seen=age, is_log=True),
        )

    def _causes(self, record: StepRecord) -> list[Cause]:
        causes = []
        updates, beta = updates_of(self.config), number_of(self.config, "beta")
        if updates > 1:
            drift = present(record, "ratio/max", "ratio/mean", "kl/old", "clip/high")
            causes.append(
                Cause(f"{updates:.0f} updates a rollout: each moves further away from what was sampled", drift)
            )
        rate = finite(record, "lr") or number_of(self.config, "learning_rate")
        if rate:
            causes.append(Cause(f"a learning rate ({rate:.2g}) that is large for this policy", {"lr": rate}))
        if beta == 0:
            causes.append(Cause("no KL penalty holds it (beta=0)"))
        elif beta:
            causes.append(Cause(f"a KL penalty (beta={beta:g}) that is too weak to hold it", present(record, "kl/ref")))
        return causes

    def _advice(self) -> list[Advice]:
        reuse = [FEWER_UPDATES] if updates_of(self.config) > 1 else []
        return [LOWER_LEARNING_RATE, *reuse, RAISE_BETA, GO_BACK]
