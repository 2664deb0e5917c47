"""Small pieces that more than one page is made of."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from dash import dcc, html

from rlwatch.runs.metrics import describe
from rlwatch.runs.reader import Skipped

STATE_WORDS = {
    "live": "A step came within the expected time.",
    "stalled": "No step for much longer than a step takes: it hangs, waits, or was killed.",
    "ended": "The training has ended.",
    "empty": "No step yet.",
    "gone": "Its folder is no longer there.",
}


def state_pill(state: str) -> Any:
    """A run's state, as a word with a dot."""
    return html.Span(
        [html.I(className="dot"), state], className=f"pill state-{state}", title=STATE_WORDS.get(state, "")
    )


def severity_pill(severity: str) -> Any:
    """A severity, as a word in its colour."""
    return html.Span(severity, className=f"pill severity-{severity}")


def moment(seconds: Any, relative: bool = False) -> Any:
    """A point in time, in the viewer's zone.

    The browser writes the words (assets/times.js): only it knows the zone, and only it can keep "3 s ago" true.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 1e11:
        return html.Span("unknown", className="absent")
    iso = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    return html.Time(dateTime=iso, className="relative" if relative else "local")


def metric_label(name: str, text: str) -> Any:
    """A metric's label that explains itself on hover, focus and touch (assets/tips.js) in the words of the table."""
    metric = describe(name)
    lines = [name, metric.meaning, metric.unit and f"Unit: {metric.unit}", metric.formula]
    tip = "\n".join(line for line in lines if line)
    return html.Span(text, className="metric-label", tabIndex=0, **{"data-tip": tip})


def graph(figure: dict[str, Any], **more: Any) -> Any:
    """A chart that Plotly draws, as wide as there is room and without buttons of its own."""
    config = {"displayModeBar": False, "responsive": True}
    return dcc.Graph(figure=figure, config=config, responsive=True, **more)


def skipped_list(skipped: Iterable[Skipped]) -> Any:
    """What could not be read and why, folded; nothing where everything could."""
    items = [html.Li([html.Code(str(item.path)), f" {item.why}"]) for item in skipped]
    if not items:
        return html.Div()
    summary = f"Skipped {len(items)} thing{'s' if len(items) > 1 else ''} that could not be read"
    return html.Details([html.Summary(summary), html.Ul(items)], className="skipped")
