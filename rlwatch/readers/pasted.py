"""What a person pasted: a table with aligned columns or with bars, or names and numbers on a line. The last resort.

Step  loss  grad_norm  clipped_ratio          | step | loss | kl |          grad_norm 8.6e-5; loss: -1.7e-4
1     0     0          1.0                    |-----:|-----:|---:|
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlwatch.readers.console import plain
from rlwatch.readers.fields import Rows, has_metrics
from rlwatch.readers.rows import NOTHING, Log, Row, number
from rlwatch.readers.source import HEAD, Source, UnreadableError
from rlwatch.runs.aliases import is_known, normal

if TYPE_CHECKING:
    from rlwatch.readers.loading import Options

LINES = 200_000
"""Nobody pastes more lines than this."""

LENGTH = 20_000
"""Nor a longer line."""

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|NaN|inf|Infinity|None|null)"
_PAIR = re.compile(rf"([A-Za-z_][\w./@-]{{0,120}})['\"]?(?:\s{{0,3}}[:=]\s{{0,3}}|\s{{1,3}})({_NUMBER})(?![\w.%/])")
_ASIDE = re.compile(r"\([^()]{0,200}\)")
_RULE = re.compile(r"[\s|+:=_\u2500-\u257f-]*")
_BARS = str.maketrans("│┃║┆┊", "|||||")
_TOKEN = re.compile(r"[A-Za-z_][\w./@-]{0,120}")


def sniff(source: Source) -> bool:
    """A text with the name of some metric in it, or a long one."""
    if source.is_binary:
        return False
    text = source.head_text
    return len(source.head) >= HEAD or any(is_known(match[0]) for match in _TOKEN.finditer(text))


def read(source: Source, options: Options) -> list[Log]:
    """The rows of its tables; where it has none, those of its lines with names and numbers.

    Raises:
        UnreadableError: No metric of a training is in it.
    """
    lines: list[str] = []
    for line in source.lines():
        if len(lines) >= LINES:
            raise UnreadableError("it is too long for something that was pasted, and in no other format")
        lines.append(plain(line[:LENGTH]).translate(_BARS))
    for find in (_tables, _pairs):
        rows = find(lines)
        if has_metrics(rows):
            return [Log(rows, "pasted")]
    raise UnreadableError("no metric of a training is in it")


def _tables(lines: Sequence[str]) -> list[Row]:
    """The rows of each table: a line of names with a metric among them, and lines of as many numbers under it."""
    make = Rows()
    rows: list[Row] = []
    header: list[str] = []
    for line in lines:
        if _RULE.fullmatch(line):
            continue
        cells = _cells(line)
        if len(cells) > 1 and sum(number(cell) is NOTHING for cell in cells) * 2 > len(cells):
            header = cells if any(is_known(cell) for cell in cells) else []
        elif header:
            numbers = cells if len(cells) == len(header) else line.split()
            names = header if len(numbers) == len(header) else " ".join(header).split()
            if len(names) == len(numbers):
                rows += make.table(names, [["" if cell in ("-", "–", "—") else cell for cell in numbers]])
            else:
                header = []
    return rows


def _cells(line: str) -> list[str]:
    if "|" in line:
        return [cell.strip().strip("*`") for cell in line.strip().strip("|").split("|")]
    return re.split(r"\s{2,}|\t", line.strip())


def _pairs(lines: Sequence[str]) -> list[Row]:
    """A row for each line with a metric in it, or one for all of them where no name comes twice."""
    make = Rows()
    found = [pairs for line in lines if (pairs := _pairs_of(line))]
    names = [name for pairs in found for name, _ in pairs]
    if len(set(names)) == len(names) and len(found) > 1:
        found = [[pair for pairs in found for pair in pairs]]
    return [make.row(dict(pairs)) for pairs in found]


def _pairs_of(line: str) -> list[tuple[str, Any]]:
    """The names and numbers of a line that is made of them, a metric among them; not of a sentence with numbers."""
    line = _ASIDE.sub(" ", line).strip()
    found = list(_PAIR.finditer(line))
    marked = sum(match[0][len(match[1]) :].strip(" '\"")[:1] in (":", "=") for match in found)
    if 2 * sum(len(match[0]) for match in found) < len(line) and marked < 3:
        return []
    pairs = [(normal(match[1]), match[2]) for match in found]
    return pairs if any(is_known(name) for name, _ in pairs) else []
