"""Jupyter notebooks: the table of metrics that a trainer shows in its cell's output, or what it printed there."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from rlwatch.readers.console import dict_log
from rlwatch.readers.fields import Rows, has_metrics
from rlwatch.readers.jsontext import document
from rlwatch.readers.rows import Log, Row
from rlwatch.readers.source import Source, UnreadableError

if TYPE_CHECKING:
    from rlwatch.readers.loading import Options


def sniff(source: Source) -> bool:
    """An object with cells."""
    head = source.head_text.lstrip()
    return head.startswith("{") and ('"cells"' in head or '"nbformat"' in head)


def read(source: Source, options: Options) -> list[Log]:
    """The rows of its tables, or where it has none, of the dicts in its outputs.

    Raises:
        UnreadableError: It is broken, or no metrics are in its outputs.
    """
    notebook, _ = document(source)
    outputs = list(_outputs(notebook))
    make = Rows()
    rows: list[Row] = []
    for output in outputs:
        html = _text(output.get("data"), "text/html")
        if "<table" in html:
            mine = [row for table in _tables(html) if table for row in make.table(table[0], table[1:])]
            if has_metrics(mine):
                rows += mine
    if rows:
        return [Log(rows, "notebook", notes=["read from the tables in its outputs"])]
    printed = (line for output in outputs for line in _printed(output).replace("\r", "\n").split("\n"))
    log = dict_log(printed)
    if log is None:
        raise UnreadableError("no table and no dict in its outputs has a metric of a training")
    log.format = "notebook"
    return [log]


def _outputs(notebook: Any) -> Iterator[dict[str, Any]]:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else []:
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else []:
            if isinstance(output, dict):
                yield output


def _printed(output: dict[str, Any]) -> str:
    return _text(output, "text") or _text(output.get("data"), "text/plain")


def _text(data: Any, key: str) -> str:
    """A notebook's text, which is a string or a list of its lines."""
    value = data.get(key) if isinstance(data, dict) else None
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _tables(html: str) -> list[list[list[str]]]:
    parser = _Tables()
    parser.feed(html)
    parser.close()
    return parser.tables


class _Tables(HTMLParser):
    """The cells of each table, line by line."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[list[str]]] = []
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A table, a line of it or a cell of that begins."""
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        """A cell ends."""
        if tag in ("th", "td") and self._cell is not None:
            if self.tables and self.tables[-1]:
                self.tables[-1][-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data: str) -> None:
        """What stands in it."""
        if self._cell is not None:
            self._cell.append(data)
