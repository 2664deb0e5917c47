"""A rule that stands in `rlwatch.toml` under `[[rule]]`: a metric, a condition over a window of steps, a message."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rlwatch.detect.glance import Glance
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite
from rlwatch.detect.setting import Setting
from rlwatch.detect.window import Window
from rlwatch.runs.records import Advice, Severity, StepRecord

WHEN = ("above", "below", "rises", "falls")
"""What a condition can be."""

FIELDS = ("value", "reference", "change", "metric", "over", "step")
"""What a message may hold in braces."""

LONGEST = 10_000.0
"""Steps that a window may have: every value in it is kept."""

_SPEC = re.compile(r"[<>^]?[+ -]?0?\d{0,2},?(\.\d{1,2})?[eEfFgGd%]?")
_SAID = {
    "above": "{metric} is {value:.3g} over the last {over} steps, above {reference:.3g}",
    "below": "{metric} is {value:.3g} over the last {over} steps, below {reference:.3g}",
    "rises": "{metric} is up to {value:.3g} over the last {over} steps, from {reference:.3g} over the {over} before",
    "falls": "{metric} is down to {value:.3g} over the last {over} steps, from {reference:.3g} over the {over} before",
}


@dataclass(frozen=True)
class OwnRuleSpec:
    """What `[[rule]]` says.

    Args:
        name: The rule's name.
        metric: The metric that it looks at.
        when: One of [`WHEN`][rlwatch.detect.own.WHEN]. Of the means over the last `over` steps and the `over` before
            them: `above` and `below` look at the newer one, `rises` and `falls` at the change from the older one.
        value: What the mean, or the change, has to exceed.
        relative: The value is a share of the older mean: 0.5 for a change by half.
        over: Optimizer steps of a mean.
        severity: How bad it is.
        message: A line with [`FIELDS`][rlwatch.detect.own.FIELDS] in braces; empty for one that says it plainly.
        advice: What to try.
    """

    name: str
    metric: str
    when: str
    value: float
    relative: bool = False
    over: float = 20.0
    severity: Severity = Severity.WARNING
    message: str = ""
    advice: tuple[str, ...] = ()


class OwnRule(Rule):
    """Compares the mean of a metric over the last steps with a number, or with the mean of the steps before.

    A record in which the metric is absent, None, NaN, infinite or absurd (from 1e100 on) cannot tell: it neither enters
    a mean nor ends an alert. A mean is looked at once its records reach back to where its window begins and are at
    least half of those that can be in it; a record stands for the steps since the one before it, and after a gap for as
    many as usual.
    """

    spec: ClassVar[OwnRuleSpec]
    symptom_of = ()
    value: ClassVar[Setting]
    over: ClassVar[Setting]

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._recent, self._before = Window(), Window()
        self._last: int | None = None
        self._apart = 0

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        x = finite(record, self.spec.metric)
        if x is None:
            return NO_DATA
        spec, step, over, limit = self.spec, record.step, self.over, self.value
        apart = 1 if self._last is None else max(1, step - self._last)
        usual = min(apart, self._apart or apart)
        self._last, self._apart = step, (0 if self._last is None else apart)
        recent, before = self._recent, self._before
        recent.push(step, x)
        left = recent.pop_until(step - over)
        moves = spec.when in ("rises", "falls")
        if moves:
            for at, value in left:
                before.push(at, value)
            before.pop_until(step - 2 * over)
        if not _covers(recent, step, over, usual):
            return NO_DATA
        mean = recent.mean
        if not moves:
            past = mean > limit if spec.when == "above" else mean < limit
            return Untold(spec.severity, lambda: self._finding(mean, limit, record)) if past else CLEAR
        if not _covers(before, step - over, over, usual):
            return NO_DATA
        older = before.mean
        if spec.relative and older == 0:
            return NO_DATA  # nothing is half of nothing
        change = mean - older if spec.when == "rises" else older - mean
        if change > limit * (abs(older) if spec.relative else 1.0):
            return Untold(spec.severity, lambda: self._finding(mean, older, record))
        return CLEAR

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        spec = self.spec
        if spec.when == "above":
            return log.most(spec.metric) > self.value
        return spec.when != "below" or log.least(spec.metric) < self.value

    def _finding(self, value: float, reference: float, record: StepRecord) -> Finding:
        spec = self.spec
        message = (spec.message or _SAID[spec.when]).format(
            value=value,
            reference=reference,
            change=value - reference,
            metric=spec.metric,
            over=round(self.over),
            step=record.step,
        )
        return Finding(
            severity=spec.severity,
            value=value,
            reference=reference,
            message=" ".join(message.split()),
            evidence={spec.metric: record.metrics.get(spec.metric)},
            advice=[Advice(text, "your own rule") for text in spec.advice],
        )


def own_rule(spec: OwnRuleSpec) -> type[OwnRule]:
    """The class of a rule of the user's own, to be used like those that come with rlwatch."""
    unit = "share of the mean before" if spec.relative else f"as {spec.metric}"
    own = {
        "__doc__": f"{spec.metric} {spec.when} {spec.value:g} over {spec.over:g} steps: a rule of the user's own.",
        "__module__": __name__,
        "name": spec.name,
        "needs": (spec.metric,),
        "release": Hold(steps=max(1, round(spec.over))),
        "spec": spec,
        "may_find": OwnRule.may_find,
        "value": Setting(spec.value, unit, "the user", **value_limits(spec.when)),
        "over": Setting(spec.over, "optimizer steps", "the user", least=1, most=LONGEST),
    }
    return type("OwnRule", (OwnRule,), own)


def value_limits(when: str) -> dict[str, float]:
    """What a condition's number may be: a change is none if it is less than 0."""
    return {"least": 0.0, "most": 1e100} if when in ("rises", "falls") else {"least": -1e100, "most": 1e100}


def check_message(message: str) -> None:
    """See whether a message can be filled in.

    Raises:
        ValueError: There is something in braces that is no field, or a format that no number has.

    >>> check_message("KL is {value:.3g}, above {reference:.3g}")
    >>> check_message("{value.__class__}")
    Traceback (most recent call last):
    ValueError: {value.__class__} is no field; there are value, reference, change, metric, over, step
    """
    for _, field, spec, conversion in string.Formatter().parse(message):  # a ValueError where braces do not match
        if field is None:
            continue
        if field not in FIELDS:
            raise ValueError(f"{{{field}}} is no field; there are {', '.join(FIELDS)}")
        if conversion or not _SPEC.fullmatch(spec or ""):
            raise ValueError(f"{{{field}}} has a format that is not known; there are such as {{{field}:.3g}}")
    try:
        message.format(value=1.5, reference=0.5, change=1.0, metric="loss", over=20, step=1)
    except ValueError as error:
        raise ValueError(f"a field has a format that it cannot have: {error}") from None


def _covers(window: Window, end: float, over: float, spacing: int) -> bool:
    """Whether the window's records speak for all of it, that is for the `over` steps up to `end`."""
    oldest = window.oldest
    return oldest is not None and end - oldest + spacing >= over and 2 * len(window) * spacing >= over
