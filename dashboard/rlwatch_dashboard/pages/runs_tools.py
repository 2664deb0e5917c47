"""What stands over the grid of runs: search, filters, the order on a narrow page, and the way to a comparison."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from rlwatch_dashboard import addresses
from rlwatch_dashboard.grid import COLUMNS

# name in the address → its label, and the choices by their value
FILTERS: dict[str, tuple[str, dict[str, str]]] = {
    "state": ("State", {"live": "live", "stalled": "stalled", "ended": "ended", "empty": "no step yet"}),
    "verdict": (
        "How it is",
        {
            "critical": "not learning",
            "warning": "at risk",
            "info": "worth knowing",
            "good": "no open alert",
            "unknown": "too early to say",
        },
    ),
    "severity": (
        "Worst alert",
        {"critical": "critical", "warning": "warning", "info": "info", "none": "none"},
    ),
}


def tools() -> Any:
    """The tools; assets/runs_view.js reads them and writes them from the address."""
    search = dcc.Input(id="runs-q", type="search", value="", placeholder="name, words, seed", autoComplete="off")
    return html.Div(
        [
            html.Div([html.Label("Search", htmlFor="runs-q"), search], className="tool search"),
            *(_select(name, label, {"": "any", **choices}) for name, (label, choices) in FILTERS.items()),
            _select("sort", "Order", {"": "newest first", **_orders()}, "only-narrow"),
            html.Button("Clear", id="runs-clear", type="button", hidden=True),
            html.Span(id="runs-count", role="status", className="absent runs-count"),
            html.Span(
                [
                    html.A("Compare", id="runs-compare", className="button", **{"data-base": addresses.compare()}),
                    html.Button("Choose none", id="runs-none", type="button", hidden=True),
                ],
                className="compare",
            ),
        ],
        id="runs-tools",
        className="runs-tools",
        role="search",
        **{"aria-label": "Runs"},
    )


def _select(name: str, label: str, choices: dict[str, str], kind: str = "") -> Any:
    options = [html.Option(words, value=value) for value, words in choices.items()]
    box = html.Select(options, id=f"runs-{name}", **{"data-filter": name})
    return html.Div([html.Label(label, htmlFor=f"runs-{name}"), box], className=f"tool {kind}".strip())


def _orders() -> dict[str, str]:
    named = {name: heading for name, (heading, _, _) in COLUMNS.items() if name not in ("pick", "root")}
    return {
        f"{sign}{name}": f"{heading}, {words}"
        for name, heading in named.items()
        for sign, words in (("", "rising"), ("-", "falling"))
    }
