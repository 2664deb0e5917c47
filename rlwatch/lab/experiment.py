"""What an experiment of the lab is: arms that differ in one thing, what is measured in each run, and what is claimed.

Nothing here needs torch: what trains is named, and loaded where it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlwatch.lab.measures import Of


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
    of: Of
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
