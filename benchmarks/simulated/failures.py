"""Failures: what the reward, the groups, the gradient and the sampler do when a run stops learning or breaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from .events import TWENTY_ROWS, is_gone, is_stuck
from .plan import EVERY_STEP, GROUPS, Kind, Plan, healthy, ramp


def _entropy_collapse(rng: np.random.Generator, steps: int) -> Plan:
    """The policy stops exploring. Event: four rows with a mean of nine in ten groups stuck."""
    plan = healthy(rng, steps)
    onset, over = steps * rng.uniform(0.2, 0.4), steps * rng.uniform(0.25, 0.4)
    level = rng.uniform(0.35, 0.5)  # of the safe answer, 0.5, and what is left of the others
    plan.success = ramp(steps, 0, onset, level - 0.1, level)
    plan.stuck = ramp(steps, onset, over, float(plan.stuck[0]), rng.uniform(0.94, 0.99))
    plan.entropy = ramp(steps, onset * 0.6, over, 1.0, rng.uniform(0.02, 0.15))
    plan.rules, plan.cause = ("entropy-collapse", "dead-groups"), "alike|updates a rollout|nothing left to compare"
    plan.onset, plan.event_row = int(onset * 0.6), is_stuck
    return plan


def _reward_collapse(sudden: bool, entropy_rises: bool) -> Callable[[np.random.Generator, int], Plan]:
    """The reward goes, at once or slowly, with entropy rising or not. Event: four rows with a mean reward below 0.1."""

    def make(rng: np.random.Generator, steps: int) -> Plan:
        plan = healthy(rng, steps)
        onset = steps * rng.uniform(0.35, 0.6)
        over = rng.uniform(4, 12) if sudden else steps * rng.uniform(0.15, 0.25)
        plan.success = plan.success * ramp(steps, onset, over, 1.0, rng.uniform(0.0, 0.04))
        if entropy_rises:
            plan.entropy = plan.entropy * ramp(steps, onset - 0.5 * over, over, 1.0, rng.uniform(4, 15))
            plan.cause = "came apart"
        else:
            plan.entropy = np.ones(steps) * float(plan.entropy[int(onset)])
            plan.cause = "moved rather than broke"
        plan.rules = ("reward-collapse",)
        plan.onset, plan.event_row = int(onset - 0.5 * over * entropy_rises), is_gone
        return plan

    return make


def _failed_from_start(rng: np.random.Generator, steps: int) -> Plan:
    """No prompt is ever solved. Event: the first step."""
    plan = healthy(rng, steps)
    plan.success, plan.stuck = np.zeros(steps), np.zeros(steps)
    plan.entropy = np.ones(steps)
    plan.rules = ("dead-groups",)
    plan.cause, plan.cause_loggers = "too hard", ("full",)
    plan.onset = plan.event = 1
    plan.grace = TWENTY_ROWS
    return plan


def _failed_later(rng: np.random.Generator, steps: int) -> Plan:
    """Harder prompts come in, of which none is ever solved. Event: their first step."""
    plan = healthy(rng, steps)
    onset = int(steps * rng.uniform(0.35, 0.6))
    gone = np.arange(1, steps + 1) >= onset
    plan.success, plan.stuck = np.where(gone, 0.0, plan.success), np.where(gone, 0.0, plan.stuck)
    plan.rules = ("dead-groups", "reward-collapse")
    plan.cause, plan.cause_loggers = "too hard", ("full",)
    plan.onset = plan.event = onset
    plan.grace = TWENTY_ROWS
    return plan


def _truncated(rng: np.random.Generator, steps: int) -> Plan:
    """No completion ends within the limit, so none is right. Event: the first step."""
    plan = _failed_from_start(rng, steps)
    plan.truncated = np.ones(steps)
    plan.rules, plan.cause = ("truncation", "dead-groups"), None
    return plan


def _no_gradient(rng: np.random.Generator, steps: int) -> Plan:
    """The gradient never reaches the weights. Event: the first step."""
    plan = healthy(rng, steps)
    plan.success, plan.entropy = np.ones(steps) * rng.uniform(0.3, 0.6), np.ones(steps)
    plan.frozen, plan.still, plan.logs_kl = np.ones(steps) > 0, True, True
    plan.rules, plan.cause = ("no-gradient",), "does not reach the weights"
    plan.onset = plan.event = 1
    plan.grace = TWENTY_ROWS
    return plan


def _no_gradient_later(rng: np.random.Generator, steps: int) -> Plan:
    """As after a restart with the weights frozen: the policy stays where it got to. Event: the first such step."""
    plan = healthy(rng, steps)
    onset = int(steps * rng.uniform(0.35, 0.6))
    plan.frozen = np.arange(1, steps + 1) >= onset
    stop = np.minimum(np.arange(steps), onset)
    plan.success, plan.entropy = plan.success[stop], plan.entropy[stop]
    plan.rules, plan.cause = ("no-gradient",), "does not reach the weights"
    plan.onset = plan.event = onset
    plan.grace = TWENTY_ROWS
    return plan


def _mismatch(rng: np.random.Generator, steps: int) -> Plan:
    """The sampler's probabilities come apart from the trainer's. Event: the ratio has got to where it stays."""
    plan = healthy(rng, steps)
    onset, over = steps * rng.uniform(0.35, 0.6), rng.uniform(5, 50)
    end = rng.uniform(0.05, 0.12) if rng.random() < 0.7 else rng.uniform(8, 20)
    plan.ratio = np.exp(ramp(steps, onset, over, 0.0, math.log(end)))
    plan.rules = ("sampler-mismatch",)
    plan.onset, plan.event = int(onset), min(steps, math.ceil(onset + over))
    return plan


def _alone(rng: np.random.Generator, steps: int) -> Plan:
    """Groups of one have no baseline. Event: the first step."""
    plan = healthy(rng, steps)
    plan.alone, plan.group, plan.prompts = True, 1, 64
    plan.stuck = np.zeros(steps)
    plan.rules, plan.cause = ("group-size-one",), "groups of one"
    plan.onset = plan.event = 1
    plan.grace = TWENTY_ROWS
    return plan


def _non_finite(rng: np.random.Generator, steps: int) -> Plan:
    """The loss or the entropy is NaN. Event: its first step."""
    plan = healthy(rng, steps)
    plan.onset = plan.event = int(steps * rng.uniform(0.4, 0.8))
    plan.broken = (str(rng.choice(["loss", "entropy/mean"])), plan.event)
    plan.rules, plan.cause = ("non-finite",), "gives no numbers any more"
    return plan


CLASSES: Mapping[str, Kind] = {
    "entropy-collapse": Kind(_entropy_collapse, GROUPS),
    "reward-sudden-entropy-up": Kind(_reward_collapse(True, True)),
    "reward-sudden-entropy-flat": Kind(_reward_collapse(True, False)),
    "reward-slow-entropy-up": Kind(_reward_collapse(False, True)),
    "reward-slow-entropy-flat": Kind(_reward_collapse(False, False)),
    "failed-from-start": Kind(_failed_from_start, GROUPS),
    "failed-later": Kind(_failed_later),
    "all-truncated": Kind(_truncated),
    "no-gradient": Kind(_no_gradient, GROUPS),
    # in a row of several steps, a gradient of 0 shows nothing: it is that of one of them
    "no-gradient-later": Kind(_no_gradient_later, GROUPS, EVERY_STEP),
    "sampler-mismatch": Kind(_mismatch, GROUPS),
    "group-size-one": Kind(_alone, ("full", "verl")),
    "non-finite": Kind(_non_finite),
}
