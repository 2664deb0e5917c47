"""length-explosion: answers get longer and longer, and the reward gains nothing by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import GO_BACK, LENGTH_REWARD, LESS_EXPLORATION, MASK_TRUNCATED, TOKEN_DENOMINATOR
from rlwatch.detect.config import number_of
from rlwatch.detect.forecast import forecast
from rlwatch.detect.glance import Glance
from rlwatch.detect.length_rule import LengthRule, tokens
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Quiet, Untold, finite
from rlwatch.detect.rules.length_bias import BY_LENGTH
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.detect.trend import Trend
from rlwatch.runs.records import Advice, Cause, Forecast, Severity, StepRecord


class LengthExplosion(LengthRule):
    """Answers get long fast, or are long, and the reward does not gain.

    Fast: within 50 steps, without a row in between that is within a quarter of the start, a row's `length/mean` is 1.75
    times what it was at first and 1.5 times what it was when the reward last gained, beyond six deviations of a row.
    In rows of single steps, which scatter more, it takes what lies halfway between a row and the mean of those before,
    and a tenth of the reward lost or truncation risen beside it.
    Long: smoothed, it is twice what it was at first and has grown by a quarter since the reward last gained, beyond
    four standard errors, and the reward has stalled (50 steps), has lost a tenth, or truncation has risen.

    - critical: long, and the reward is a third below its best, beyond four standard errors;
    - warning: else, with a forecast of when the limit is reached (max_completion_length, else the largest mean length
      at which nearly all completions were cut off);
    - nothing: the reward gains as the answers grow, however long they get.

    Needs ten records with a length. A record without a length or a reward cannot tell; without `length/truncated` only
    the reward bears witness.
    """

    name = "length-explosion"

    grown = Setting(
        2.0,
        "times the length at first",
        "theory: generating costs at least in proportion to the length, so the run costs twice as much for nothing",
        least=1.0,
    )
    rushed = Setting(
        1.75,
        "times the length at first",
        "calibration (made-up runs of even seeds): three quarters of the way to twice; 1.5 warned of 24 of 30 runs "
        "whose answers get longer and better, 1.75 of 2",
        least=1.0,
    )
    rushed_since_gain = Setting(
        1.5, "times the length at the last gain", "calibration: with the one before; 1.6 was a row later", least=1.0
    )
    truncated_more = Setting(
        0.1,
        "share of completions",
        "convention: of the increase over the first records; what was cut off there is the setting and no change",
        most=1.0,
    )
    pinned = Setting(
        0.95, "share of completions", "theory: where nearly all are cut off, their mean length is the limit", most=1.0
    )
    entropy_risen = Setting(1.5, "times the entropy at first", "convention: a cause is named from there", least=1.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._growth = Trend(4 * self.half_life)  # of the logarithm, once it grows
        self._truncated, self._truncated_start = Ewma(self.half_life), Baseline(int(self.at_first))
        self._entropy_start = Baseline(int(self.at_first))
        self._first_step: int | None = None
        self._limit = max(0.0, number_of(self.config, "max_completion_length") or 0.0)
        self._pinned_at = 0.0
        self._log_moved = math.log(self.moved)

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step, truncated, length = record.step, finite(record, "length/truncated"), finite(record, "length/mean")
        if self._entropy_start.value is None and (entropy := finite(record, "entropy/mean")) is not None:
            self._entropy_start.update(entropy)
        if truncated is not None:
            self._truncated.update(step, truncated)
            if self._truncated_start.value is None:
                self._truncated_start.update(truncated)
            if truncated >= self.pinned and length is not None:
                self._pinned_at = max(self._pinned_at, length)
        lengths = self._lengths
        lengths.update(record)
        if length is not None and length > 0:
            if self._first_step is None:
                self._first_step = step
            logs = lengths.logs
            if logs.start is not None and logs.now - logs.start >= self._log_moved:
                self._growth.update(step, math.log(length))
        level, start, at_gain, newest = lengths.level, lengths.start, lengths.at_gain, lengths.newest
        if level is None:
            return NO_DATA
        if newest < self.moved * start and level <= self.grown * start:
            self._moved_since = None
            return CLEAR
        since = self._rushes(step, newest / start, newest / at_gain, self.rushed, self.rushed_since_gain)
        is_long = level > self.grown * start and level > self.moved * at_gain and self._is_real(level / at_gain)
        if since is None and not is_long:
            return CLEAR
        lost, more = lengths.lost(self.noise), self._truncated_more()
        seen = lost >= self.slipping or more >= self.truncated_more
        if not is_long or not (seen or lengths.progress.stalled(step)):
            if since is None or (lengths.single and not seen):
                return CLEAR
            warning = Severity.WARNING
            return Untold(warning, lambda: self._finding(warning, newest, start, self._rush_words(lost), record), since)
        severity = Severity.CRITICAL if lost >= self.lost else Severity.WARNING
        return Untold(severity, lambda: self._finding(severity, level, start, self._words(level, start, lost), record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        level, start = self._level_and_start(log)
        return bool(
            (level > self.grown * start).any() or (log.values("length/mean") >= (1 - 1e-9) * self.rushed * start).any()
        )

    def _is_real(self, times: float) -> bool:
        """Whether that is more than what the length does while it does not grow."""
        return math.log(times) > self.noise * self._lengths.logs.error_of_move

    def _truncated_more(self) -> float:
        start = self._truncated_start.value
        return self._truncated.level - start if start is not None else 0.0

    def _words(self, level: float, start: float, lost: float) -> str:
        return (
            f"answers have {tokens(level)} tokens on average, {level / start:.2g} times {tokens(start)} at the "
            f"beginning, and {self._reward_words(lost)}"
        )

    def _finding(self, severity: Severity, level: float, reference: float, words: str, record: StepRecord) -> Finding:
        return Finding(
            severity=severity,
            value=level,
            reference=reference,
            message=words,
            evidence=self._evidence(record, level),
            causes=self._causes(record),
            advice=self._advice(record),
            forecast=self._arrives(record.step),
        )

    def _arrives(self, step: int) -> Forecast | None:
        limit = self._limit or self._pinned_at
        if not limit or self._first_step is None:
            return None
        return forecast(self._growth, "length/mean", limit, seen=step - self._first_step + 1, is_log=True)

    def _entropy_risen(self, record: StepRecord) -> Cause | None:
        entropy, start = finite(record, "entropy/mean"), self._entropy_start.value
        if entropy is None or start is None or start <= 0 or entropy < self.entropy_risen * start:
            return None
        text = f"entropy rises with it, to {entropy:.3g} nats per token from {start:.3g}: the policy comes apart"
        return Cause(text, {"entropy/mean": entropy, "entropy/mean at first": start})

    def _causes(self, record: StepRecord) -> list[Cause]:
        causes = self._paid_for_length(record)
        if (risen := self._entropy_risen(record)) is not None:
            causes.append(risen)
        incorrect, correct = finite(record, "length/incorrect"), finite(record, "length/correct")
        loss = self.config.get("loss_type")
        if loss in BY_LENGTH and incorrect is not None and correct is not None and incorrect > correct:
            text = (
                f"loss_type {loss} divides by each answer's length, and wrong ones ({incorrect:.3g} tokens) are longer"
            )
            causes.append(Cause(text, {"length/incorrect": incorrect, "length/correct": correct}))
        more = self._truncated_more()
        if more >= self.truncated_more:
            share = self._truncated.level
            text = f"{share:.0%} of the completions are cut off by the length limit, {more:.0%} more than at first"
            causes.append(Cause(text, {"length/truncated": share}))
        return causes

    def _advice(self, record: StepRecord) -> list[Advice]:
        advice = [LENGTH_REWARD] if self._paid_for_length(record) else []
        if self._entropy_risen(record) is not None:
            advice.append(LESS_EXPLORATION)
        if self.config.get("loss_type") in BY_LENGTH:
            advice.append(TOKEN_DENOMINATOR)
        return [*advice, MASK_TRUNCATED, GO_BACK]
