"""A run's metrics as columns: what of a metrics file stands, in numpy arrays that grow as the file does.

It reads as `rlwatch.runs.reader.read_records` does: a broken line is skipped, a marker or a step that is done again
takes back what came after. It is a cache: at any time it may be thrown away and read again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlwatch.runs.jsonl import restore_floats
from rlwatch.runs.records import StepRecord

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NONE: float = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_00A1))[0]
"""How None is stored: a NaN with bits of its own, so that a column of floats loses nothing."""

_NONE_BITS = int(np.array([NONE]).view(np.int64)[0])


@dataclass(frozen=True)
class Columns:
    """What stood in a metrics file when it was looked at. Nothing in it changes any more.

    Args:
        steps: (n,), strictly increasing.
        times: (n,), unix seconds.
        ends: (n,), the byte of the file after each step's line, strictly increasing.
        values: By metric, (rows, values): at which of the n rows it was there, or None where at all; and what it was.
            NaN and inf stay, None is `NONE`.
    """

    steps: Ints
    times: Floats
    ends: Ints
    values: Mapping[str, tuple[Ints | None, Floats]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The memory that the arrays take."""
        arrays = [self.steps, self.times, self.ends]
        for rows, values in self.values.values():
            arrays += [values] if rows is None else [values, rows]
        return sum(array.nbytes for array in arrays)

    def points(self, name: str, start: int = 0) -> tuple[Ints, Floats]:
        """The rows, from a row on, at which a metric was there, and its values; nothing of one that is not there."""
        if name not in self.values:
            return np.empty(0, np.int64), np.empty(0)
        rows, values = self.values[name]
        if rows is None:
            return np.arange(start, len(values), dtype=np.int64), values[start:]
        first = int(np.searchsorted(rows, start))
        return rows[first:], values[first:]

    def begins(self, name: str) -> int:
        """The first row at which a metric is there."""
        rows = self.values[name][0]
        return 0 if rows is None else int(rows[0])

    def row_after(self, offset: int) -> int:
        """The first row whose line ends after a byte of the file."""
        return int(np.searchsorted(self.ends, offset, side="right"))

    def row_of(self, step: int) -> int:
        """The row of a step, or of the next one that there is."""
        return int(np.searchsorted(self.steps, step))

    def record(self, row: int) -> StepRecord:
        """A row as it was read, its metrics in the order of their first appearance."""
        metrics: dict[str, float | None] = {}
        for name, (rows, values) in self.values.items():
            place = row if rows is None else int(np.searchsorted(rows, row))
            if place < len(values) and (rows is None or rows[place] == row):
                metrics[name] = None if is_none(values[place : place + 1])[0] else float(values[place])
        return StepRecord(int(self.steps[row]), float(self.times[row]), metrics)

    def newest(self, names: Iterable[str]) -> dict[str, float | None]:
        """The newest value of each of these metrics that is there at all."""
        found: dict[str, float | None] = {}
        for name in names:
            values = self.values[name][1] if name in self.values else np.empty(0)
            if len(values):
                found[name] = None if is_none(values[-1:])[0] else float(values[-1])
        return found


def is_none(values: Floats) -> NDArray[np.bool_]:
    """Which of the values were None."""
    bits: Ints = np.ascontiguousarray(values).view(np.int64)
    found: NDArray[np.bool_] = bits == _NONE_BITS
    return found


