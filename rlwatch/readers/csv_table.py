"""Tables with a separator: commas, tabs or semicolons, the names in the first line.

    Step,Training Loss,reward,reward_std,completion_length,kl,rewards / match_format_exactly

What wandb exports has the run's name before each metric's, with " - " between: that is a log for each run.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from rlwatch.readers.fields import STEP_KEYS, Rows, check_count, has_metrics
from rlwatch.readers.rows import NOTHING, Log, number
from rlwatch.readers.source import HEAD, Source, UnreadableError
from rlwatch.runs.aliases import normal

if TYPE_CHECKING:
    from rlwatch.readers.loading import Options

SEPARATORS = (",", "\t", ";")
COLUMNS = 200_000
FIELD = 1 << 20

_BETWEEN = " - "
_BOUNDS = ("__MIN", "__MAX")
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*")
_AXES = {"Step", "Relative Time (Process)", "Relative Time (Wall)", "Wall Time"}


def sniff(source: Source) -> bool:
    """A first line of names, and a second one of as many cells, most of them numbers or empty."""
    if source.is_binary:
        return False
    lines = [line for line in re.split(r"\r\n|\n|\r", source.head_text) if line.strip() and not line.startswith("#")]
    separator = _separator(lines[0]) if lines else None
    if separator is None or "{" in lines[0][:200]:
        return False
    if len(lines) < 2:
        return len(source.head) >= HEAD  # a first line that goes on: of a wide table
    parsed = _parsed([line.replace("\0", "") for line in lines[:2]], separator)
    if len(parsed) < 2:
        return False
    header, *cells = parsed
    complete = len(source.head) < HEAD or len(lines) > 2
    named = sum(number(cell) is NOTHING for cell in header)
    numeric = sum(not cell.strip() or number(_point(cell, separator)) is not NOTHING for cell in cells[0])
    return (
        (len(header) == len(cells[0]) or not complete) and 2 * named > len(header) and 2 * numeric >= len(cells[0]) > 0
    )


def read(source: Source, options: Options) -> list[Log]:
    """The rows, one a line.

    Raises:
        UnreadableError: The table is broken, or none of its columns is a metric of a training.
    """
    lines = (line.replace("\0", "") for line in source.lines() if line.strip() and not line.startswith("#"))
    first = next(lines, "")
    separator = _separator(first)
    if separator is None:
        raise UnreadableError("its first line is no header")
    try:
        table = _rows(chain([first], lines), separator)
        header = next(table, [])
        if len(header) > COLUMNS:
            raise UnreadableError(f"it has {len(header)} columns")
        logs = _logs(header, table)
    except csv.Error as error:
        raise UnreadableError(f"its table is broken: {error}") from None
    logs = [log for log in logs if has_metrics(log.rows)]
    if not logs:
        raise UnreadableError("none of its columns is a metric of a training")
    return logs


def _logs(header: Sequence[str], table: Iterator[list[str]]) -> list[Log]:
    names = [normal(cell) for cell in header]
    runs: dict[str | None, list[tuple[int, str]]] = {}
    for place, name in enumerate(names):
        of, _, metric = name.rpartition(_BETWEEN)
        if not metric.endswith(_BOUNDS):
            runs.setdefault(of or None, []).append((place, metric))
    shared = runs.pop(None, [])
    if not runs or not any(name in STEP_KEYS or name in _AXES for _, name in shared):
        rows = []
        for row in Rows().table(header, table):
            rows.append(row)
            check_count(len(rows))
        return [Log(rows, "csv", notes=_twice(names))]
    lines = []
    for cells in table:
        lines.append(cells)
        check_count(len(lines) * max(1, len(runs) // 10))
    logs = []
    for run, columns in runs.items():
        chosen = [*((place, name) for place, name in shared if name not in _AXES or name == "Step"), *columns]
        metrics = {place for place, _ in columns}
        mine = (
            [cells[place] if place < len(cells) else "" for place, _ in chosen]
            for cells in lines
            if any(place < len(cells) and cells[place].strip() for place in metrics)
        )
        logs.append(Log(list(Rows().table([name for _, name in chosen], mine)), "csv", name=run))
    return logs


def _twice(names: Sequence[str]) -> list[str]:
    twice = sorted(name for name, count in Counter(names).items() if count > 1 and name)
    return [f"several columns are called {name}: the last one is read" for name in twice[:5]]


def _separator(line: str) -> str | None:
    """The one that splits a header into the most cells; None where there are fewer than two."""
    best = max(SEPARATORS, key=line.count)
    return best if line.count(best) else None


def _parsed(lines: Sequence[str], separator: str) -> list[list[str]]:
    try:
        return list(_rows(iter(lines), separator))
    except csv.Error:
        return []


def _rows(lines: Iterator[str], separator: str) -> Iterator[list[str]]:
    csv.field_size_limit(FIELD)
    for cells in csv.reader(lines, delimiter=separator, skipinitialspace=True):
        yield [_point(cell, separator) for cell in cells] if separator == ";" else cells


def _point(cell: str, separator: str) -> str:
    """A decimal comma, as tables with semicolons have it, as a point."""
    return cell.replace(",", ".") if separator == ";" and _DECIMAL_COMMA.fullmatch(cell) else cell
