"""The completions of a whole dump, as numbers and hashes: which are a step's, and where a training begins anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Table = Mapping[str, NDArray[Any]]
"""Columns of one length, as [`tables`][rlwatch.readers.rollout_tables.tables] names them."""

Segment = tuple[int, int, int]
"""A step, and the first and the one-past-last row of its completions."""

_HASHES = ("group", "prompt", "completion")


class Rows:
    """All completions of a dump: some sixty bytes each, whatever they say."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray[Any]]] = {}
        self._count = 0

    def add(self, table: pl.DataFrame, step: int | None) -> None:
        """Take in a table of a file; its rows are of this step, where they do not say it."""
        fresh: dict[str, NDArray[Any]] = {name: table[name].to_numpy() for name in table.columns}
        if "step" not in fresh and step is not None:
            fresh["step"] = np.full(len(table), float(step))
        for name in fresh.keys() | self._parts.keys():
            parts = self._parts.setdefault(name, [_nothing(name, self._count)])
            parts.append(fresh[name] if name in fresh else _nothing(name, len(table)))
        self._count += len(table)

    def whole(self) -> Table:
        """Each column in one piece; rows with neither a reward nor a completion are left out. They are let go of."""
        columns = {}
        while self._parts:
            name, parts = self._parts.popitem()
            columns[name] = np.concatenate(parts)
        empty = np.ones(self._count, np.bool_)
        for name, values in columns.items():
            if name == "reward" or name[0] == "f":
                empty &= np.isnan(values)
            elif name == "completion":
                empty &= values == 0
        return {name: values[~empty] for name, values in columns.items()} if empty.any() else columns


def _nothing(name: str, count: int) -> NDArray[Any]:
    return np.zeros(count, np.uint64) if name in _HASHES else np.full(count, np.nan)


def segments_of(steps: FloatArray) -> tuple[list[Segment], NDArray[np.intp] | None]:
    """The stretches of rows of one step, and the order that they are in where it is not the file's.

    Steps that keep going back and forth, as asynchronous samplers write them, or a file that is sorted by prompt, are
    put in order: a training that began anew cannot be told there.

    Args:
        steps: (rows,), NaN where a row does not say it: it is of the step of the row before.
    """
    whole = _filled(steps)
    segments = _cut(whole)
    back = sum(after[0] < before[0] for before, after in pairwise(segments))
    if back >= 3 and back > 0.2 * len({step for step, _, _ in segments}):
        order = np.argsort(whole, kind="stable")
        return _cut(whole[order]), order
    return segments, None


def trainings(segments: Iterable[Segment], notes: list[str]) -> list[list[Segment]]:
    """Cut where the step goes back to the first or before; where it goes back to a later one, the run was resumed."""
    parts: list[list[Segment]] = [[]]
    resumed = []
    for segment in segments:
        part = parts[-1]
        if part and segment[0] <= part[0][0]:
            parts.append([segment])
            continue
        if part and segment[0] <= part[-1][0]:
            resumed.append(segment[0])
            part[:] = [kept for kept in part if kept[0] < segment[0]]
        part.append(segment)
    if resumed:
        where = ", ".join(map(str, resumed[:5])) + (f" and {len(resumed) - 5} more" if len(resumed) > 5 else "")
        notes.append(f"the step goes back to {where}: resumed there, and what came after it before is left out")
    return [part for part in parts if part]


def _filled(steps: FloatArray) -> NDArray[np.int64]:
    known = np.isfinite(steps) & (np.abs(steps) < 1e15)
    last = np.maximum.accumulate(np.where(known, np.arange(len(steps)), -1))
    filled = np.where(last >= 0, steps[np.maximum(last, 0)], 0.0)
    return np.asarray(np.floor(filled).astype(np.int64))


def _cut(steps: NDArray[np.int64]) -> list[Segment]:
    edges = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(steps)]
    return [(int(steps[lo]), lo, hi) for lo, hi in pairwise(edges) if lo < hi]
