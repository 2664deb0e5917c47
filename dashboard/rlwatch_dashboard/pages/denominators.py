"""The page "/run/<name>/denominators": which examples a run's loss makes matter, as configured and as measured.

It is made anew where the run has new steps or another run.json; one that has not is asked for little.
"""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, State, dcc, html

from rlwatch.report.audit_sentences import headline
from rlwatch.runs.reader import RunSummary
from rlwatch_dashboard.feed import Cursor, Snapshot, load, poll
from rlwatch_dashboard.pages import denominators_config as configured
from rlwatch_dashboard.pages import denominators_run as ran
from rlwatch_dashboard.pages.run import tabs
from rlwatch_dashboard.roots import Roots

REFRESH_SECONDS = 10


def layout(now: Snapshot) -> list[Any]:
    """The page of a run's denominators."""
    return [
        html.Div(_body(now.summary, now.key), id="denominators"),
        dcc.Store(id="denominators-run", data=now.key),
        dcc.Store(id="denominators-cursor", data=now.cursor),
        dcc.Interval(id="denominators-timer", interval=REFRESH_SECONDS * 1000),
    ]


def title(summary: RunSummary) -> str:
    """What the browser's tab says."""
    return f"Denominators of {summary.name} · rlwatch"


def register(app: dash.Dash, roots: Roots) -> None:
    """The page's refresh: it is sent again only where the run has changed."""

    @app.callback(  # type: ignore[untyped-decorator]
        Output("denominators", "children"),
        Output("denominators-cursor", "data"),
        Input("denominators-timer", "n_intervals"),
        State("denominators-run", "data"),
        State("denominators-cursor", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, key: str, cursor: Cursor) -> Any:
        run = roots.find(key)
        try:
            if run is None or poll(run, cursor) is None:
                raise dash.exceptions.PreventUpdate
            now = load(run, key)
        except ValueError:  # it is no run any more: the page stays as it was
            raise dash.exceptions.PreventUpdate from None
        return _body(now.summary, now.key), now.cursor


def _body(summary: RunSummary, key: str) -> list[Any]:
    found = configured.audited(summary)
    run, seen = ran.recorded(summary)
    name = html.H1([summary.name, html.Span(" · denominators", className="of-run")])
    measured = [ran.made_of(run, seen, summary.info), ran.otherwise(seen, summary.info, found)]
    if isinstance(found, str):
        head = html.Header([name, tabs(key, "denominators")], className="run-head")
        return [head, html.Div([configured.untold(found), *measured], className="parts")]
    said = html.P(headline(found), className="headline")
    head = html.Header([name, tabs(key, "denominators"), said, configured.how_weighed(found)], className="run-head")
    sections = [configured.lints(found), *measured, configured.weights(found), configured.divisions(found)]
    return [head, html.Div(sections, className="parts")]
