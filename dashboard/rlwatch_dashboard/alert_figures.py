"""The charts around an alert: the run page's charts, of a stretch of the run, with what happened marked in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlwatch.runs.records import Alert
from rlwatch_dashboard import figures, numbers, theme
from rlwatch_dashboard.alert_story import Window, events, metric_of_reference
from rlwatch_dashboard.columns import Columns
from rlwatch_dashboard.feed import Episode, Points

LETTER = 6.2
"""Pixels of a letter of a mark."""

WIDTH = 420
"""Pixels that a chart is wide, for whether two marks touch; on a phone it is less."""

ROW = 15
"""Pixels of a row of marks over a chart."""


def points_in(columns: Columns, name: str, window: Window) -> Points:
    """A metric's points within a stretch. A step without it has no point; a NaN is a point without a value."""
    rows, values = columns.points(name, columns.row_of(window.first))
    end = int(np.searchsorted(columns.steps[rows], window.last, side="right"))
    return {
        "x": columns.steps[rows[:end]].tolist(),
        "y": [numbers.for_chart(value) for value in values[:end].tolist()],
    }


def figure(chart: figures.Chart, columns: Columns, episode: Episode, window: Window) -> dict[str, Any]:
    """A chart of a stretch of a run, with an alert in it."""
    series = {name: points_in(columns, name, window) for name in chart.labels}
    drawn = figures.figure(chart, series)
    marks, rows = _marks(episode, window)
    reference = _reference(chart, episode.alert)
    layout = drawn["layout"]
    layout["uirevision"] = f"{chart.key}:{window.first}"
    layout["dragmode"] = False
    layout["margin"] = {**layout["margin"], "t": 8 + rows * ROW}
    layout["xaxis"] = {**layout["xaxis"], "range": [window.first - 0.5, window.last + 0.5], "fixedrange": True}
    layout["xaxis"].pop("rangemode", None)
    layout["shapes"] = [*_bands(episode, window), *_lines(episode, window), *(s for s, _ in reference)]
    layout["annotations"] = [*marks, *(a for _, a in reference)]
    return drawn


def _bands(episode: Episode, window: Window) -> list[dict[str, Any]]:
    """A tint from where it began, of each severity, to where it was over or to the end of the picture."""
    bands = []
    for band in episode.span()["bands"]:
        start = max(band["from"], window.first)
        end = window.last if band["to"] is None else min(band["to"], window.last)
        if start < end:
            bands.append(
                {
                    "type": "rect",
                    "layer": "below",
                    "xref": "x",
                    "yref": "paper",
                    "x0": start,
                    "x1": end,
                    "y0": 0,
                    "y1": 1,
                    "line": {"width": 0},
                    "fillcolor": theme.SEVERITIES[band["severity"]],
                    "opacity": 0.1,
                }
            )
    return bands


def _lines(episode: Episode, window: Window) -> list[dict[str, Any]]:
    return [
        {
            "type": "line",
            "layer": "above",
            "xref": "x",
            "yref": "paper",
            "x0": step,
            "x1": step,
            "y0": 0,
            "y1": 1,
            "line": {"color": _colour(severity), "width": 1.2, "dash": "2px,2px"},
        }
        for step, _, severity in events(episode)
        if window.first <= step <= window.last
    ]


def _marks(episode: Episode, window: Window) -> tuple[list[dict[str, Any]], int]:
    """A word over each line, to its left where there is no room to its right, above each other where they would touch;
    and how many rows they take."""
    scale = WIDTH / max(1, window.last - window.first)
    taken: list[tuple[int, float, float]] = []
    marks = []
    for step, word, severity in events(episode):
        if not window.first <= step <= window.last:
            continue
        text = f"{word} {step:,}"
        at, width = (step - window.first) * scale, len(text) * LETTER + 8
        leftwards = at + width > WIDTH
        start, end = (at - width, at) if leftwards else (at, at + width)
        row = 0
        while any(other == row and a < end and start < b for other, a, b in taken):
            row += 1
        taken.append((row, start, end))
        mark = {
            "x": step,
            "xref": "x",
            "y": 1,
            "yref": "paper",
            "yshift": row * ROW,
            "yanchor": "bottom",
            "text": text,
            "xanchor": "right" if leftwards else "left",
            "showarrow": False,
            "borderpad": 1,
            "font": {"size": 10.5, "color": "#fff" if severity else theme.NEUTRAL},
        }
        marks.append({**mark, "bgcolor": theme.SEVERITY_FILLS[severity]} if severity else mark)
    return marks, 1 + max((row for row, *_ in taken), default=-1)


def _reference(chart: figures.Chart, alert: Alert) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """A line at what was judged against, and its word, in the chart of the metric that it is a value of."""
    name = metric_of_reference(alert)
    if alert.reference is None or name is None or name not in chart.lines:
        return []
    line = {
        "type": "line",
        "layer": "above",
        "xref": "paper",
        "yref": "y",
        "x0": 0,
        "x1": 1,
        "y0": alert.reference,
        "y1": alert.reference,
        "line": {"color": theme.NEUTRAL, "width": 1, "dash": "6px,4px"},
    }
    word = {
        "x": 1,
        "xref": "paper",
        "y": alert.reference,
        "yref": "y",
        "xanchor": "right",
        "yanchor": "bottom",
        "text": f"reference {numbers.of_metric(name, alert.reference)}",
        "showarrow": False,
        "borderpad": 1,
        "font": {"size": 10.5, "color": theme.NEUTRAL},
    }
    return [(line, word)]


def _colour(severity: str) -> str:
    return theme.SEVERITIES.get(severity, theme.NEUTRAL)
