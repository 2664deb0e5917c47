"""Lines of JSON that all have the same names and nothing but numbers: read many at a time, into columns.

Nearly every log of that kind is so, and one of 100,000 rows is then read in half of the time. What is not exactly so is
left to the way that takes one line after the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, overload

from rlwatch.readers.fields import LAST_STEP, Rows, check_count, plan_of
from rlwatch.readers.jsontext import line, lines_at_once
from rlwatch.readers.rows import Row
from rlwatch.runs.table import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

AT_ONCE = 500
"""Lines that are read together: few enough to stay in a processor's cache. Of fewer in all, nothing is gained."""


class ColumnRows(Sequence[Row]):
    """Rows of a log as one table; each is made when it is asked for.

    Args:
        names: The log's own, of its columns.
        numbers: A row a column of the log, a column a row of it.
    """

    def __init__(self, names: tuple[str, ...], numbers: npt.NDArray[np.float64]) -> None:
        self.names, self.numbers = names, numbers
        self._rows = Rows()

    def __len__(self) -> int:
        return int(self.numbers.shape[1])

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self._row(values) for values in self.numbers[:, index].T.tolist()]
        return self._row(self.numbers[:, index].tolist())

    def __iter__(self) -> Iterator[Row]:
        for begin in range(0, len(self), AT_ONCE):
            yield from self[begin : begin + AT_ONCE]

    def table(self, ours: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Table | None:
        """The records; None where a row does not say its step, or names one that is not later than that before it.

        Args:
            ours: Our names for those of the log.
        """
        import numpy as np

        step_key, time_key, others = plan_of(self.names)
        places = {name: at for at, name in enumerate(self.names) if name != step_key and name not in others}
        steps = self.numbers[self.names.index(step_key)] if step_key is not None else np.empty(0)
        if not len(steps) or not ((steps >= 0) & (steps < LAST_STEP) & (steps == np.floor(steps))).all():
            return None
        if not (steps[1:] > steps[:-1]).all():
            return None
        times = np.full(len(steps), math.nan)
        if time_key is not None:
            said = self.numbers[self.names.index(time_key)]
            seconds, millis = (said >= 1e9) & (said < 1e11), (said >= 1e12) & (said < 1e14)  # see unix_seconds
            if (seconds | millis).all():
                times = np.where(seconds, said, said / 1000)
                del places[time_key]
            elif (seconds | millis).any():
                return None
        if not places:
            return None
        at = dict(zip(ours(tuple(places)), places.values(), strict=True))  # the later of two of one name stands
        return Table(steps.astype(np.int64), times, list(at), self.numbers[list(at.values())])

    def _row(self, values: list[float]) -> Row:
        return self._rows.row(dict(zip(self.names, values, strict=True)))


def columns_of(names: tuple[str, ...], lines: Iterator[bytes]) -> tuple[ColumnRows | None, Iterator[bytes]]:
    """The lines up to the first that differ, as columns (None where these are hardly any), and all lines after them.

    Args:
        names: Those of the first line.
        lines: In UTF-8.

    Raises:
        UnusableError: There are too many.
    """
    blocks: list[npt.NDArray[np.float64]] = []
    begun: list[bytes] = []
    count = 0
    while part := list(islice(lines, AT_ONCE)):
        block = _block(names, part) if blocks or len(part) == AT_ONCE else None
        if block is None:
            begun = part
            break
        blocks.append(block)
        count += len(part)
        check_count(count)
    rest = chain(begun, lines)
    if not blocks:
        return None, rest
    import numpy as np

    return ColumnRows(names, np.concatenate(blocks).T), rest


def _block(names: tuple[str, ...], lines: list[bytes]) -> npt.NDArray[np.float64] | None:
    """The numbers of some lines, a row a line; None where they do not all have these names and numbers alone."""
    text = b",".join(lines)
    # As many quotes as the names have: no text is among the values, and no name is there twice.
    if text.count(b'"') != 2 * len(names) * len(lines) or b"\\" in text or not all(map(_BEGINS, lines)):
        return None
    rows = lines_at_once(text)  # one of each line, as each begins with a dict that is no value
    if rows is None:
        rows = [line(data) for data in lines]  # NaN is no JSON, and yet in many logs
    if len(rows) != len(lines) or set(map(type, rows)) != {dict}:
        return None
    if not all(map(names.__eq__, map(tuple, rows))):
        return None
    import numpy as np

    try:
        numbers = np.fromiter(chain.from_iterable(map(dict.values, rows)), np.float64, len(rows) * len(names))
    except (TypeError, ValueError, OverflowError):  # lists and dicts
        return None
    if np.isnan(numbers).any() and b"null" in text:
        return None
    if ((numbers == 0) | (numbers == 1)).any() and (b"true" in text or b"false" in text):
        return None
    return numbers.reshape(len(rows), -1)


_BEGINS = re.compile(rb"\{").match
