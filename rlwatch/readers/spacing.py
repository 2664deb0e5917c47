"""Which step a row is, where the log does not say: from what else it says, and a note where nothing tells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

from rlwatch.readers.parts import Part
from rlwatch.readers.rows import Row

SUMMARY = "train_runtime"
"""A key of the row that transformers logs at the end of a training; it is about all of it."""

LOOK = 500
"""So many rows are enough to tell the spacing."""


class _Names(Protocol):
    def is_evaluation(self, row: Row) -> bool: ...
    def is_raw(self, row: Row) -> bool: ...


def number_rows(part: Part, every: int | None, names: _Names, notes: list[str]) -> None:
    """Give each row of a training its step.

    Args:
        part: The training; a row that belongs to no step is taken out of it.
        every: Steps from one row to the next, where a person said it.
        names: Tells what kind of row it is.
        notes: Gets a sentence about what was inferred.
    """
    left_out = sum(SUMMARY in row.values for row in part.rows)
    if left_out:
        notes.append(f"{left_out} row{'s' * (left_out > 1)} of totals at the end of a training left out")
    missing = sum(row.step is None for row in part.rows)
    if 0 < missing < len(part.rows) - left_out:
        _fill_in(part, names, notes)
    elif missing:
        _count(part, every, names, notes)


def _count(part: Part, every: int | None, names: _Names, notes: list[str]) -> None:
    """No row has a step: the n-th row of training is step n times the spacing."""
    training = [row for row in part.rows if SUMMARY not in row.values and not names.is_evaluation(row)]
    spacing, how = (every, "as you said") if every else spacing_of(training, part.rows)
    which = ", ".join(str(spacing * count) for count in range(1, min(3, len(training)) + 1))
    if training:
        more = " ..." if len(training) > 3 else ""
        notes.append(f"the rows carry no step: taken to be step {which}{more} ({how})")
    count = 0
    for row in part.rows:
        count += SUMMARY not in row.values and not names.is_evaluation(row)
        row.step = count * spacing


def spacing_of(training: Sequence[Row], rows: Sequence[Row]) -> tuple[int, str]:
    """How many steps lie between two rows that carry none, and what tells it."""
    from_totals = _from_totals(len(training), rows)
    if from_totals:
        return from_totals, "by the number of steps in the totals at its end"
    from_means = rows_of_averages(training)
    if from_means > 1:
        return from_means, "the rows are means of so many"
    return 1, "one step a row: nothing in the log tells how many steps lie between two rows"


def _from_totals(count: int, rows: Sequence[Row]) -> int | None:
    """The only spacing with which so many rows make as many steps as the totals say; None where none or several do."""
    for row in rows:
        seconds, rate = row.values.get(SUMMARY), row.values.get("train_steps_per_second")
        if not seconds or not rate or not math.isfinite(seconds * rate) or not count:
            continue
        low, high = seconds * (rate - 0.0005), seconds * (rate + 0.0005)  # it is printed with three decimals
        fitting = range(math.floor(low / (count + 1)) + 1, math.floor(high / count * (1 + 1e-9)) + 1)
        if fitting.stop - fitting.start == 1 and fitting.start > 0:  # len() has no room for what a broken log may say
            return fitting.start
    return None


def rows_of_averages(rows: Sequence[Row]) -> int:
    """How many steps a row is the mean of, from counts that are whole at each step, such as the shortest completion.

    The smallest k for which k times each of them is whole; 1 where there are none.
    """
    found = 1
    for row in rows[:LOOK]:
        for name, value in row.values.items():
            if value is None or not name.endswith(("min_length", "max_length")) or not math.isfinite(value):
                continue
            near = Fraction(value).limit_denominator(100)
            if abs(float(near) - value) < 1e-4:
                found = found * near.denominator // math.gcd(found, near.denominator)
            if found > 100:
                return 1  # they are no means of whole numbers after all
    return found


def _fill_in(part: Part, names: _Names, notes: list[str]) -> None:
    """Some rows have a step: one without goes with the row before it, or is the next, if it has the same metrics."""
    steps = [row.step for row in part.rows if row.step is not None and not names.is_evaluation(row)]
    gaps = Counter(after - before for before, after in pairwise(steps[:LOOK]) if after > before)
    spacing = gaps.most_common(1)[0][0] if gaps else 1
    step: int | None = None
    first = max(0, steps[0] - spacing) if steps else 0
    seen: set[str] = set()
    kept, guessed, left_out = [], 0, 0
    for row in part.rows:
        if row.step is not None:
            if row.step != step:
                step, seen = row.step, set()
        elif names.is_evaluation(row):
            row.step = step if step is not None else 0
        elif SUMMARY in row.values or names.is_raw(row):
            left_out += SUMMARY not in row.values
            continue
        elif step is None or not seen.isdisjoint(row.values.keys() - {"epoch"}):
            step = row.step = first if step is None else step + spacing
            guessed, seen = guessed + 1, set()
        else:
            row.step = step
        seen.update(row.values)
        kept.append(row)
    part.rows[:] = kept
    if guessed:
        notes.append(
            f"{guessed} row{'s' * (guessed > 1)} without a step among rows with one: taken to be the next step"
        )
    if left_out:
        notes.append(f"{left_out} row{'s' * (left_out > 1)} without a step and without a known metric left out")
