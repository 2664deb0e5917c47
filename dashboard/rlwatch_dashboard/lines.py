"""The points of a run's curves in a view: few enough for a browser, whatever the run has; and those that are new.

What it gives is by the `meta` of the trace that it belongs to: the metric's name, `smooth:` and the name for its moving
average, and `gaps:` and the chart's key for the marks where a value was no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from rlwatch_dashboard import figures, numbers
from rlwatch_dashboard.axes import Axis
from rlwatch_dashboard.columns import Columns, Floats, Ints, is_none
from rlwatch_dashboard.envelope import in_window
from rlwatch_dashboard.smoothing import needed, smoothed

LIMITS = {True: 1200, False: 500}
"""Points of a curve in a large chart and in a small one: two for each of the pixels that it is wide."""

MOST_MARKS = 150
"""Marks of gaps in a chart."""

Window = tuple[float, float]


class Curve(TypedDict, total=False):
    """Points of one trace, in the shape that Plotly takes. None is a value that is no number: a gap."""

    x: list[float]
    y: list[float | None]
    text: list[str]


class Lines:
    """The curves of one run.

    Args:
        columns: The run's metrics.
        axis: What they are drawn over.
        weight: Of the moving average; 0 is none.
    """

    def __init__(self, columns: Columns, axis: Axis | None = None, weight: float = 0.0) -> None:
        self.columns = columns
        self.axis = axis or Axis()
        self.weight = weight

    @cached_property
    def _x(self) -> Floats:
        return self.axis.of(self.columns)

    def _at(self, rows: Ints) -> Floats:
        """Where rows are on the axis. A step is looked up: a refresh of a long run does not go through all of it."""
        return self.columns.steps[rows].astype(np.float64) if self.axis.kind == "step" else self._x[rows]

    def whole(self, chart: figures.Chart, window: Window | None = None) -> dict[str, Curve]:
        """A chart's points, from the run's start; nearly all of them in the window, where there is one."""
        limit = LIMITS[chart.large]
        found = self._stacked(list(chart.areas), window, limit)
        for name in chart.lines:
            rows, values = self._points(name)
            found[name] = self._curve(rows, values, window, limit)
            if self.weight:
                found[f"smooth:{name}"] = self._curve(rows, smoothed(values, self.weight), window, limit)
        return {**found, f"gaps:{chart.key}": self.gaps(chart, 0, window)}

    def since(self, chart: figures.Chart, row: int) -> dict[str, Curve]:
        """A chart's points from a row on, all of them; traces without new points are not in it."""
        found: dict[str, Curve] = {}
        whole = True
        for name in chart.labels:
            rows, values = self._points(name, row)
            if not len(rows):
                continue
            found[name] = as_curve(self._at(rows), values)
            whole = whole and None not in found[name]["y"]
            if self.weight and name in chart.lines:
                tail = self.columns.points(name)[1][-(len(values) + needed(self.weight)) :]
                found[f"smooth:{name}"] = as_curve(self._at(rows), smoothed(tail, self.weight)[-len(values) :])
        marks = Curve(x=[]) if whole else self.gaps(chart, row)
        return {**found, f"gaps:{chart.key}": marks} if marks["x"] else found

    def gaps(self, chart: figures.Chart, row: int = 0, window: Window | None = None) -> Curve:
        """Where a value was NaN or infinite, and what to say of it. A value that was given as None is a gap alone."""
        places: dict[int, list[str]] = {}
        for name in chart.labels:
            rows, values = self._points(name, row)
            wrong = ~np.isfinite(values) & ~is_none(values)
            for place, value in zip(*self._some(rows[wrong], values[wrong], window), strict=True):
                places.setdefault(int(place), []).append(f"{name} {numbers.plain(float(value))}")
        chosen = sorted(places)
        text = [f"{', '.join(places[place])} at step {self.columns.steps[place]:,}" for place in chosen]
        return {"x": _positions(self._at(np.array(chosen, np.int64))), "y": [0.0] * len(chosen), "text": text}

    def _points(self, name: str, row: int = 0) -> tuple[Ints, Floats]:
        rows, values = self.columns.points(name, row)
        if self.axis.kind == "step":
            return rows, values
        placed = np.isfinite(self._at(rows))
        return (rows, values) if placed.all() else (rows[placed], values[placed])

    def _curve(self, rows: Ints, values: Floats, window: Window | None, limit: int) -> Curve:
        x = self._at(rows)
        chosen = in_window(np.maximum.accumulate(x), [values], window, limit)
        return as_curve(x[chosen], values[chosen])

    def _stacked(self, names: list[str], window: Window | None, limit: int) -> dict[str, Curve]:
        """Metrics that are drawn on each other, at the same places: a stack of others would be another curve."""
        points = {name: self._points(name) for name in names}
        each = [rows for rows, _ in points.values()]
        rows = each[0] if each else np.empty(0, np.int64)
        if not all(np.array_equal(rows, other) for other in each):  # metrics of one family, so this is seldom
            rows = np.unique(np.concatenate(each))
        if not len(rows):
            return {name: {"x": [], "y": []} for name in names}
        if len(rows) == min(map(len, each)):
            return self._shared(rows, {name: points[name][1] for name in names}, window, limit)
        there = {name: np.isin(rows, own, assume_unique=True) for name, (own, _) in points.items()}
        values = {name: np.full(len(rows), np.nan) for name in names}
        for name in names:
            values[name][there[name]] = points[name][1]
        x = self._at(rows)
        chosen = in_window(np.maximum.accumulate(x), list(values.values()), window, limit)
        own = {name: chosen[there[name][chosen]] for name in names}
        return {name: as_curve(x[own[name]], values[name][own[name]]) for name in names}

    def _shared(self, rows: Ints, values: Mapping[str, Floats], window: Window | None, limit: int) -> dict[str, Curve]:
        x = self._at(rows)
        chosen = in_window(np.maximum.accumulate(x), list(values.values()), window, limit)
        return {name: as_curve(x[chosen], column[chosen]) for name, column in values.items()}

    def _some(self, rows: Ints, values: Floats, window: Window | None) -> tuple[Ints, Floats]:
        """At most `MOST_MARKS` of them, evenly; of those in the window, where there is one and any is in it."""
        if window is not None:
            x = self._at(rows)
            seen = (x >= window[0]) & (x <= window[1])
            rows, values = (rows[seen], values[seen]) if seen.any() else (rows, values)
        if len(rows) <= MOST_MARKS:
            return rows, values
        chosen = np.unique(np.linspace(0, len(rows) - 1, MOST_MARKS).astype(np.int64))
        return rows[chosen], values[chosen]


def as_curve(x: Floats, y: Floats) -> Curve:
    """Points as Plotly takes them."""
    return {"x": _positions(x), "y": [numbers.for_chart(value) for value in y.tolist()]}


def _positions(x: Floats) -> list[float]:
    return [int(value) if value.is_integer() else value for value in x.tolist()]


def as_points(curves: Mapping[str, Curve]) -> Any:
    """Curves as `figures.figure` takes them."""
    return {name: curve for name, curve in curves.items() if not name.startswith(("smooth:", "gaps:"))}
