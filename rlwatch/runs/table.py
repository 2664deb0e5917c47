"""The records of a log whose rows all have the same metrics, as one table of numbers."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from rlwatch.runs.records import StepRecord

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

AT_ONCE = 500
"""Rows that are taken out of the table together: few enough to stay in a processor's cache."""


class _Glimpse(Mapping[str, "float | None"]):
    """The metrics of one row, taken from the columns as they are asked for.

    Args:
        table: The whole.
        part: Some rows of it.
        at: Which of these it is.
        lists: The columns of the part that were asked for before, of whichever row; None for what is no column.
    """

    __slots__ = ("_at", "_lists", "_part", "_table")

    def __init__(self, table: Table, part: slice, at: int, lists: dict[str, list[float] | None]) -> None:
        self._table, self._part, self._at, self._lists = table, part, at, lists

    def get(self, name: str, default: Any = None) -> Any:
        try:
            column = self._lists[name]
        except KeyError:
            column = self._list(name)
        return default if column is None else column[self._at]

    def _list(self, name: str) -> list[float] | None:
        column = self._table.column(name)
        found = self._lists[name] = None if column is None else column[self._part].tolist()
        return found

    def __getitem__(self, name: str) -> float:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return float(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.names)

    def __len__(self) -> int:
        return len(self._table.names)


class Table(Sequence[StepRecord]):
    """Records in their order, each made when it is asked for: who looks at columns alone pays for no record.

    All of them are made, and kept, once somebody goes through them.

    Args:
        steps: Of each row, growing.
        times: Unix seconds; NaN where a row has none.
        names: The metrics, in the order that the records have them.
        numbers: A row a metric, a column a record; every cell was there, and is a number, NaN or infinite.
    """

    def __init__(
        self,
        steps: npt.NDArray[np.int64],
        times: npt.NDArray[np.float64],
        names: Sequence[str],
        numbers: npt.NDArray[np.float64],
    ) -> None:
        self.steps, self.times, self.numbers = steps, times, numbers
        self.names = list(names)
        self._places = {name: at for at, name in enumerate(names)}
        self._records: list[StepRecord] | None = None

    def column(self, name: str) -> npt.NDArray[np.float64] | None:
        """A metric's values; None where there is no such metric."""
        at = self._places.get(name)
        return None if at is None else self.numbers[at]

    def frame(self) -> pl.DataFrame:
        """What [`Run.metrics`][rlwatch.runs.records.Run.metrics] gives."""
        import polars as pl

        columns = [("step", self.steps), ("time", self.times), *zip(self.names, self.numbers, strict=True)]
        return pl.DataFrame([pl.Series(name, values) for name, values in columns])

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[StepRecord]:
        return iter(self._all()) if self._records is not None else self._made()

    def glimpses(self) -> Iterator[StepRecord]:
        """The records for who looks at a few metrics: these are taken from the columns, and no dict is made of them."""
        for begin in range(0, len(self), AT_ONCE):
            part = slice(begin, begin + AT_ONCE)
            lists: dict[str, list[float] | None] = {}
            for at, (step, time) in enumerate(zip(self.steps[part].tolist(), self.times[part].tolist(), strict=True)):
                yield StepRecord(step, _time(time), _Glimpse(self, part, at, lists))

    @overload
    def __getitem__(self, index: int) -> StepRecord: ...

    @overload
    def __getitem__(self, index: slice) -> list[StepRecord]: ...

    def __getitem__(self, index: int | slice) -> StepRecord | list[StepRecord]:
        if isinstance(index, slice) or self._records is not None:
            return self._all()[index]
        metrics = dict(zip(self.names, self.numbers[:, index].tolist(), strict=True))
        return StepRecord(int(self.steps[index]), _time(float(self.times[index])), metrics)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Table, list, tuple)) and self._all() == list(other)

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> list[StepRecord]:
        if self._records is None:
            with no_garbage():
                list(self._made())
        assert self._records is not None
        return self._records

    def _made(self) -> Iterator[StepRecord]:
        """Each record; all are kept once the last was asked for."""
        records = []
        for begin in range(0, len(self), AT_ONCE):
            part = slice(begin, begin + AT_ONCE)
            times, rows = self.times[part].tolist(), self.numbers[:, part].T.tolist()
            for step, time, row in zip(self.steps[part].tolist(), times, rows, strict=True):
                record = StepRecord(step, _time(time), dict(zip(self.names, row, strict=False)))
                records.append(record)
                yield record
        self._records = records


def _time(time: float) -> float:
    return time if time == time else math.nan  # one and the same NaN, as elsewhere: so are records the same


def glimpses(records: Sequence[StepRecord]) -> Iterable[StepRecord]:
    """The records for who looks at a few metrics of each: in a table these cost less than whole ones."""
    return records.glimpses() if isinstance(records, Table) else records


@contextlib.contextmanager
def no_garbage() -> Iterator[None]:
    """Rows are no cycles, and looking for some among millions of numbers takes a quarter of the time of reading."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
