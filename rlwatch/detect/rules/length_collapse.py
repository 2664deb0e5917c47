"""length-collapse: answers have become very short, and the reward has gained nothing by it."""

from __future__ import annotations

from rlwatch.detect.advice import CHECK_REWARD, GO_BACK, LENGTH_REWARD, TOKEN_DENOMINATOR
from rlwatch.detect.glance import Glance
from rlwatch.detect.length_rule import LengthRule
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Quiet, Untold, finite, present
from rlwatch.detect.rules.length_bias import BY_LENGTH
from rlwatch.detect.setting import Setting
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord


class LengthCollapse(LengthRule):
    """The smoothed `length/mean` is under a third of what it was at first and of what it was when the reward last
    gained (in 50 steps it has to gain 0.05 of its spread, see Progress), and the reward has stalled or has fallen.

    - critical: the reward is also a third below its best, beyond four standard errors;
    - warning: else;
    - nothing: the reward gains (answers get concise), or is where it can hardly get better (half of the groups are
      solved, or nine tenths of what a right answer earns, where that can be told from `reward/std`), and not below its
      best.

    Needs ten records with a length. A record without a length or a reward cannot tell.
    """

    name = "length-collapse"

    fallen_to = Setting(
        1 / 3,
        "share of the length at the last gain",
        "convention: a third is beyond what answers lose that only get concise without earning more; the one real run "
        "that collapsed (trl-markdown) went to a twentieth",
        most=1.0,
    )
    near_best = Setting(
        0.9,
        "share of what a right answer earns",
        "theory: no reward is above E[r²]/E[r] where none is below 0",
        most=1.0,
    )
    solved = Setting(0.5, "share of groups", "calibration: as in entropy-collapse", most=1.0)
    alike = Setting(
        0.5, "share of completions", "convention: a cause is named where half of a group is alike", most=1.0
    )

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        lengths = self._lengths
        lengths.update(record)
        level = lengths.level
        if level is None:
            return NO_DATA
        reference = lengths.start if lengths.start < lengths.at_gain else lengths.at_gain
        if level >= self.fallen_to * reference:
            return CLEAR
        lost = lengths.lost(self.noise)
        if lost < self.slipping and (not lengths.progress.stalled(record.step) or self._is_done(record)):
            return CLEAR
        severity = Severity.CRITICAL if lost >= self.lost else Severity.WARNING
        return Untold(severity, lambda: self._finding(severity, level, reference, lost, record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        level, start = self._level_and_start(log)
        return bool((level < self.fallen_to * start).any())

    def _is_done(self, record: StepRecord) -> bool:
        solved = finite(record, "groups/solved")
        if solved is not None:
            return solved >= self.solved
        return self._lengths.progress.is_near_best(self._lengths.reward, self.near_best)

    def _finding(self, severity: Severity, level: float, reference: float, lost: float, record: StepRecord) -> Finding:
        return Finding(
            severity=severity,
            value=level,
            reference=reference,
            message=f"answers have {level:.3g} tokens on average, {level / reference:.2f} of {reference:.3g} before, "
            f"and {self._reward_words(lost)}",
            evidence=self._evidence(record, level),
            causes=self._causes(lost, level / reference, record),
            advice=self._advice(record),
        )

    def _causes(self, lost: float, share: float, record: StepRecord) -> list[Cause]:
        causes = self._paid_for_length(record)
        loss = self.config.get("loss_type")
        if loss in BY_LENGTH:
            numbers = present(record, "length/correct", "length/incorrect")
            causes.append(Cause(f"loss_type {loss} divides by length (1/|o|): short right answers gain most", numbers))
        unique = finite(record, "groups/unique")
        if unique is not None and unique < self.alike:
            text = f"only {unique:.0%} of a group's answers differ: a short one has taken over"
            causes.append(Cause(text, {"groups/unique": unique}))
        text = f"short answers earn {1 - lost:.0%} of the best reward at {share:.0%} of the length: nothing holds it up"
        return [*causes, Cause(text, {"reward/mean": self._lengths.reward, "reward/mean at best": self._lengths.best})]

    def _advice(self, record: StepRecord) -> list[Advice]:
        of_length = [LENGTH_REWARD] if self._paid_for_length(record) else []
        of_loss = [TOKEN_DENOMINATOR] if self.config.get("loss_type") in BY_LENGTH else []
        return [CHECK_REWARD, *of_length, *of_loss, GO_BACK]
