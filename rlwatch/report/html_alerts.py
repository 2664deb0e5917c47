"""The alerts of a run in the HTML report: a timeline, a card each, and the spans that are drawn over the curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from rlwatch.report.analysis import Analysis
from rlwatch.report.numbers import of_metric, plain
from rlwatch.report.sentences import counted
from rlwatch.runs.metrics import describe
from rlwatch.runs.records import Alert, AlertState, Severity

SHOWN = 40
"""How many alerts of a run are shown; one that comes and goes can be there very often."""


@dataclass(frozen=True)
class Episode:
    """An alert from its beginning to its end.

    Args:
        alert: It, as of its last change.
        stages: The step at which it was told, and each at which it became worse; with the severity from then on.
    """

    alert: Alert
    stages: Sequence[tuple[int, Severity]]

    @property
    def over(self) -> bool:
        """Whether it is resolved."""
        return self.alert.state is AlertState.RESOLVED

    @property
    def bands(self) -> list[tuple[int, int | None, str]]:
        """From which step to which it had which severity; None is an end that has not come."""
        starts = [self.alert.since, *(step for step, _ in self.stages[1:])]
        ends = [*starts[1:], self.alert.resolved_step if self.over else None]
        return [(a, b, stage[1].value) for a, b, stage in zip(starts, ends, self.stages, strict=True)]

    @property
    def span(self) -> dict[str, Any]:
        """What page.js draws of it over a curve."""
        alert = self.alert
        told = self.stages[0][0]
        return {
            "rule": alert.rule,
            "severity": alert.severity.value,
            "fired": told,
            "over": self.over,
            "bands": self.bands,
        }


def episodes(analysis: Analysis) -> list[Episode]:
    """Each alert with its stages, open ones first, the worst first."""
    stages: dict[tuple[str, int], list[tuple[int, Severity]]] = {}
    for change in analysis.changes:
        told = stages.setdefault((change.rule, change.since), [])
        if change.state is AlertState.FIRING:
            told.append((change.step, change.severity))
    found = [Episode(a, stages[a.rule, a.since] or [(a.since, a.severity)]) for a in analysis.alerts]
    return found[:SHOWN]


def timeline(analysis: Analysis, found: Sequence[Episode]) -> str:
    """A row a rule, with a bar from where each of its alerts began to where it ended; nothing without alerts."""
    if not found:
        return ""
    first, last = analysis.run.records[0].step, analysis.run.records[-1].step
    whole = max(1, last - first)
    rows = []
    for rule in dict.fromkeys(episode.alert.rule for episode in found):
        bars = []
        for episode in found:
            if episode.alert.rule != rule:
                continue
            for start, end, severity in episode.bands:
                left = 100 * (start - first) / whole
                width = 100 * ((last if end is None else end) - start) / whole
                bars.append(
                    f'<i class="tone-{severity}{" over" if episode.over else ""}" '
                    f'style="left:min({left:.2f}%,calc(100% - 4px));width:{max(0.0, width):.2f}%" '
                    f'title="{escape(rule)}: {severity}, {_from_to(start, end)}"></i>'
                )
        rows.append(f'<code>{escape(rule)}</code><span class="track">{"".join(bars)}</span>')
    words = "; ".join(
        f"{e.alert.rule} {severity} {_from_to(start, end)}" for e in found for start, end, severity in e.bands
    )
    axis = f'<span class="axis"><span>step {first:,}</span><span>step {last:,}</span></span>'
    return f'<div class="timeline" role="img" aria-label="Timeline: {escape(words)}">{"".join(rows)}{axis}</div>'


def alert_cards(analysis: Analysis, found: Sequence[Episode], level: int) -> str:
    """A section with all alerts in words, under a heading of that level; nothing without alerts."""
    if not found:
        return ""
    still = sum(not episode.over for episode in found)
    counts = [f"{still} open"] if still else []
    counts += [f"{len(found) - still} resolved"] if len(found) > still else []
    rest = len(analysis.alerts) - len(found)
    more = f'<p class="absent">{counted(rest, "more alert")} not shown; --format json has all.</p>' if rest else ""
    heading = f'<h{level}>Alerts <span class="unit">{", ".join(counts)}</span></h{level}>'
    return f'<section class="alerts">{heading}{"".join(map(_card, found))}{more}</section>'


def _card(episode: Episode) -> str:
    alert = episode.alert
    severity = alert.severity.value
    judged = {"value": alert.value, "reference": alert.reference}
    numbers = [_pair(name, plain(value)) for name, value in judged.items() if value is not None]
    numbers += _metrics(alert.evidence)
    causes = "".join(f"<li>{escape(c.text)}{_list(_metrics(c.evidence))}</li>" for c in alert.causes)
    advice = "".join(
        f"<li>{escape(a.text)}{f'<cite>{escape(a.source)}</cite>' if a.source else ''}</li>" for a in alert.advice
    )
    return (
        f'<article class="alert tone-{severity}{" over" if episode.over else ""}"><div class="alert-head">'
        f'<span class="pill {severity}">{severity}</span><code>{escape(alert.rule)}</code>'
        f'<span class="when">{_when(episode)}</span></div><p class="message">{escape(alert.message)}</p>'
        + _list(numbers)
        + (f'<p class="ahead"><b class="label">Ahead</b> {escape(alert.forecast.text)}</p>' if alert.forecast else "")
        + (f'<b class="label">Likely causes</b><ol>{causes}</ol>' if causes else "")
        + (f'<b class="label">What to try</b><ol>{advice}</ol>' if advice else "")
        + "</article>"
    )


def _when(episode: Episode) -> str:
    alert = episode.alert
    if episode.over:
        return f"{_from_to(alert.since, alert.resolved_step)}, resolved"
    told, *later = episode.stages
    worse = "".join(f", {severity.value} at {step:,}" for step, severity in later)
    return f"since step {alert.since:,}, told at {told[0]:,}{worse}"


def _from_to(start: int, end: int | None) -> str:
    return f"since step {start:,}" if end is None else f"step {start:,} to {end:,}"


def _metrics(metrics: Mapping[str, float | None]) -> list[str]:
    return [
        _pair(str(name), of_metric(str(name), value), describe(str(name)).meaning) for name, value in metrics.items()
    ]


def _pair(name: str, value: str, tip: str = "") -> str:
    hint = f' title="{escape(tip)}"' if tip else ""
    return f"<div><dt{hint}>{escape(name)}</dt><dd>{escape(value)}</dd></div>"


def _list(pairs: Sequence[str]) -> str:
    return f'<dl class="evidence">{"".join(pairs)}</dl>' if pairs else ""
