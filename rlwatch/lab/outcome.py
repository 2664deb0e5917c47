"""What came of an experiment's runs: its measures, its chain of links, and what rlwatch told of it and when."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from rlwatch.lab.campaign import MARK, Job
from rlwatch.lab.experiment import Experiment
from rlwatch.lab.measures import falls_from_best, of_rollouts
from rlwatch.lab.verdicts import Judged, Measured, judge
from rlwatch.runs.reader import read_alerts, read_records
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord

_REWARD, _TOKENS = "reward/mean", "tokens/total"
_SHOWN = falls_from_best(_REWARD, 1 / 3)
_OF_A_FALL = ("reward-collapse", "entropy-collapse", "entropy-explosion")
"""Rules of which any is right where the reward of an arm falls that was to be quiet."""


@dataclass(frozen=True)
class Told:
    """What rlwatch told of one run.

    Args:
        arm: Its arm.
        seed: Its seed.
        event: The step at which it failed, by the experiment's own definition; None where it did not.
        rule: The first rule that warned of it, of those that are right for the arm; empty where none did.
        warned: The step of that.
        critical: The step at which one of them was critical.
        others: Other rules that told of something critical, and when.
        shown: The step at which the training reward shows it, a third below its best; None where it never does.
        fell: The same of the mean over eight rollouts: where that comes, a run has failed, quiet as its arm was to be.
        fall_told: The first step at which a rule warned of a falling reward.
    """

    arm: str
    seed: int
    event: float | None
    rule: str
    warned: int | None
    critical: int | None
    others: tuple[tuple[str, int], ...]
    shown: float | None = None
    fell: float | None = None
    fall_told: int | None = None

    @property
    def in_time(self) -> bool:
        """Whether it was warned of before the reward showed it."""
        return self.warned is not None and (self.shown is None or self.warned <= self.shown)

    @property
    def lead(self) -> float | None:
        """Steps from the first warning to the event; below 0 where it came after it."""
        return None if self.event is None or self.warned is None else self.event - self.warned


@dataclass(frozen=True)
class Link:
    """One link of the chain in one arm.

    Args:
        name: Of the link.
        steps: The step at which it came, a seed that had it.
        runs: Seeds of the arm.
        after: Seeds in which it came no earlier than the link before, of `both`.
        both: Seeds that had this link and the one before.
    """

    name: str
    steps: tuple[float, ...]
    runs: int
    after: int
    both: int

    @property
    def middle(self) -> float | None:
        """The median of the steps."""
        return median(self.steps) if self.steps else None


@dataclass(frozen=True)
class Outcome:
    """All of it.

    Args:
        experiment: Which one.
        seeds: The seeds that were run.
        steps: Optimizer steps of a run.
        measured: What was measured, a run.
        judged: The claims with their verdicts.
        told: What rlwatch told, a run.
        chain: The links, by arm; arms in which the chain has no link at all are left out.
        curves: Metric → arm → (steps, a list of values a step).
        tokens: The same of the tokens that were generated so far, by arm.
        rewards: And of the training reward.
        marks: What each run's lab.json says.
    """

    experiment: Experiment
    seeds: tuple[int, ...]
    steps: int
    measured: list[Measured]
    judged: list[Judged]
    told: list[Told]
    chain: dict[str, list[Link]]
    curves: dict[str, dict[str, tuple[list[int], list[list[float]]]]]
    tokens: dict[str, tuple[list[int], list[list[float]]]]
    rewards: dict[str, tuple[list[int], list[list[float]]]]
    marks: list[dict[str, Any]]

    def arms(self) -> list[str]:
        """The arms that were run, in the experiment's order."""
        ran = {run.arm for run in self.measured}
        return [arm.name for arm in self.experiment.arms if arm.name in ran]


def outcome(experiment: Experiment, root: Path, jobs: Sequence[Job]) -> Outcome:
    """Read the runs of these jobs, which are all done.

    Raises:
        OSError: A run cannot be read.
    """
    measured, told, marks = [], [], []
    curves: dict[str, dict[str, dict[int, list[float]]]] = {name: {} for name in (*experiment.curves, _TOKENS, _REWARD)}
    for job in jobs:
        run = root / job.name
        records = read_records(run).items
        numbers = {measure.name: measure.of(records) for measure in experiment.measures}
        measured.append(Measured(job.arm, job.seed, records[-1].step if records else 0, numbers))
        what = _told(experiment, job, read_alerts(run).items, numbers)
        told.append(replace(what, shown=_SHOWN(records), fell=_SHOWN(of_rollouts(records))))
        marks.append(json.loads((run / MARK).read_text(encoding="utf-8")))
        _add(curves, job.arm, records)
    seen = {name: {arm: _sorted(by_step) for arm, by_step in arms.items()} for name, arms in curves.items()}
    return Outcome(
        experiment,
        tuple(dict.fromkeys(job.seed for job in jobs)),
        max(job.steps for job in jobs),
        measured,
        judge(experiment, measured),
        told,
        _chains(experiment, measured),
        {name: seen[name] for name in experiment.curves},
        seen[_TOKENS],
        seen[_REWARD],
        marks,
    )


def _told(experiment: Experiment, job: Job, alerts: Sequence[Alert], numbers: dict[str, float | None]) -> Told:
    right = experiment.arm(job.arm).fires
    loud = [a for a in alerts if a.state is AlertState.FIRING and a.severity is not Severity.INFO]
    ours = [a for a in loud if a.rule in right]
    critical = next((a.step for a in ours if a.severity is Severity.CRITICAL), None)
    others: dict[str, int] = {}
    for alert in loud:
        if alert.severity is Severity.CRITICAL and alert.rule not in right:
            others.setdefault(alert.rule, alert.step)
    return Told(
        job.arm,
        job.seed,
        numbers[experiment.event] if experiment.event else None,
        ours[0].rule if ours else "",
        ours[0].step if ours else None,
        critical,
        tuple(others.items()),
        fall_told=next((a.step for a in loud if a.rule in _OF_A_FALL), None),
    )


def _chains(experiment: Experiment, measured: Sequence[Measured]) -> dict[str, list[Link]]:
    found: dict[str, list[Link]] = {}
    for arm in experiment.arms:
        runs = [run for run in measured if run.arm == arm.name]
        links = []
        for place, name in enumerate(experiment.chain):
            times = [run.numbers[name] for run in runs]
            before = [run.numbers[experiment.chain[place - 1]] for run in runs] if place else []
            pairs = [(a, b) for a, b in zip(before, times, strict=False) if a is not None and b is not None]
            here = tuple(time for time in times if time is not None)
            links.append(Link(name, here, len(runs), sum(a <= b for a, b in pairs), len(pairs)))
        if any(link.steps for link in links):
            found[arm.name] = links
    return found


def _add(curves: dict[str, dict[str, dict[int, list[float]]]], arm: str, records: Sequence[StepRecord]) -> None:
    for name, arms in curves.items():
        by_step = arms.setdefault(arm, {})
        for record in records:
            value = record.metrics.get(name)
            if value is not None and abs(value) < 1e100:
                by_step.setdefault(record.step, []).append(value)


def _sorted(by_step: dict[int, list[float]]) -> tuple[list[int], list[list[float]]]:
    steps = sorted(by_step)
    return steps, [by_step[step] for step in steps]
