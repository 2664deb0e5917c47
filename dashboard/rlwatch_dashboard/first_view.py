"""What a page shows before its scripts run: the components that Dash gets, as plain HTML; and Dash's answers with it.

It is left out where the address asks for what only scripts can give (a run over time or tokens, a list that is searched
or sorted), and where anything goes wrong: the page then comes as it does without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import dash_ag_grid as dag
import orjson
from dash import Dash, dcc
from dash._utils import to_json

from rlwatch_dashboard import addresses
from rlwatch_dashboard.first_charts import drawing
from rlwatch_dashboard.first_rows import newest_rows, table
from rlwatch_dashboard.loading import PLOTLY, as_data
from rlwatch_dashboard.plain_html import as_html
from rlwatch_dashboard.run_view import RunView

Page = tuple[list[Any], str]

_LOG = logging.getLogger(__name__)


def has_one(pathname: str, search: str) -> bool:
    """Whether the page at an address has first content.

    >>> has_one("/", ""), has_one("/", "?q=a"), has_one("/run/a", "?smooth=0.9"), has_one("/run/a", "?x=time")
    (True, False, True, False)
    """
    steps = addresses.parts_of(pathname)
    if not steps:
        return not search
    return len(steps) == 2 and steps[0] == "run" and RunView.of(search).x == "step"


def needed(pathname: str) -> list[str]:
    """The parts of `loading.PARTS` that the page at an address is made of."""
    steps = addresses.parts_of(pathname)
    if not steps:
        return ["dash_ag_grid"]
    return [*(["dash_mantine_components"] if steps == ["compare"] else []), PLOTLY]


def pieces(app: Dash, bar: Any, page_at: Callable[[str, str], Page], pathname: str, search: str) -> Iterator[str]:
    """The first content of a page, and then the answers that its scripts will ask for; nothing where it has none."""
    if not has_one(pathname, search):
        return
    try:
        page, title = page_at(pathname, search)
        drawn = as_html(page, {dcc.Graph: _chart, dag.AgGrid: lambda grid: _grid(grid, page)})
        yield f'<div id="first">{as_html(bar)}<main>{drawn}</main></div>'
        answer = {"multi": True, "response": {"page": {"children": page}, "title": {"data": title}}}
        data = {
            "address": [pathname, search],
            "page": answer,
            "layout": app.get_layout(),
            "dependencies": app._callback_list,
        }
        yield "".join(as_data(name, as_json(value)) for name, value in data.items())
    except Exception:  # the page without it is the same, a moment later
        _LOG.exception("the first content of %s could not be made", pathname)


def as_json(value: Any) -> str:
    """As Dash writes its answers, and several times as fast: what it looks for in every list is not there."""
    try:
        return orjson.dumps(value, default=lambda part: part.to_plotly_json()).decode()
    except (TypeError, AttributeError):  # as a whole number that is too large
        return str(to_json(value))


def _chart(graph: Any) -> str:
    return f'<div class="first-plot">{drawing(graph.figure)}</div>'


def _grid(grid: Any, page: list[Any]) -> str:
    news = next(part.data for part in page if getattr(part, "id", "") == "runs-news")
    return table(newest_rows(news["rows"]), any(column["colId"] == "root" for column in grid.columnDefs))
