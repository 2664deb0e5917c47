"""The charts of a run's page: cards, and the families that unfold."""

from __future__ import annotations

import html as markup
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dash import dcc, html

from rlwatch.runs.reader import RunSummary
from rlwatch_dashboard import addresses, downloads, figures, numbers, parts, theme
from rlwatch_dashboard.axes import Axis, viewers_zone
from rlwatch_dashboard.columns import Columns
from rlwatch_dashboard.companions import Companions
from rlwatch_dashboard.families import Family, families
from rlwatch_dashboard.feed import in_words
from rlwatch_dashboard.lines import Curve, Lines, as_points
from rlwatch_dashboard.pages.facts import why_absent
from rlwatch_dashboard.run_view import RunView

OVER = {"step": "over the steps", "time": "over time", "tokens": "over the tokens"}


@dataclass(frozen=True)
class Drawn:
    """What the charts of a page are made from.

    Args:
        key: What the site calls the run.
        summary: The run.
        columns: Its metrics.
        view: How they are shown.
        beside: What is drawn beside it.
    """

    key: str
    summary: RunSummary
    columns: Columns
    view: RunView
    beside: Companions

    @property
    def lines(self) -> Lines:
        """The run's curves in this view."""
        return lines_of(self.columns, self.view)


def lines_of(columns: Columns, view: RunView) -> Lines:
    """A run's curves in a view, on the viewer's clock."""
    return Lines(columns, Axis(view.x, viewers_zone()), view.smooth)


def charts(drawn: Drawn) -> Any:
    """All charts: the four signals, the basics, and the rest folded by family."""
    every = figures.charts_for(drawn.columns.values)
    fixed = (*figures.SIGNALS, *figures.BASICS)
    lines = drawn.lines
    large = [card(chart, drawn, lines) for chart in every if chart in fixed and chart.large]
    small = [card(chart, drawn, lines) for chart in every if chart in fixed and not chart.large]
    folded = [_folded(family) for family in families(every)]
    return html.Div(
        [
            html.Section(large, className="large", **{"aria-label": "The four signals"}),
            html.Section(small, className="small", **{"aria-label": "Basics"}),
            *([html.Section(folded, className="families", **{"aria-label": "More charts"})] if folded else []),
        ],
        id="run-charts",
        className="charts",
    )


def family_cards(drawn: Drawn, key: str) -> list[Any]:
    """The cards of a family that was unfolded."""
    lines = drawn.lines
    found = [family for family in families(figures.charts_for(drawn.columns.values)) if family.key == key]
    return [card(chart, drawn, lines) for family in found for chart in family.charts]


def _folded(family: Family) -> Any:
    """A family's fold. Its charts are made when it is unfolded (assets/families.js asks for them)."""
    names = ", ".join(chart.title.removeprefix(f"{family.key}/") for chart in family.charts)
    head = [html.Span(family.title, className="family"), html.Span(names, className="of-family")]
    body = html.Div([], id={"type": "family", "key": family.key}, className="small")
    wanted = dcc.Store(id={"type": "wanted", "key": family.key})
    return html.Details([html.Summary(head), body, wanted], className="chart-fold", **{"data-family": family.key})


def card(chart: figures.Chart, drawn: Drawn, lines: Lines) -> Any:
    """A chart with its heading, its newest values, and what can be done with it."""
    recorded = [name for name in chart.labels if name in drawn.columns.values]
    only = next(iter(chart.labels)) if len(chart.labels) == 1 else None
    heading = parts.metric_label(only, chart.title) if only else chart.title
    graph = dcc.Graph(
        id={"type": "chart", "key": chart.key},
        figure=figure(chart, drawn, lines),
        config={"displayModeBar": False, "doubleClick": "reset", "responsive": True},
        responsive=True,
    )
    words = f"Chart: {chart.title} {OVER[drawn.view.x]}"
    body = html.Div(graph, className="plot", role="img", **{"aria-label": words})
    latest = in_words(drawn.columns, recorded)
    readouts = [_readout(name, label, latest, drawn.summary) for name, label in chart.labels.items()]
    return html.Article(
        [
            html.Header(
                [
                    html.H2([heading, html.Span(chart.unit, className="unit") if chart.large else None]),
                    html.Ul(readouts, className="readouts"),
                ]
            ),
            body if recorded else html.Div([body, _not_recorded(chart, drawn.summary)]),
            html.Footer([_log(chart, drawn), downloads.chart_menu(chart.key, chart.title)]) if recorded else None,
        ],
        className="card" if recorded else "card empty",
    )


