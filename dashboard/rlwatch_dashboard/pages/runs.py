"""The page "/": all runs under the roots as a grid, runs that differ by their seed folded together.

The page holds a cursor, the number of the look that it shows, and asks every few seconds for what changed since
(`runs_look.py`). assets/runs.js gives the answer to the grid and moves the cursor on. What is searched for, sorted by,
filtered and unfolded stands in the address, which assets/runs_view.js keeps: the server has no part in it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import dash
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update

from rlwatch_dashboard import addresses, parts, theme
from rlwatch_dashboard.grid import runs_grid
from rlwatch_dashboard.pages.missing import no_runs
from rlwatch_dashboard.pages.runs_look import Look, Looks, looks_of
from rlwatch_dashboard.pages.runs_rows import CURVES
from rlwatch_dashboard.pages.runs_tools import tools
from rlwatch_dashboard.roots import Roots

REFRESH_SECONDS = 3


def layout(roots: Roots) -> list[Any]:
    """The page as of now."""
    looks = looks_of(roots)
    look = looks.look()
    return [
        html.H1("Runs"),
        html.Div(_empty(look, roots), id="runs-empty"),
        html.Div([tools(), runs_grid(len(roots.folders) > 1)], id="runs", className=_class(look), style=_colours()),
        html.Div(parts.skipped_list(_skipped(look, roots)), id="runs-skipped"),
        dcc.Store(id="runs-news", data=news(looks, look, {})),
        dcc.Store(id="runs-cursor", data={}),
        dcc.Store(id="runs-again"),  # set by the page when it has taken in an answer after which more is to come soon
        dcc.Interval(id="runs-timer", interval=REFRESH_SECONDS * 1000),
    ]


def follows_by_itself(pathname: str | None, triggered: Collection[str]) -> bool:
    """Whether a change of the address is this page's own affair: only what is searched, sorted or unfolded differs."""
    return set(triggered) == {"url.search"} and not addresses.parts_of(pathname)


def register(app: dash.Dash, roots: Roots) -> None:
    """The page's callbacks: one question to the server, and what the browser does with the answer."""

    @app.callback(  # type: ignore[untyped-decorator]
        Output("runs-news", "data"),
        Output("runs-empty", "children"),
        Output("runs", "className"),
        Output("runs-skipped", "children"),
        Input("runs-timer", "n_intervals"),
        Input("runs-again", "data"),
        State("runs-cursor", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, __: Any, cursor: Any) -> Any:
        cursor = cursor if isinstance(cursor, Mapping) else {}
        looks = looks_of(roots)
        look = looks.look()
        new = news(looks, look, cursor)
        if new["to"] == cursor:
            raise dash.exceptions.PreventUpdate
        other = new["to"]["besides"] != cursor.get("besides")
        return (
            new,
            _empty(look, roots) if other else no_update,
            _class(look) if other else no_update,
            parts.skipped_list(_skipped(look, roots)) if other else no_update,
        )

    app.clientside_callback(
        ClientsideFunction("rlwatchRuns", "take"),
        Output("runs-cursor", "data"),
        Input("runs-news", "data"),
        State("runs-cursor", "data"),
    )


def news(looks: Looks, look: Look, cursor: Mapping[str, Any]) -> dict[str, Any]:
    """What is new since a cursor.

    `rows` are the rows that changed, `ids` all rows that there are, or null where they are those that the page has. A
    cursor that comes from another server, or makes no sense, is answered with everything.
    """
    seen = cursor.get("number") if cursor.get("mark") == looks.mark else None
    since = seen if isinstance(seen, int) else -1
    skipped = json.dumps([[str(item.path), item.why] for item in look.skipped])
    to = {
        "mark": looks.mark,
        "number": look.number,
        "pending": look.pending,
        "besides": f"{zlib.crc32(skipped.encode(errors='replace')):08x}{'' if look.runs else ' empty'}",
    }
    rows = [_with_address(row) for number, row in look.rows.values() if number > since]
    ids = list(look.rows) if look.membership > since else None
    return {"from": dict(cursor), "to": to, "rows": rows, "ids": ids}


def _with_address(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its address, which is another one behind a proxy: it is not kept with the row."""
    return {**row, "href": addresses.run(row["id"])} if row["kind"] == "run" else row


def _empty(look: Look, roots: Roots) -> Any:
    return None if look.runs else no_runs(roots)


def _class(look: Look) -> str:
    return "runs" if look.runs else "runs none"


def _colours() -> dict[str, str]:
    return {f"--of-{column}": theme.colour_of(metric) for column, metric in CURVES.items()}


def _skipped(look: Look, roots: Roots) -> list[Any]:
    return look.skipped if look.runs else [item for item in look.skipped if item.path not in roots.folders]
