"""Puts the page together: the shell around every page, which page an address shows, the headers of each answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dash import ClientsideFunction, Dash, Input, Output, ctx, dcc, html
from dash.exceptions import PreventUpdate
from flask import Response, request, stream_with_context

from rlwatch_dashboard import addresses, downloads, first_view, loading, theme
from rlwatch_dashboard.access import Access, guard, path_as_asked
from rlwatch_dashboard.feed import load
from rlwatch_dashboard.pages import alert as alert_page
from rlwatch_dashboard.pages import alerts as alerts_part
from rlwatch_dashboard.pages import compare as compare_page
from rlwatch_dashboard.pages import completions as completions_page
from rlwatch_dashboard.pages import denominators as denominators_page
from rlwatch_dashboard.pages import run as run_page
from rlwatch_dashboard.pages import runs as runs_page
from rlwatch_dashboard.pages.missing import not_found
from rlwatch_dashboard.roots import Roots

INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{%title%}</title>
{%favicon%}
{%css%}
<style>%COLOURS%</style>
<script>%SCHEME%</script>
</head>
<body>
<noscript>This page needs JavaScript; without it there is <code>rlwatch runs</code>.</noscript>
<!--first-->
{%app_entry%}
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>"""

SCHEME = """
let scheme = null;
try { scheme = localStorage.getItem("mantine-color-scheme-value"); } catch { /* storage may be forbidden */ }
if (scheme !== "dark" && scheme !== "light") {
  scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
document.documentElement.dataset.mantineColorScheme = scheme;
"""
"""Light or dark before the first paint: assets/scheme.js, which looks after it from then on, comes too late."""

RUN_PAGES: dict[str, Any] = {"": run_page, "denominators": denominators_page}
"""A run's pages, by what follows its name in the address; their names are in `pages.run.TABS`."""

POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
)
"""The browser itself keeps every request of the page on this machine, whatever a run's files say."""


class Site(Dash):  # type: ignore[misc]
    """Dash, with pages that show something before their scripts run.

    Args:
        roots: The folders of runs.
        options: Of Dash.
    """

    def __init__(self, roots: Roots, **options: Any) -> None:
        self._roots = roots
        super().__init__(__name__, **options)

    def index(self, *args: Any, **kwargs: Any) -> Any:
        """The page at any address, in pieces."""
        page, scripts = loading.taken_out(super().index(*args, **kwargs))
        pathname = path_as_asked()
        search = f"?{request.query_string.decode(errors='replace')}" if request.query_string else ""
        first = first_view.pieces(self, _bar(), lambda *at: page_at(self._roots, *at), pathname, search)
        whole = loading.streamed(page, scripts, first_view.needed(pathname), first)
        answer = Response(stream_with_context(whole), mimetype="text/html")
        answer.headers["Cache-Control"] = "no-cache"
        return answer


def create_app(given: Path | Sequence[Path] | Roots, *, access: Access | None = None, base_path: str = "") -> Dash:
    """The app for the runs under a folder or several. None need exist yet. The app keeps nothing between requests.

    Args:
        given: The folders.
        access: Who may see it; by default whoever asks for it by a name of this machine.
        base_path: What stands before every address, as "/rlwatch"; the server that runs the app takes it away.
    """
    roots = Roots.of(given)
    app = Site(
        roots,
        title="rlwatch",
        update_title=None,
        index_string=INDEX.replace("%COLOURS%", theme.css_variables()).replace("%SCHEME%", SCHEME),
        suppress_callback_exceptions=True,
        routes_pathname_prefix="/",
        requests_pathname_prefix=f"{base_path}/",
    )
    guard(app.server, access or Access())
    app.layout = _shell  # called for each page load: its links know where the site is
    _route(app, roots)
    runs_page.register(app, roots)
    for page in RUN_PAGES.values():
        page.register(app, roots)
    completions_page.register(app, roots)
    alert_page.register(app, roots)
    alerts_part.register(app, roots)
    compare_page.register(app, roots)
    downloads.register(app, roots)
    app.server.after_request(_add_headers)
    return app


def page_at(
    given: Path | Sequence[Path] | Roots, pathname: str | None, search: str | None = None
) -> tuple[list[Any], str]:
    """What an address shows, and its title."""
    roots = Roots.of(given)
    steps = addresses.parts_of(pathname)
    if not steps:
        return runs_page.layout(roots), "Runs · rlwatch"
    if steps == ["compare"]:
        return compare_page.layout(roots, search), compare_page.TITLE
    start, name, part = steps[0], unquote(steps[1]) if len(steps) > 1 else "", "/".join(steps[2:])
    run = roots.find(name) if start == "run" else None
    if run is not None and len(steps) == 5 and steps[2] == "alert":
        return _alert_at(run, name, *map(unquote, steps[3:]))
    if run is None or part not in (*RUN_PAGES, "completions"):
        why = "there is no such run here." if start == "run" and run is None else "there is no such page."
        what = name if start == "run" and run is None else f"/{'/'.join(steps)}"
        return [not_found(what, why)], "Not found · rlwatch"
    try:
        if part == "completions":
            return completions_page.layout(run, name, search), completions_page.title(run.name)
        now = load(run, name)
    except ValueError as error:
        return [not_found(name, f"{error}.")], "Not found · rlwatch"
    page = run_page.layout(now, search, roots) if part == "" else RUN_PAGES[part].layout(now)
    return page, RUN_PAGES[part].title(now.summary)


def _alert_at(run: Path, key: str, rule: str, since: str) -> tuple[list[Any], str]:
    try:
        page = alert_page.layout(run, key, rule, since)
        return page, alert_page.title(run.name, rule) if len(page) > 1 else "Not found · rlwatch"
    except ValueError as error:
        return [not_found(key, f"{error}.")], "Not found · rlwatch"


def _bar() -> Any:
    toggle = html.Button(
        [html.Span("☀", **{"aria-hidden": "true"}), html.Span("☾", **{"aria-hidden": "true"})],
        type="button",
        className="scheme",
        **{"aria-label": "Switch between light and dark"},
    )
    return html.Div(
        [
            html.Nav(
                [
                    dcc.Link("rlwatch", href=addresses.runs(), className="brand"),
                    dcc.Link("Compare", href=addresses.compare()),
                ],
                **{"aria-label": "Site"},
            ),
            html.Div(id="connection", className="connection", role="status"),
            toggle,
        ],
        className="bar",
    )


def _shell() -> Any:
    return html.Div(
        [
            dcc.Location(id="url"),
            dcc.Store(id="reload"),
            dcc.Store(id="title"),
            dcc.Store(id="titled"),
            _bar(),
            html.Main(id="page"),
        ]
    )


def _route(app: Dash, roots: Roots) -> None:
    @app.callback(  # type: ignore[untyped-decorator]
        Output("page", "children"),
        Output("title", "data"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("reload", "data"),
    )
    def show(pathname: str | None, search: str | None, _: Any) -> Any:
        if runs_page.follows_by_itself(pathname, ctx.triggered_prop_ids):
            raise PreventUpdate
        return page_at(roots, pathname, search)

    app.clientside_callback(ClientsideFunction("rlwatch", "title"), Output("titled", "data"), Input("title", "data"))


def _add_headers(response: Any) -> Any:
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
