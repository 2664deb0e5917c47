"""A page's parts as plain HTML, which a browser can show before any script has run.

What only a script could do is left out or held still: the data that scripts read, stores and timers. Ids become other
ones, for the page that the scripts make has those; a label still finds its field. A chart and a grid are drawn by what
the caller gives for them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from typing import Any

from dash import dcc
from dash.development.base_component import Component

Drawers = Mapping[type, Callable[[Any], str]]

EMPTY = frozenset({"br", "hr", "img", "input"})
"""Elements without an end."""

UNSEEN = (dcc.Store, dcc.Interval, dcc.Location, dcc.Download)

HELD = frozenset({"button", "input", "select"})
"""Elements that do nothing yet, and say so."""

_NAMES = {"classname": "class", "htmlfor": "for"}
_KEPT_DATA = frozenset({"data-tip"})
_DROPPED = frozenset({"children", "n_clicks", "disable_n_clicks"})


def as_html(part: Any, drawers: Drawers | None = None) -> str:
    """A component, a text, or a list of such, as HTML; every text and every value is escaped.

    >>> from dash import html
    >>> as_html(html.P(["a < b", html.A("x", href="/?a=1&b=2", id="y", className="z")]))
    '<p>a &lt; b<a id="first-y" class="z" href="/?a=1&amp;b=2">x</a></p>'

    Args:
        part: It.
        drawers: By the kind of a component, what draws it instead.

    Raises:
        ValueError: A component is of a kind that is not known here.
    """
    if part is None:
        return ""
    if isinstance(part, (list, tuple)):
        return "".join(as_html(one, drawers) for one in part)
    if not isinstance(part, Component):
        return html.escape(str(part), quote=False)
    for kind, draw in (drawers or {}).items():
        if isinstance(part, kind):
            return draw(part)
    if isinstance(part, UNSEEN):
        return ""
    return _element(part, drawers)


def _element(part: Component, drawers: Drawers | None) -> str:
    props = part.to_plotly_json()["props"]
    if isinstance(part, dcc.Link):
        tag = "a"
    elif isinstance(part, dcc.Input):
        tag = "input"
    elif part._namespace == "dash_html_components":
        tag = part._type.lower()
    else:
        raise ValueError(f"a component {part._namespace}.{part._type} cannot be drawn without scripts")
    held = " disabled" if tag in HELD else ""
    begin = f"<{tag}{''.join(_attribute(*item) for item in props.items())}{held}>"
    return begin if tag in EMPTY else f"{begin}{as_html(props.get('children'), drawers)}</{tag}>"


def _attribute(name: str, value: Any) -> str:
    is_data = name.startswith("data-") and name not in _KEPT_DATA
    if name in _DROPPED or is_data or value is None or value is False or (name == "id" and not isinstance(value, str)):
        return ""
    name = _NAMES.get(name.lower(), name.lower())
    if value is True:
        return f" {name}"
    if name in ("id", "for"):
        value = f"first-{value}"
    text = _style(value) if isinstance(value, Mapping) else str(value)
    return f' {name}="{html.escape(text)}"'


def _style(style: Mapping[str, Any]) -> str:
    """A style as CSS.

    >>> _style({"--of-x": "red", "backgroundColor": "#fff", "height": None})
    '--of-x:red;background-color:#fff'
    """
    named = {re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", name): value for name, value in style.items()}
    return ";".join(f"{name}:{value}" for name, value in named.items() if value is not None)
