"""What a page needs to know of a run: whole at first, then what is new since its cursor.

The server keeps nothing about a page. The page holds a cursor (how far it has read, and what it shows) and sends it
with every question, so that the server may be restarted under an open page, and any number of pages may be open.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from rlwatch.runs.reader import RunSummary, Skipped, latest_alerts, read_alerts, read_records, read_summary
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord
from rlwatch_dashboard import numbers


class Cursor(TypedDict):
    """How far a page has read.

    `metrics` and `alerts` are byte offsets into the run's two files, `step` the newest step that the page draws,
    `state` and `facts` (a fingerprint of run.json) what its header shows.
    """

    metrics: int
    alerts: int
    step: int
    state: str
    facts: str


class Points(TypedDict):
    """New points of one metric, in the shape that Plotly appends. None is a value that is no number: a gap."""

    x: list[int]
    y: list[float | None]


@dataclass(frozen=True)
class Episode:
    """An alert that has been told.

    Args:
        alert: It, as of its last change.
        stages: The step at which it fired, and each at which its severity changed; with the severity from then on.
    """

    alert: Alert
    stages: list[tuple[int, Severity]]

    @property
    def fired(self) -> int:
        """The step at which it first fired."""
        return self.stages[0][0]

    @property
    def over(self) -> bool:
        """Whether it is resolved."""
        return self.alert.state is AlertState.RESOLVED

    def span(self) -> dict[str, Any]:
        """What a chart draws of it: a flag where it fired, and a band for each of its severities.

        The first band begins where the condition did, the last one ends where it did. An end of None is still open.
        """
        starts = [self.alert.since, *(step for step, _ in self.stages[1:])]
        ends = [*starts[1:], self.alert.resolved_step if self.over else None]
        bands = zip(starts, ends, self.stages, strict=True)
        return {
            "rule": self.alert.rule,
            "severity": self.alert.severity.value,
            "fired": self.fired,
            "over": self.over,
            "bands": [{"from": start, "to": end, "severity": stage[1].value} for start, end, stage in bands],
        }


@dataclass(frozen=True)
class Snapshot:
    """A run as of now, from its start, and what the site calls it."""

    summary: RunSummary
    series: dict[str, Points]
    latest: dict[str, str]
    episodes: list[Episode]
    skipped: list[Skipped]
    cursor: Cursor
    key: str


@dataclass(frozen=True)
class Update:
    """What is new since a cursor.

    Args:
        summary: The run as of now.
        cursor: Where the page is when it has taken this in.
        series: New points by metric.
        latest: The newest value of each of these metrics, in words.
        episodes: All alerts, if one of them changed, else None.
        facts_changed: Whether run.json is another one than the page shows.
        restarted: The run began anew: the page has to load it whole.
        skipped: New lines that could not be read.
    """

    summary: RunSummary
    cursor: Cursor
    series: dict[str, Points] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)
    episodes: list[Episode] | None = None
    facts_changed: bool = False
    restarted: bool = False
    skipped: list[Skipped] = field(default_factory=list)


def load(run: Path, key: str = "") -> Snapshot:
    """Everything about a run, which the site calls by its key, or else by its name.

    Raises:
        ValueError: It is not a run; the message says why.
    """
    summary = read_summary(run)
    records = read_records(run)
    alerts = read_alerts(run)
    series, latest = _columns(records.items)
    cursor: Cursor = {
        "metrics": records.cursor,
        "alerts": alerts.cursor,
        "step": records.items[-1].step if records.items else 0,
        "state": summary.state,
        "facts": _fingerprint(summary.info),
    }
    return Snapshot(
        summary, series, latest, episodes_of(alerts.items), records.skipped + alerts.skipped, cursor, key or run.name
    )


def poll(run: Path, cursor: Mapping[str, Any]) -> Update | None:
    """What is new since a cursor, or None where nothing is.

    Raises:
        ValueError: It is not a run any more; the message says why.
    """
    summary = read_summary(run)
    records = read_records(run, _offset(cursor, "metrics"))
    alerts = read_alerts(run, _offset(cursor, "alerts"))
    now: Cursor = {
        "metrics": records.cursor,
        "alerts": alerts.cursor,
        "step": records.items[-1].step if records.items else _offset(cursor, "step"),
        "state": summary.state,
        "facts": _fingerprint(summary.info),
    }
    if now == cursor and not records.restarted and not alerts.restarted:
        return None
    series, latest = _columns(records.items)
    return Update(
        summary,
        now,
        series,
        latest,
        episodes=episodes_of(read_alerts(run).items) if alerts.items else None,
        facts_changed=now["facts"] != cursor.get("facts"),
        restarted=records.restarted or alerts.restarted,
        skipped=records.skipped + alerts.skipped,
    )


def episodes_of(changes: Iterable[Alert]) -> list[Episode]:
    """The alerts that have fired: first the open ones, the most severe and then the oldest first (so that the first is
    the one that the headline is about), then the resolved ones, the newest first.

    An alert that was only ever pending was never told to anybody: it is not shown either.
    """
    sound = [c for c in changes if isinstance(c.since, int) and isinstance(c.step, int) and isinstance(c.rule, str)]
    stages: dict[tuple[str, int], list[tuple[int, Severity]]] = {}
    for change in sound:
        if change.state is AlertState.FIRING:
            known = stages.setdefault((change.rule, change.since), [])
            if not known or known[-1][1] is not change.severity:
                known.append((change.step, change.severity))
    told = [
        Episode(alert, stages[alert.rule, alert.since])
        for alert in latest_alerts(sound)
        if (alert.rule, alert.since) in stages
    ]
    still_open = sorted((e for e in told if not e.over), key=lambda e: -e.alert.severity.rank)
    return still_open + sorted((e for e in told if e.over), key=lambda e: -e.fired)


def _columns(records: list[StepRecord]) -> tuple[dict[str, Points], dict[str, str]]:
    """Records as one series a metric, and each metric's newest value in words.

    A step at which a metric is absent has no point; one at which it is NaN has a point without a value. So a metric
    that is logged every tenth step is a line, and a NaN is a hole in it.
    """
    series: dict[str, Points] = {}
    newest: dict[str, float | None] = {}
    for record in records:
        for name, value in record.metrics.items():
            points = series.setdefault(name, {"x": [], "y": []})
            points["x"].append(record.step)
            points["y"].append(numbers.for_chart(value))
            newest[name] = value
    return series, {name: numbers.of_metric(name, value) for name, value in newest.items()}


def _fingerprint(info: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(info, sort_keys=True, default=str).encode()):08x}"


def _offset(cursor: Mapping[str, Any], key: str) -> int:
    """A number out of a cursor, which comes from a browser and may be anything."""
    value = cursor.get(key)
    return value if isinstance(value, int) and value >= 0 else 0
