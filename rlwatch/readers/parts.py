"""Where one training ends and the next begins, and where one was resumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rlwatch.readers.rows import Row

FAR = 1000
"""A row that comes so many rows late is no late row."""


@dataclass
class Part:
    """The rows of one training, and what was left out of them."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def trainings(rows: Sequence[Row], is_evaluation: Callable[[Row], bool]) -> list[Part]:
    """Cut where the counter starts again; where it goes back to a later step than its first, the run was resumed.

    A row of an evaluation, or of another kind than those of later steps that stand before it, goes back in time and
    is only late: several processes may write to one log, each at its own pace.
    """
    if _is_in_order(rows):
        return [Part(list(rows))]
    parts = [_Cut()]
    for row in rows:
        part = parts[-1]
        counter = counter_of(row)
        if counter is None or part.last is None or counter >= part.last:
            part.add(row, counter)
        elif is_evaluation(row) or not part.goes_back(row, counter):
            part.rows.append(row)
            part.has_late = True
        elif part.first is None or counter <= part.first:
            parts.append(_Cut())
            parts[-1].add(row, counter)
        else:
            part.resume(counter)
            part.add(row, counter)
    return [part.done() for part in parts if part.rows]


def _is_in_order(rows: Sequence[Row]) -> bool:
    """Whether there are rows, each has a step, and none goes back: nearly every log is so."""
    steps = [row.step for row in rows if row.step is not None]
    return 0 < len(steps) == len(rows) and all(before <= after for before, after in pairwise(steps))


def counter_of(row: Row) -> float | None:
    """What grows from row to row: the step, else the epoch."""
    if row.step is not None:
        return row.step
    epoch = row.values.get("epoch")
    return epoch if epoch is not None and math.isfinite(epoch) else None


class _Cut:
    """One training while its rows come in."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.first: float | None = None
        self.last: float | None = None
        self.has_late = False
        self._resumed: list[float] = []

    def add(self, row: Row, counter: float | None) -> None:
        """One more row, at or after the last."""
        self.rows.append(row)
        if counter is not None:
            self.last = counter
            self.first = counter if self.first is None else self.first

    def goes_back(self, row: Row, counter: float) -> bool:
        """Whether what a row has was logged before, for a later step."""
        mine = row.values.keys() - {"epoch"}
        for before in self.rows[: -FAR - 1 : -1]:
            other = counter_of(before)
            if other is not None and other <= counter:
                return False
            if other is not None and not mine.isdisjoint(before.values.keys()):
                return True
        return True

    def resume(self, counter: float) -> None:
        """Take back what is not before a counter."""
        self._resumed.append(counter)
        if self.has_late:
            self.rows = [row for row in self.rows if (c := counter_of(row)) is not None and c < counter]
        while self.rows and ((last := counter_of(self.rows[-1])) is None or last >= counter):
            self.rows.pop()

    def done(self) -> Part:
        """The training, and a sentence about what was taken back."""
        if not self._resumed:
            return Part(self.rows)
        where = ", ".join(f"{counter:g}" for counter in self._resumed[:5])
        where += f" and {len(self._resumed) - 5} more" if len(self._resumed) > 5 else ""
        note = f"the counter goes back to {where}: resumed there, and what came after it before is left out"
        return Part(self.rows, [note])
