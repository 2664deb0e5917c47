"""What an experiment of the lab is: arms that differ in one thing, what is measured in each run, and what is claimed.

Nothing here needs torch: what trains is named, and loaded where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rlwatch.runs.records import StepRecord

Records = Sequence[StepRecord]

AT_END = 20
"""Steps at the end of a run that `at_end` takes the mean of."""


@dataclass(frozen=True)
class Arm:
    """One of the configurations that are compared.

    Args:
        name: What it is called on the command line and in the run's name.
        description: One line for people.
        settings: What sets it apart from the others, by the name of the trainer's argument.
        task: The same of what is no argument of the trainer's: the task's, the reward's, the sampler's.
        fires: Rules of which at least one must tell of a failure of this arm.
        quiet: No critical alert is right in this arm.
        steps: Optimizer steps that are enough for it; None for as many as the others have.
    """

    name: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    fires: tuple[str, ...] = ()
    quiet: bool = False
    steps: int | None = None


@dataclass(frozen=True)
class Measure:
    """One number of a run.

    Args:
        name: What it is called, in a table's head and in sentences.
        of: From the run's records; None where it cannot be told, or for a time: where it never came.
        unit: Of the number.
        is_time: It is the step of an event; a run without one was seen to hold until its last step (censored).
        form: How it is written, as `format` takes it.
    """

    name: str
    of: Callable[[Records], float | None]
    unit: str = ""
    is_time: bool = False
    form: str = ".3g"


@dataclass(frozen=True)
class Column:
    """A column of the table of arms.

    Args:
        title: Its head.
        metric: What it shows.
        ends: Where: `first`, `last`, or both with an arrow between; the mean of five steps there.
        form: As `format` takes it.
    """

    title: str
    metric: str
    ends: tuple[str, ...] = ("last",)
    form: str = ".2f"


Kind = Literal["more", "less", "sooner", "same", "below", "above"]


@dataclass(frozen=True)
class Claim:
    """What is expected, written down before anything is trained.

    Args:
        says: The claim in words.
        kind: `more` or `less`: the measure of `arm` against that of `than`, paired by seed. `sooner`: the event comes
            earlier in `arm`. `same`: the difference is smaller than `bound` either way. `below` and `above`: the
            measure of `arm` against the number `bound`.
        measure: The name of a measure.
        arm: The arm that it is about.
        than: The arm that it is compared with.
        bound: A number, in the measure's unit.
        where: Which arms and measure show the setting in which the effect is expected to vanish or to reverse.
        weights: A contrast of several arms in place of `arm` and `than`: the sum of their measures, each times its
            weight, a seed. `more` says that it is above 0, `less` below, `same` that it is within the bound.
    """

    says: str
    kind: Kind
    measure: str
    arm: str = ""
    than: str = ""
    bound: float = 0.0
    where: bool = False
    weights: Mapping[str, float] = field(default_factory=dict)

    def arms(self) -> set[str]:
        """The arms that it is about."""
        return set(self.weights) or {name for name in (self.arm, self.than) if name}


@dataclass(frozen=True)
class Experiment:
    """A failure, on purpose.

    Args:
        name: What it is called on the command line.
        title: The same for people.
        question: What a reader should predict before looking.
        regime: In which setting it shows, and in which it does not.
        arms: The configurations, in the order in which to run them.
        short: Those that are run where no number of seeds is asked for.
        steps: Optimizer steps of a whole run.
        measures: What is measured in each run.
        claims: What is expected.
        module: Where the training is: a module with `prepare(seed, cache)`, whose result `build` gets as `start`, and
            `build(arm, start, seed=, steps=, output_dir=, callbacks=)`, which gives a trainer; or one whose `build`
            gives anything with a `train()` of its own.
        chain: Times of a failure's links, in the order in which they are expected; names of measures.
        event: The measure that says when a run has failed, by the experiment's own definition.
        table: Columns of the table of arms that is printed after single runs.
        curves: Metrics that the report draws, each arm as the median of its seeds and their range.
        watch: Arguments of the callback that watches, but for its folder and name.
        reading: What the figures do not show: what to keep in mind.
    """

    name: str
    title: str
    question: str
    regime: str
    arms: tuple[Arm, ...]
    short: tuple[str, ...]
    steps: int
    measures: tuple[Measure, ...]
    claims: tuple[Claim, ...]
    module: str
    chain: tuple[str, ...] = ()
    event: str = ""
    table: tuple[Column, ...] = (Column("reward first → last", "reward/mean", ("first", "last")),)
    curves: tuple[str, ...] = ("reward/mean", "entropy/mean")
    watch: Mapping[str, Any] = field(default_factory=dict)
    reading: tuple[str, ...] = ()

    def arm(self, name: str) -> Arm:
        """The arm of that name.

        Raises:
            ValueError: There is none; the message names those that there are.
        """
        found = next((arm for arm in self.arms if arm.name == name), None)
        if found is None:
            raise ValueError(f"{self.name} has no arm {name!r}: there are {', '.join(arm.name for arm in self.arms)}")
        return found

    def measure(self, name: str) -> Measure:
        """The measure of that name."""
        return next(measure for measure in self.measures if measure.name == name)


def run_name(experiment: str, arm: str, seed: int | None = None) -> str:
    """What a run is called; several seeds have their number behind it."""
    return f"{experiment}-{arm}" + ("" if seed is None else f"-seed{seed}")


def values(records: Records, metric: str) -> list[tuple[int, float]]:
    """The steps at which a metric is a number, and the numbers."""
    return [(r.step, x) for r in records if (x := r.metrics.get(metric)) is not None and abs(x) < 1e100]


def at_end(metric: str, steps: int = AT_END) -> Callable[[Records], float | None]:
    """The mean of a metric over the last steps of a run."""

    def of(records: Records) -> float | None:
        found = [x for _, x in values(records[-steps:], metric)]
        return sum(found) / len(found) if found else None

    return of


def at_start(metric: str, steps: int) -> Callable[[Records], float | None]:
    """The mean of a metric over the first steps of a run."""

    def of(records: Records) -> float | None:
        found = [x for _, x in values(records[:steps], metric)]
        return sum(found) / len(found) if found else None

    return of


def change(metric: str, steps: int = 5) -> Callable[[Records], float | None]:
    """The mean of the last steps minus that of the first ones that have it."""

    def of(records: Records) -> float | None:
        found = [x for _, x in values(records, metric)]
        if len(found) < 2 * steps:
            return None
        return sum(found[-steps:]) / steps - sum(found[:steps]) / steps

    return of


def first_step(holds: Callable[[StepRecord], bool], rows: int = 1) -> Callable[[Records], float | None]:
    """The first step from which something holds in so many rows on end; None where it never does."""

    def of(records: Records) -> float | None:
        streak = 0
        for place, record in enumerate(records):
            streak = streak + 1 if holds(record) else 0
            if streak == rows:
                return float(records[place - rows + 1].step)
        return None

    return of


def falls_to(metric: str, share: float, first: int = 8, rows: int = 8) -> Callable[[Records], float | None]:
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


def falls_from_best(metric: str, lost: float, rows: int = 8) -> Callable[[Records], float | None]:
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


def reaches(value: Callable[[StepRecord], float], bound: float, rows: int = 8) -> Callable[[Records], float | None]:
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
