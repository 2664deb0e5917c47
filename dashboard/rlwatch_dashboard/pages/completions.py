"""The page "/run/<name>/completions": what the policy wrote at a step, and what it earned. The address holds its state.

The server keeps nothing about a page: the route makes it anew for each address. While it is open, a slow timer looks
for new shards and changes only the picker of steps.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dash
from dash import Input, Output, State, dcc, html, no_update
from flask import Response, abort, request

from rlwatch.runs.reader import RunSummary, read_info, read_summary
from rlwatch_dashboard import parts
from rlwatch_dashboard.pages.completion_groups import kind_pill
from rlwatch_dashboard.pages.completion_sides import KEEP_ALL, side
from rlwatch_dashboard.pages.completion_steps import fields, fingerprint, steps, strip_of
from rlwatch_dashboard.pages.run import tabs
from rlwatch_dashboard.rollouts import Step, whole_text
from rlwatch_dashboard.roots import Roots
from rlwatch_dashboard.shards import KINDS, Scoring, Shard, UnreadableShardError, list_shards, ranges, shard_at
from rlwatch_dashboard.view import View, address, whole

REFRESH_SECONDS = 5


def layout(run: Path, key: str, search: str | None) -> list[Any]:
    """The page of the completions of a run, which the site calls by its key, for the search part of its address.

    Raises:
        ValueError: It is not a run; the message says why.
    """
    summary = read_summary(run)
    view, shards = View.of(search), list_shards(run)
    head = html.Header(
        [
            html.Div([html.H1(summary.name), html.Div([parts.state_pill(summary.state)], className="vitals")]),
            tabs(key, "completions"),
        ],
        className="run-head",
    )
    shown = _shown(shards, view)
    body = (
        _body(summary, key, view, shards, shown)
        if shards
        else [_no_rollouts(summary), html.Div(id="completions-steps")]
    )
    return [
        head,
        *body,
        dcc.Store(id="completions-run", data=key),
        dcc.Store(id="completions-shards", data=fingerprint(shards)),
        dcc.Store(id="completions-shown", data=shown.step if shown is not None else None),
        dcc.Location(id="completions-url", refresh="callback-nav"),
        dcc.Interval(id="completions-timer", interval=REFRESH_SECONDS * 1000),
    ]


def title(name: str) -> str:
    """What the browser's tab says."""
    return f"Completions of {name} · rlwatch"


