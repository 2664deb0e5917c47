"""length-collapse: answers have become very short, and the reward has gained nothing by it."""

from __future__ import annotations

from rlwatch.detect.advice import CHECK_REWARD, GO_BACK, LENGTH_REWARD, TOKEN_DENOMINATOR
from rlwatch.detect.glance import Glance
from rlwatch.detect.length_rule import LengthRule, tokens
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Quiet, Untold, finite, present
from rlwatch.detect.rules.length_bias import BY_LENGTH
from rlwatch.detect.setting import Setting
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord


class LengthCollapse(LengthRule):
    """Answers get short fast, or are short, and the reward does not gain.

    Fast: within 50 steps, without a row in between that is within a quarter of the start, a row's `length/mean` is 2.4
    times shorter than at first and half of what it was when the reward last gained (in 50 steps it has to gain 0.05 of
    its spread, see Progress), beyond six deviations of a row. In rows of single steps, which scatter more, it takes
    what lies halfway between a row and the mean of those before, and a tenth of the reward lost or no gain for 20
    steps. Short: smoothed, it is under a third of both, and the reward has stalled or has fallen.

    - critical: short, and the reward is a third below its best, beyond four standard errors;
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
    rushed = Setting(
        2.4,
        "times shorter than at first",
        "calibration (made-up runs of even seeds, and real runs): 2 warned of 3 of 26 real runs that were fine, 2.4 of "
        "one, whose reward had fallen too",
        least=1.0,
    )
    rushed_since_gain = Setting(
        2.0,
        "times shorter than at the last gain",
        "calibration: answers that get concise lose a quarter to a third between two gains of the reward",
        least=1.0,
    )
    no_gain = Setting(
        20.0,
        "optimizer steps",
        "theory: as the half-life of the reward in Progress; answers that get concise gain something every 14 steps in "
        "made-up runs",
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
        if lengths.newest * self.moved > lengths.start and level >= self.fallen_to * reference:
            self._moved_since = None
            return CLEAR
        newest = max(lengths.newest, 1e-9)
        since = self._rushes(
            record.step, lengths.start / newest, lengths.at_gain / newest, self.rushed, self.rushed_since_gain
        )
        is_short = level < self.fallen_to * reference
        if since is None and not is_short:
            return CLEAR
        lost = lengths.lost(self.noise)
        is_done = lost < self.slipping and self._is_done(record)
        if not is_short or (lost < self.slipping and not lengths.progress.stalled(record.step)):
            seen = lost >= self.slipping or record.step - lengths.gain_step >= self.no_gain
            if since is None or is_done or (lengths.single and not seen):
                return CLEAR
            warning = Severity.WARNING
            words = self._rush_words
            return Untold(warning, lambda: self._finding(warning, newest, reference, lost, words(lost), record), since)
        if is_done:
            return CLEAR
        severity = Severity.CRITICAL if lost >= self.lost else Severity.WARNING
        return Untold(
            severity,
            lambda: self._finding(severity, level, reference, lost, self._words(level, reference, lost), record),
        )

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        level, start = self._level_and_start(log)
        return bool(
            (level < self.fallen_to * start).any()
            or (log.values("length/mean") * self.rushed <= (1 + 1e-9) * start).any()
        )

    def _is_done(self, record: StepRecord) -> bool:
        solved = finite(record, "groups/solved")
        if solved is not None:
            return solved >= self.solved
        return self._lengths.progress.is_near_best(self._lengths.reward, self.near_best)

    def _words(self, level: float, reference: float, lost: float) -> str:
        return (
            f"answers have {tokens(level)} tokens on average, {level / reference:.2f} of {tokens(reference)} before, "
            f"and {self._reward_words(lost)}"
        )

    def _finding(
        self, severity: Severity, level: float, reference: float, lost: float, words: str, record: StepRecord
    ) -> Finding:
        return Finding(
            severity=severity,
            value=level,
            reference=reference,
            message=words,
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
