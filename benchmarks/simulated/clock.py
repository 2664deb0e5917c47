"""When every step ends: steps of about one length, evaluations and checkpoints between them, and at times a hang."""

from __future__ import annotations

import math

import numpy as np

from .noise import Array
from .plan import Plan

BEGIN = 1.7e9


def clock(plan: Plan, length: Array, rng: np.random.Generator, every: int, evaluated: int) -> dict[str, Array]:
    """Seconds of each step, the time of its end, and when evaluations were.

    A step takes as long as its completions are long, to the power 0.6, with a lognormal noise of 10 % and one in a
    hundred half as long again or three times as long. An evaluation or a checkpoint takes as long as 3 to 20 steps. It
    lies between two steps, except in a fifth of the runs, whose steps hold it, as verl's always do.

    Args:
        plan: The curves.
        length: Tokens of a completion.
        rng: Of everything here.
        every: Steps that a row stands for.
        evaluated: Every so many steps there is an evaluation.
    """
    steps = len(length)
    usual = math.exp(rng.uniform(math.log(4), math.log(60)))
    seconds = usual * (length / length[0]) ** 0.6 * np.exp(0.1 * rng.normal(size=steps))
    seconds = seconds * np.where(rng.random(steps) < 0.01, rng.uniform(1.5, 3.0, steps), 1.0)
    factor = rng.uniform(3, 20) if plan.pause is None else plan.pause
    rests = np.arange(1, steps + 1) % evaluated == 0
    pauses = np.where(rests, factor * usual * np.exp(0.1 * rng.normal(size=steps)), 0.0)
    inside, hangs_inside = rng.random() < 0.2, rng.random() < 0.5
    hang = np.zeros(steps)
    if plan.stall is not None:
        step, rows = plan.stall
        hang[step - 1] = rows * usual * every
    after = np.concatenate([[0.0], pauses[:-1]])  # a row is written before the evaluation that follows its step
    times = BEGIN + np.cumsum(seconds + hang + (pauses if inside else after))
    within = seconds + hang * hangs_inside
    return {
        "time": times,
        "step_seconds": within + pauses if inside else within,
        "step_seconds with pauses": within + pauses,
    }