def register(app: dash.Dash, roots: Roots) -> None:
    """The page's callbacks, and the address of a text that is too long for a page."""

    @app.callback(  # type: ignore[untyped-decorator]
        Output("completions-steps", "children"),
        Output("completions-shards", "data"),
        Output("reload", "data", allow_duplicate=True),
        Input("completions-timer", "n_intervals"),
        State("completions-run", "data"),
        State("completions-shards", "data"),
        State("completions-shown", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def refresh(_: int, key: str, known: str, shown: int | None, search: str | None) -> Any:
        run = roots.find(key)
        shards = list_shards(run) if run is not None else []
        if run is None or not shards or fingerprint(shards) == known:
            raise dash.exceptions.PreventUpdate
        if shown is None:  # the page had nothing to show: now it may
            return no_update, fingerprint(shards), time.time()
        view = replace(View.of(search), step=shown)
        return _steps(run, key, view, shards, _shown(shards, view)), fingerprint(shards), no_update

    @app.callback(  # type: ignore[untyped-decorator]
        Output("completions-url", "search"),
        Input("completions-go", "n_clicks"),
        Input("completions-step", "n_submit"),
        Input("completions-beside", "n_submit"),
        Input("completions-q", "n_submit"),
        State("completions-step", "value"),
        State("completions-beside", "value"),
        State("completions-q", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def go(*given: Any) -> Any:
        step, beside, q, search = given[4:]
        if not any(given[:4]):
            raise dash.exceptions.PreventUpdate
        wanted = asked(View.of(search), step, beside, q).search()
        if wanted == View.of(search).search():
            raise dash.exceptions.PreventUpdate
        return wanted

    @app.server.route("/run/<key>/text")  # type: ignore[untyped-decorator]
    def text(key: str) -> Response:
        run = roots.find(key)
        step, group, index = (whole(request.args.get(key)) for key in ("step", "group", "index"))
        part = request.args.get("part")
        shard = next((shard for shard in list_shards(run) if shard.step == step), None) if run is not None else None
        if shard is None or group is None or index is None or part not in ("prompt", "completion"):
            abort(404)
        try:
            found = whole_text(shard, group, index, part)
        except UnreadableShardError:
            found = None
        if found is None:
            abort(404)
        name = f"step-{step}-group-{group}-{part}-{index}.txt"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(found, content_type="text/plain; charset=utf-8", headers=headers)


def asked(view: View, step: Any, beside: Any, q: Any) -> View:
    """The view that the fields ask for. What is no step leaves the step as it is; another step has other groups."""
    wanted = whole(step) if whole(step) is not None else view.step
    other = whole(beside)
    new = View.of(View(step=wanted, q=str(q or ""), beside=other).search())
    same = (new.step, new.q) == (view.step, view.q)
    return replace(new, kind=view.kind, group=view.group if same else None, page=view.page if same else 1)


def _shown(shards: Sequence[Shard], view: View) -> Shard | None:
    if not shards:
        return None
    return shards[-1] if view.step is None else shard_at(shards, view.step)


def _body(summary: RunSummary, key: str, view: View, shards: list[Shard], shown: Shard | None) -> list[Any]:
    step = view.step if view.step is not None else shards[-1].step
    beside = shard_at(shards, view.beside) if view.beside is not None else None
    seen = ranges(shards, {*strip_of(shards, _both(shown, beside)), *_both(shown, beside)})
    scoring = Scoring.of(summary.info)
    left, read = side(summary, key, view, step, shown, shards, seen, scoring)
    sides = [left]
    if view.beside is not None:
        prompts = read.prompts if read is not None and view.group is not None else None
        right, _ = side(summary, key, view, view.beside, beside, shards, seen, scoring, prompts, is_second=True)
        sides.append(right)
    return [
        html.A("Skip to the completions", href="#completions-sides", className="skip-link"),
        html.Nav(
            steps(key, view, shards, shown, beside, seen, scoring),
            id="completions-steps",
            **{"aria-label": "Steps"},
        ),
        fields(view, step, shards[-1].step),
        _filters(key, view, read),
        html.Div(sides, id="completions-sides", className="sides two" if len(sides) > 1 else "sides", tabIndex=-1),
    ]


def _steps(run: Path, key: str, view: View, shards: list[Shard], shown: Shard | None) -> list[Any]:
    """The picker alone, when shards have come."""
    try:
        scoring = Scoring.of(read_info(run))
    except ValueError:
        scoring = Scoring()
    beside = shard_at(shards, view.beside) if view.beside is not None else None
    seen = ranges(shards, {*strip_of(shards, _both(shown, beside)), *_both(shown, beside)})
    return steps(key, view, shards, shown, beside, seen, scoring)


def _filters(run: str, view: View, read: Step | None) -> Any:
    """The kinds to choose from, with how many groups there are of each."""
    items: list[Any] = []
    for kind in (None, *KINDS):
        words = [html.Span("all groups") if kind is None else kind_pill(kind)]
        if read is not None:
            count = read.counts.total() if kind is None else read.counts[kind]
            words.append(html.Span(f"{count:,}", className="count"))
        if kind == "unscored" and view.kind != kind and (read is None or not read.counts[kind]):
            continue
        if view.kind == kind and view.group is None:
            items.append(html.Span(words, className="filter current", tabIndex=-1, **{"aria-current": "true"}))
        else:
            items.append(dcc.Link(words, href=address(run, view.but(kind=kind, group=None)), className="filter"))
    if view.group is not None:
        items.append(html.Span(f"only group {view.group}", className="filter current", **{"aria-current": "true"}))
    if view.q:
        items.append(dcc.Link("clear the search", href=address(run, view.but(q="")), className="filter"))
    return html.Nav(items, className="filters", **{"aria-label": "Kinds of groups"})


def _no_rollouts(summary: RunSummary) -> Any:
    """The empty state: how a run gets completions."""
    soon = " This page shows them as soon as they come." if summary.state in ("live", "empty") else ""
    return html.Section(
        [
            html.H2("No completions"),
            html.P(f"This run has recorded none.{soon}"),
            html.P("A run that is watched while it trains keeps them, and the text of some groups of each generation:"),
            html.Pre(html.Code(f"GRPOTrainer(..., callbacks=[{KEEP_ALL}])"), tabIndex=0),
            html.P(["A loop of your own hands them over with ", html.Code("Monitor.rollouts(...)"), "."]),
        ],
        className="empty-state",
    )


def _both(*shards: Shard | None) -> list[Shard]:
    return [shard for shard in shards if shard is not None]
