"""One run's metrics file, followed: what is new in it is read once and added to the columns.

The rules are those of `rlwatch.runs.reader.read_records`, to which tests hold it.
"""

from __future__ import annotations

import io
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlwatch.runs.jsonl import decode, restore_floats
from rlwatch.runs.reader import METRICS_FILE, Skipped
from rlwatch.runs.writer import MARKER
from rlwatch_dashboard.column_table import Table
from rlwatch_dashboard.columns import LARGEST, Columns, Rows

BLOCK = 1 << 23
"""Bytes read at a time."""

MOST_SKIPPED = 200
"""How many broken lines are kept to be named."""

MOST_RETURNS = 1000
"""How many places at which the training went back are kept; a page from before them loads anew."""

_TAIL = 64
_UNSOUND = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


@dataclass(frozen=True)
class Reading:
    """What a metrics file says as of now.

    Args:
        columns: What stands in it.
        cursor: The byte up to which it was read.
        skipped: The first broken lines, each with the byte at which it begins.
        returns: Where the training went back: the byte at which the line that says so begins, and the byte at which the
            first step that it takes back ended.
    """

    columns: Columns
    cursor: int
    skipped: tuple[tuple[int, Skipped], ...] = ()
    returns: tuple[tuple[int, int], ...] = ()

    def went_back(self, cursor: int) -> bool:
        """Whether something that a page with this cursor shows holds no longer."""
        return cursor > self.cursor or any(begin >= cursor >= first for begin, first in self.returns)


class ColumnStore:
    """The columns of one run. Any number of threads may ask it."""

    def __init__(self, run: Path) -> None:
        self.path = run / METRICS_FILE
        self._lock = threading.Lock()
        self._forget()

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self._table.nbytes

    def read(self) -> Reading:
        """What the file says now; costs what is new in it."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    self._follow(file)
            except FileNotFoundError:
                self._forget()
            except OSError as error:
                why = Skipped(self.path, f"it cannot be read: {error.strerror}")
                return Reading(self._reading.columns, self._reading.cursor, ((self._reading.cursor, why),))
            return self._reading

    def _forget(self) -> None:
        self._table = Table()
        self._end, self._file, self._before = 0, 0, b""
        self._skipped: list[tuple[int, Skipped]] = []
        self._returns: list[tuple[int, int]] = []
        self._reading = Reading(self._table.view(), 0)

    def _follow(self, file: io.BufferedReader) -> None:
        status = os.fstat(file.fileno())
        if status.st_size == self._end and status.st_ino == self._file:
            return
        file.seek(max(0, self._end - len(self._before)))
        is_other = self._file not in (0, status.st_ino) or status.st_size < self._end
        if is_other or file.read(len(self._before)) != self._before:
            self._forget()
            file.seek(0)
        self._file = status.st_ino
        begin, left = self._end, b""
        while block := file.read(min(BLOCK, status.st_size - self._end - len(left))):
            data = left + block if left else block
            cut = data.rfind(b"\n") + 1
            whole, left = data[:cut], data[cut:]
            if whole:
                self._take(whole)
                self._before = whole[-_TAIL:]
        if self._end != begin:
            self._reading = Reading(self._table.view(), self._end, tuple(self._skipped), tuple(self._returns))

    def _take(self, whole: bytes) -> None:
        """Read whole lines."""
        rows, offset = Rows(), self._end
        newest = self._table.newest
        for line in io.BytesIO(whole):
            begin, offset = offset, offset + len(line)
            try:
                data = decode(line)
                if newest is not None and rows.adds_plain(data, offset, newest):
                    newest = data["step"]
                    continue
                step, time, metrics = _parse(data)
                back_to = step if metrics is None else step - 1
                if newest is not None and newest > back_to:
                    restore_floats(metrics or {})  # a broken line takes nothing back
                    self._table.extend(rows)
                    rows, newest = Rows(), self._go_back(back_to, begin)
                if metrics is not None:
                    rows.add(step, time, offset, metrics)
                    newest = step
            except _UNSOUND as error:
                if not line.isspace():
                    self._skip(begin, error)
        self._table.extend(rows)
        self._end = offset

    def _skip(self, begin: int, error: Exception) -> None:
        if len(self._skipped) < MOST_SKIPPED:
            why = f"the line at byte {begin} is not what rlwatch writes: {error}"
            self._skipped.append((begin, Skipped(self.path, why)))

    def _go_back(self, step: int, begin: int) -> int | None:
        """Take back what is after a step; the newest step that is left."""
        now = self._table.view()
        row = now.row_of(step + 1)
        self._returns.append((begin, int(now.ends[row])))
        if len(self._returns) > MOST_RETURNS:
            self._returns[:2] = [(self._returns[1][0], 0)]  # a page from before that has to load anew
        self._table.cut(row)
        return int(now.steps[row - 1]) if row else None


def _parse(data: Any) -> tuple[int, float, dict[str, Any] | None]:
    """A line's step, time and metrics; a marker's step, and None for metrics.

    Raises:
        Exception: One of `_UNSOUND`; it is not a line that rlwatch writes.
    """
    if MARKER in data:
        step = data[MARKER]
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            raise ValueError(f"it goes back to {step!r}, which is no step")
        return min(step, LARGEST - 1), 0.0, None
    step, time, metrics = int(data["step"]), float(data["time"]), data["metrics"]
    if type(metrics) is not dict:
        metrics = restore_floats(metrics)
    if abs(step) >= LARGEST:
        raise OverflowError(f"its step is {step}")
    return step, time, metrics
