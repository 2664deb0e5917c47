"""The page "/run/<name>": how one run is, its alerts, its charts, and how all of it stays up to date.

One timer asks the server what is new since the page's cursor (`poll`). An unchanged run gets an empty answer. New
points come as a *chunk*: assets/live.js hands them to the charts by `extendData` and moves the cursor on; it drops a
chunk that does not begin where the page is. assets/marks.js draws the alerts over the curves.
"""

from __future__ import annotations

from typing import Any

import dash
from dash import ClientsideFunction, Input, Output, Patch, State, dcc, html, no_update

from rlwatch.report.words import headline
from rlwatch.runs.reader import RunSummary
from rlwatch_dashboard import addresses, figures, numbers, parts, theme
from rlwatch_dashboard.feed import Cursor, Episode, Snapshot, Update, poll
from rlwatch_dashboard.pages.alerts import SHOWN, alert_list
from rlwatch_dashboard.pages.denominators_config import hint
from rlwatch_dashboard.pages.facts import facts, planned_steps, why_absent
from rlwatch_dashboard.roots import Roots

REFRESH_SECONDS = 2

TABS = {"": "Charts", "completions": "Completions", "denominators": "Denominators"}
"""A run's pages: what follows its name in the address, and what each is called."""

GONE = "Its folder is no longer there, or is no run any more."


def layout(now: Snapshot) -> list[Any]:
    """The page of a run."""
    words = headline(now.summary)
    return [
        html.Header(
            [
                html.Div([html.H1(now.summary.name), html.Div(_vitals(now.summary), id="vitals", className="vitals")]),
                tabs(now.key),
                html.Div(words.text, id="headline", className=f"headline tone-{words.tone}"),
                hint(now.summary, now.key),
                html.Div(facts(now.summary.info), id="facts", className="facts"),
            ],
            className="run-head",
        ),
        html.Div(
            [
                html.Section(
                    alert_list(now.episodes, now.key),
                    id="alerts",
                    className="alerts",
                    **{"aria-label": "Alerts"},
                ),
                html.Div(_charts(now), className="charts"),
            ],
            className="run-body",
        ),
        html.Div(parts.skipped_list(now.skipped), id="skipped"),
        html.Ul([], id="skipped-live", className="skipped"),
        dcc.Store(id="run", data=now.key),
        dcc.Store(id="cursor", data=now.cursor),
        dcc.Store(id="spans", data=_spans(now.episodes)),
        dcc.Store(id="chunk"),
        dcc.Store(id="marked"),
        dcc.Interval(id="run-timer", interval=REFRESH_SECONDS * 1000),
    ]


def tabs(key: str, here: str = "") -> Any:
    """The links between a run's pages."""
    links = [
        html.Span(words, className="run-tab", **{"aria-current": "page"})
        if part == here
        else dcc.Link(words, href=addresses.run(key, part), className="run-tab")
        for part, words in TABS.items()
    ]
    return html.Nav(links, className="run-tabs", **{"aria-label": "Pages of this run"})


def title(summary: RunSummary) -> str:
    """What the browser's tab says: the name, and before it that something is wrong."""
    mark = "⚠ " if summary.open_alerts and summary.open_alerts[0].severity.rank > 0 else ""
    return f"{mark}{summary.name} · rlwatch"


