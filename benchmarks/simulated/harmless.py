"""Runs that are fine, with entropy, rewards or dead groups that would alarm someone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .plan import Kind, Plan, healthy, ramp


def _sharpening(rng: np.random.Generator, steps: int) -> Plan:
    """Entropy falls to a tenth because the answers are right."""
    plan = healthy(rng, steps)
    plan.success = ramp(steps, 0, steps * rng.uniform(0.4, 0.8), rng.uniform(0.25, 0.4), rng.uniform(0.85, 0.95))
    plan.entropy = ramp(steps, 0, steps * rng.uniform(0.3, 0.6), 1.0, rng.uniform(0.05, 0.25))
    return plan


def _saturation(rng: np.random.Generator, steps: int) -> Plan:
    """Every prompt is solved, and nothing is left to learn."""
    plan = healthy(rng, steps)
    over = steps * rng.uniform(0.2, 0.4)
    plan.success = ramp(steps, 0, over, rng.uniform(0.5, 0.8), rng.uniform(0.985, 0.999))
    plan.entropy = ramp(steps, 0, over, 1.0, rng.uniform(0.01, 0.05))
    plan.stuck = ramp(steps, 0, over, 0.03, 0.0)
    return plan


def _noisy_plateau(rng: np.random.Generator, steps: int) -> Plan:
    """Small batches of uneven prompts; the reward goes nowhere."""
    plan = healthy(rng, steps)
    plan.success = np.ones(steps) * rng.uniform(0.2, 0.6)
    plan.entropy = ramp(steps, 0, steps, 1.0, rng.uniform(0.4, 0.9))
    plan.wander, plan.prompts = rng.uniform(0.5, 0.9), 8
    return plan


def _curriculum(rng: np.random.Generator, steps: int) -> Plan:
    """Harder prompts come in, and the reward falls by a third and recovers."""
    plan = healthy(rng, steps)
    jump, over = steps * rng.uniform(0.4, 0.6), steps * rng.uniform(0.15, 0.3)
    dip = np.where(np.arange(1, steps + 1) < jump, 1.0, ramp(steps, jump, over, 2 / 3, 1.0))
    plan.success = plan.success * dip
    return plan


def _small_batches(rng: np.random.Generator, steps: int) -> Plan:
    """Four prompts of two completions a step."""
    plan = healthy(rng, steps)
    plan.prompts, plan.group, plan.wander = 4, 2, 0.4
    return plan


def _pinned_length(rng: np.random.Generator, steps: int) -> Plan:
    """Every completion runs into the limit, and is scored all the same."""
    plan = healthy(rng, steps)
    plan.truncated, plan.length = np.ones(steps), np.ones(steps) * 512
    plan.entropy = ramp(steps, 0, steps * 0.5, 1.0, rng.uniform(0.05, 0.3))
    return plan


def _entropy_wave(rng: np.random.Generator, steps: int) -> Plan:
    """Entropy more than doubles and falls again."""
    plan = healthy(rng, steps)
    top, width = steps * rng.uniform(0.35, 0.6), steps * rng.uniform(0.1, 0.2)
    x = (np.arange(1, steps + 1) - top) / width
    plan.entropy = plan.entropy * (1 + rng.uniform(1.0, 1.6) * np.exp(-0.5 * x * x))
    return plan


def _late_start(rng: np.random.Generator, steps: int) -> Plan:
    """Nearly all fails at first, then it is learnt."""
    plan = healthy(rng, steps)
    plan.success = ramp(steps, 30, steps * rng.uniform(0.4, 0.6), 0.012, rng.uniform(0.5, 0.7))
    plan.stuck, plan.alike = np.zeros(steps), 6.0
    plan.entropy = ramp(steps, 30, steps * 0.5, 1.0, rng.uniform(0.3, 0.6))
    return plan


def _hard_prompts(rng: np.random.Generator, steps: int) -> Plan:
    """Most groups fail all along, and the run learns slowly from the rest."""
    plan = healthy(rng, steps)
    plan.success = ramp(steps, 0, steps, rng.uniform(0.06, 0.1), rng.uniform(0.14, 0.2))
    plan.stuck, plan.alike = np.zeros(steps), 0.7
    return plan


def _negative_rewards(rng: np.random.Generator, steps: int) -> Plan:
    """Rewards are shifted and stretched: from about -2 to 1."""
    plan = healthy(rng, steps)
    plan.scale = (2.0, -1.0 - rng.uniform(0.0, 1.0))
    return plan


CLASSES: Mapping[str, Kind] = {
    "sharpening": Kind(_sharpening),
    "saturation": Kind(_saturation),
    "noisy-plateau": Kind(_noisy_plateau),
    "curriculum-jump": Kind(_curriculum),
    "short": Kind(healthy, layouts=((15, 1), (25, 1), (40, 1))),
    "sparse": Kind(healthy, layouts=((200, 5), (500, 10), (1000, 25))),
    "small-batches": Kind(_small_batches),
    "pinned-length": Kind(_pinned_length),
    "entropy-wave": Kind(_entropy_wave),
    "late-start": Kind(_late_start),
    "hard-prompts": Kind(_hard_prompts),
    "negative-rewards": Kind(_negative_rewards),
}
