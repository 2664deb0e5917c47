"""What a trainer prints on the console, in whatever text it stands: dicts of Python or JSON.

    {'loss': 0.0151, 'grad_norm': 0.42, 'reward': 0.725, 'kl': 0.0004, 'epoch': 0.01}

Around them may stand anything: progress bars (on the same line too), colours, stack traces, other dicts, markdown. A
dict may be broken over several lines, at any place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rlwatch.readers.dicts import LENGTH, Found, dicts_in, open_dict
from rlwatch.readers.fields import Rows, check_count, is_log_row
from rlwatch.readers.progress import Bars, Watch, steps_from
from rlwatch.readers.rows import Log, Row
from rlwatch.readers.source import HEAD, Source, UnreadableError
from rlwatch.runs.aliases import framework_of

if TYPE_CHECKING:
    from rlwatch.readers.loading import Options

LINES = 200
"""A dict is broken over fewer lines than this."""

TRIES = 12
"""So often is the end of a broken dict looked for."""

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
_RAY = re.compile(r"^\s*\([^()\n]{0,80}pid=\d+[^()\n]{0,80}\)\s?")
_BEGINS = re.compile(r"\s*\{\s*['\"]")


def sniff(source: Source) -> bool:
    """A text with a brace in it, or a long one: what comes before the first row may be of any length."""
    return not source.is_binary and (b"{" in source.head or len(source.head) >= HEAD)


def read(source: Source, options: Options) -> list[Log]:
    """The rows, one dict each.

    Raises:
        UnreadableError: There is no dict with a metric of a training in it.
    """
    log = dict_log(source.lines())
    if log is None:
        raise UnreadableError("there is no dict with a metric of a training in it")
    return [log]


def dict_log(lines: Iterable[str]) -> Log | None:
    """The rows of a text's lines; None where it has none."""
    rows, bars = _rows(lines)
    if not rows:
        return None
    log = Log(rows, "trl-console", framework=framework_of(name for row in rows[:50] for name in row.values))
    if log.framework is None and any(row.values.keys() >= {"loss", "epoch"} for row in rows[:50]):
        log.framework = "trl"  # transformers' Trainer prints such dicts, and nothing else does
    training = [(row, bar) for row, bar in zip(rows, bars, strict=True) if _is_training(row)]
    if training and all(row.step is None for row in rows):
        found = steps_from([bar for _, bar in training])
        if found:
            for (row, _), step in zip(training, found[0], strict=True):
                row.step, row.total = step, found[1]
            log.notes.append("the rows carry no step: taken from the progress bar, which moves with them")
    return log


def plain(line: str) -> str:
    """A line without colours, NULs, and the name of the process that Ray puts before it."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "\0" in line:
        line = line.replace("\0", "")
    return _RAY.sub("", line) if "pid=" in line else line


def _rows(lines: Iterable[str]) -> tuple[list[Row], list[Bars]]:
    make, watch, broken, kinds = Rows(), Watch(), _Broken(), dict[tuple[str, ...], bool]()
    rows: list[Row] = []
    bars: list[Bars] = []
    for given in lines:
        if "{" not in given and "%|" not in given and not broken.parts:
            continue
        line = plain(given)
        place = 0
        for one in _log_dicts(line, kinds):
            watch.line(line[place : one.start])
            rows.append(make.row(one.data))
            bars.append(watch.row())
            place = one.end
        watch.line(line[place:])
        if place:
            broken.drop()
            continue
        for data in broken.line(line):
            rows.append(make.row(data))
            bars.append(watch.row())
        check_count(len(rows))
    return rows, bars


def _log_dicts(line: str, kinds: dict[tuple[str, ...], bool]) -> list[Found]:
    """The dicts of a line that are rows of a log, which is found out once for each set of many names."""
    if "{" not in line:
        return []
    found = list(dicts_in(line))
    alone = len(found) == 1 and not line[: found[0].start].strip() and not line[found[0].end :].strip()
    rows = []
    for one in found:
        names = tuple(one.data)
        is_row = kinds.get(names) if len(names) > 5 else None
        if is_row is None:
            is_row = is_log_row(one.data, alone)
            if is_row:
                kinds[names] = True
        if is_row:
            rows.append(one)
    return rows


class _Broken:
    """A dict that begins on one line and ends on another one."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._size = self._tries = 0

    def drop(self) -> None:
        """Forget what has begun."""
        self.parts, self._size, self._tries = [], 0, 0

    def line(self, line: str) -> list[dict[str, Any]]:
        """One more line that has no row of its own; gives the rows that end here."""
        if not self.parts or _BEGINS.match(line):
            self.drop()
            start = open_dict(line) if "{" in line else None
            if start is not None:
                self.parts, self._size = [line[start:]], len(line) - start
            return []
        self.parts.append(line)
        self._size += len(line)
        if "}" in line:
            self._tries += 1
            for glue in ("\n", ""):  # broken between two entries, or wherever a narrow terminal ends
                whole = [one.data for one in dicts_in(glue.join(self.parts))]
                if any(map(is_log_row, whole)) and not any("\n" in key for data in whole for key in data):
                    self.drop()
                    return [data for data in whole if is_log_row(data)]
        if len(self.parts) > LINES or self._size > LENGTH or self._tries > TRIES:
            self.drop()
        return []


def _is_training(row: Row) -> bool:
    return "train_runtime" not in row.values and not all(name.startswith(("eval_", "epoch")) for name in row.values)
