"""The charts as Plotly figures: which there are, and how one is drawn. Plain dictionaries, which is what Plotly takes.

A trace's `meta` is the name of its metric: by it the page finds where new points belong. Alerts are not part of a
figure: the page draws them (assets/marks.js), since they change while the points stay.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlwatch.runs.metrics import METRICS, describe
from rlwatch_dashboard import numbers, theme
from rlwatch_dashboard.feed import Points


@dataclass(frozen=True)
class Chart:
    """One chart.

    Args:
        key: Its identity on the page.
        title: What stands over it.
        lines: Metrics drawn as lines, and what each is called in this chart.
        areas: Metrics stacked as areas under the lines.
        large: Whether it is one of the four signals.
    """

    key: str
    title: str
    lines: Mapping[str, str]
    areas: Mapping[str, str]
    large: bool = False

    @property
    def labels(self) -> dict[str, str]:
        """Every metric in it, and what it is called."""
        return {**self.areas, **self.lines}

    @property
    def unit(self) -> str:
        """The unit of its first metric; nothing where that would repeat the title."""
        unit = describe(next(iter(self.labels))).unit
        return "" if unit == self.title.lower() else unit


FEW = 60
"""Up to how many points a line has dots; the same number is in assets/live.js."""

SIGNALS = (
    Chart("entropy", "Entropy", {"entropy/mean": "mean"}, {}, large=True),
    Chart(
        "groups",
        "Zero-variance groups",
        {"groups/zero_std": "all"},
        {"groups/solved": "solved", "groups/failed": "failed", "groups/stuck": "stuck"},
        large=True,
    ),
    Chart(
        "length",
        "Length by correctness",
        {"length/mean": "mean", "length/correct": "correct", "length/incorrect": "incorrect"},
        {},
        large=True,
    ),
    Chart(
        "gradient",
        "Gradient",
        {"grad/norm": "before clipping", "grad/applied_norm": "applied", "grad/effective_norm": "effective"},
        {},
        large=True,
    ),
)
"""The four signals of the mission, always shown."""

BASICS = (
    Chart("reward", "Reward", {"reward/mean": "mean", "groups/reward_std": "std in groups"}, {}),
    Chart("loss", "Loss", {"loss": ""}, {}),
    Chart("lr", "Learning rate", {"lr": ""}, {}),
)
"""What everybody looks at besides, always shown."""


def charts_for(recorded: Iterable[str]) -> list[Chart]:
    """The charts of a run that recorded these metrics: the fixed ones, then one for each other metric."""
    return list(_charts_for(tuple(recorded)))


@lru_cache(maxsize=64)  # every refresh of every page asks
def _charts_for(recorded: tuple[str, ...]) -> tuple[Chart, ...]:
    fixed = [*SIGNALS, *BASICS]
    drawn = {name for chart in fixed for name in chart.labels}
    rank = {name: place for place, name in enumerate(METRICS)}
    others = sorted(set(recorded) - drawn, key=lambda name: (rank.get(name, len(rank)), name))
    return (*fixed, *(Chart(f"metric:{name}", name, {name: ""}, {}) for name in others))


def figure(chart: Chart, series: Mapping[str, Points]) -> dict[str, Any]:
    """A chart with its points. A metric that is not in `series` has a trace without points."""
    nothing: Points = {"x": [], "y": []}
    traces = [_area(name, chart.labels[name], series.get(name, nothing)) for name in chart.areas]
    traces += [_line(name, chart.labels[name], series.get(name, nothing), chart) for name in chart.lines]
    return {"data": traces, "layout": _layout(chart)}


def _trace(name: str, label: str, points: Points) -> dict[str, Any]:
    return {
        "type": "scatter",
        "meta": name,
        "name": html.escape(label or name),
        "x": points["x"],
        "y": points["y"],
        "hovertemplate": "%{y:.1%}" if numbers.is_share(name) else "%{y:.4~g}",
    }


def _line(name: str, label: str, points: Points, chart: Chart) -> dict[str, Any]:
    line: dict[str, Any] = {"color": theme.colour_of(name), "width": 1.8 if chart.large else 1.4}
    if name in ("length/mean", "groups/zero_std", "grad/norm"):
        line["width"] = 1.2  # the frame of reference, behind what it is split into
    if name == "grad/effective_norm":
        line["dash"] = "3px,2px"  # it lies on the applied norm for most runs: both have to be seen
    marker = {"size": 2, "color": line["color"], "maxdisplayed": 200}
    return {**_trace(name, label, points), "mode": _mode(points), "line": line, "marker": marker}


def _mode(points: Points) -> str:
    """With dots as wide as the line, unseen on it, where a point may stand alone: between gaps, or at a run's start.

    Dots cost more than the line, so others go without. assets/live.js keeps this up as points arrive.
    """
    return "lines+markers" if len(points["y"]) < FEW or None in points["y"] else "lines"


def _area(name: str, label: str, points: Points) -> dict[str, Any]:
    # A share belongs to its step, so it is drawn as a block around it. A block of a NaN is a hole down to the axis.
    return {
        **_trace(name, label, points),
        "mode": "lines",
        "stackgroup": "areas",
        "line": {"width": 0, "shape": "hvh", "color": theme.colour_of(name)},
        "fillcolor": theme.colour_of(name) + "b0",
    }


def _layout(chart: Chart) -> dict[str, Any]:
    share = all(numbers.is_share(name) for name in chart.labels)
    quiet = {"showline": False, "zeroline": False, "gridcolor": "rgba(124,135,152,.18)", "automargin": False}
    yaxis = {
        **quiet,
        "fixedrange": True,
        "nticks": 6 if chart.large else 4,
        "rangemode": "normal" if chart.key in ("loss", "reward") else "tozero",
        "tickformat": ".0%" if share else "",
        "hoverformat": ".1%" if share else ".4~g",
        "exponentformat": "e",
    }
    if share:
        yaxis["range"] = [0, 1.001]
    return {
        "uirevision": chart.key,
        "hovermode": "x unified",
        "hoverlabel": {"font": {"size": 12}, "namelength": -1},
        "dragmode": "zoom",
        "showlegend": False,
        "margin": {"l": 46, "r": 10, "t": 8, "b": 28, "pad": 0},
        "font": {"family": "system-ui, sans-serif", "size": 11, "color": theme.NEUTRAL},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {
            **quiet,
            "showgrid": False,
            "rangemode": "nonnegative",
            "nticks": 8 if chart.large else 4,
            "tickformat": ",d",
            "tickprefix": "step ",
            "showtickprefix": "first",
            "ticks": "outside",
            "ticklen": 6,  # room between the two axes' zeros
            "tickcolor": "rgba(0,0,0,0)",
            "hoverformat": ",d",
            "unifiedhovertitle": {"text": "step %{x}"},
        },
        "yaxis": yaxis,
    }
