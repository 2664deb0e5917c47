"""Pieces of the page of denominators: a section with a heading, a bar, a table that becomes cards on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html


def section(key: str, heading: str, *children: Any) -> Any:
    """A part of the page, named by its heading."""
    return html.Section(
        [html.H2(heading, id=f"part-{key}"), *children],
        className=f"part part-{key}",
        **{"aria-labelledby": f"part-{key}"},
    )


def bar(share: float, kind: str = "") -> Any:
    """A bar of a share of its cell's width. The number stands beside it, so it is nothing to a screen reader."""
    width = f"{100 * min(max(share, 0.0), 1.0):.1f}%"
    return html.Div(html.I(style={"width": width}), className=f"bar-track {kind}".strip(), **{"aria-hidden": "true"})


def heads(*names: str, numbers: Sequence[str] = ()) -> Any:
    """A table's head; over bars stands nothing."""
    cells = [
        html.Th(name, scope="col", className="n" if name in numbers else None) if name else html.Td() for name in names
    ]
    return html.Thead(html.Tr(cells))


def cell(label: str, content: Any, kind: str = "") -> Any:
    """A table's cell. On a narrow screen its row becomes a card, and it carries its column's name."""
    return html.Td(content, className=kind, **{"data-label": label})


def number(label: str, text: str) -> Any:
    """A cell with a number."""
    return cell(label, text, "n")
