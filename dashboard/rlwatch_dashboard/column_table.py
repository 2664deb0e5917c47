"""The table that a run's columns are views of: rows are added at its end, and taken back from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlwatch_dashboard.columns import Columns, Floats, Ints, Rows


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
    def last(self) -> Any:
        """The last value, as a number of Python."""
        return self._data[self.size - 1].item()

    @property
    def held(self) -> int:
        """The memory it takes, in bytes."""
        return int(self._data.nbytes)

    def view(self) -> NDArray[Any]:
        """All of it."""
        view = self._data[: self.size]
        view.flags.writeable = False
        return view


class Table:
    """Rows that are added, and taken back from the end."""

    def __init__(self) -> None:
        self._steps, self._times, self._ends = Growing(np.int64), Growing(np.float64), Growing(np.int64)
        self._values: dict[str, Growing] = {}
        self._rows: dict[str, Growing] = {}  # only of metrics that are not in every row

    def __len__(self) -> int:
        return self._steps.size

    @property
    def newest(self) -> int | None:
        """The step of its last row."""
        return self._steps.last if len(self) else None

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
        for names, kind in rows.kinds.items():
            matrix = np.frombuffer(b"".join(kind.rows)).reshape(len(kind.places), len(names))
            at = np.array(kind.places, np.int64) + first
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
