"""What a page needs to know of a run: whole at first, then what is new since its cursor.

The server keeps nothing about a page. The page holds a cursor (how far it has read, and what it shows) and sends it
with every question, so that the server may be restarted under an open page, and any number of pages may be open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from rlwatch.runs.reader import Chunk, RunSummary, Skipped, latest_alerts, read_alerts
from rlwatch.runs.records import Alert, AlertState, Severity
from rlwatch_dashboard import numbers
from rlwatch_dashboard.columns import Columns
from rlwatch_dashboard.followed import Now, look


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

    x: list[int] | list[float]
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
    columns: Columns
    episodes: list[Episode]
    skipped: list[Skipped]
    cursor: Cursor
    key: str

    @property
    def series(self) -> dict[str, Points]:
        """Every point of every metric."""
        return {name: points_of(self.columns, name) for name in self.columns.values}

    @property
    def latest(self) -> dict[str, str]:
        """Each metric's newest value, in words."""
        return in_words(self.columns, self.columns.values)


@dataclass(frozen=True)
class Update:
    """What is new since a cursor.

    Args:
        summary: The run as of now.
        cursor: Where the page is when it has taken this in.
        columns: Its metrics.
        row: The first row that is new to the page.
        episodes: All alerts, if one of them changed, else None.
        facts_changed: Whether run.json is another one than the page shows.
        restarted: The run began anew: the page has to load it whole.
        skipped: New lines that could not be read.
    """

    summary: RunSummary
    cursor: Cursor
    columns: Columns
    row: int
    episodes: list[Episode] | None = None
    facts_changed: bool = False
    restarted: bool = False
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The metrics that have new points."""
        return [name for name in self.columns.values if len(self.columns.points(name, self.row)[0])]

    @property
    def series(self) -> dict[str, Points]:
        """New points by metric."""
        return {name: points_of(self.columns, name, self.row) for name in self.names}

    @property
    def latest(self) -> dict[str, str]:
        """The newest value of each of these metrics, in words."""
        return self.latest_of(self.columns.values)

    def latest_of(self, names: Iterable[str]) -> dict[str, str]:
        """The newest value of each of those of some metrics that have new points, in words."""
        new = [name for name in names if len(self.columns.points(name, self.row)[0])]
        return in_words(self.columns, new)


def load(run: Path, key: str = "") -> Snapshot:
    """Everything about a run, which the site calls by its key, or else by its name.

    Raises:
        ValueError: It is not a run; the message says why.
    """
    now = look(run)
    skipped = [skipped for _, skipped in now.reading.skipped] + now.alerts.skipped
    return Snapshot(now.summary, now.columns, episodes_of(now.alerts.items), skipped, cursor_of(now), key or run.name)


def poll(run: Path, cursor: Mapping[str, Any]) -> Update | None:
    """What is new since a cursor, or None where nothing is.

    Raises:
        ValueError: It is not a run any more; the message says why.
    """
    now = look(run)
    there = cursor_of(now)
    if there == cursor:
        return None
    offset, known = _offset(cursor, "metrics"), _offset(cursor, "alerts")
    changes = read_alerts(run, known) if known != now.alerts.cursor else Chunk([], known)
    restarted = now.reading.went_back(offset) or changes.restarted
    return Update(
        now.summary,
        there,
        now.columns,
        0 if restarted else now.columns.row_after(offset),
        episodes=episodes_of(now.alerts.items) if changes.items else None,
        facts_changed=there["facts"] != cursor.get("facts"),
        restarted=restarted,
        skipped=[skipped for begin, skipped in now.reading.skipped if begin >= offset] + changes.skipped,
    )


def cursor_of(now: Now) -> Cursor:
    """Where a page is that shows all of a run."""
    return {
        "metrics": now.reading.cursor,
        "alerts": now.alerts.cursor,
        "step": int(now.columns.steps[-1]) if len(now.columns.steps) else 0,
        "state": now.summary.state,
        "facts": now.facts,
    }


def points_of(columns: Columns, name: str, row: int = 0) -> Points:
    """A metric's points, from a row on.

    A step at which a metric is absent has no point; one at which it is NaN has a point without a value. So a metric
    that is logged every tenth step is a line, and a NaN is a hole in it.
    """
    rows, values = columns.points(name, row)
    return {"x": columns.steps[rows].tolist(), "y": [numbers.for_chart(value) for value in values.tolist()]}


def in_words(columns: Columns, names: Iterable[str]) -> dict[str, str]:
    """The newest value of each of these metrics, in words."""
    return {name: numbers.of_metric(name, value) for name, value in columns.newest(names).items()}


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


def _offset(cursor: Mapping[str, Any], key: str) -> int:
    """A number out of a cursor, which comes from a browser and may be anything."""
    value = cursor.get(key)
    return value if isinstance(value, int) and value >= 0 else 0
