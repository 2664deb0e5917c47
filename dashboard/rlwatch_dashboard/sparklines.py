"""A run's curves in so few points that a line of a table holds them, read on from where the last look ended.

A curve is kept as buckets of steps, and its points are their means. Where there are more than `POINTS` buckets, each
two neighbours become one: so the memory does not grow with the run, a point costs the same at any length, and the
result does not depend on how the file was cut into looks.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlwatch.runs.jsonl import decode, restore_floats
from rlwatch.runs.reader import METRICS_FILE
from rlwatch.runs.writer import MARKER

POINTS = 60
PIECE = 4 << 20
"""Bytes that are read at once: what a look costs at most, whatever the length of the run."""

_UNSOUND = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


@dataclass
class Buckets:
    """One metric over the steps, thinned out.

    With the width w (a power of two), bucket i holds the steps s with ⌊s / w⌋ = i; its point is the mean of the values,
    in their own unit. w is the smallest for which the buckets from the first step to the last are at most `POINTS`.
    A value that is no finite number makes its bucket a gap: a NaN is not averaged away.
    """

    width: int = 1
    sums: dict[int, tuple[float, int]] = field(default_factory=dict)  # bucket → its sum, and how many are in it

    def extend(self, steps: Sequence[int], values: Sequence[float]) -> None:
        """Take in values, one a step."""
        if not steps:
            return
        while True:
            buckets = np.asarray(steps, dtype=np.int64) // self.width
            first, last = (int(edge) for edge in (buckets.min(), buckets.max()))
            if max([last, *self.sums]) - min([first, *self.sums]) < POINTS:
                break
            self._widen()
        sums = np.bincount(buckets - first, weights=values)
        for place, count in enumerate(np.bincount(buckets - first)):
            if count:
                total, already = self.sums.get(first + place, (0.0, 0))
                self.sums[first + place] = (total + float(sums[place]), already + int(count))

    def _widen(self) -> None:
        merged: dict[int, tuple[float, int]] = {}
        for index, (total, count) in self.sums.items():
            before, already = merged.get(index // 2, (0.0, 0))
            merged[index // 2] = (before + total, already + count)
        self.width, self.sums = self.width * 2, merged

    def line(self) -> dict[str, Any] | None:
        """The curve as a page draws it; None where the metric was never there.

        `x` is the first step of the first bucket and `dx` the steps from one bucket to the next. `y` has an entry a
        bucket: its mean, null where it is no number (a gap), and false where no step of it has the metric: a metric
        that is logged every tenth step is a line.
        """
        if not self.sums:
            return None
        first = min(self.sums)
        y = [self._mean(index) for index in range(first, max(self.sums) + 1)]
        return {"x": first * self.width, "dx": self.width, "y": y}

    def _mean(self, index: int) -> float | bool | None:
        if index not in self.sums:
            return False
        total, count = self.sums[index]
        return float(f"{total / count:.4g}") if math.isfinite(total) else None


class Curves:
    """A run's curves, as far as its file has been read.

    A training that resumed takes steps back. The buckets cannot forget them, so the file is then read again from its
    start, with what is known by then about where it goes back.
    """

    def __init__(self, run: Path, metrics: Sequence[str]) -> None:
        self.path = run / METRICS_FILE
        self.metrics = metrics
        self.lines: dict[str, dict[str, Any] | None] = {}
        self._backs: list[tuple[int, int]] = []  # at which byte it goes back, and to which step
        self._restart()

    def advance(self) -> bool:
        """Read on, at most about a piece, and say whether that was all. `lines` changes only when it was."""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, 2) < self._offset:
                    self._backs = []
                    self._restart()
                file.seek(self._offset)
                data = file.read(PIECE)
                if len(data) == PIECE and b"\n" not in data:
                    data += file.readline()
        except OSError:
            return True
        whole = data[: data.rfind(b"\n") + 1]
        found: dict[str, tuple[list[int], list[float]]] = {name: ([], []) for name in self.metrics}
        for line in io.BytesIO(whole):
            self._take(line, found)
            self._offset += len(line)
        for name, (steps, values) in found.items():
            self._buckets[name].extend(steps, values)
        if len(data) >= PIECE:
            return False
        if self._stale:
            self._restart()
            return False
        self.lines = {name: buckets.line() for name, buckets in self._buckets.items()}
        return True

    def _restart(self) -> None:
        self._offset, self._newest, self._stale = 0, -1, False
        self._buckets = {name: Buckets() for name in self.metrics}

    def _take(self, line: bytes, found: dict[str, tuple[list[int], list[float]]]) -> None:
        """Take in a line: of what it says, what is drawn. One that rlwatch did not write is nothing."""
        try:
            data = decode(line)
            if MARKER in data:
                step, back_to, values = None, _whole(data[MARKER]), {}
            else:
                step, metrics = _whole(data["step"]), data["metrics"]
                back_to, values = step - 1, restore_floats({n: metrics[n] for n in self.metrics if n in metrics})
            numbers = {name: math.nan if value is None else float(value) for name, value in values.items()}
        except _UNSOUND:
            return
        if step is not None and self._backs and any(at > self._offset and step > to for at, to in self._backs):
            return  # taken back further down
        if back_to < self._newest:
            self._backs.append((self._offset, back_to))
            self._stale = True
        self._newest = min(self._newest, back_to) if step is None else step
        for name, value in numbers.items():
            found[name][0].append(step or 0)
            found[name][1].append(value)


def _whole(value: Any) -> int:
    """A step.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r} is no step")
    return value
