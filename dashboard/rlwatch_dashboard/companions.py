"""What is drawn beside a run: other runs that were chosen, and the runs that differ from it by their seed alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rlwatch.runs.reader import RunSummary, read_info
from rlwatch_dashboard import figures
from rlwatch_dashboard.axes import Axis
from rlwatch_dashboard.columns import Columns, Floats
from rlwatch_dashboard.envelope import in_window
from rlwatch_dashboard.followed import look
from rlwatch_dashboard.lines import LIMITS, Curve, Lines, Window, as_curve
from rlwatch_dashboard.pages.runs_rows import fold_key
from rlwatch_dashboard.roots import Roots
from rlwatch_dashboard.run_view import RunView

COLOURS = ("#d0651b", "#d6508f", "#3f9142", "#8b6be0", "#a0764a", "#1a8fa5")
"""Of other runs: each is readable on a light and on a dark panel."""

MOST_SEEDS = 32
"""How many runs a band is made of at most."""


@dataclass(frozen=True)
class Other:
    """A run that is drawn beside.

    Args:
        key: What the site calls it.
        colour: Of its curves.
        lines: Its curves; None where there is no such run.
    """

    key: str
    colour: str
    lines: Lines | None


@dataclass(frozen=True)
class Companions:
    """All that is drawn beside a run.

    Args:
        others: Runs that were chosen.
        seeds: By name, the runs that differ from it by their seed alone, itself among them; empty without a band.
    """

    others: tuple[Other, ...] = ()
    seeds: tuple[tuple[str, Columns], ...] = ()

    def curves(self, chart: figures.Chart, window: Window | None = None) -> dict[str, Curve]:
        """What is drawn of them in a chart, by the trace's `meta`: only of the chart's first line."""
        name = next(iter(chart.lines), None)
        if name is None:
            return {}
        alone = figures.Chart(chart.key, chart.title, {name: ""}, {}, chart.large)
        found: dict[str, Curve] = {}
        if len(self.seeds) > 1:
            found |= band_curves([columns for _, columns in self.seeds], name, window, LIMITS[chart.large])
        for other in self.others:
            if other.lines is not None:
                curves = other.lines.whole(alone, window)
                found[f"with:{other.key}:{name}"] = curves.get(f"smooth:{name}", curves[name])
        return found

    def traces(self, chart: figures.Chart, curves: dict[str, Curve]) -> list[dict[str, Any]]:
        """The traces of those curves, which lie under the run's own."""
        name = next(iter(chart.lines), "")
        plain = {"type": "scatter", "mode": "lines", "hoverinfo": "skip"}
        grey = {"color": "rgba(124,135,152,.9)", "width": 0}
        made: list[dict[str, Any]] = []
        for part, look_of in (
            ("low", {"line": grey}),
            ("high", {"line": grey, "fill": "tonexty", "fillcolor": "rgba(124,135,152,.22)"}),
            ("median", {"line": {**grey, "width": 1.4, "dash": "5px,3px"}}),
        ):
            if f"band-{part}:{name}" in curves:
                made.append({**plain, **look_of, **curves[f"band-{part}:{name}"], "meta": f"band-{part}:{name}"})
        for other in self.others:
            if (meta := f"with:{other.key}:{name}") in curves:
                line = {"color": other.colour, "width": 1.3}
                made.append({**plain, **curves[meta], "meta": meta, "line": line})
        return made


def companions(roots: Roots, run: Path, view: RunView, axis: Axis) -> Companions:
    """What a view draws beside a run. Runs that are not there, or are no runs, are named without curves."""
    others = []
    for key, colour in zip(view.others, COLOURS, strict=False):
        found = _columns(roots.find(key))
        others.append(Other(key, colour, Lines(found, axis, view.smooth) if found is not None else None))
    seeds: list[tuple[str, Columns]] = []
    if view.band and view.x == "step":
        columns = [(path.name, _columns(path)) for path in seeds_of(run)[:MOST_SEEDS]]
        seeds = [(name, found) for name, found in columns if found is not None and len(found.steps)]
    return Companions(tuple(others), tuple(seeds))


def seeds_of(run: Path) -> list[Path]:
    """The runs of its folder that differ from it by their seed alone, itself among them; by the rule of the list."""
    key = _fold(run)
    if key is None:
        return []
    try:
        there = sorted(entry.name for entry in os.scandir(run.parent) if not entry.name.startswith("."))
    except OSError:
        return []
    return [run.parent / name for name in there if name == run.name or _fold(run.parent / name) == key]


def band(series: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats, Floats, Floats]:
    """The range and the median of several runs, step by step.

    At a step count the runs that have a finite value there; a run that has ended, or that does not log the metric at
    that step, does not count. A step at which no run counts is a gap.

    Args:
        series: Of each run its steps (n_i,), increasing, and its values (n_i,).

    Returns:
        (n,) each: all steps at which any run has the metric, the smallest value, the median, and the largest.
    """
    steps = np.unique(np.concatenate([own for own, _ in series]))
    values = np.full((len(series), len(steps)), np.nan)
    for row, (own, known) in enumerate(series):
        values[row, np.searchsorted(steps, own)] = np.where(np.isfinite(known), known, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a step without a value is NaN, and is to be
        return steps, np.nanmin(values, 0), np.nanmedian(values, 0), np.nanmax(values, 0)


def band_curves(runs: Sequence[Columns], name: str, window: Window | None, limit: int) -> dict[str, Curve]:
    """A metric's band over runs, by step."""
    points = [(columns, *columns.points(name)) for columns in runs]
    series = [(columns.steps[rows].astype(np.float64), values) for columns, rows, values in points if len(rows)]
    if len(series) < 2:
        return {}
    steps, low, middle, high = band(series)
    chosen = in_window(steps, [low, middle, high], window, limit)
    parts = {"low": low, "high": high, "median": middle}
    return {f"band-{part}:{name}": as_curve(steps[chosen], values[chosen]) for part, values in parts.items()}


def _columns(run: Path | None) -> Columns | None:
    try:
        return look(run).columns if run is not None else None
    except ValueError:
        return None


def _fold(run: Path) -> str | None:
    info = _info(run, _stamp(run))
    return None if info is None else fold_key(RunSummary(run, info, "", None, []))


def _stamp(run: Path) -> tuple[int, int]:
    try:
        status = os.stat(run / "run.json")
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=4096)
def _info(run: Path, stamp: tuple[int, int]) -> dict[str, Any] | None:
    try:
        return read_info(run) if stamp != (0, 0) else None
    except ValueError:
        return None
