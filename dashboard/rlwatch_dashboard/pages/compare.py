"""The page "/compare": runs side by side, and first of all what so many seeds can and cannot show of them.

The address names the runs, `?run=a&run=b`, and what they are grouped by, `&by=setting`. The page itself comes at once;
what takes time, reading and judging the runs as `rlwatch compare` does, is asked for by the page once it is there.
"""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, State, dcc, html

from rlwatch.report.compare import Comparison, compare
from rlwatch.report.compare_sentences import sentences
from rlwatch.report.grouping import differing, settings_of
from rlwatch.report.sentences import counted
from rlwatch_dashboard import addresses
from rlwatch_dashboard.pages import compare_parts as made
from rlwatch_dashboard.pages.compare_form import form, groupings
from rlwatch_dashboard.pages.compare_read import Cache, Read, read
from rlwatch_dashboard.pages.compare_view import MOST_RUNS, Chosen
from rlwatch_dashboard.roots import Roots

TITLE = "Compare runs · rlwatch"


def layout(roots: Roots, search: str | None) -> list[Any]:
    """The page: the choice, and room for what comes of it."""
    chosen = Chosen.of(search)
    waiting = html.P(f"Reading {counted(len(chosen.runs), 'run')} ...", className="absent") if chosen.runs else None
    return [
        html.H1("Compare runs"),
        form(roots, chosen),
        html.Div(
            waiting, id="compare-found", **{"aria-live": "polite", "aria-busy": "true" if chosen.runs else "false"}
        ),
        dcc.Store(id="compare-asked", data=search if chosen.runs else None),
        dcc.Location(id="compare-url", refresh="callback-nav"),
    ]


def register(app: dash.Dash, roots: Roots) -> None:
    """The page's callbacks: the comparison, and the way to another one."""
    cache = Cache()

    @app.callback(  # type: ignore[untyped-decorator]
        Output("compare-found", "children"), Output("compare-found", "aria-busy"), Input("compare-asked", "data")
    )
    def show(search: str | None) -> Any:
        chosen = Chosen.of(search)
        if not chosen.runs:
            raise dash.exceptions.PreventUpdate
        return found(roots, chosen, cache), "false"

    @app.callback(  # type: ignore[untyped-decorator]
        Output("compare-url", "search"),
        Input("compare-go", "n_clicks"),
        State("compare-runs", "value"),
        State("compare-listed", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def go(clicks: int | None, ticked: list[str] | None, listed: list[str] | None, search: str | None) -> Any:
        runs = [key for key in listed or () if key in (ticked or ())]
        wanted = addresses.compare(runs, Chosen.of(search).by).partition("?")[2]
        if not clicks or f"?{wanted}" == (search or "?"):
            raise dash.exceptions.PreventUpdate
        return f"?{wanted}" if wanted else ""


def found(roots: Roots, chosen: Chosen, cache: Cache) -> list[Any]:
    """The comparison of what is chosen: what cannot be compared, what can be said, the figures, the tables."""
    got = read(roots, chosen.runs, cache)
    said = _left_out(chosen, got)
    if not got.analyses:
        return [*said, html.P("None of these runs can be compared.")]
    by: tuple[str, ...] = chosen.by
    try:
        comparison = compare(got.analyses, [name for name in by if "=" not in name])
    except ValueError as error:
        said.append(_note(f"Grouped by all settings that differ: {error}."))
        comparison = compare(got.analyses)
    settings = differing([settings_of(analysis.run) for analysis in got.analyses])
    return [
        *said,
        groupings(chosen, settings, comparison.by),
        made.section("says", "What these seeds can show", _says(comparison, got)),
        made.legend_of(comparison),
        *made.figures(comparison, got.analyses),
        *made.tables(comparison, dict(zip([a.run.path for a in got.analyses], got.keys, strict=True))),
    ]


def _says(comparison: Comparison, got: Read) -> Any:
    said = [*sentences(comparison), *(f"{note[0].upper()}{note[1:]}." for note in comparison.notes)]
    if got.live:
        said.append(f"{', '.join(got.live)}: not ended. The numbers are those of now; reload the page for later ones.")
    if not said:
        said = ["Nothing can be said of a difference: no two groups have final rewards."]
    return html.Ul([html.Li(text) for text in said], className="compare-says")


def _left_out(chosen: Chosen, got: Read) -> list[Any]:
    said: list[Any] = []
    if chosen.left_out:
        said.append(_note(f"Only the first {MOST_RUNS} runs are compared; {chosen.left_out} more were named."))
    if got.unreadable:
        items = [html.Li([html.Code(key), f": {why}"]) for key, why in got.unreadable.items()]
        words = f"{counted(len(items), 'run')} could not be read and {'is' if len(items) == 1 else 'are'} left out:"
        said.append(html.Div([html.P(words), html.Ul(items)], className="note tone-warning"))
    return said


def _note(text: str) -> Any:
    """A remark over the comparison."""
    return html.P(text, className="note")
