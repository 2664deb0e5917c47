"""reward-collapse: the run had learnt something and has lost it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import CHECK_REWARD, FEWER_UPDATES, GO_BACK, LOWER_LEARNING_RATE
from rlwatch.detect.config import updates_of
from rlwatch.detect.glance import Glance, best_so_far
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import CountedEwma, Ewma
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord

TWO_ROWS = Hold(steps=2, records=2)
"""How long rows have to have lost half to be told of."""


class RewardCollapse(Rule):
    """The smoothed reward lies far below the best that it has been.

    fall = (best − level) / (best − floor), with floor = min(0, lowest level before the best): for rewards above zero it
    is the share of the reward that is gone; for negative rewards, of what the run had gained, or of the rewards' spread
    and scatter where that is more. Critical from 1/2, a warning from 1/3. Two rows that lose half of it are a warning
    as they are, and critical where the second has lost four fifths, if that is beyond what rows scattered by before.
    Noise is four standard errors, which know how alike neighbouring rows were before the fall. Missing or non-finite
    rewards say nothing.
    """

    name = "reward-collapse"
    needs = ("reward/mean",)
    hold = Hold(steps=3, records=2)
    release = Hold(steps=20, records=3)

    half_life = Setting(
        10.0, "optimizer steps", "convention: of the smoothing, half of that of rules that warn", least=0.1
    )
    lost = Setting(
        0.5,
        "share of what there is to lose",
        'calibration: "more than half below its best so far" found 9 of 9 collapses of real GRPO runs and was raised '
        "on 3 of 37 others, 2 of which ended badly",
        most=1.0,
    )
    slipping = Setting(
        1 / 3, "share of what there is to lose", "calibration: two thirds of the way to the critical mark", most=1.0
    )
    gone = Setting(
        0.2,
        "share of what there is to lose",
        "calibration (made-up runs of even seeds): where that little is left, after a row with less than half of it, "
        "no smoothing is waited for; with 0.2 rather than 0.1, three quarters rather than half are told in time, and "
        "from 0.25 on more good runs are blamed",
        most=1.0,
    )
    enough = Setting(
        5.0,
        "rows",
        "convention: to know their scatter by, where rewards are negative and the best is no yardstick by itself",
    )
    most_alike = Setting(
        0.6, "autocorrelation", "convention: of so few rows, more is a movement rather than noise", most=0.95
    )
    noise = Setting(
        4.0, "standard errors", "theory: a noisy small batch is no collapse; as for what is looked at in every record"
    )

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._reward = CountedEwma(self.half_life)
        self._variance = Ewma(self.half_life * 4)
        self._scatter = CountedEwma(self.half_life * 4)  # of rows that have not lost half, around the level before them
        self._alike = Ewma(self.half_life * 4)  # products of two such rows' residuals, one after the other
        self._residual: float | None = None
        self._lost_since: int | None = None  # of rows that have lost half
        self._first_step: int | None = None
        self._best: float | None = None
        self._best_step = 0
        self._lowest = 0.0  # of the smoothed reward, at most 0
        self._floor = 0.0  # the same as it was at the best reward: what comes after is the fall itself
        self._spread = Ewma(self.half_life * 4)
        self._entropy = Ewma(self.half_life)
        self._entropy_at_best: float | None = None
        self._lowest_entropy: float | None = None

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step, smoothed = record.step, self._reward
        reward, entropy = finite(record, "reward/mean"), finite(record, "entropy/mean")
        if entropy is not None:
            now = self._entropy.update(step, entropy)
            if self._lowest_entropy is None or now < self._lowest_entropy:
                self._lowest_entropy = now
        if reward is None:
            return NO_DATA
        if self._lowest < 0 and (spread := finite(record, "reward/std")) is not None:  # else nobody asks
            self._spread.update(step, spread)
        lost_since, nearly_all = self._lost(step, reward)
        if smoothed.weight:
            off = reward - smoothed.level
            self._variance.update(step, off * off)
        level = smoothed.update(step, reward)
        if level < self._lowest:
            self._lowest = level
        if self._first_step is None:
            self._first_step = step
        if step - self._first_step < self.half_life:
            return CLEAR  # a mean of a few values is still as noisy as they are
        best = self._best
        if best is None or level > best:
            self._best, self._best_step, self._floor = level, step, self._lowest
            self._entropy_at_best = self._entropy.level if self._entropy.weight else None
            best = level
        if nearly_all:
            critical = Severity.CRITICAL
            return Untold(critical, lambda: self._finding(critical, reward, best, reward, entropy), lost_since)
        scale, fallen = self._scale(best), best - level
        least = self.slipping * scale
        if fallen <= least or fallen <= max(self.noise * self._error(), 1e-9 * abs(best)):  # noise, or a rounding
            if lost_since is None:
                return CLEAR
            warning = Severity.WARNING
            return Untold(warning, lambda: self._finding(warning, reward, best, reward, entropy), lost_since, TWO_ROWS)
        severity = Severity.CRITICAL if fallen >= self.lost * scale else Severity.WARNING
        return Untold(severity, lambda: self._finding(severity, level, best, reward, entropy))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        level, reward, steps = log.level("reward/mean", self.half_life), log.values("reward/mean"), log.steps
        there = reward == reward
        there[there] = steps[there] >= steps[there][:1] + self.half_life
        level, reward = level[there], reward[there]
        best, floor = best_so_far(level)
        scale = best - floor  # or more
        half = best[:-1] - reward[1:] >= self.lost * scale[:-1]
        return bool((best - level > self.slipping * scale).any() or (half[:-1] & half[1:]).any())

    def _error(self) -> float:
        """The standard error of best − level: both carry one, the wider the more alike neighbouring rows are."""
        alike = 0.0
        if self._alike.weight and self._scatter.level > 0:
            alike = min(self.most_alike, max(0.0, self._alike.level / self._scatter.level))
        square = 2 * self._variance.level / self._reward.effective_count
        return math.sqrt(square * (1 + alike) / (1 - alike))

    def _scale(self, best: float) -> float:
        """What there is to lose: the best reward.

        With rewards below 0 it is what was gained, but at least twice their spread and eight times the rows' scatter:
        half of it is then more than noise, which is autocorrelated, strays between its best and its worst.
        """
        gained = best - self._floor
        if self._floor == 0:
            return gained
        spread = self._spread.level if self._spread.weight else 0.0
        scatter = self._scatter.level**0.5 if self._scatter.weight else 0.0
        return max(gained, 2 * spread, 2 * self.noise * scatter)

    def _lost(self, step: int, reward: float) -> tuple[int | None, bool]:
        """Since when each row has lost half of the best, and whether this one has lost four fifths.

        None for a single row, and where it is not beyond the rows' scatter.
        """
        best = self._best
        if best is None or best - reward < self.lost * self._scale(best):
            residual, before = reward - self._reward.level if self._reward.weight else 0.0, self._residual
            self._scatter.update(step, residual * residual)
            if before is not None:
                self._alike.update(step, residual * before)
            self._residual, self._lost_since = residual, None
            return None, False
        if self._lost_since is None:
            self._lost_since = step
            return None, False
        lost = best - reward
        known = self._floor == 0 or self._scatter.effective_count >= self.enough
        if not known or lost <= self.noise * self._scatter.level**0.5:
            return None, False
        return self._lost_since, lost >= (1 - self.gone) * self._scale(best)

    def _finding(self, severity: Severity, level: float, best: float, reward: float, entropy: float | None) -> Finding:
        return Finding(
            severity=severity,
            value=level,
            reference=best,
            message=f"the reward is down to {level:.3g}, from {best:.3g} at step {self._best_step}",
            evidence={"reward/mean": reward, "entropy/mean": entropy},
            causes=self._causes(),
            advice=self._advice(),
        )

    def _causes(self) -> list[Cause]:
        before = self._entropy_at_best
        if not before or not self._entropy.weight:
            return []
        now, lowest = self._entropy.level, self._lowest_entropy or before
        evidence = {"entropy/mean at the best reward": before, "entropy/mean now": now}
        if now > 2 * min(before, lowest) and now > before:  # it may have been on its way at the best reward
            rise = now / min(before, lowest)
            return [Cause(f"the policy came apart: entropy rose {rise:.1f}-fold since it was lowest", evidence)]
        if now < before / 2:
            return [
                Cause(
                    f"the policy narrowed onto worse answers: entropy fell to {now / before:.2f} of what it was",
                    evidence,
                )
            ]
        return [
            Cause("entropy is about what it was at the best reward, so the policy moved rather than broke", evidence)
        ]

    def _advice(self) -> list[Advice]:
        reuse = updates_of(self.config) > 1
        return [GO_BACK, LOWER_LEARNING_RATE, *([FEWER_UPDATES] if reuse else []), CHECK_REWARD]
