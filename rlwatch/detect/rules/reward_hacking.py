"""reward-hacking: what is rewarded rises, and what the reward is meant for falls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import CHECK_REWARD, GO_BACK, STOP_AT_BEST_EVAL
from rlwatch.detect.config import is_unpaid, number_of
from rlwatch.detect.forecast import REAL
from rlwatch.detect.glance import Glance, best_so_far
from rlwatch.detect.peak import Peak
from rlwatch.detect.progress import GAIN
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord

_SLOTS = tuple(f"_part{i}" for i in range(16))
_TRUE = ("correct", "acc", "gold", "true")
_FORM = ("format", "length", "penalty", "xml", "tag", "language")
_EVALUATED = ("reward", "acc", "score", "correct", "pass", "success", "solve")
_NO_PARTS = ("mean", "std", "min", "max", "median", "total", "sum")
"""Words in metrics' names: what the reward is meant for, its form, an evaluation of it, no part of it."""


class RewardHacking(Rule):
    """Something that the reward is meant for has lost a quarter of its best, by more than its noise, in two of its
    values in a row, while what is paid for has risen.

    Followed are the parts of the reward (`reward/<function>`), evaluations (`eval/*` with a reward or an accuracy) and
    `length/share_correct`, 16 at most. True is what is evaluated, and what is called correct, accuracy, gold or true;
    form is what is called format, length, penalty, tag. Parts of a sum compete, and one that is given up for a better
    one is no failure. So something must have risen: the training reward or another part, since the fallen one was at
    its best, from its own start by four standard errors, and is at its own best now. A function that weighs 0, where
    the weights are known, is followed only for what it says is true: nobody is paid for it.

    - critical: what is true has lost half, there are ten values of it, and it is the training reward that has risen;
    - warning: what is true has lost a quarter; or another part that is no form has, and it is a form that has risen;
    - info: any other part has;
    - nothing: the training reward has lost a quarter as well, which is no trade.

    Starts are medians of ten rows, of three evaluations. A record without `reward/mean`, or with one that is NaN,
    cannot tell; a part that a record lacks stays where it was, and drops out once it is late by three times its usual
    distance.
    """

    name = "reward-hacking"
    needs = ("reward/mean",)
    hold = Hold(steps=10, records=3)
    release = Hold(steps=20, records=3)
    symptom_of = ("non-finite", "entropy-collapse", "dead-groups", "low-diversity", "reward-collapse")

    half_life = Setting(10.0, "optimizer steps", "convention: of the smoothing, as in reward-collapse", least=0.1)
    at_first = Setting(10, "records", "convention: a median of ten is not set by a wild one", least=1.0)
    evaluations = Setting(3, "evaluations", "convention: the least that a median can come from", least=1.0)
    lost = Setting(
        0.25,
        "share of its best",
        "calibration (made-up runs of even seeds, and an earlier estimate of noise): a fifth warned of 7 of 90 "
        "evaluations that only wander, a quarter of 2, and no hacking was found later",
        most=1.0,
    )
    lost_critical = Setting(
        0.5, "share of its best", "calibration: that from which reward-collapse is critical", most=1.0
    )
    matters = Setting(
        GAIN,
        "share of the reward's spread or size",
        "convention: what Progress counts as a change; less of what is not true is a small trade",
    )
    noise = Setting(REAL, "standard errors", "theory: as for a trend that is looked at in every record")
    unsure = Setting(
        2.0,
        "rows",
        "calibration (made-up runs of even seeds): errors are wider by unsure/(n - 2), for n rows do not tell noise "
        "exactly; 1 warned of 3 of 60 evaluations that only wander, 2 of 1, and found 51 of 60 that fall instead of 55",
    )
    slack = Setting(
        0.1,
        "share of its best",
        "convention: of what is at its best, a tenth may be missing beside its error",
        most=1.0,
    )
    gain = Setting(GAIN, "share of its best", "convention: as in Progress, what is a gain worth the name", most=1.0)
    stale = Setting(3.0, "times the usual distance", "convention: values that are late by more are not logged any more")
    rows = Setting(2, "values in a row", "convention: one value decides nothing", least=1.0)
    few = Setting(
        10, "values", "convention: with fewer it is never critical, and the message says on how little it rests"
    )
    look = Setting(
        100, "records", "convention: so often, and where there are more or fewer, names are looked at", least=1.0
    )

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._total = self._follows("reward/mean", self.at_first)
        for slot in _SLOTS:
            setattr(self, slot, self._follows("", self.at_first))
        self._used = 0
        self._low = [0] * len(_SLOTS)  # values in a row at which so much is lost
        self._spread = 0.0
        self._sizes: list[int] = []  # numbers of metrics that records had when they were looked at
        self._records = 0  # since then

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step, metrics = record.step, record.metrics
        self._records += 1
        if len(metrics) not in self._sizes or self._records >= self.look:
            self._records = 0
            self._sizes = [*self._sizes[-7:], len(metrics)]
            self._meet(metrics)
        own, low, lost = self.__dict__, self._low, self.lost
        for i in range(self._used):
            part: Peak = own[_SLOTS[i]]
            value = finite(record, part.name)
            if value is not None:
                part.follow(step, value)
                best = part.best
                if best is not None and best - part.now >= lost * part.scale > 0:
                    low[i] += 1
                elif low[i]:
                    low[i] = 0
        reward, std = finite(record, "reward/mean"), finite(record, "reward/std")
        if reward is None:
            return NO_DATA
        if std is not None and std > self._spread:
            self._spread = std
        self._total.follow(step, reward)
        if self._total.start is None:
            return NO_DATA
        return self._judge(record) if max(low) >= self.rows else CLEAR

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        return any(self._may_fall(log, name) for name in log.names if _is_part(name))

    def _may_fall(self, log: Glance, name: str) -> bool:
        first = self.evaluations if name.startswith("eval/") else self.at_first
        levels = log.level(name, self.half_life, rows=1)
        levels = levels[levels == levels][int(first) - 1 :]
        best, lowest = best_so_far(levels)
        return bool(((best - levels > 0) & (best - levels >= self.lost * (best - lowest))).any())

    def _follows(self, name: str, first: float) -> Peak:
        return Peak(self.half_life, first=int(first), name=name, slack=self.slack, gain=self.gain)

    def _meet(self, metrics: Mapping[str, object]) -> None:
        """New names: give those that are parts a place, as long as there is one."""
        known = {self.__dict__[slot].name for slot in _SLOTS[: self._used]}
        for name in metrics:
            if name.startswith(("reward/", "eval/", "length/share")) and name not in known and _is_part(name):
                if is_unpaid(self.config, name) and not _is_true(name):
                    continue
                if self._used == len(_SLOTS):
                    return
                first = self.evaluations if name.startswith("eval/") else self.at_first
                setattr(self, _SLOTS[self._used], self._follows(name, first))
                self._used += 1

    def _judge(self, record: StepRecord) -> Untold | Quiet:
        total, step = self._total, record.step
        if total.lost >= self.lost:
            return CLEAR
        parts: list[Peak] = [self.__dict__[slot] for slot in _SLOTS[: self._used]]
        worst: tuple[Severity, Peak, Peak] | None = None
        for part, low in zip(parts, self._low, strict=False):
            fallen = part.lost * part.scale
            if low < self.rows or part.is_late(step, self.stale) or fallen <= self.noise * self._sure(part, part.error):
                continue
            true = _is_true(part.name)
            if not true and fallen < self.matters * max(self._spread, abs(total.now)):
                continue
            risen = [p for p in (total, *parts) if p is not part and self._has_risen(p, part.best_step, step)]
            if not risen:
                continue
            riser = risen[0]
            if true:
                much = riser is total and part.lost >= self.lost_critical and part.values >= self.few
                severity = Severity.CRITICAL if much else Severity.WARNING
            else:
                forms = [] if _is_form(part.name) else [p for p in risen if _is_form(p.name)]
                riser = forms[0] if forms else riser
                severity = Severity.WARNING if forms else Severity.INFO
            if worst is None or (severity.rank, part.lost) > (worst[0].rank, worst[1].lost):
                worst = severity, part, riser
        if worst is None:
            return CLEAR
        severity, lost, riser = worst
        return Untold(severity, lambda: self._finding(severity, lost, riser, record))

    def _sure(self, part: Peak, error: float) -> float:
        return error * (1 + self.unsure / max(1, part.kept - 2))

    def _has_risen(self, part: Peak, since: int, step: int) -> bool:
        """What is paid for has, since that step."""
        if part.start is None or part.gain_step <= since or part.is_late(step, self.stale) or not part.is_at_best:
            return False
        if is_unpaid(self.config, part.name):
            return False
        return part.now - part.start > self.noise * self._sure(part, part.error_of_move)

    def _finding(self, severity: Severity, fallen: Peak, riser: Peak, record: StepRecord) -> Finding:
        few = f" ({fallen.values} values in all: low evidence)" if fallen.values < self.few else ""
        numbers = {series.name: series.now for series in (self._total, riser, fallen)}
        return Finding(
            severity=severity,
            value=fallen.now,
            reference=fallen.best,
            message=f"{fallen.name} is down to {fallen.now:.3g}, from {fallen.best:.3g} at step {fallen.best_step}, "
            f"while {riser.name} has risen to {riser.now:.3g}, from {riser.start:.3g} at first{few}",
            evidence={**numbers, **present(record, "kl/ref", "length/mean", "entropy/mean")},
            causes=self._causes(fallen, riser, record),
            advice=[CHECK_REWARD, *self._way_out(severity, fallen)],
        )

    def _way_out(self, severity: Severity, fallen: Peak) -> list[Advice]:
        """None from what may be a fair trade: there a look is enough."""
        if severity is Severity.INFO:
            return []
        return [STOP_AT_BEST_EVAL if fallen.name.startswith("eval/") else GO_BACK]

    def _causes(self, fallen: Peak, riser: Peak, record: StepRecord) -> list[Cause]:
        """What was paid for instead: the part that has risen most in units of its noise."""
        parts = [self.__dict__[slot] for slot in _SLOTS[: self._used]]
        rose = [p for p in parts if p.name.startswith("reward/") and self._has_risen(p, fallen.best_step, record.step)]
        if riser is self._total and rose:
            riser = max(rose, key=lambda part: (part.now - part.start) / (part.error_of_move or 1e-9))
        text = f"{riser.name} rose to {riser.now:.3g}, from {riser.start:.3g} at first, and {fallen.name} did not"
        causes = [Cause(text, {riser.name: riser.now, f"{riser.name} at first": riser.start})]
        kl, beta = finite(record, "kl/ref"), number_of(self.config, "beta")
        if kl is not None and beta is not None:
            text = f"the policy is {kl:.2g} nats a token from its reference, with beta={beta:g}"
            causes.append(Cause(text, {"kl/ref": kl}))
        return causes


def _is_true(name: str) -> bool:
    return name.startswith("eval/") or name == "length/share_correct" or _is_called(name, _TRUE)


def _is_form(name: str) -> bool:
    return not _is_true(name) and _is_called(name, _FORM)


def _is_called(name: str, words: tuple[str, ...]) -> bool:
    name = name.lower().replace("incorrect", "")
    return any(word in name for word in words)


def _is_part(name: str) -> bool:
    """Whether a metric is a part of the reward or tells of the reward that is meant."""
    if name == "length/share_correct":
        return True
    family, _, rest = name.partition("/")
    last = rest.replace("/", "_").lower().split("_")[-1]
    if family == "reward":
        return rest not in _NO_PARTS and (last not in _NO_PARTS or rest.endswith("_function"))
    return family == "eval" and last not in ("std", "min", "max") and _is_called(rest, _EVALUATED)
