"""The charts of the HTML report: which there are, and what each hands to page.js, which draws it with Plotly.

They look like those of the live page: the same colours for the same metrics, the same marks of alerts.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rlwatch.report.colours import colour_of
from rlwatch.report.numbers import is_share, of_metric
from rlwatch.runs.metrics import METRICS, describe
from rlwatch.runs.records import StepRecord

POINTS = 1500
"""At most so many points a curve: of more, each stretch keeps its lowest, its highest and its first gap."""


@dataclass
class Series:
    """One metric over the steps at which it is there; None and what is not finite are values that are no number."""

    name: str
    x: list[int] = field(default_factory=list)
    y: list[float | None] = field(default_factory=list)

    @property
    def numbers(self) -> list[tuple[int, float]]:
        """The steps at which it is a number, and the numbers."""
        return [(x, y) for x, y in zip(self.x, self.y, strict=True) if y is not None and math.isfinite(y)]


@dataclass(frozen=True)
class Chart:
    """One chart: its title, and the metrics that are lines and stacked areas in it with what they are called there."""

    title: str
    lines: Mapping[str, str]
    areas: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """Every metric in it, and what it is called."""
        return {**self.areas, **self.lines}


MAIN = (
    Chart("Entropy", {"entropy/mean": "mean"}),
    Chart(
        "Zero-variance groups",
        {"groups/zero_std": "all"},
        {"groups/solved": "solved", "groups/failed": "failed", "groups/stuck": "stuck"},
    ),
    Chart("Reward", {"reward/mean": "mean", "groups/reward_std": "std in groups"}),
    Chart(
        "Length by correctness",
        {"length/mean": "mean", "length/correct": "correct", "length/incorrect": "incorrect"},
    ),
    Chart(
        "Gradient",
        {"grad/norm": "before clipping", "grad/applied_norm": "applied", "grad/effective_norm": "effective"},
    ),
    Chart("Loss", {"loss": "loss"}),
)
"""What everybody looks at first."""


def series_of(records: Iterable[StepRecord]) -> dict[str, Series]:
    """Every metric of a run, in the order of first appearance. A step that lacks one has no point of it."""
    found: dict[str, Series] = {}
    for record in records:
        for name, value in record.metrics.items():
            series = found.get(name)
            if series is None:
                series = found[name] = Series(name)
            series.x.append(record.step)
            series.y.append(value)
    return found


def further(names: Iterable[str]) -> list[Chart]:
    """A chart for each of our metrics that is in none of the main charts, in the order of the table of metrics."""
    drawn = {name for chart in MAIN for name in chart.labels}
    rank = {name: place for place, name in enumerate(METRICS)}
    ours = {name for name in names if name in METRICS or name.startswith(("reward/", "eval/"))}
    return [Chart(n, {n: n}) for n in sorted(ours - drawn, key=lambda n: (rank.get(n, len(rank)), n))]


def chart_card(chart: Chart, series: Mapping[str, Series], *, level: int) -> str:
    """A chart as HTML; nothing where the run has none of its metrics.

    Args:
        chart: The chart.
        series: The run's metrics.
        level: Of its heading: 2 for h2.
    """
    present = {name: label for name, label in chart.labels.items() if name in series}
    if not present:
        return ""
    unit = describe(next(iter(present))).unit
    shown = f'<span class="unit">{html.escape(unit)}</span>' if unit and unit != chart.title.lower() else ""
    items = "".join(_readout(series[name], label, len(chart.labels) > 1) for name, label in present.items())
    words = f"Chart: {chart.title} over the steps. " + " ".join(in_words(series[name]) for name in present)
    tip = describe(chart.title).meaning  # a chart of one metric has its name for a title
    return (
        f'<article class="card"><header><h{level}{f" title={chr(34)}{html.escape(tip)}{chr(34)}" if tip else ""}>'
        f'{html.escape(chart.title)}{shown}</h{level}><ul class="readouts">{items}</ul></header>'
        f'<div class="plot" role="img" aria-label="{html.escape(words)}"></div>'
        f'<script type="application/json">{to_script(figure(chart, series))}</script></article>'
    )


def figure(chart: Chart, series: Mapping[str, Series]) -> dict[str, Any]:
    """What page.js draws: traces, and the steps at which there was something that is no number."""
    traces = [
        {
            "label": html.escape(label),
            "colour": colour_of(name),
            **({"area": 1} if name in chart.areas else {}),
            **({"thin": 1} if name in ("length/mean", "groups/zero_std", "grad/norm") else {}),
            **({"dash": 1} if name == "grad/effective_norm" else {}),
            **_points(*envelope(series[name].x, series[name].y)),
        }
        for name, label in chart.labels.items()
        if name in series
    ]
    shares = all(is_share(name) for name in chart.labels)
    return {"traces": traces, "share": shares, "free": chart.title in ("Loss", "Reward")}


def envelope(x: Sequence[int], y: Sequence[float | None], limit: int = POINTS) -> tuple[list[int], list[float | None]]:
    """At most `limit` points that keep every spike and every gap of a curve.

    >>> envelope([1, 2, 3, 4, 5, 6], [0.0, 9.0, 0.0, 0.0, -9.0, 0.0], limit=3)
    ([2, 5], [9.0, -9.0])
    """
    if len(x) <= limit:
        return list(x), list(y)
    size = -(-len(x) // max(1, limit // 3))
    kept: list[int] = []
    for start in range(0, len(x), size):
        places = range(start, min(start + size, len(x)))
        numbers = [(value, i) for i in places if (value := y[i]) is not None and math.isfinite(value)]
        chosen = {min(numbers)[1], max(numbers)[1]} if numbers else set()
        if len(numbers) < len(places):
            chosen.add(next(i for i in places if (value := y[i]) is None or not math.isfinite(value)))
        kept += sorted(chosen)
    return [x[i] for i in kept], [y[i] for i in kept]


def in_words(series: Series) -> str:
    """A curve for those who do not see it."""
    numbers = series.numbers
    if not numbers:
        return f"{series.name}: never a number."
    (first, start), (last, end) = numbers[0], numbers[-1]
    low, high = min(numbers, key=lambda p: p[1]), max(numbers, key=lambda p: p[1])
    say = [of_metric(series.name, value) for value in (start, end, low[1], high[1])]
    return (
        f"{series.name}: {say[0]} at step {first}, {say[1]} at step {last}, "
        f"lowest {say[2]} at step {low[0]}, highest {say[3]} at step {high[0]}."
    )


def to_script(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _points(x: list[int], y: list[float | None]) -> dict[str, Any]:
    """Steps as [first, spacing] where that says it all; five digits; what was NaN or infinite by its place."""
    steps = {b - a for a, b in pairwise(x)}
    even = {"from": x[0], "by": steps.pop() if steps else 1} if len(steps) <= 1 and x else {"x": x}
    odd = {i: str(v) for i, v in enumerate(y) if v is not None and not math.isfinite(v)}
    values = [None if value is None or i in odd else _short(value) for i, value in enumerate(y)]
    return {**even, "y": values, **({"odd": odd} if odd else {})}


def _short(value: float) -> float | int:
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _readout(series: Series, label: str, swatch: bool) -> str:
    """A metric's entry in its chart's legend, with its last value."""
    colour = colour_of(series.name)
    name = f'<i class="swatch" style="background:{colour}"></i>{html.escape(label)} ' if swatch else ""
    value = html.escape(of_metric(series.name, series.y[-1]))
    return f'<li title="{html.escape(series.name)}, at step {series.x[-1]}">{name}<b>{value}</b></li>'
