"""The four things that everything else passes around: a step, its rollouts, an alert, a run.

Capture and readers produce them; rules, stores, pages and reports consume them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

Metrics = Mapping[str, "float | None"]
"""Canonical metric name → value.

A value that was printed as NaN, inf or None is here as NaN, inf or None. A value that was not there is not here.
"""


@dataclass(frozen=True)
class StepRecord:
    """What one optimizer step looked like.

    Args:
        step: Optimizer steps done, this one included; the first is 1.
        time: Unix seconds at the end of the step; NaN where a log does not say.
        metrics: See [`Metrics`][rlwatch.runs.records.Metrics].
    """

    step: int
    time: float
    metrics: Metrics


class Severity(str, Enum):
    """How bad it is; the same words everywhere.

    `critical`: the run has stopped learning or is being destroyed, act now. `warning`: it is on its way there, or a
    measurable share of the compute is lost, look. `info`: worth knowing.
    """

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for info, 1 for warning, 2 for critical."""
        return list(Severity).index(self)


class AlertState(str, Enum):
    """Where an alert is in its life: held back, told, over."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True)
class Cause:
    """A likely reason, and the numbers that point to it."""

    text: str
    evidence: Metrics = field(default_factory=dict)

    def beside(self, shown: Metrics) -> str:
        """For people who see the numbers `shown` already: the text, and the others behind it."""
        more = [
            f"{name} {value:.3g}" for name, value in self.evidence.items() if value is not None and name not in shown
        ]
        return f"{self.text} ({', '.join(more)})" if more else self.text


@dataclass(frozen=True)
class Advice:
    """Something to try, and where that is known from."""

    text: str
    source: str


@dataclass(frozen=True)
class Forecast:
    """When a metric that has a real trend gets to a mark, if it goes on like that.

    Args:
        metric: Whose trend it is.
        mark: The value that it is on its way to.
        step: When it gets there.
        low: The earliest step that the trend's error allows for (95 %).
        high: The latest one.
    """

    metric: str
    mark: float
    step: int
    low: int
    high: int

    @property
    def text(self) -> str:
        """For people: "at this rate entropy/mean is at 0.12 by about step 420 (360 to 520)"."""
        return f"at this rate {self.metric} is at {self.mark:.3g} by about step {self.step} ({self.low} to {self.high})"


@dataclass(frozen=True)
class Alert:
    """One thing that is wrong with a run, as of its last change.

    Args:
        rule: The rule's name, such as `entropy-collapse`.
        severity: See [`Severity`][rlwatch.runs.records.Severity].
        state: See [`AlertState`][rlwatch.runs.records.AlertState].
        since: The step at which the condition began to hold.
        step: The step of the last change of state or severity.
        time: Unix seconds of that change.
        resolved_step: The step at which it ended, or None.
        value: The number that was judged.
        reference: What it was judged against.
        message: One line with a number in it.
        evidence: Other numbers of that step that a reader needs.
        causes: Likely reasons, the likeliest first.
        advice: What to try, the cheapest first.
        run: The run's name.
        forecast: When it is going to be worse, at this rate; None where that cannot be known.
    """

    rule: str
    severity: Severity
    state: AlertState
    since: int
    step: int
    time: float
    value: float | None
    reference: float | None
    message: str
    evidence: Metrics = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()
    advice: tuple[Advice, ...] = ()
    resolved_step: int | None = None
    run: str = ""
    forecast: Forecast | None = None

    def to_dict(self) -> dict[str, Any]:
        """The alert as plain JSON types (NaN and inf are left for the encoder)."""
        data = dataclasses.asdict(self)
        return {**data, "severity": self.severity.value, "state": self.state.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Alert:
        """The inverse of [`to_dict`][rlwatch.runs.records.Alert.to_dict]; keys of a later version are ignored.

        Raises:
            KeyError: A field without a default is missing.
            ValueError: A severity or state is not one of ours.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        values = {key: value for key, value in data.items() if key in known}
        values["severity"] = Severity(data["severity"])
        values["state"] = AlertState(data["state"])
        values["causes"] = tuple(Cause(c["text"], c.get("evidence", {})) for c in data.get("causes", ()))
        values["advice"] = tuple(Advice(a["text"], a["source"]) for a in data.get("advice", ()))
        if data.get("forecast") is not None:
            values["forecast"] = Forecast(**{f.name: data["forecast"][f.name] for f in dataclasses.fields(Forecast)})
        return cls(**values)


@dataclass(frozen=True)
class Run:
    """A run that was read: from whatever file, with whatever that file had.

    Args:
        name: What it is called.
        path: The file or directory that it was read from.
        format: Which reader read it, such as `trl-console`.
        framework: Who wrote it: `trl`, `verl`, ...; None where nobody can tell.
        records: Its steps, each once and in order.
        info: What the file says about it; its configuration under `config`.
        notes: What had to be inferred, passed over or left out, a sentence each.
        alerts: What was told when it ran, where rlwatch watched it.
    """

    name: str
    path: str
    format: str
    framework: str | None
    records: Sequence[StepRecord]
    info: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    alerts: Sequence[Alert] = ()

    @property
    def names(self) -> list[str]:
        """The metrics that it has, in the order of their first appearance."""
        from rlwatch.runs.table import Table

        if isinstance(self.records, Table):
            return list(self.records.names)
        kinds = dict.fromkeys(tuple(record.metrics) for record in self.records)  # most rows have the same
        return list(dict.fromkeys(name for names in kinds for name in names))

    @property
    def metrics(self) -> pl.DataFrame:
        """A row a step: `step`, `time` and a column a metric; null where a step has no such value."""
        import polars as pl

        from rlwatch.runs.table import Table

        if isinstance(self.records, Table):
            return self.records.frame()
        columns: dict[str, Any] = {
            "step": pl.Series([record.step for record in self.records], dtype=pl.Int64),
            "time": pl.Series([record.time for record in self.records], dtype=pl.Float64),
        }
        for name in self.names:
            values = [record.metrics.get(name) for record in self.records]
            columns[name] = pl.Series(values, dtype=pl.Float64)
        return pl.DataFrame(columns)
