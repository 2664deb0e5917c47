"""From one entry of a log, whatever format it came in, to a row: its step, its time, and its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rlwatch.readers.rows import Row, number, numbers, step_of
from rlwatch.readers.source import UnusableError
from rlwatch.runs.aliases import is_known, normal

STEP_KEYS = (
    "global_step/max_steps",
    "train/global_step",
    "trainer/global_step",
    "training/global_step",
    "global_step",
    "step",
    "Step",
    "progress/step",
    "progress/batch",
    "training/step",
    "train/step",
    "rlwatch/step",
    "_step",
)
"""What a log calls the step, the surest first: wandb's `_step` counts its calls, which need not be optimizer steps."""

TIME_KEYS = ("_timestamp", "timestamp", "time", "Time", "wall_time", "Wall time", "datetime", "date")
"""What a log calls the time at which a row was written."""

DEPTH = 4
"""How deep nested entries are looked into."""

MOST_ROWS = 1_000_000
"""More rows than this are no log of a training."""

LAST_STEP = 10**15
"""A number this large is no step."""

_NUMBERS = {float, int, type(None)}
_Plan = tuple["str | None", "str | None", tuple[str, ...]]


class Rows:
    """Makes rows of dicts. How a dict is taken apart is worked out once for each set of keys."""

    def __init__(self) -> None:
        self._plans: dict[tuple[Any, ...], _Plan] = {}
        self._keys: tuple[Any, ...] = ()
        self._plan: _Plan = (None, None, ())

    def row(self, data: dict[str, Any], evaluation: bool = False) -> Row:
        """A row of a dict's numbers. The dict is used up: it becomes the row's values where it can.

        Nearly every row has the names of the one before it, a whole number as its step, and else nothing but floats.
        """
        keys = tuple(data)
        if keys == self._keys:
            step_key, time_key, others = self._plan
            step = data[step_key] if step_key is not None else None
            if (
                type(step) is int
                and [*map(type, data.values())].count(float) == len(keys) - 1
                and 0 <= step < LAST_STEP
            ):
                del data[step_key]  # type: ignore[arg-type]
                time = _take_time(data, time_key)
                for key in others:
                    del data[key]
                return Row(data, step, time, None, evaluation)
        return self._any_row(data, evaluation)

    def _any_row(self, data: dict[str, Any], evaluation: bool) -> Row:
        kinds = set(map(type, data.values()))
        if dict in kinds:
            data = flat(data)
            kinds = set(map(type, data.values()))
        keys = tuple(data)
        plan = self._plans.get(keys)
        if plan is None:
            plan = self._plans[keys] = plan_of(keys)
        self._keys, self._plan = keys, plan
        step_key, time_key, others = plan
        step, total = step_of(data.pop(step_key)) if step_key is not None else (None, None)
        time = _take_time(data, time_key)
        for key in others:
            del data[key]
        if not kinds <= _NUMBERS:
            data = numbers(data)
        elif int in kinds and int in set(map(type, data.values())):  # the step is gone from it by now
            for key in [key for key, value in data.items() if type(value) is int]:
                data[key] = number(data[key])
        return Row(data, step, time, total, evaluation)

    def table(self, header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[Row]:
        """Rows of a table's cells. An empty cell is absent; a line shorter than the header ends early."""
        names = [cell.strip() for cell in header]
        for cells in lines:
            try:
                data: dict[str, Any] = dict(zip(names, map(float, cells), strict=False))
            except ValueError:
                data = {name: cell for name, cell in zip(names, cells, strict=False) if cell.strip()}
            data.pop("", None)  # a column without a name is a data frame's index
            if data:
                yield self.row(data)


def _take_time(data: dict[str, Any], key: str | None) -> float | None:
    """The time that stands under a name, which is then gone; what is no time stays."""
    if key is None:
        return None
    time = unix_seconds(data[key])
    if time is not None:
        del data[key]
    return time


def plan_of(keys: tuple[Any, ...]) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Of the names of a row: which one is its step, which one its time, and which ones are other counters."""
    names = {normal(key) if isinstance(key, str) else key: key for key in reversed(keys)}
    steps = [names[key] for key in STEP_KEYS if key in names]
    times = [names[key] for key in TIME_KEYS if key in names]
    return steps[0] if steps else None, times[0] if times else None, tuple(steps[1:])


def flat(data: Mapping[str, Any], depth: int = DEPTH) -> dict[str, Any]:
    """Nested dicts as one, with `/` between the names; what is nested deeper than a few levels is left out."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        if not isinstance(value, dict):
            found[key] = value
        elif depth > 1:
            found.update((f"{key}/{inner}", deep) for inner, deep in flat(value, depth - 1).items())
    return found


def unix_seconds(value: Any) -> float | None:
    """Seconds since 1970 from seconds, milliseconds or an ISO date; None for what is no date, such as a duration."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not -1e15 < value < 1e15:  # NaN is not; of a very long integer math.isfinite makes an error
            return None
        return float(value) if 1e9 <= value < 1e11 else value / 1000 if 1e12 <= value < 1e14 else None
    if not isinstance(value, str) or not 10 <= len(value) <= 40:
        return None
    try:
        return unix_seconds(float(value))
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(value.strip().replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def is_log_row(data: Mapping[str, Any], alone: bool = True) -> bool:
    """Whether a dict is a row of a training's log, and not a configuration or something that a model wrote.

    Args:
        data: A dict, flat or not.
        alone: It stands alone, and not in a text: then one number is enough.
    """
    found = numbers(flat(data))
    return len(found) > (0 if alone else 1) and ("train_runtime" in found or any(map(is_known, found)))


def check_count(rows: int) -> None:
    """Refuse so many rows, where no training has as many.

    Raises:
        UnreadableError: They are too many.
    """
    if rows > MOST_ROWS:
        raise UnusableError(f"it has more than {MOST_ROWS:,} rows")


def has_metrics(rows: Sequence[Row]) -> bool:
    """Whether any of a log's rows has a metric that some framework writes: what tells a log from any other table."""
    return any(is_known(name) for name in {name for row in rows[:1000] for name in row.values})
