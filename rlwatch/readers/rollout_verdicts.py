"""Which completions of a dump are correct: as a person says, else by a column that says it, else as in a live run."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlwatch.capture.correctness import Correctness
from rlwatch.readers.rollout_columns import Columns, Kind
from rlwatch.readers.source import UnusableError

FloatArray = NDArray[np.float64]

_SAID = re.compile(r"\s*(?P<column>.+?)\s*(?P<sign>>=|>|≥)\s*(?P<limit>[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*")


def said(option: str, kinds: Mapping[str, Kind]) -> tuple[str, float | None, bool]:
    """What `correct` says: the column, the limit or None, and whether the limit itself is correct.

    Raises:
        UnreadableError: There is no such column, or no numbers are in it.
    """
    match = None if option in kinds else _SAID.fullmatch(option)
    column = match["column"] if match else option.strip()
    if column not in kinds:
        raise UnusableError(f"it has no column {column!r}, which is to say what is correct; it has {', '.join(kinds)}")
    if kinds[column] not in ("number", "bool", "nothing"):
        raise UnusableError(f"its column {column!r}, which is to say what is correct, holds no numbers")
    return (column, float(match["limit"]), match["sign"] != ">") if match else (column, None, True)


class Verdicts:
    """Judges the completions of one training, a step at a time: what a column shows later changes no earlier step.

    Args:
        columns: What is what in the dump.
        limit: From which value of `columns.correct` a completion is correct; None: the higher of its two values, or
            above 0 while it has another number of them.
        inclusive: The limit itself is correct.
    """

    def __init__(self, columns: Columns, limit: float | None = None, inclusive: bool = True) -> None:
        self._column, self._limit, self._inclusive = columns.correct, limit, inclusive
        names = [name for name, _ in columns.functions]
        if columns.reward is not None:
            names.insert(0, columns.reward if columns.reward not in names else f"{columns.reward} (total)")
        self._from_rewards = Correctness(None, names)
        self._from_column = Correctness("", [""]) if self._column else None
        self._has_total = columns.reward is not None

    def judge(self, column: FloatArray | None, rewards: FloatArray, per_function: FloatArray) -> FloatArray | None:
        """1, 0, or NaN where it is not known; None where nothing says what is correct.

        Args:
            column: (n,), the column that says it; None where there is none.
            rewards: (n,), the total.
            per_function: (n, functions).
        """
        if column is None or self._from_column is None:
            scores = np.column_stack([rewards, per_function]) if self._has_total else per_function
            return self._from_rewards.judge(scores, rewards, slice(None), {})
        if self._limit is None:
            return self._from_column.judge(column[:, None], column, slice(None), {})
        right = column >= self._limit if self._inclusive else column > self._limit
        return np.where(np.isnan(column), np.nan, right.astype(np.float64))

    def describe(self) -> str:
        """One sentence for a person."""
        if self._column and self._limit is not None:
            return f"correct is {self._column} {'≥' if self._inclusive else '>'} {self._limit:g}, as you said"
        if self._column:
            return f"correct is what the column {self._column} says"
        found = self._from_rewards.describe()
        if found.startswith("not known"):
            return (
                "nothing says which completions are correct, so length/correct and length/incorrect are absent: say it "
                "with correct, as COLUMN, COLUMN>0.5 or COLUMN>=1 (--correct)"
            )
        return "correct is " + found.replace("correct= says otherwise", "--correct says otherwise")
