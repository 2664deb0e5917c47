"""The curves of a run, one value a step, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .events import ONE_ROW, Fact
from .noise import Array

LAYOUTS = ((200, 5), (400, 1), (600, 10))
"""Optimizer steps, and how many of them a row stands for."""

EVERY_STEP = ((200, 1), (400, 1), (600, 1))
"""For what shows in single steps only: a row of several has the gradient of one of them."""

ALL = ("full", "trl", "verl")
GROUPS = ("full", "trl")


@dataclass
class Plan:
    """The curves of a run, one value a step. What is None is drawn to go with the rest."""

    success: Array
    entropy: Array  # as a multiple of its start
    stuck: Array
    truncated: Array
    length: Array
    ratio: Array  # p / p_sampler
    frozen: Array  # no gradient
    still: bool = False  # and none since the start, so the policy is the reference
    alone: bool = False  # groups of one
    broken: tuple[str, int] | None = None  # metric and step from which it is NaN

    rules: tuple[str, ...] = ()
    severity: str = "critical"
    onset: int | None = None
    event: int | None = None
    event_row: Fact | None = None  # else: of each row, whether it shows the failure
    grace: int = ONE_ROW
    grace_steps: int = 0  # at least, where what shows it is not in every row
    cause: str | None = None
    cause_loggers: tuple[str, ...] = ALL  # in the others nothing could tell

    logs_kl: bool = True
    wander: float = 0.25  # of a batch's difficulty, in logits
    prompts: int = 16
    group: int = 8
    alike: float = 2.0  # how alike prompts are: the Beta distribution's a + b
    scale: tuple[float, float] = (1.0, 0.0)  # of the reward: times, plus

    updates: int = 4  # a rollout
    loss_type: str = "dapo"
    tails: float = 0.0  # the share of steps at which gradient and KL are 5 to 30 times what they are
    gradient: Array | None = None  # what it is multiplied by
    regulariser: Array | None = None  # its gradient, as a multiple of the run's own scale; adds to the policy's
    regulariser_share: float | None = None  # of the norms of both parts
    kl: Array | None = None  # to the reference
    lr: Array | None = None
    clip: Array | None = None  # share of tokens, above and below, mean over the updates of a rollout
    drift: Array | None = None  # of ratio/mean from 1
    active: Array | None = None  # what the share of active tokens is multiplied by
    unique: Array | None = None  # share of a completion's siblings that differ from it
    gap: Array | None = None  # incorrect less correct length, as a share of the mean
    limit: float | None = None  # of the length
    form: Array | None = None  # what the reward function "format" gives, beside "correctness"
    weights: tuple[float, float] | None = None  # of correctness and format
    evaluation: Array | None = None  # true success on other prompts
    evaluation_every: int | None = None
    pause: float | None = None  # of an evaluation, in steps
    stall: tuple[int, float] | None = None  # the step that hung, and for how many rows' time


@dataclass(frozen=True)
class Kind:
    """A class of runs.

    Args:
        make: The curves.
        loggers: Those that log what would show it; in others it cannot be seen, and is not asked for.
        layouts: Steps and spacing.
    """

    make: Callable[[np.random.Generator, int], Plan]
    loggers: tuple[str, ...] = ALL
    layouts: tuple[tuple[int, int], ...] = LAYOUTS


def ramp(steps: int, onset: float, over: float, start: float, end: float) -> Array:
    """A smooth way from one level to another, at the steps 1 to `steps`."""
    x = np.clip((np.arange(1, steps + 1) - onset) / max(over, 1e-9), 0, 1)
    return start + (end - start) * x * x * (3 - 2 * x)


def healthy(rng: np.random.Generator, steps: int) -> Plan:
    """A run that learns: the reward rises by a good part, entropy falls to a third to two thirds."""
    flat = np.ones(steps)
    begin, end = rng.uniform(0.25, 0.45), rng.uniform(0.6, 0.8)
    return Plan(
        success=ramp(steps, 0, steps * rng.uniform(0.5, 0.9), begin, end),
        entropy=ramp(steps, 0, steps * rng.uniform(0.5, 0.9), 1.0, rng.uniform(0.35, 0.7)),
        stuck=flat * rng.uniform(0.0, 0.08),
        truncated=flat * rng.uniform(0.0, 0.1),
        length=flat * rng.uniform(80, 900),
        ratio=flat,
        frozen=flat < 0,
        logs_kl=bool(rng.random() < 0.5),
    )


def with_tails(rng: np.random.Generator, steps: int) -> Plan:
    """The same, and now and then its gradient or its KL is many times what it is, as in real logs."""
    plan = healthy(rng, steps)
    plan.tails = rng.uniform(0.002, 0.01)
    return plan
