"""The page "/run/<name>": how one run is, its alerts, its charts, and how all of it stays up to date.

One timer asks the server what is new since the page's cursor (`poll`). An unchanged run gets an empty answer. New
points come as a *chunk*: assets/live.js hands them to the charts and moves the cursor on; it drops a chunk that does
not begin where the page is. Where many have come, and when a stretch of the curves is looked at, the page asks for
fresh points of all charts instead (a *seed*): it never holds more than a few thousand a curve. assets/marks.js draws
the alerts over the curves.
"""

from __future__ import annotations

from typing import Any

import dash
from dash import MATCH, ClientsideFunction, Input, Output, Patch, State, dcc, html, no_update

from rlwatch.report.words import headline
from rlwatch.runs.reader import RunSummary
from rlwatch_dashboard import addresses, downloads, parts
from rlwatch_dashboard.alert_answers import said_of
from rlwatch_dashboard.axes import Axis, viewers_zone
from rlwatch_dashboard.companions import companions
from rlwatch_dashboard.feed import Cursor, Snapshot, Update, poll
from rlwatch_dashboard.pages.alerts import alert_list
from rlwatch_dashboard.pages.denominators_config import hint
from rlwatch_dashboard.pages.facts import facts, planned_steps
from rlwatch_dashboard.pages.run_answers import GONE, chunk, drawn_of, seed, spans_of
from rlwatch_dashboard.pages.run_charts import Drawn, charts, family_cards
from rlwatch_dashboard.pages.run_tools import tools
from rlwatch_dashboard.roots import Roots
from rlwatch_dashboard.run_view import RunView

REFRESH_SECONDS = 2

TABS = {"": "Charts", "completions": "Completions", "denominators": "Denominators"}
"""A run's pages: what follows its name in the address, and what each is called."""


def layout(now: Snapshot, search: str | None = None, roots: Roots | None = None) -> list[Any]:
    """The page of a run, as the address says that it is shown."""
    words = headline(now.summary)
    view = RunView.of(search)
    run = now.summary.path
    among = roots or Roots.of(run.parent)
    beside = companions(among, run, view, Axis(view.x, viewers_zone()))
    drawn = Drawn(now.key, now.summary, now.columns, view, beside)
    return [
        html.Header(
            [
                html.Div(
                    [
                        html.H1(now.summary.name),
                        html.Div(_vitals(now.summary), id="vitals", className="vitals"),
                        downloads.links(now.key),
                    ]
                ),
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
                    alert_list(now.episodes, now.key, said_of(run)),
                    id="alerts",
                    className="alerts",
                    **{"aria-label": "Alerts"},
                ),
                html.Div([tools(among, run, now.key, now.columns, view, beside), charts(drawn)], className="run-main"),
            ],
            className="run-body",
        ),
        html.Div(parts.skipped_list(now.skipped), id="skipped"),
        html.Ul([], id="skipped-live", className="skipped"),
        dcc.Store(id="run", data=now.key),
        dcc.Store(id="answered", data=said_of(run).fingerprint),
        dcc.Store(id="view", data=view.search()),
        dcc.Store(id="unfolded", data=[]),
        dcc.Store(id="cursor", data=now.cursor),
        dcc.Store(id="spans", data=spans_of(now.episodes, now.columns, view)),
        dcc.Store(id="chunk"),
        dcc.Store(id="ask"),
        dcc.Store(id="seed"),
        dcc.Store(id="entered"),
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
        State("view", "data"),
        State("unfolded", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, key: str, cursor: Cursor, search: Any, unfolded: Any) -> Any:
        run = roots.find(key)
        try:
            if run is None:
                raise ValueError(GONE)
            update = poll(run, cursor)
        except ValueError:
            return _gone(cursor)
        if update is None:
            raise dash.exceptions.PreventUpdate
        view = RunView.of(search)
        words = headline(update.summary)
        changed = update.episodes
        return (
            chunk(cursor, update, view, _names(unfolded)),
            words.text,
            f"headline tone-{words.tone}",
            _vitals(update.summary),
            facts(update.summary.info) if update.facts_changed else no_update,
            no_update if changed is None else alert_list(changed, key, said_of(run)),
            no_update if changed is None else spans_of(changed, update.columns, view),
            _more_skipped(update),
            no_update if changed is None else title(update.summary),
        )

    @app.callback(  # type: ignore[untyped-decorator]
        Output("seed", "data"),
        Input("ask", "data"),
        State("run", "data"),
        State("view", "data"),
        State("unfolded", "data"),
        prevent_initial_call=True,
    )
    def fresh(asked: Any, key: str, search: Any, unfolded: Any) -> Any:
        return _or_nothing(lambda: seed(roots, key, RunView.of(search), _names(unfolded), asked))

    @app.callback(  # type: ignore[untyped-decorator]
        Output({"type": "family", "key": MATCH}, "children"),
        Input({"type": "wanted", "key": MATCH}, "data"),
        State("run", "data"),
        State("view", "data"),
        State({"type": "wanted", "key": MATCH}, "id"),
        prevent_initial_call=True,
    )
    def unfold(wanted: Any, key: str, search: Any, which: dict[str, str]) -> Any:
        if not wanted:
            return []
        return _or_nothing(lambda: family_cards(drawn_of(roots, key, RunView.of(search)), which["key"]))

    app.clientside_callback(
        ClientsideFunction("rlwatch", "apply"),
        Output("cursor", "data"),
        Output("reload", "data"),
        Input("chunk", "data"),
        State("cursor", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("rlwatch", "replant"),
        Output("cursor", "data", allow_duplicate=True),
        Input("seed", "data"),
        State("cursor", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("rlwatch", "enter"), Output("entered", "data"), Input("view", "data"), Input("run", "data")
    )
    app.clientside_callback(
        ClientsideFunction("rlwatch", "mark"),
        Output("marked", "data"),
        Input("spans", "data"),
        Input("cursor", "data"),
    )


def _or_nothing(answer: Any) -> Any:
    """The answer; none where the run is gone, which the next refresh says."""
    try:
        return answer()
    except ValueError:
        raise dash.exceptions.PreventUpdate from None


def _names(given: Any) -> list[str]:
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


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
