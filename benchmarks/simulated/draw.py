"""Curves to numbers a step: the groups of every step, and what follows from them.

What is drawn here, and in which order, is what it was before `further` came: the runs of a seed stay what they were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .noise import Array, Noise, spikes
from .plan import Plan


@dataclass(frozen=True)
class Groups:
    """The groups of every step, (steps, prompts) each, rewards before any scaling.

    Args:
        won: The share of completions that succeed.
        stuck: Whether all of them give the one safe answer instead, which earns 0.5.
        mean: The mean reward.
        square: The mean squared reward.
        within: The deviation within the group, of n and not of n - 1.
        alive: The share of groups with one, a step.
        gradient: The scale of the run's gradient.
    """

    won: Array
    stuck: Array
    mean: Array
    square: Array
    within: Array
    alive: Array
    gradient: float


def draw(
    plan: Plan, rng: np.random.Generator, more: np.random.Generator, steps: int, every: int, noise: Noise
) -> tuple[dict[str, Array], Groups]:
    """What every logger could have had from the beginning.

    Args:
        plan: The curves.
        rng: Of what was always drawn.
        more: Of what came later.
        steps: How many.
        every: How many a row stands for.
        noise: Of a batch's difficulty and of entropy.
    """
    p = np.clip(plan.success, 1e-9, 1 - 1e-9)
    odds = np.log(p / (1 - p)) + plan.wander * noise.draw(rng, steps, every)
    p = np.clip(1 / (1 + np.exp(-odds)), 1e-6, 1 - 1e-6)
    alike = plan.alike
    rates = rng.beta((p * alike)[:, None], ((1 - p) * alike)[:, None], (steps, plan.prompts))
    won = rng.binomial(plan.group, np.where(plan.success[:, None] > 0, rates, 0.0)) / plan.group
    is_stuck = rng.random((steps, plan.prompts)) < plan.stuck[:, None]
    solved, failed = (won == 1) & ~is_stuck, (won == 0) & ~is_stuck
    mean = np.where(is_stuck, 0.5, won)
    square = np.where(is_stuck, 0.25, won)
    within = np.sqrt(np.maximum(square - mean**2, 0))
    times, plus = plan.scale
    reward = mean.mean(axis=1)
    alive = (within > 0).mean(axis=1)
    if plan.alone:
        alive = np.ones(steps)
    wobble = np.exp(0.3 * rng.normal(size=steps))
    scale = rng.uniform(0.05, 1.0)
    gradient = np.where(plan.frozen, 0.0, scale * np.sqrt(alive) * wobble)
    kl = np.cumsum(np.where(plan.frozen, 0.0, 2e-4 * alive * np.abs(rng.normal(size=steps))))
    start = math.exp(rng.uniform(math.log(0.15), math.log(1.5)))  # nats per token
    shown = times * reward + plus
    series = {
        "entropy/mean": start * plan.entropy * np.exp(0.06 * noise.draw(rng, steps, every)),
        "reward/mean": shown,
        "reward/std": times * np.sqrt(np.maximum(square.mean(axis=1) - reward**2, 0)),
        "groups/solved": solved.mean(axis=1),
        "groups/failed": failed.mean(axis=1),
        "groups/stuck": is_stuck.mean(axis=1),
        "groups/zero_std": (within == 0).mean(axis=1),
        "groups/reward_std": times * within.mean(axis=1),
        "advantage/mean": shown.copy() if plan.alone else rng.normal(0, 0.01, steps),
        "grad/norm": gradient,
        "loss": rng.normal(0, 0.01, steps),
        "lr": np.full(steps, 1e-6) if plan.lr is None else plan.lr,
        "kl/ref": np.zeros(steps) if plan.still else kl,
        "length/mean": plan.length * np.exp(0.05 * rng.normal(size=steps) * (plan.truncated < 1)),
        "length/truncated": np.clip(plan.truncated + 0.02 * rng.normal(size=steps) * (plan.truncated < 1), 0, 1),
        "sampler/ratio_mean": plan.ratio * np.exp(0.03 * rng.normal(size=steps)),
    }
    _heavier(plan, series, more, steps)
    return series, Groups(won, is_stuck, mean, square, within, alive, scale)


def _heavier(plan: Plan, series: dict[str, Array], rng: np.random.Generator, steps: int) -> None:
    """Curves and tails that some classes have in the gradient and the KL; the others' stay what they are."""
    if plan.kl is not None:
        series["kl/ref"] = plan.kl * np.exp(0.15 * rng.normal(size=steps))
    if plan.gradient is not None:
        series["grad/norm"] = series["grad/norm"] * plan.gradient
    if plan.tails:
        series["grad/norm"] = series["grad/norm"] * spikes(rng, steps, plan.tails)
        series["kl/ref"] = series["kl/ref"] * spikes(rng, steps, plan.tails)
