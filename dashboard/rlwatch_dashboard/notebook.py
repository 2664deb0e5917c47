"""A run as one HTML document for the output of a notebook's cell: the page's charts, all that they need inside.

It asks nobody for anything: plotly.js is in it, compressed, and so are the points. Its size is bounded: of a long run
each stretch keeps its smallest value, its largest and its first gap.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any

from rlwatch.report.html_charts import Series, envelope, series_of
from rlwatch.report.words import headline
from rlwatch.runs.metrics import describe
from rlwatch.runs.reader import RunSummary
from rlwatch.runs.records import Alert, StepRecord
from rlwatch_dashboard import figures, numbers, theme
from rlwatch_dashboard.feed import Episode, Points, episodes_of

POINTS = {True: 1500, False: 600}
"""At most so many points a curve, of a large chart and of a small one."""

MOST_CHARTS = 60
"""Small charts; the metrics of a run with more are counted."""

SHOWN = 6
"""Alerts that are told in words; all are on the curves."""

THEMES = ("auto", "light", "dark")

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""The browser's orders: nothing from anywhere, and nothing to anywhere."""

_STYLES = ("base.css", "charts.css", "run.css")
_SCRIPTS = ("charts.js", "marks.js")


def document(
    name: str, summary: RunSummary, records: Sequence[StepRecord], changes: Sequence[Alert], look: str = "auto"
) -> str:
    """The whole document.

    Args:
        name: What the run is called.
        summary: How it is.
        records: Its steps.
        changes: Every change of an alert's state.
        look: One of [`THEMES`][rlwatch_dashboard.notebook.THEMES]; `auto` is what the notebook around it has.
    """
    series = series_of(records)
    charts = figures.charts_for(series)
    shown, left_out = charts[:MOST_CHARTS], len(charts) - MOST_CHARTS
    told = episodes_of(changes)
    words = headline(summary)
    first = [chart for chart in shown if chart.large]
    second = [chart for chart in shown if chart in figures.BASICS]
    others = [chart for chart in shown if chart not in first and chart not in second]
    data = {
        "figures": {chart.key: _figure(chart, series) for chart in shown},
        "spans": [episode.span() for episode in told[:40]],
        "cursor": {"step": records[-1].step if records else 0, "state": summary.state},
    }
    drawn = json.dumps(data, allow_nan=False, separators=(",", ":"))
    more = f"<p class='absent'>{left_out} more metrics are not drawn.</p>" if left_out > 0 else ""
    folded = (
        f"<details class='others'><summary>{len(others)} more charts</summary>{_section('small', others, series)}{more}"
        "</details>"
        if others
        else ""
    )
    body = (
        f"<main><header class='run-head'><h1>{escape(name)}</h1>"
        f"<div class='headline tone-{words.tone}'>{escape(words.text)}</div>{_alerts(told)}</header>"
        f"<div class='charts'>{_section('large', first, series)}{_section('small', second, series)}{folded}</div>"
        "</main>"
    )
    return (
        f"<!doctype html><html lang='en' data-look='{look}'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(name)} · rlwatch</title><style>{theme.css_variables()}{_style()}</style></head><body>{body}"
        f"<script type='text/plain' id='plotly'>{_plotly()}</script>"
        f"<script type='text/plain' id='data'>{_packed(drawn)}</script>"
        f"<script>{_script()}</script></body></html>"
    )


def points_of(chart: figures.Chart, series: Mapping[str, Series]) -> dict[str, Points]:
    """A chart's points, few enough. Metrics that are stacked on each other keep the same steps."""
    own = {name: series[name] for name in chart.labels if name in series}
    limit = POINTS[chart.large]
    kept = {name: set(envelope(one.x, one.y, limit)[0]) for name, one in own.items()}
    if chart.areas:
        together = set().union(*kept.values())
        kept = dict.fromkeys(kept, together)
    found: dict[str, Points] = {}
    for name, one in own.items():
        pairs = [(x, numbers.for_chart(y)) for x, y in zip(one.x, one.y, strict=True) if x in kept[name]]
        found[name] = {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}
    return found


def _figure(chart: figures.Chart, series: Mapping[str, Series]) -> dict[str, Any]:
    return figures.figure(chart, points_of(chart, series))


def _section(kind: str, charts: Sequence[figures.Chart], series: Mapping[str, Series]) -> str:
    return f"<section class='{kind}'>{''.join(_card(chart, series) for chart in charts)}</section>"


def _card(chart: figures.Chart, series: Mapping[str, Series]) -> str:
    recorded = any(name in series for name in chart.labels)
    unit = f"<span class='unit'>{escape(chart.unit)}</span>" if chart.large else ""
    items = "".join(_readout(name, label, series) for name, label in chart.labels.items())
    nothing = "" if recorded else f"<div class='not-recorded'><p>{numbers.NOT_RECORDED}</p></div>"
    label = escape(f"Chart: {chart.title} over the steps", quote=True)
    return (
        f"<article class='card{'' if recorded else ' empty'}'><header><h2>{escape(chart.title)}{unit}</h2>"
        f"<ul class='readouts'>{items}</ul></header>"
        f"<div class='plot' role='img' aria-label=\"{label}\"><div class='dash-graph'>"
        f'<div data-chart="{escape(chart.key, quote=True)}"></div></div></div>{nothing}</article>'
    )


def _readout(name: str, label: str, series: Mapping[str, Series]) -> str:
    """A metric's entry in its chart's legend, with its newest value."""
    tip = escape(f"{name}: {describe(name).meaning}", quote=True)
    swatch = f"<i class='swatch' style='background:{theme.colour_of(name)}'></i>" if label else ""
    if name not in series:
        value = f"<span class='absent'>{numbers.NOT_RECORDED}</span>"
    else:
        value = f"<span class='value'>{escape(numbers.of_metric(name, series[name].y[-1]))}</span>"
    return f'<li title="{tip}">{swatch}{escape(label)} {value}</li>'


def _alerts(told: Sequence[Episode]) -> str:
    if not told:
        return ""
    rows = "".join(
        f"<li><span class='pill severity-{one.alert.severity.value}'>{one.alert.severity.value}</span> "
        f"<b>{escape(one.alert.rule)}</b> {'over' if one.over else 'open'}, told at step {one.fired:,}: "
        f"{escape(one.alert.message)}</li>"
        for one in told[:SHOWN]
    )
    rest = f"<li class='absent'>{len(told) - SHOWN} more</li>" if len(told) > SHOWN else ""
    return f"<ul class='told' aria-label='Alerts'>{rows}{rest}</ul>"


def _style() -> str:
    here = files("rlwatch_dashboard")
    assets = "\n".join((here / "assets" / name).read_text("utf-8") for name in _STYLES)
    return f"{assets}\n{(here / 'notebook.css').read_text('utf-8')}"


def _script() -> str:
    here = files("rlwatch_dashboard")
    assets = "\n".join((here / "assets" / name).read_text("utf-8") for name in _SCRIPTS)
    return f"window.dash_clientside = {{no_update: null}};\n{assets}\n{(here / 'notebook.js').read_text('utf-8')}"


@lru_cache(maxsize=1)
def _plotly() -> str:
    """plotly.js, which every document carries: 4.8 MB that are 2 MB so."""
    from plotly.offline import get_plotlyjs

    return _packed(get_plotlyjs())


def _packed(text: str) -> str:
    """Text that the browser unpacks: gzip as base64."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode("ascii")
