"""What a reader of metrics gives: rows as the log has them. `assemble` makes runs of them, for all formats alike."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Row:
    """One row of a log, in the log's own names.

    Args:
        values: Name → number; NaN, inf and None as they were printed. What is no number is not here.
        step: The optimizer step that the row names, or None.
        time: Unix seconds, or None.
        total: The last step of the run, where the row says so ("5/3766").
        evaluation: Of an evaluation and not of the training.
    """

    values: Mapping[str, float | None]
    step: int | None = None
    time: float | None = None
    total: int | None = None
    evaluation: bool = False


@dataclass
class Log:
    """What a reader found in a file: one or more trainings, one row after the other.

    Args:
        rows: In file order.
        format: The reader's.
        framework: Who wrote it, as [`TABLES`][rlwatch.runs.aliases.TABLES] names it; None: told by the rows' names.
        name: The run's, where the file says it.
        info: What the file says about the run: its config, under `config`.
        notes: What had to be inferred or was passed over, a sentence each.
        more_names: Foreign names that this file alone explains.
    """

    rows: Sequence[Row]
    format: str
    framework: str | None = None
    name: str | None = None
    info: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    more_names: Mapping[str, str] = field(default_factory=dict)


NOTHING = object()
"""What [`number`][rlwatch.readers.rows.number] gives for something that is no number."""

_SPECIAL = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "-inf": -math.inf, "-infinity": -math.inf}
_MISSING = {"none": None, "null": None}
_WRAPPED = re.compile(r"(?:np\.|numpy\.|torch\.)?(?:float\d*|int\d*|tensor|array)\((.*?)(?:,.*)?\)")


def number(value: Any) -> Any:
    """A value as a float, or None where it says that there is none, or `NOTHING` where it is no number.

    Numbers in strings count ('0.125', 'NaN', 'np.float64(0.5)'): several loggers print them so. True and False do not.
    """
    if isinstance(value, float):
        return value
    if isinstance(value, bool):
        return NOTHING
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > 100:
        return NOTHING
    text = value.strip()
    try:
        return NOTHING if "_" in text else float(text)
    except ValueError:
        pass
    lowered = text.lower()
    if lowered in _SPECIAL:
        return _SPECIAL[lowered]
    if lowered in _MISSING:
        return None
    wrapped = _WRAPPED.fullmatch(text)
    return number(wrapped[1]) if wrapped and wrapped[1] != text else NOTHING


def numbers(data: Mapping[str, Any]) -> dict[str, float | None]:
    """Those entries of a dict that are numbers, or None."""
    found = {}
    for key, value in data.items():
        result = value if type(value) is float else number(value)
        if result is not NOTHING:
            found[str(key)] = result
    return found


_PROGRESS = re.compile(r"\s*(\d+)\s*/\s*(\d+)\s*")


def step_of(value: Any) -> tuple[int | None, int | None]:
    """A step and the last step, from 5, 5.0, "5" or "5/3766"; None for what is not there."""
    if isinstance(value, str):
        match = _PROGRESS.fullmatch(value)
        if match:
            return int(match[1]), int(match[2])
    result = number(value)
    if isinstance(result, float) and result.is_integer() and 0 <= result < 1e15:
        return int(result), None
    return None, None
