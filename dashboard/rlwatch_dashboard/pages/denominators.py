"""The page "/run/<name>/denominators": which examples a run's loss makes matter, as configured and as measured.

It is made anew where the run has new steps or another run.json; one that has not is asked for little.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dash
from dash import Input, Output, State, dcc, html

from rlwatch.report.audit_sentences import headline
from rlwatch.runs.reader import RunSummary
from rlwatch_dashboard.feed import Cursor, Snapshot, find_run, load, poll
from rlwatch_dashboard.pages import denominators_config as configured
from rlwatch_dashboard.pages import denominators_run as ran
from rlwatch_dashboard.pages.run import tabs

REFRESH_SECONDS = 10


def layout(now: Snapshot) -> list[Any]:
    """The page of a run's denominators."""
    return [
        html.Div(_body(now.summary), id="denominators"),
        dcc.Store(id="denominators-run", data=now.summary.name),
        dcc.Store(id="denominators-cursor", data=now.cursor),
        dcc.Interval(id="denominators-timer", interval=REFRESH_SECONDS * 1000),
    ]


def title(summary: RunSummary) -> str:
    """What the browser's tab says."""
    return f"Denominators of {summary.name} · rlwatch"


def register(app: dash.Dash, root: Path) -> None:
    """The page's refresh: it is sent again only where the run has changed."""

    @app.callback(  # type: ignore[untyped-decorator]
        Output("denominators", "children"),
        Output("denominators-cursor", "data"),
        Input("denominators-timer", "n_intervals"),
        State("denominators-run", "data"),
        State("denominators-cursor", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, name: str, cursor: Cursor) -> Any:
        run = find_run(root, name)
        try:
            if run is None or poll(run, cursor) is None:
                raise dash.exceptions.PreventUpdate
            now = load(run)
        except ValueError:  # it is no run any more: the page stays as it was
            raise dash.exceptions.PreventUpdate from None
        return _body(now.summary), now.cursor


def _body(summary: RunSummary) -> list[Any]:
    found = configured.audited(summary)
    run, seen = ran.recorded(summary)
    name = html.H1([summary.name, html.Span(" · denominators", className="of-run")])
    measured = [ran.made_of(run, seen, summary.info), ran.otherwise(seen, summary.info, found)]
    if isinstance(found, str):
        head = html.Header([name, tabs(summary.name, "denominators")], className="run-head")
        return [head, html.Div([configured.untold(found), *measured], className="parts")]
    said = html.P(headline(found), className="headline")
    head = html.Header(
        [name, tabs(summary.name, "denominators"), said, configured.how_weighed(found)], className="run-head"
    )
    sections = [configured.lints(found), *measured, configured.weights(found), configured.divisions(found)]
    return [head, html.Div(sections, className="parts")]
