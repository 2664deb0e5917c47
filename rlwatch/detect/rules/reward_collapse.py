"""reward-collapse: the run had learnt something and has lost it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import CHECK_REWARD, FEWER_UPDATES, GO_BACK, LOWER_LEARNING_RATE
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import Advice, Cause, Metrics, Severity, StepRecord

HALF_LIFE = 10.0  # optimizer steps
LOST = 0.5
"""Share of the way from the best smoothed reward down to the floor at which it is critical: "more than half below its
best so far" found 9 of 9 collapses of real GRPO runs and was raised on 3 of 37 others, 2 of which ended badly."""
SLIPPING = 1 / 3
GONE = 0.1
"""Of the best reward: where that little is left, after a row with less than half of it, no smoothing is waited for."""
ENOUGH = 5.0
"""Rows to know their scatter by, where rewards are negative and the best is no yardstick by itself."""
NOISE = 4.0
"""Standard errors that a fall must also exceed, so that a noisy small batch is no collapse."""


class RewardCollapse(Rule):
    """The smoothed reward lies far below the best that it has been.

    fall = (best − level) / (best − floor), with floor = min(0, lowest level before the best): for rewards above zero it
    is the share of the reward that is gone; for negative rewards, of what the run had gained, or of the rewards' spread
    and scatter where that is more. Critical from 1/2, a warning from 1/3. Rows that lose half of it and then nine
    tenths are critical as they are, if that is beyond what rows scattered by before. Missing or non-finite rewards say
    nothing.
    """

    name = "reward-collapse"
    needs = ("reward/mean",)
    hold = Hold(steps=5, records=2)
    release = Hold(steps=20, records=3)

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._reward = Ewma(HALF_LIFE)
        self._variance = Ewma(HALF_LIFE * 4)
        self._scatter = Ewma(HALF_LIFE * 4)  # of rows that have not lost half, around the level before them
        self._lost_since: int | None = None
        self._first_step: int | None = None
        self._best: float | None = None
        self._best_step = 0
        self._lowest = 0.0  # of the smoothed reward, at most 0
        self._floor = 0.0  # the same as it was at the best reward: what comes after is the fall itself
        self._spread = Ewma(HALF_LIFE * 4)
        self._entropy = Ewma(HALF_LIFE)
        self._entropy_at_best: float | None = None
        self._lowest_entropy: float | None = None

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        reward = finite(record, "reward/mean")
        entropy = finite(record, "entropy/mean")
        if entropy is not None:
            now = self._entropy.update(record.step, entropy)
            if self._lowest_entropy is None or now < self._lowest_entropy:
                self._lowest_entropy = now
        if reward is None:
            return NO_DATA
        spread = finite(record, "reward/std")
        if spread is not None:
            self._spread.update(record.step, spread)
        gone_since = self._gone_since(record.step, reward)
        if self._reward.weight:
            self._variance.update(record.step, (reward - self._reward.level) ** 2)
        level = self._reward.update(record.step, reward)
        if level < self._lowest:
            self._lowest = level
        if self._first_step is None:
            self._first_step = record.step
        if record.step - self._first_step < HALF_LIFE:
            return CLEAR  # a mean of a few values is still as noisy as they are
        if self._best is None or level > self._best:
            self._best, self._best_step, self._floor = level, record.step, self._lowest
            self._entropy_at_best = self._entropy.level if self._entropy.weight else None
        evidence, best = {"reward/mean": reward, "entropy/mean": entropy}, self._best
        if gone_since is not None:
            return Untold(
                Severity.CRITICAL, lambda: self._finding(Severity.CRITICAL, reward, best, evidence), gone_since
            )
        scale = self._scale()
        fallen = self._best - level
        if fallen <= SLIPPING * scale:
            return CLEAR
        # Both the level and the best carry an error of this size.
        error = (2 * self._variance.level / self._reward.effective_count) ** 0.5
        rounding = 1e-9 * abs(self._best)
        if fallen <= max(SLIPPING * scale, NOISE * error, rounding):
            return CLEAR
        severity = Severity.CRITICAL if fallen >= LOST * scale else Severity.WARNING
        return Untold(severity, lambda: self._finding(severity, level, best, evidence))

    def _scale(self) -> float:
        """What there is to lose: the best reward.

        With rewards below 0 it is what was gained, but at least twice their spread and eight times the rows' scatter:
        half of it is then more than noise, which is autocorrelated, strays between its best and its worst.
        """
        assert self._best is not None
        gained = self._best - self._floor
        if self._floor == 0:
            return gained
        spread = self._spread.level if self._spread.weight else 0.0
        scatter = self._scatter.level**0.5 if self._scatter.weight else 0.0
        return max(gained, 2 * spread, 2 * NOISE * scatter)

    def _gone_since(self, step: int, reward: float) -> int | None:
        """Where a row has lost nine tenths of the best, beyond the rows' scatter: since when each row has lost half."""
        level = self._reward.level if self._reward.weight else reward
        if self._best is None or self._best - reward < LOST * self._scale():
            self._scatter.update(step, (reward - level) ** 2)
            self._lost_since = None
            return None
        if self._lost_since is None:
            self._lost_since = step
            return None
        lost = self._best - reward
        nearly_all = lost >= (1 - GONE) * self._scale()
        known = self._floor == 0 or self._scatter.effective_count >= ENOUGH
        return self._lost_since if nearly_all and known and lost > NOISE * self._scatter.level**0.5 else None

    def _finding(self, severity: Severity, level: float, best: float, evidence: Metrics) -> Finding:
        return Finding(
            severity=severity,
            value=level,
            reference=best,
            message=f"the reward is down to {level:.3g}, from {best:.3g} at step {self._best_step}",
            evidence=evidence,
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
        reuse = (self.config.get("num_iterations") or 1) > 1
        return [GO_BACK, LOWER_LEARNING_RATE, *([FEWER_UPDATES] if reuse else []), CHECK_REWARD]
