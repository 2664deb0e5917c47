"""A chart's curves as one SVG picture, for the time until Plotly draws them: the same points, in the same place.

It has the curves, the areas under them and the numbers at both axes. What can be done with a chart, the flags of alerts
and the marks of gaps come with Plotly.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlwatch_dashboard.columns import Floats

SIDE = 1000
"""The picture's width and height in its own unit; it is stretched to the chart's."""

MANY = 60
"""An area of more points than this is drawn without its steps, which nobody could see."""

EDGE = 0.97
"""How far to the right a number at the axis may stand: further on it would not fit."""

ROOM = 0.05
"""What Plotly leaves free over a curve, and under one that does not begin at zero, as a share of the axis."""


def drawing(figure: Mapping[str, Any]) -> str:
    """A figure's curves over its steps, as HTML; without a point an empty chart."""
    traces = [trace for trace in figure["data"] if trace.get("yaxis") != "y2" and trace["x"]]
    traces = [trace for trace in traces if trace.get("stackgroup") or trace["line"]["width"]]
    if not traces:
        return ""
    layout = figure["layout"]
    is_log = layout["yaxis"].get("type") == "log"
    curves = _curves(traces, is_log)
    low, high = _range(layout["yaxis"], [top for _, _, top in curves])
    first, last = min(x[0] for x, _, _ in curves), max(x[-1] for x, _, _ in curves)
    last = last if last > first else first + 1
    paths = []
    for trace, (x, bottom, top) in zip(traces, curves, strict=True):
        across = _scaled(x, first, last)
        if trace.get("stackgroup"):
            paths.append(_area(trace, across, _scaled(bottom, high, low), _scaled(top, high, low)))
        else:
            paths.append(_line(trace, across, _scaled(top, high, low)))
    size = f'viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none"'
    words = _numbers(layout, first, last, low, high, is_log)
    return f'<svg class="first-lines" {size} aria-hidden="true">{"".join(paths)}</svg>{words}'


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, as Plotly's: 1, 2 or 5 times a power of ten apart, (high - low) / most or more.

    >>> ticks(0, 1.001, 6), ticks(1, 100_000, 4), ticks(-0.5, 0.2, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [50000.0, 100000.0], [-0.4, -0.2, 0.0, 0.2])
    """
    apart = (high - low) / most
    power = 10.0 ** math.floor(math.log10(apart))
    apart = next(times * power for times in (1, 2, 5, 10) if times * power >= apart)
    places = range(math.ceil(low / apart - 1e-9), math.floor(high / apart + 1e-9) + 1)
    return [float(f"{place * apart:.12g}") for place in places]


def _curves(traces: Sequence[Mapping[str, Any]], is_log: bool) -> list[tuple[Floats, Floats, Floats]]:
    """Of each trace its x, where its area begins, and its curve; NaN in a gap."""
    found = []
    under: dict[float, float] = {}
    for trace in traces:
        x, y = np.array(trace["x"], float), np.array(trace["y"], float)
        bottom = np.zeros(len(x))
        if trace.get("stackgroup"):
            bottom = np.array([under.get(place, 0.0) for place in trace["x"]])
            y = bottom + np.nan_to_num(y)  # nothing is added where a share is no number
            under.update(zip(trace["x"], y.tolist(), strict=True))
        elif is_log:
            y = np.log10(np.where(y > 0, y, np.nan))
        found.append((x, bottom, y))
    return found


def _range(axis: Mapping[str, Any], curves: Sequence[Floats]) -> tuple[float, float]:
    if "range" in axis:
        low, high = axis["range"]
        return float(low), float(high)
    finite = np.concatenate([curve[np.isfinite(curve)] for curve in curves])
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if axis.get("rangemode") == "tozero" and low >= 0:
        return 0.0, high / (1 - ROOM) or 1.0
    if axis.get("rangemode") == "tozero" and high <= 0:
        return low / (1 - ROOM), 0.0
    if high == low:
        return low - 1, high + 1
    room = ROOM / (1 - 2 * ROOM) * (high - low)
    return low - room, high + room


def _scaled(values: Floats, begin: float, end: float) -> Floats:
    """Places in the picture; NaN where there is none."""
    return np.round((values - begin) / (end - begin) * SIDE)


def _points(x: Floats, y: Floats) -> str:
    return "L".join(f"{a:.0f} {b:.0f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _line(trace: Mapping[str, Any], x: Floats, y: Floats) -> str:
    line = trace["line"]
    pieces = np.flatnonzero(np.diff(np.isfinite(y).astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    path = "".join(f"M{_points(x[begin:end], y[begin:end])}h0" for begin, end in pieces)
    dash = f' stroke-dasharray="{html.escape(line["dash"].replace("px", ""))}"' if "dash" in line else ""
    opacity = f' opacity="{trace["opacity"]:g}"' if "opacity" in trace else ""
    return f'<path d="{path}" stroke="{html.escape(line["color"])}" stroke-width="{line["width"]:g}"{dash}{opacity}/>'


def _area(trace: Mapping[str, Any], x: Floats, bottom: Floats, top: Floats) -> str:
    if len(x) <= MANY:
        middle = (x[1:] + x[:-1]) / 2
        edges = np.stack([np.append(x[:1], middle), np.append(middle, x[-1:])], axis=1)
        x, bottom, top = edges.ravel(), bottom.repeat(2), top.repeat(2)
    outline = f"M{_points(x, top)}L{_points(x[::-1], bottom[::-1])}z"
    return f'<path class="area" d="{outline}" fill="{html.escape(trace["fillcolor"])}"/>'


def _numbers(layout: Mapping[str, Any], first: float, last: float, low: float, high: float, is_log: bool) -> str:
    """The numbers at the axes."""
    is_share = layout["yaxis"]["tickformat"] == ".0%"
    words = []
    for place in ticks(low, high, layout["yaxis"]["nticks"]):
        value = 10.0**place if is_log else place
        text = f"{value:.0%}" if is_share else f"{value:.4g}".replace("-", "−")
        words.append(f'<i class="at-y" style="top:{100 * (high - place) / (high - low):.2f}%">{text}</i>')
    across = [
        place for place in ticks(first, last, layout["xaxis"]["nticks"]) if place <= first + EDGE * (last - first)
    ]
    for number, place in enumerate(across):
        text = f"{'step ' if number == 0 else ''}{place:,.0f}"
        words.append(f'<i class="at-x" style="left:{100 * (place - first) / (last - first):.2f}%">{text}</i>')
    return f'<div class="first-numbers" aria-hidden="true">{"".join(words)}</div>'
