"""One made-up run, or all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlwatch.runs.records import StepRecord

from . import failures, failures_output, failures_policy, failures_reward, harmless, harmless_lookalikes
from .draw import draw
from .further import further
from .noise import Noise
from .plan import Kind, Plan
from .rows import event_and_due, hide, records_of, rows_of

FAILURES: Mapping[str, Kind] = {
    **failures.CLASSES, **failures_policy.CLASSES, **failures_output.CLASSES, **failures_reward.CLASSES,
}  # fmt: skip
HARMLESS: Mapping[str, Kind] = {**harmless.CLASSES, **harmless_lookalikes.CLASSES}
KINDS: Mapping[str, Kind] = {**FAILURES, **HARMLESS}

_FIRST = (failures.CLASSES, harmless.CLASSES)
_NUMBERS = {k: i for i, k in enumerate(dict.fromkeys([*(k for some in _FIRST for k in some), *KINDS]))}
"""What a class is seeded with: those of the first day come first, so that their runs stay what they were."""


@dataclass(frozen=True)
class Simulated:
    """A made-up run.

    Args:
        kind: Its class, a key of `KINDS`.
        seed: Even ones are for tuning, odd ones for testing.
        logger: A key of `LOGGERS`.
        every: Steps a row stands for.
        records: Its rows.
        rules: The rules any of which is right; none where the run is fine.
        severity: The least with which an alert of these finds it: "critical" where the run is being destroyed or has
            stopped learning, "warning" where a measurable share is lost.
        onset: The first step at which anything is other than in a good run; None where the run is fine.
        event: The step from which the failure is a fact.
        due: The last step at which an alarm is in time.
        cause: A regular expression that the first cause has to match, or None where no cause is asked for.
        config: The trainer's, as far as a log tells it.
        weights: Of each reward function.
    """

    kind: str
    seed: int
    logger: str
    every: int
    records: Sequence[StepRecord]
    rules: tuple[str, ...] = ()
    severity: str = "critical"
    onset: int | None = None
    event: int | None = None
    due: int | None = None
    cause: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def fails(self) -> bool:
        """Whether it is of a failure class."""
        return bool(self.rules)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.kind}/{self.logger}/{self.seed}/every{self.every}"


def simulate(kind: str, seed: int, layout: int, noise: Noise | None = None) -> Simulated:
    """One run; the same arguments give the same run.

    Args:
        kind: A key of `KINDS`.
        seed: Of everything that is drawn; loggers take turns with it and with the layout.
        layout: Which of the kind's layouts.
        noise: Where a batch's difficulty and the entropy get theirs from.
    """
    chosen, noise = KINDS[kind], Noise() if noise is None else noise
    steps, every = chosen.layouts[layout]
    logger = chosen.loggers[(seed // 2 + layout) % len(chosen.loggers)]
    rng = np.random.default_rng([_NUMBERS[kind], seed, layout])
    more = np.random.default_rng([_NUMBERS[kind], seed, layout, 1])
    plan = chosen.make(rng, steps)
    series, groups = draw(plan, rng, more, steps, every, noise)
    series |= further(plan, series, groups, more, every)
    rows = rows_of(series, every)
    event, due = event_and_due(plan, rows, range(every, steps + 1, every))
    hide(plan, rows, every)
    assert plan.weights is not None
    return Simulated(
        kind=kind,
        seed=seed,
        logger=logger,
        every=every,
        records=records_of(plan, rows, logger, every),
        rules=plan.rules,
        severity=plan.severity,
        onset=plan.onset,
        event=event,
        due=due,
        cause=plan.cause if logger in plan.cause_loggers else None,
        config=_config(plan) if logger == "full" else {},
        weights=dict(zip(("reward/correctness", "reward/format"), plan.weights, strict=True)),
    )


def simulate_all(seeds: int, noise: Noise | None = None) -> list[Simulated]:
    """Every class with every layout, `seeds` times each."""
    return [
        simulate(kind, seed, layout, noise)
        for kind in KINDS
        for seed in range(seeds)
        for layout in range(len(KINDS[kind].layouts))
    ]


def _config(plan: Plan) -> dict[str, Any]:
    """The trainer's, in TRL's words."""
    assert plan.weights is not None
    assert plan.limit is not None
    return {
        "num_generations": plan.group,
        "num_iterations": plan.updates,
        "epsilon_high": 0.2,
        "beta": 0.04 if plan.logs_kl else 0.0,
        "loss_type": plan.loss_type,
        "max_completion_length": round(plan.limit),
        "reward_weights": list(plan.weights),
    }
