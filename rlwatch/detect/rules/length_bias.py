"""length-bias: incorrect answers grow against correct ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import MASK_TRUNCATED, TOKEN_DENOMINATOR
from rlwatch.detect.config import number_of
from rlwatch.detect.forecast import forecast
from rlwatch.detect.glance import Glance, only
from rlwatch.detect.level import Level
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.detect.trend import Trend
from rlwatch.runs.records import Cause, Forecast, Severity, StepRecord

BY_LENGTH = ("grpo", "sapo")
"""Values of TRL's loss_type that divide a completion's loss by its own length."""


class LengthBias(Rule):
    """Incorrect answers have grown against correct ones, within prompts that have both.

    grown = smoothed `length/gap` − what it was at first · how much longer answers have got in general (at least 1).
    It is found where it is more than 0.3 of the mean length and the gap is beyond five of its own standard errors from
    its start, and incorrect answers are not shorter than at first. Where the loss makes it likely, an eighth of the
    mean length is enough, beyond six errors; in rows of single steps, of which the gap wanders from one to the next, a
    line through them has to be real too. A gap that was there from the beginning, one that grows as all lengths do, and
    right answers that get concise are not it.

    A warning where loss_type divides by a completion's own length, which makes a long wrong answer cheap a token; else
    info. A log without `length/gap` but with `length/incorrect` and `length/correct` gives info only: between prompts,
    the harder ones have longer answers, and more of the wrong ones as others are learnt. Records without these numbers
    cannot tell; once there was a gap, only the gap counts.
    """

    name = "length-bias"
    needs = ("length/gap",)
    hold = Hold(steps=10, records=3)
    release = Hold(steps=20, records=3)

    half_life = Setting(10.0, "optimizer steps", "convention: of the smoothing, as in reward-collapse", least=0.1)
    of_means = Setting(
        5.0,
        "optimizer steps",
        "calibration (made-up runs of even seeds): the same of rows of several steps, which are means already; with "
        "10, told a row or two later",
        least=0.1,
    )
    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    matters = Setting(
        0.3,
        "share of length/mean",
        "measurement (science.md, answers of 17 tokens, 6 to 20 seeds): wrong minus right length ended at +25 and +28 "
        "tokens under 1/|o|, and at -1.1 ± 2.5 under dr_grpo, whose two deviations these are",
    )
    begun = Setting(
        0.125,
        "share of length/mean",
        "convention: half of a gap that is a quarter of the length; only where loss_type divides by a completion's own "
        "length, and prompts have both",
    )
    noise = Setting(
        5.0, "standard errors", "calibration: four are passed by chance in 1 of 100 runs where noise does not wander"
    )
    clear = Setting(
        6.0,
        "standard errors",
        "calibration: of a gap that walks at random as under dr_grpo (autocorrelation 0.9, a deviation of 2.3 of 17 "
        "tokens) it blamed 6 of 240 runs; five told of 73 % of made-up ones in time rather than of 57 %, and blamed "
        "half as many again that wander in rows of several steps",
    )

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._gap = self._new_gap()
        self._within = False
        self._length, self._length_start = Ewma(self.half_life), Baseline(int(self.at_first))
        self._incorrect, self._incorrect_start = Ewma(self.half_life), Baseline(int(self.at_first))
        self._step: int | None = None
        self._line = Trend(4 * self.half_life)
        self._incorrect_trend = Trend(4 * self.half_life)
        self._first_step: int | None = None
        self._by_length = self.config.get("loss_type") in BY_LENGTH
        self._limit = max(0.0, number_of(self.config, "max_completion_length") or 0.0)

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step = record.step
        incorrect, gap = finite(record, "length/incorrect"), finite(record, "length/gap")
        if incorrect is not None:
            self._incorrect.update(step, incorrect)
            if self._incorrect_start.value is None:
                self._incorrect_start.update(incorrect)
            if self._limit:
                self._incorrect_trend.update(step, incorrect)
        if gap is not None and not self._within:
            self._gap, self._within = self._new_gap(), True
        elif gap is None and not self._within and incorrect is not None:
            correct = finite(record, "length/correct")
            gap = None if correct is None else incorrect - correct
        mean = finite(record, "length/mean")
        if gap is None or mean is None or mean <= 0:
            return NO_DATA
        if self._first_step is None:
            self._first_step = step
        length, start = self._length.update(step, mean), self._length_start.value
        if start is None:
            start = self._length_start.update(mean)
        mean_gap, single = self._gap, self._is_single(step)
        level, reference = mean_gap.update(step, gap), mean_gap.start
        if reference is None or start is None:
            mean_gap.keep()
            return NO_DATA
        usual = reference * (length / start) if reference > 0 and length > start else reference
        grown = (level - usual) / length
        if grown <= self.matters / 2:
            mean_gap.keep()
        begins, much = self._begins(step, gap, grown, single), grown > self.matters
        if not (much or begins) or self._shrunk():
            return CLEAR
        if level - reference <= (self.noise if much else self.clear) * mean_gap.error_of_move:
            return CLEAR
        severity = Severity.WARNING if self._by_length and self._within else Severity.INFO
        hold = None if single else SOON
        return Untold(severity, lambda: self._finding(severity, level, reference, length, record), hold=hold)

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        gap, mean = log.values("length/gap"), log.values("length/mean")
        between = log.values("length/incorrect") - log.values("length/correct")
        within = (gap == gap).cumsum() > 0  # from the first gap on, only the gap counts
        used = (mean > 0) & (within | (between == between)) & ((gap == gap) | ~within)
        length = log.smoothed(only(mean, used), self.half_life)
        for values in (only(gap, used & within), only(between, used & ~within)):
            level = log.smoothed(values, self.half_life, rows=1, of_means=self.of_means)
            grown = level - log.at_first(values, self.at_first)
            if (grown > (1 - 1e-9) * min(self.begun, self.matters) * length).any():
                return True
        return False

    def _new_gap(self) -> Level:
        return Level(self.half_life, first=int(self.at_first), of_means=self.of_means)

    def _is_single(self, step: int) -> bool:
        before, self._step = self._step, step
        return before is None or step - before <= 1

    def _begins(self, step: int, gap: float, grown: float, single: bool) -> bool:
        if not (self._by_length and self._within):
            return False
        line = self._line
        line.update(step, gap)
        return grown > max(self.begun, 1.0 / max(1e-9, self._length.level)) and (
            not single or line.significance >= self.noise
        )

    def _shrunk(self) -> bool:
        start = self._incorrect_start.value
        return start is not None and self._incorrect.level < start

    def _finding(
        self, severity: Severity, level: float, reference: float, length: float, record: StepRecord
    ) -> Finding:
        which = "to the same prompt" if self._within else "(between prompts: harder ones have longer answers too)"
        return Finding(
            severity=severity,
            value=level,
            reference=reference,
            message=f"incorrect answers are {level:.3g} tokens longer than correct ones {which}, from {reference:.3g} "
            f"at first, at a mean length of {length:.3g}",
            evidence={
                "length/gap" if self._within else "length/incorrect - length/correct": level,
                "standard error of the change": self._gap.error_of_move,
                **present(
                    record,
                    "length/mean", "length/incorrect", "length/correct", "weight/incorrect", "weight/long",
                    "length/truncated_incorrect",
                ),
            },
            causes=self._causes(record),
            advice=[TOKEN_DENOMINATOR] if self._by_length else [MASK_TRUNCATED],
            forecast=self._arrives(record.step),
        )  # fmt: skip

    def _arrives(self, step: int) -> Forecast | None:
        if not self._limit or self._first_step is None:
            return None
        seen = step - self._first_step + 1
        return forecast(self._incorrect_trend, "length/incorrect", self._limit, seen=seen)

    def _causes(self, record: StepRecord) -> list[Cause]:
        if self._by_length:
            loss = self.config.get("loss_type")
            text = (
                f"loss_type {loss} divides each answer's loss by its length (1/|o|): the longer a wrong one, the less "
            )
            numbers = present(record, "length/incorrect", "length/correct", "weight/long", "weight/length_corr")
            return [
                Cause(
                    text + "each of its tokens is held down, and the shorter a right one, the more it is pushed up",
                    numbers,
                )
            ]
        truncated = present(record, "length/truncated_incorrect", "length/truncated_correct")
        cut = truncated.get("length/truncated_incorrect") or 0.0
        if cut > 0:
            return [Cause(f"{cut:.0%} of the incorrect answers run into the length limit: they do not end", truncated)]
        return []
