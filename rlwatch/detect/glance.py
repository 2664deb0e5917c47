"""A whole log, seen by its columns: which rules need not be led through it, as nothing in it is for them to find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rlwatch.detect.rule import Rule, are_finite
from rlwatch.detect.streaming import Baseline
from rlwatch.runs.records import Metrics, StepRecord
from rlwatch.runs.table import Table, glimpses

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

R = TypeVar("R", bound=Rule)

WORTH = 2000
"""Records from which a glance is worth its time."""

ROUNDING = 1e-9
"""Of the largest value: by so much, and never by so much, a mean may be beyond all of its values."""


def in_question(rules: Sequence[R], records: Sequence[StepRecord], worth: int = WORTH) -> list[R]:
    """Those of the rules that may find something in a log, in their order; the others would be silent all through it.

    A rule is asked only if its class says by itself how it is told (`may_find` is not inherited: a class that judges
    otherwise than the one that it was made from may find other things).

    Args:
        rules: Fresh ones.
        records: The whole log.
        worth: Records from which the rules are asked at all.
    """
    if len(records) < worth:
        return list(rules)
    import numpy as np

    log = Glance(records)
    with np.errstate(all="ignore"):  # logs have numbers of any size
        return [rule for rule in rules if "may_find" not in vars(type(rule)) or _may_find(rule, log)]


def walk(rules: Sequence[Rule], records: Sequence[StepRecord]) -> Iterable[StepRecord]:
    """The records of a whole log for rules to be led through: none where there is no rule.

    Rules of rlwatch's own get by with records that cost less to make, where the log is a table.
    """
    if not rules:
        return ()
    ours = all(type(rule).__module__.startswith("rlwatch.detect.") for rule in rules)
    return glimpses(records) if ours else records


def _may_find(rule: Rule, log: Glance) -> bool:
    try:
        return rule.may_find(log)
    except Exception:  # a question that fails is no answer
        return True


class Glance:
    """The columns of a log. Where a rule says nothing of a value, it is NaN here, and so no comparison holds for it.

    Args:
        records: All of them.
    """

    def __init__(self, records: Sequence[StepRecord]) -> None:
        import numpy as np

        self._np, self._records = np, records
        self._values: dict[str, Numbers] = {}
        self._levels: dict[tuple[str, float, float, float, float], Numbers] = {}

    @cached_property
    def _metrics(self) -> list[Metrics]:
        return [record.metrics for record in self._records]

    @cached_property
    def steps(self) -> npt.NDArray[np.int64]:
        """Each record's."""
        if isinstance(self._records, Table):
            return self._records.steps
        return self._np.array([record.step for record in self._records], dtype=self._np.int64)

    @cached_property
    def times(self) -> Numbers:
        """Each record's."""
        if isinstance(self._records, Table):
            return self._records.times
        return self._np.array([record.time for record in self._records], dtype=self._np.float64)

    @property
    def names(self) -> list[str]:
        """All metrics."""
        return list(self._names)

    @cached_property
    def _names(self) -> dict[str, None]:
        if isinstance(self._records, Table):
            return dict.fromkeys(self._records.names)
        return dict.fromkeys(name for names in dict.fromkeys(map(tuple, self._metrics)) for name in names)

    @cached_property
    def is_finite(self) -> bool:
        """Whether each value that is there is a finite number."""
        if isinstance(self._records, Table):
            return bool(self._np.isfinite(self._records.numbers).all())
        return all(map(are_finite, self._metrics))

    def values(self, name: str) -> Numbers:
        """A metric at each record, as [`finite`][rlwatch.detect.rule.finite] has it, and NaN for its None."""
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = self._finite(name)
        return found

    def _finite(self, name: str) -> Numbers:
        np = self._np
        raw: Numbers | None = None
        if isinstance(self._records, Table):
            raw = self._records.column(name)
        elif name in self._names:
            raw = np.array([metrics.get(name) for metrics in self._metrics], dtype=np.float64)  # NaN for None
        if raw is None:
            raw = np.full(len(self._records), math.nan)
        return only(raw, abs(raw) < 1e100)

    def most(self, *names: str) -> float:
        """The largest value of some metrics, and of any mean of them; -inf where there is none."""
        return max(largest(self.values(name)) for name in names)

    def least(self, *names: str) -> float:
        """The smallest one; inf where there is none."""
        return min(-largest(-self.values(name)) for name in names)

    def smoothed(self, values: Numbers, half_life: float, rows: float = 0.0, of_means: float = 0.0) -> Numbers:
        """What an [`Ewma`][rlwatch.detect.streaming.Ewma] is at each value, to the last bit, and NaN where none is.

        With `rows`, what a [`Level`][rlwatch.detect.level.Level] is that was made with so many.
        """
        there = values == values
        steps, most = self.steps[there], 1 / rows if rows else math.inf
        kinds, which = self._np.unique(steps[1:] - steps[:-1], return_inverse=True)
        halves = [of_means if passed > 1 and of_means else half_life for passed in kinds.tolist()]
        kept_of = self._np.array(
            [0.5 ** min(most, max(0, passed) / half) for passed, half in zip(kinds.tolist(), halves, strict=True)]
        )
        weight = level = 0.0
        levels = []
        for value, decay in zip(values[there].tolist(), [0.0, *kept_of[which].tolist()], strict=False):
            kept = weight * decay
            weight = 1.0 + kept
            level = (level * kept + value) / weight
            levels.append(level)
        found = self._np.full(len(values), math.nan)
        found[there] = levels
        return found

    def level(
        self, name: str, half_life: float, rows: float = 0.0, least: float = -math.inf, of_means: float = 0.0
    ) -> Numbers:
        """The same of a metric, without its values below the least."""
        key = name, half_life, rows, least, of_means
        found = self._levels.get(key)
        if found is None:
            values = self.values(name)
            found = self._levels[key] = self.smoothed(only(values, values >= least), half_life, rows, of_means)
        return found

    def reaches(self, values: Numbers, mark: float, half_life: float) -> bool:
        """Whether an [`Ewma`][rlwatch.detect.streaming.Ewma] of the values gets to a mark, roundings allowed for."""
        return largest(values) >= mark and largest(self.smoothed(values, half_life)) >= mark

    def at_first(self, values: Numbers, count: float) -> float:
        """The median of the first values, as a [`Baseline`][rlwatch.detect.streaming.Baseline] has it; NaN before."""
        start = Baseline(int(count))
        for value in values[values == values][: int(count)].tolist():
            start.update(value)
        return math.nan if start.value is None else start.value


def best_so_far(levels: Numbers) -> tuple[Numbers, Numbers]:
    """Of levels without gaps, at each: the highest so far, and the lowest up to that one, but at most 0."""
    import numpy as np

    best = np.maximum.accumulate(levels)
    rises = np.concatenate([[True], levels[1:] > best[:-1]])[: len(levels)]
    at_best = np.maximum.accumulate(np.where(rises, np.arange(len(levels)), 0))
    return best, np.minimum.accumulate(np.minimum(levels, 0.0))[at_best]


def largest(values: Numbers) -> float:
    """The largest number that any mean of the values can be, roundings included; -inf where all are NaN."""
    there = values[values == values]
    return float(there.max() + ROUNDING * abs(there).max()) if len(there) else -math.inf


def only(values: Numbers, where: npt.NDArray[np.bool_]) -> Numbers:
    """The values where something holds, and NaN elsewhere."""
    found: Numbers = values.copy()
    found[~where] = math.nan
    return found


def among(holds: npt.NDArray[np.bool_], rows: int) -> npt.NDArray[np.int64]:
    """In how many of the last rows, each row's own included, something holds."""
    counted = holds.cumsum()
    counted[rows:] -= counted[:-rows].copy()
    return counted
