"""The page "/": all runs under the roots, each in one line. It looks again every few seconds."""

from __future__ import annotations

import json
import zlib
from typing import Any

import dash
from dash import Input, Output, State, dcc, html

from rlwatch.report.words import headline
from rlwatch.runs.reader import RunSummary, list_runs
from rlwatch_dashboard import addresses, numbers, parts
from rlwatch_dashboard.pages.missing import no_runs
from rlwatch_dashboard.roots import Roots

REFRESH_SECONDS = 3

_NUMBERS = {"reward/mean": "Reward", "entropy/mean": "Entropy", "groups/zero_std": "Zero-variance"}


def layout(roots: Roots) -> list[Any]:
    """The page as of now."""
    body, fingerprint = _body(roots)
    return [
        html.H1("Runs"),
        html.Div(body, id="runs"),
        dcc.Store(id="runs-shown", data=fingerprint),
        dcc.Interval(id="runs-timer", interval=REFRESH_SECONDS * 1000),
    ]


def register(app: dash.Dash, roots: Roots) -> None:
    """The page's refresh: the list is sent again only where it differs from what the page shows."""

    @app.callback(  # type: ignore[untyped-decorator]
        Output("runs", "children"),
        Output("runs-shown", "data"),
        Input("runs-timer", "n_intervals"),
        State("runs-shown", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, shown: str) -> Any:
        body, fingerprint = _body(roots)
        if fingerprint == shown:
            raise dash.exceptions.PreventUpdate
        return body, fingerprint


def _body(roots: Roots) -> tuple[list[Any], str]:
    runs, skipped = [], []
    for folder in roots.folders:
        found, left_out = list_runs(folder)
        runs += found
        skipped += left_out
    if not runs:
        skipped = [item for item in skipped if item.path not in roots.folders]
    body = [_table(runs, roots) if runs else no_runs(roots), parts.skipped_list(skipped)]
    text = json.dumps(body, default=lambda part: part.to_plotly_json())
    return body, f"{zlib.crc32(text.encode()):08x}"


def _table(runs: list[RunSummary], roots: Roots) -> Any:
    heads = ["Run", "State", "How it is", "Step", *_NUMBERS, "Alerts", "Started", "Last step"]
    cells = [html.Th(parts.metric_label(h, _NUMBERS[h]) if h in _NUMBERS else h, scope="col") for h in heads]
    return html.Table(
        [html.Thead(html.Tr(cells)), html.Tbody([_row(run, roots.key_of(run.path)) for run in runs])], className="runs"
    )


def _row(run: RunSummary, key: str) -> Any:
    words = headline(run)
    link = dcc.Link(run.name, href=addresses.run(key), className="run-link")
    return html.Tr(
        [
            html.Th(link, scope="row"),
            _cell("State", parts.state_pill(run.state)),
            _cell("How it is", html.Span(words.text, className=f"tone tone-{words.tone}"), "how"),
            _cell("Step", f"{run.last.step:,}" if run.last else _absent(), "number"),
            *(_cell(label, _metric(run, name), "number") for name, label in _NUMBERS.items()),
            _cell("Alerts", _alerts(run)),
            _cell("Started", parts.moment(run.created)),
            _cell("Last step", parts.moment(run.last.time, relative=True) if run.last else _absent()),
        ]
    )


def _alerts(run: RunSummary) -> Any:
    if not run.open_alerts:
        return html.Span("none", className="absent")
    count = html.Span(f"{len(run.open_alerts)} open", className="absent")
    return [parts.severity_pill(run.open_alerts[0].severity.value), " ", count]


def _cell(label: str, content: Any, kind: str = "") -> Any:
    # On a narrow screen a row becomes a card, and each cell carries its column's name.
    return html.Td(content, className=kind, **{"data-label": label})


def _metric(run: RunSummary, name: str) -> Any:
    if run.last is None or name not in run.last.metrics:
        return _absent()
    return numbers.of_metric(name, run.last.metrics[name])


def _absent() -> Any:
    return html.Span("–", className="absent", title=numbers.NOT_RECORDED)
