"""What can be taken away from the site: a run's data as files, and a chart as a picture.

A row of the data is a step, a column a metric, as `rlwatch.load(run).metrics` has them. In CSV an empty cell is a value
that was not there, `none` one that the trainer gave as None, and `NaN`, `Infinity` and `-Infinity` are themselves.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dash
from dash import html
from flask import Response, abort

from rlwatch.readers import UnreadableError, load
from rlwatch.runs.reader import ALERTS_FILE, read_info, stream_records
from rlwatch_dashboard import addresses
from rlwatch_dashboard.roots import Roots

_FORMULA = ("=", "+", "-", "@")
"""What a cell of text begins with that a spreadsheet would run."""

_PIECE = 64_000  # characters sent at once

FILES = {"data.csv": "CSV", "data.parquet": "Parquet", "alerts.jsonl": "Alerts"}
"""What follows a run's name in the address, and what the link to it is called."""


def links(key: str) -> Any:
    """A run's data as files."""
    titles = {
        "data.csv": "All metrics, a row a step",
        "data.parquet": "All metrics, a row a step",
        "alerts.jsonl": "A line a change of an alert's state",
    }
    ways = [
        html.A(words, href=addresses.run(key, part), download=True, title=titles[part]) for part, words in FILES.items()
    ]
    return html.Nav([html.Span("Download"), *ways], className="downloads", **{"aria-label": "Download this run's data"})


def chart_menu(key: str, title: str) -> Any:
    """Two buttons of a chart's card, which save the chart as it is shown (assets/download.js).

    Args:
        key: Of the chart; a part of the file's name.
        title: Of the chart; it stands in the picture, and says what the buttons are for.
    """
    buttons = [
        html.Button(
            kind.upper(),
            type="button",
            title=f"Save this chart as {kind.upper()}",
            **{
                "data-save": kind,
                "data-chart": key,
                "data-title": title,
                "aria-label": f"Save {title} as {kind.upper()}",
            },
        )
        for kind in ("png", "svg")
    ]
    return html.Div(buttons, className="chart-menu", role="group", **{"aria-label": f"Save {title}"})


def register(app: dash.Dash, roots: Roots) -> None:
    """The addresses of the files."""

    def run_of(key: str) -> Path:
        run = roots.find(key)
        if run is None:
            abort(404)
        try:
            read_info(run)
        except ValueError:
            abort(404)
        return run

    @app.server.route("/run/<key>/data.csv")  # type: ignore[untyped-decorator]
    def as_csv(key: str) -> Response:
        return _file(csv_of(run_of(key)), f"{key}.csv", "text/csv; charset=utf-8")

    @app.server.route("/run/<key>/data.parquet")  # type: ignore[untyped-decorator]
    def as_parquet(key: str) -> Response:
        try:
            data = parquet_of(run_of(key))
        except UnreadableError:
            abort(404)
        return _file(data, f"{key}.parquet", "application/vnd.apache.parquet")

    @app.server.route("/run/<key>/alerts.jsonl")  # type: ignore[untyped-decorator]
    def alerts(key: str) -> Response:
        return _file(lines_of(run_of(key) / ALERTS_FILE), f"{key}-alerts.jsonl", "application/jsonl; charset=utf-8")


def csv_of(run: Path) -> Iterator[str]:
    """The table as CSV, in pieces: the memory that it takes does not grow with the run.

    The file is gone through twice: for the names of the metrics, then for their values. Steps that come in between are
    left for the next time.
    """
    names: dict[str, None] = {}
    last = -1
    for record in _records(run):
        names.update(dict.fromkeys(record.metrics))
        last = record.step
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["step", "time", *(text_cell(name) for name in names)])
    for record in _records(run):
        if record.step > last:
            break
        values = record.metrics
        writer.writerow(
            [record.step, _number(record.time), *(_number(values[name]) if name in values else "" for name in names)]
        )
        if buffer.tell() > _PIECE:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def parquet_of(run: Path) -> bytes:
    """The table as Parquet: null is a value that was not there or was None, NaN is NaN.

    Raises:
        UnreadableError: It is no run.
    """
    (read,) = load(run)
    buffer = io.BytesIO()
    read.metrics.write_parquet(buffer)
    return buffer.getvalue()


def lines_of(path: Path) -> Iterator[bytes]:
    """A file's whole lines; nothing where there is no file. A line in flight is left out."""
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line
    except OSError:
        return


def text_cell(text: str) -> str:
    """Text as a spreadsheet takes it for text, in one line: what would be a formula has an apostrophe before it.

    >>> text_cell("reward/mean"), text_cell("=1+1")
    ('reward/mean', "'=1+1")
    """
    text = re.sub(r"[\x00-\x1f\x7f]+", " ", text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def attachment(name: str) -> str:
    """What makes the browser save an answer under a name, whatever is in it (RFC 6266).

    >>> attachment('a "b"/ü.csv')
    'attachment; filename="a-b---.csv"; filename*=UTF-8\\'\\'a%20%22b%22-%C3%BC.csv'
    """
    whole = re.sub(r"[/\\\x00-\x1f\x7f]+", "-", name).encode("utf-8", "replace").decode()
    plain = re.sub(r"[^A-Za-z0-9._@-]+", "-", whole)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(whole, safe='')}"


def _records(run: Path) -> Iterator[Any]:
    try:
        yield from stream_records(run)
    except OSError:  # there is no step yet
        return


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _file(data: Any, name: str, kind: str) -> Response:
    return Response(
        data, content_type=kind, headers={"Content-Disposition": attachment(name), "Cache-Control": "no-store"}
    )
