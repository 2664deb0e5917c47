"""What is measured in a run, out of its records: means at either end, and the steps of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlwatch.runs.records import StepRecord

Records = Sequence[StepRecord]
Of = Callable[[Records], float | None]
"""From a run's records to a number; None where it cannot be told, or for the step of an event: where it never came."""

AT_END = 20
"""Steps at the end of a run that `at_end` takes the mean of."""


def values(records: Records, metric: str) -> list[tuple[int, float]]:
    """The steps at which a metric is a number, and the numbers."""
    return [(r.step, x) for r in records if (x := r.metrics.get(metric)) is not None and abs(x) < 1e100]


def mean(found: Sequence[float]) -> float | None:
    """Their mean; None where there are none."""
    return sum(found) / len(found) if found else None


def mean_of(metric: str) -> Of:
    """The mean of a metric over a whole run."""
    return lambda records: mean([x for _, x in values(records, metric)])


def at_end(metric: str, steps: int = AT_END) -> Of:
    """The mean of a metric over the last steps of a run."""
    return lambda records: mean([x for _, x in values(records[-steps:], metric)])


def at_start(metric: str, steps: int) -> Of:
    """The mean of a metric over the first steps of a run."""
    return lambda records: mean([x for _, x in values(records[:steps], metric)])


def change(metric: str, steps: int = 5) -> Of:
    """The mean of the last steps minus that of the first ones that have it."""

    def of(records: Records) -> float | None:
        found = [x for _, x in values(records, metric)]
        if len(found) < 2 * steps:
            return None
        return sum(found[-steps:]) / steps - sum(found[:steps]) / steps

    return of


def first_step(holds: Callable[[StepRecord], bool], rows: int = 1) -> Of:
    """The first step from which something holds in so many rows on end; None where it never does."""

    def of(records: Records) -> float | None:
        streak = 0
        for place, record in enumerate(records):
            streak = streak + 1 if holds(record) else 0
            if streak == rows:
                return float(records[place - rows + 1].step)
        return None

    return of


def falls_to(metric: str, share: float, first: int = 8, rows: int = 8) -> Of:
    """The first step at which the mean of so many rows up to it is at most a share of what it was at first.

    Args:
        metric: Its size counts, not its sign.
        share: Of the mean over the first rows.
        first: Rows that are the start.
        rows: Rows of the mean: a rollout, so that one update of it does not decide.
    """

    def of(records: Records) -> float | None:
        found = [(step, abs(x)) for step, x in values(records, metric)]
        if len(found) < first + rows:
            return None
        start = sum(x for _, x in found[:first]) / first
        for place in range(len(found) - rows + 1):
            if sum(x for _, x in found[place : place + rows]) / rows <= share * start:
                return float(found[place + rows - 1][0])
        return None

    return of


def falls_from_best(metric: str, lost: float, rows: int = 8) -> Of:
    """The first step at which the mean of so many rows up to it has lost a share of the best such mean before it."""

    def of(records: Records) -> float | None:
        found, best = values(records, metric), -float("inf")
        for end in range(rows, len(found) + 1):
            mean = sum(x for _, x in found[end - rows : end]) / rows
            best = max(best, mean)
            if best - mean >= lost * abs(best) > 0:
                return float(found[end - 1][0])
        return None

    return of


def of_rollouts(records: Records) -> Records:
    """The first record of each rollout: several updates on one have one reward, which is one observation.

    Where `rollouts/age` is not known, every record counts as one.
    """
    return [record for record in records if not record.metrics.get("rollouts/age")]


def reaches(value: Callable[[StepRecord], float], bound: float, rows: int = 8) -> Of:
    """The first step at which the mean of so many rows up to it is at least a bound; NaN is below everything."""

    def of(records: Records) -> float | None:
        found = [value(record) for record in records]
        for end in range(rows, len(found) + 1):
            if sum(found[end - rows : end]) / rows >= bound:
                return float(records[end - 1].step)
        return None

    return of


def number(record: StepRecord, metric: str) -> float:
    """A metric's value; NaN, of which no comparison holds, where there is none."""
    value = record.metrics.get(metric)
    return float("nan") if value is None else value
