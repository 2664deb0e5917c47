"""The newest runs as a plain table, for the time until the grid draws them: the same rows, in the same order.

The grid's own cells are drawn by assets/runs_cells.js. Here is what can be read without a click; the box of a run, its
tip and its folded runs come with the grid.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from rlwatch_dashboard import addresses
from rlwatch_dashboard.grid import COLUMNS
from rlwatch_dashboard.pages.runs_rows import CURVES

SEEN = 40
"""Rows that are drawn: more than any screen shows."""

WIDTH, HEIGHT = 100, 24
"""Of a curve's picture, as in assets/runs_cells.js."""

Row = Mapping[str, Any]


def newest_rows(rows: Iterable[Row]) -> list[Row]:
    """The rows that the grid shows at first: groups and runs of no group, the newest first."""
    top = [row for row in rows if not row.get("group")]
    return sorted(top, key=lambda row: -(row["started"] or 0))


def table(rows: Sequence[Row], several_roots: bool) -> str:
    """Rows as a table."""
    shown = [name for name in COLUMNS if name != "root" or several_roots]
    heads = "".join(f'<th scope="col" class="cell-{name}">{html.escape(COLUMNS[name][0])}</th>' for name in shown)
    body = "".join(_row(row, shown) for row in rows[:SEEN])
    caption = '<caption class="visually-hidden">Runs</caption>'
    return f'<table class="first-rows">{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'


def _row(row: Row, shown: Sequence[str]) -> str:
    cells = (f'<td class="cell-{name}" data-label="{COLUMNS[name][0]}">{_cell(row, name)}</td>' for name in shown)
    return f"<tr>{''.join(cells)}</tr>"


def _cell(row: Row, name: str) -> str:
    """A cell's content; what is missing is a dash and never a zero."""
    if name == "pick":
        return '<input type="checkbox" disabled aria-hidden="true">'
    if name in CURVES:
        return f'<div class="with-curve">{sparkline(name, row["lines"].get(name) or [])}{_number(row[name])}</div>'
    if name == "zero":
        return _number(row[name])
    if name in ("started", "seen"):
        return _moment(row[name], "relative" if name == "seen" else "local")
    return _WORDS[name](row)


def sparkline(name: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """Curves on one scale as a picture: a number is a point, None a gap, False no point.

    With the smallest and the largest number l and h and the first and the last step a and b, the point (s, y) is at
    2 + (s - a) / (b - a) * (WIDTH - 4) and at HEIGHT - 2 - (y - l) / (h - l) * (HEIGHT - 4).
    """
    values = [y for line in lines for y in line["y"] if _is_number(y)]
    if not lines:
        return ""
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    first = min(line["x"] for line in lines)
    last = max(line["x"] + line["dx"] * (len(line["y"]) - 1) for line in lines)
    paths = []
    for line in lines:
        pen, path = "M", ""
        for number, y in enumerate(line["y"]):
            if y is None:
                pen = "M"
            if not _is_number(y):
                continue
            step = line["x"] + number * line["dx"]
            x = (step - first) / (last - first) * (WIDTH - 4) + 2 if last > first else WIDTH / 2
            up = (y - low) / (high - low) if high > low else 0.5
            path += f"{pen}{x:.1f} {HEIGHT - 2 - up * (HEIGHT - 4):.1f}" + ("h0" if pen == "M" else "")
            pen = "L"
        paths.append(f'<path d="{path}"/>')
    several = " several" if len(lines) > 1 else ""
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
    words = f"{name.capitalize()}: between {low:.3g} and {high:.3g}" if values else f"{name.capitalize()}: no number"
    return f'<svg class="sparkline of-{name}{several}" {size} role="img" aria-label="{words}">{"".join(paths)}</svg>'


def _is_number(y: Any) -> bool:
    return isinstance(y, (int, float)) and not isinstance(y, bool) and math.isfinite(y)


def _absent(words: str = "not recorded") -> str:
    return f'<span class="absent" role="img" aria-label="{words}" title="{words}">–</span>'


def _number(cell: Mapping[str, Any] | None) -> str:
    if not cell:
        return _absent()
    strange = f" · {cell['strange']} no number" if cell.get("strange") else ""
    spread = f'<small class="absent">{html.escape(cell["range"] + strange)}</small>' if cell.get("range") else ""
    return f'<span class="number">{html.escape(cell["text"])}{spread}</span>'


def _moment(seconds: float | None, kind: str) -> str:
    if seconds is None:
        return _absent("unknown")
    moment = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    return f'<time datetime="{moment}" class="{kind}"></time>'


def _name(row: Row) -> str:
    name = html.escape(row["name"])
    if row["kind"] == "run":
        return f'<a class="run-link" href="{html.escape(addresses.run(row["id"]))}">{name}</a>'
    of = f"{len(row['members'])} runs, {row['seeds']} seeds"
    arrow = '<span class="arrow" aria-hidden="true">▸</span>'
    return f'<span class="fold">{arrow}<span class="words">{name} <small>{of}</small></span></span>'


def _state(row: Row) -> str:
    members = len(row["members"]) if row["kind"] == "group" else 0
    of = f" {row['of_state']} of {members}" if members and row["of_state"] < members else ""
    return f'<span class="pill state-{row["state"]}"><i class="dot"></i>{row["state"]}{of}</span>'


def _alerts(row: Row) -> str:
    if not row["alerts"]:
        return '<span class="absent">none</span>'
    pill = f'<span class="pill severity-{row["severity"]}">{row["severity"]}</span>'
    said = html.escape(row["answered"] if row["kind"] == "group" else row["answered"].split(" ")[0])
    answered = f' <span class="pill answered" title="{html.escape(row["answered"])}">{said}</span>' if said else ""
    return f'<span class="open-alerts">{pill} <small class="absent">{row["alerts"]} open</small>{answered}</span>'


def _step(row: Row) -> str:
    if row["step"] is None:
        return _absent("no step yet")
    planned = f'<small class="absent">of {row["planned"]:,}</small>' if row["planned"] else ""
    return f'<span class="number">{row["step"]:,}{planned}</span>'


def _seed(row: Row) -> str:
    if row["kind"] == "group":
        return f'<small class="absent">{row["seeds"]} seeds</small>'
    return _absent("unknown") if row["seed"] is None else str(row["seed"])


_WORDS: dict[str, Callable[[Row], str]] = {
    "name": _name,
    "state": _state,
    "how": lambda row: f'<span class="tone tone-{row["tone"]}"><span>{html.escape(row["how"])}</span></span>',
    "step": _step,
    "alerts": _alerts,
    "seed": _seed,
    "root": lambda row: f'<span class="root">{html.escape(row["root"].replace(chr(92), "/").split("/")[-1])}</span>',
}