class Growing:
    """An array to whose end is added. What was handed out of it never changes."""

    def __init__(self, dtype: Any) -> None:
        self._data = np.empty(0, dtype)
        self.size = 0

    def extend(self, more: Any) -> None:
        """Add values behind the last one."""
        size = self.size + len(more)
        if size > len(self._data):
            data = np.empty(max(64, size + size // 4), self._data.dtype)
            data[: self.size] = self._data[: self.size]
            self._data = data
        self._data[self.size : size] = more
        self.size = size

    def cut(self, size: int) -> None:
        """Forget what is behind the first so many values."""
        if size < self.size:
            self._data = self._data[:size].copy()  # what was handed out stays as it is
            self.size = size

    @property
    def held(self) -> int:
        """The memory it takes, in bytes."""
        return int(self._data.nbytes)

    def view(self) -> NDArray[Any]:
        """All of it."""
        view = self._data[: self.size]
        view.flags.writeable = False
        return view


class Rows:
    """Rows on their way into a table, packed as they come: millions of float objects at a time would cost more."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.times: list[float] = []
        self.ends: list[int] = []
        self.kinds: dict[tuple[str, ...], tuple[list[int], list[bytes]]] = {}
        self._names: tuple[str, ...] = ()
        self._pack: Callable[..., bytes] = struct.Struct("").pack

    def pack(self, metrics: Mapping[str, Any]) -> tuple[tuple[str, ...], bytes]:
        """The names and the values of a row. None becomes `NONE`, a whole number that no float can hold becomes inf.

        Raises:
            ValueError: A value is no number, and none of the words for NaN and inf.
        """
        names = tuple(metrics)
        if names != self._names:
            self._names, self._pack = names, struct.Struct(f"{len(names)}d").pack
        try:
            return names, self._pack(*metrics.values())
        except (struct.error, OverflowError):
            return names, self._pack(*map(_as_float, restore_floats(metrics).values()))

    def add(self, step: int, time: float, end: int, packed: tuple[tuple[str, ...], bytes]) -> None:
        """Add a row whose line ends at a byte of the file."""
        names, values = packed
        places, rows = self.kinds.setdefault(names, ([], []))
        places.append(len(self.steps))
        rows.append(values)
        self.steps.append(step)
        self.times.append(time)
        self.ends.append(end)


def _as_float(value: float | None) -> float:
    try:
        return NONE if value is None else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


class Table:
    """Rows that are added, and taken back from the end."""

    def __init__(self) -> None:
        self._steps, self._times, self._ends = Growing(np.int64), Growing(np.float64), Growing(np.int64)
        self._values: dict[str, Growing] = {}
        self._rows: dict[str, Growing] = {}  # only of metrics that are not in every row

    def __len__(self) -> int:
        return self._steps.size

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        arrays = [self._steps, self._times, self._ends, *self._values.values(), *self._rows.values()]
        return sum(array.held for array in arrays)

    def view(self) -> Columns:
        """It as of now."""
        values = {
            name: (self._rows[name].view() if name in self._rows else None, column.view())
            for name, column in self._values.items()
        }
        return Columns(self._steps.view(), self._times.view(), self._ends.view(), values)

    def extend(self, rows: Rows) -> None:
        """Add rows; their steps increase, and are larger than those before."""
        first = len(self)
        pieces: dict[str, list[tuple[Ints, Floats]]] = {}
        for names, (places, packed) in rows.kinds.items():
            matrix = np.frombuffer(b"".join(packed)).reshape(len(places), len(names))
            at = np.array(places, np.int64) + first
            for column, name in enumerate(names):
                pieces.setdefault(name, []).append((at, matrix[:, column]))
        self._steps.extend(rows.steps)
        self._times.extend(rows.times)
        self._ends.extend(rows.ends)
        for name, parts in pieces.items():
            at, values = parts[0]
            if len(parts) > 1:
                at, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
                order = np.argsort(at)
                at, values = at[order], values[order]
            self._add(name, at, values)
        for name in self._values.keys() - pieces.keys():
            self._add(name, np.empty(0, np.int64), np.empty(0))

    def _add(self, name: str, rows: Ints, values: Floats) -> None:
        column = self._values.setdefault(name, Growing(np.float64))
        if name not in self._rows and column.size + len(values) < len(self):
            self._rows[name] = Growing(np.int64)
            self._rows[name].extend(np.arange(column.size))
        if name in self._rows:
            self._rows[name].extend(rows)
        column.extend(values)

    def cut(self, size: int) -> None:
        """Forget the rows behind the first so many, and the metrics that were only in them."""
        for array in (self._steps, self._times, self._ends):
            array.cut(size)
        for name, column in list(self._values.items()):
            kept = int(np.searchsorted(self._rows[name].view(), size)) if name in self._rows else size
            column.cut(kept)
            if name in self._rows:
                self._rows[name].cut(kept)
            if not column.size:
                del self._values[name]
                self._rows.pop(name, None)