def register(app: dash.Dash, roots: Roots) -> None:
    """The page's callbacks: one question to the server, and what the browser does with the answer."""

    @app.callback(  # type: ignore[untyped-decorator]
        Output("chunk", "data"),
        Output("headline", "children"),
        Output("headline", "className"),
        Output("vitals", "children"),
        Output("facts", "children"),
        Output("alerts", "children"),
        Output("spans", "data"),
        Output("skipped-live", "children"),
        Output("title", "data", allow_duplicate=True),
        Input("run-timer", "n_intervals"),
        State("run", "data"),
        State("cursor", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, key: str, cursor: Cursor) -> Any:
        run = roots.find(key)
        try:
            if run is None:
                raise ValueError(GONE)
            update = poll(run, cursor)
        except ValueError:
            return _gone(cursor)
        if update is None:
            raise dash.exceptions.PreventUpdate
        words = headline(update.summary)
        changed = update.episodes
        return (
            chunk(cursor, update),
            words.text,
            f"headline tone-{words.tone}",
            _vitals(update.summary),
            facts(update.summary.info) if update.facts_changed else no_update,
            no_update if changed is None else alert_list(changed, key),
            no_update if changed is None else _spans(changed),
            _more_skipped(update),
            no_update if changed is None else title(update.summary),
        )

    app.clientside_callback(
        ClientsideFunction("rlwatch", "apply"),
        Output("cursor", "data"),
        Output("reload", "data"),
        Input("chunk", "data"),
        State("cursor", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("rlwatch", "mark"),
        Output("marked", "data"),
        Input("spans", "data"),
        Input("cursor", "data"),
    )


def chunk(cursor: Cursor, update: Update) -> dict[str, Any]:
    """What the browser is told of an update: where it starts, where it ends, and the points between."""
    return {
        "from": cursor,
        "to": update.cursor,
        "series": {} if update.restarted else update.series,
        "latest": {} if update.restarted else update.latest,
        "restarted": update.restarted,
    }


def _spans(episodes: list[Episode]) -> list[dict[str, Any]]:
    return [episode.span() for episode in episodes[:SHOWN]]


def _gone(cursor: Cursor) -> Any:
    """The answer where the run's folder has vanished: said once, and taken back when it is there again."""
    if cursor.get("state") == "gone":
        raise dash.exceptions.PreventUpdate
    gone = {"from": cursor, "to": {**cursor, "state": "gone"}, "series": {}, "latest": {}, "restarted": False}
    return (gone, GONE, "headline tone-unknown", [parts.state_pill("gone")], *(no_update,) * 5)


def _more_skipped(update: Update) -> Any:
    if not update.skipped:
        return no_update
    more = Patch()
    more.extend([html.Li([html.Code(str(item.path)), f" {item.why}"]) for item in update.skipped])
    return more


def _vitals(summary: RunSummary) -> list[Any]:
    """The run's state, step and times."""
    if summary.last is None:
        return [parts.state_pill(summary.state), html.Span(["started ", parts.moment(summary.created)])]
    planned = planned_steps(summary.info)
    step = f"step {summary.last.step:,}" + (f" of {planned:,}" if planned else "")
    return [
        parts.state_pill(summary.state),
        html.Span(step, className="step"),
        html.Span(["started ", parts.moment(summary.created)]),
        html.Span(["last step ", parts.moment(summary.last.time, relative=True)]),
    ]


def _charts(now: Snapshot) -> list[Any]:
    charts = figures.charts_for(now.series)
    return [
        html.Section([_card(chart, now) for chart in charts if chart.large], className="large"),
        html.Section([_card(chart, now) for chart in charts if not chart.large], className="small"),
    ]


def _card(chart: figures.Chart, now: Snapshot) -> Any:
    recorded = [name for name in chart.labels if name in now.series]
    only = next(iter(chart.labels)) if len(chart.labels) == 1 else None
    heading = parts.metric_label(only, chart.title) if only else chart.title
    graph = dcc.Graph(
        id={"type": "chart", "key": chart.key},
        figure=figures.figure(chart, now.series),
        config={"displayModeBar": False, "doubleClick": "reset", "responsive": True},
        responsive=True,
    )
    body = html.Div(graph, className="plot", role="img", **{"aria-label": f"Chart: {chart.title} over the steps"})
    return html.Article(
        [
            html.Header(
                [
                    html.H2([heading, html.Span(chart.unit, className="unit") if chart.large else None]),
                    html.Ul([_readout(name, label, now) for name, label in chart.labels.items()], className="readouts"),
                ]
            ),
            body if recorded else html.Div([body, _not_recorded(chart, now)]),
        ],
        className="card" if recorded else "card empty",
    )


def _not_recorded(chart: figures.Chart, now: Snapshot) -> Any:
    reasons = {why_absent(now.summary.info, name) for name in chart.labels} - {""}
    words = [numbers.NOT_RECORDED, *sorted(reasons)]
    return html.Div([html.P(text) for text in words], className="not-recorded")


def _readout(name: str, label: str, now: Snapshot) -> Any:
    """A metric's entry in its chart's legend, with its newest value."""
    value = now.latest.get(name)
    explained = parts.metric_label(name, label)
    return html.Li(
        [
            *([html.I(className="swatch", style={"background": theme.colour_of(name)}), explained] if label else []),
            html.Span(
                value or numbers.NOT_RECORDED,
                className="value" if value else "absent",
                title=None if value else why_absent(now.summary.info, name),
                **{"data-latest": name},
            ),
        ]
    )