def figure(chart: figures.Chart, drawn: Drawn, lines: Lines) -> dict[str, Any]:
    """A chart in a view: its stack, what is beside the run, its own curves over that, marks of gaps at the axis."""
    curves = lines.whole(chart)
    made = figures.figure(chart, as_points(curves))
    own = made["data"]
    if lines.weight:
        own = [_faint(trace) if trace["meta"] in chart.lines else trace for trace in own]
        own += [
            {**trace, "meta": f"smooth:{trace['meta']}", **curves[f"smooth:{trace['meta']}"], "hoverinfo": "skip"}
            for trace in made["data"]
            if trace["meta"] in chart.lines
        ]
    beside = drawn.beside.traces(chart, drawn.beside.curves(chart))
    layout = _on_axis(made["layout"], drawn.view, chart)
    stack, over = own[: len(chart.areas)], own[len(chart.areas) :]
    return {"data": [*stack, *beside, *over, _marks(chart, curves[f"gaps:{chart.key}"])], "layout": layout}


def _faint(trace: dict[str, Any]) -> dict[str, Any]:
    return {**trace, "opacity": 0.3, "line": {**trace["line"], "width": 1}, "name": f"{trace['name']} (raw)"}


def _marks(chart: figures.Chart, gaps: Curve) -> dict[str, Any]:
    """Ticks at the axis where a value was no number."""
    line = {"color": theme.SEVERITIES["critical"], "width": 2}
    return {
        "type": "scatter",
        "mode": "markers",
        "meta": f"gaps:{chart.key}",
        "name": "",
        "yaxis": "y2",
        **gaps,
        "text": [markup.escape(words) for words in gaps["text"]],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": "line-ns-open", "size": 12, "color": line["color"], "line": line},
        "cliponaxis": False,
    }


def _on_axis(layout: Mapping[str, Any], view: RunView, chart: figures.Chart) -> dict[str, Any]:
    x, y = dict(layout["xaxis"]), dict(layout["yaxis"])
    if view.x == "time":
        for name in ("rangemode", "tickprefix", "showtickprefix", "tickformat"):
            x.pop(name)
        x |= {
            "type": "date",
            "tickangle": 0,
            "nticks": 5 if chart.large else 3,
            "hoverformat": "%-d %b %H:%M:%S",
            "unifiedhovertitle": {"text": "%{x}"},
        }
    elif view.x == "tokens":
        x |= {"tickprefix": "tokens ", "tickformat": "~s", "hoverformat": ",d", "unifiedhovertitle": {"text": "%{x}"}}
    if chart.key in view.log and not chart.areas:
        y = {name: value for name, value in y.items() if name not in ("range", "rangemode")} | {"type": "log"}
    over = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    margin = {**layout["margin"], "b": 40} if view.x == "time" else layout["margin"]  # a second line has the day
    revision = f"{chart.key} {view.x} {chart.key in view.log}"
    return {**layout, "uirevision": revision, "margin": margin, "xaxis": x, "yaxis": y, "yaxis2": over}


def _log(chart: figures.Chart, drawn: Drawn) -> Any:
    """The way to a logarithmic axis and back; a stack has none, since its parts would not add up."""
    if chart.areas:
        return None
    is_log = chart.key in drawn.view.log
    link = addresses.run(drawn.key, "", drawn.view.toggled("log", chart.key).search())
    words = f"{'Linear' if is_log else 'Logarithmic'} axis for {chart.title}"
    return html.A("linear" if is_log else "log", href=link, className="view-link axis-kind", title=words)


def _not_recorded(chart: figures.Chart, summary: RunSummary) -> Any:
    reasons = {why_absent(summary.info, name) for name in chart.labels} - {""}
    words = [numbers.NOT_RECORDED, *sorted(reasons)]
    return html.Div([html.P(text) for text in words], className="not-recorded")


def _readout(name: str, label: str, latest: Mapping[str, str], summary: RunSummary) -> Any:
    """A metric's entry in its chart's legend, with its newest value."""
    value = latest.get(name)
    explained = parts.metric_label(name, label)
    return html.Li(
        [
            *([html.I(className="swatch", style={"background": theme.colour_of(name)}), explained] if label else []),
            html.Span(
                value or numbers.NOT_RECORDED,
                className="value" if value else "absent",
                title=None if value else why_absent(summary.info, name),
                **{"data-latest": name},
            ),
        ]
    )
