"""A run's metrics as columns: what of a metrics file stands, in numpy arrays that grow as the file does.

It reads as `rlwatch.runs.reader.read_records` does: a broken line is skipped, a marker or a step that is done again
takes back what came after. It is a cache: at any time it may be thrown away and read again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlwatch.runs.jsonl import restore_floats
from rlwatch.runs.records import StepRecord

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NONE: float = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_00A1))[0]
"""How None is stored: a NaN with bits of its own, so that a column of floats loses nothing."""

LARGEST = 2**63 - 1
"""A step has to be smaller."""

_FLOATS = frozenset({float})
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


class Rows:
    """Rows on their way into a table, packed as they come: millions of float objects at a time would cost more."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.times: list[float] = []
        self.ends: list[int] = []
        self.kinds: dict[tuple[str, ...], Kind] = {}
        self._kind = Kind(())  # that of the row before: nearly every row is of it

    def adds_plain(self, data: Any, end: int, newest: int) -> bool:
        """Add what nearly every line says: a later step, with the metrics of the row before, each of them a float.

        Says whether it is such a line; it costs half of what `add` and the look at the line before it do.
        """
        kind = self._kind
        if not kind.places:
            return False
        try:
            step, time, metrics = data["step"], data["time"], data["metrics"]
            values = kind.values_of(metrics)
        except (KeyError, TypeError):
            return False
        if len(data) != 3 or len(metrics) != len(values) or not _FLOATS.issuperset(map(type, values)):
            return False
        if type(step) is not int or type(time) is not float or not newest < step < LARGEST:
            return False
        kind.rows.append(kind.pack(*values))
        kind.places.append(len(self.steps))
        self.steps.append(step)
        self.times.append(time)
        self.ends.append(end)
        return True

    def add(self, step: int, time: float, end: int, metrics: Mapping[str, Any]) -> None:
        """Add a row whose line ends at a byte of the file.

        None becomes `NONE`, a whole number that no float can hold becomes inf.

        Raises:
            ValueError: A value is no number, and none of the words for NaN and inf; the row is not added.
        """
        kind, names = self._kind, tuple(metrics)
        if names != kind.names:
            kind = self.kinds.get(names) or Kind(names)
        values = metrics.values()
        if not _FLOATS.issuperset(map(type, values)):
            values = [_as_float(value) for value in restore_floats(metrics).values()]  # type: ignore[assignment]
        kind.rows.append(kind.pack(*values))
        kind.places.append(len(self.steps))
        self.steps.append(step)
        self.times.append(time)
        self.ends.append(end)
        if kind is not self._kind:
            self._kind = self.kinds[names] = kind


class Kind:
    """Rows with the same metrics: where they stand, and their values, packed."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.places: list[int] = []
        self.rows: list[bytes] = []
        self.pack: Callable[..., bytes] = struct.Struct(f"{len(names)}d").pack
        self.values_of: Callable[[Any], tuple[Any, ...]] = _getter(names)


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return itemgetter(*names) if len(names) > 1 else lambda metrics: tuple(metrics[name] for name in names)


def _as_float(value: float | None) -> float:
    try:
        return NONE if value is None else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
