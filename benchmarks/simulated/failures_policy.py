"""Failures of the policy's update: entropy, KL, clip, gradients, diversity. Labels were fixed before any detector ran.

The docstring of each says what the event is. "Before" is the mean of the ten rows before the onset.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .events import (
    EVENT_ONLY,
    TWENTY_ROWS,
    is_gone,
    reaches,
    sinks,
    spiked,
)  # fmt: skip
from .plan import EVERY_STEP, GROUPS, Kind, Plan, ramp, with_tails


def _entropy_explosion(rng: np.random.Generator, steps: int) -> Plan:
    """Entropy grows to 2 to 10 times its start and stays there; the reward stalls, and then it goes.

    Event: the reward is gone, four rows with a mean below 0.1. A warning is due by then.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.2, 0.35), steps * rng.uniform(0.1, 0.15)
    begin, level = rng.uniform(0.25, 0.4), rng.uniform(0.45, 0.65)
    going = ramp(steps, steps * rng.uniform(0.55, 0.65), steps * rng.uniform(0.06, 0.12), 1.0, rng.uniform(0.0, 0.04))
    plan.success = ramp(steps, 0, onset, begin, level) * going
    plan.entropy = ramp(steps, 0, onset, 1.0, 0.8) * ramp(steps, onset, over, 1.0, rng.uniform(2.5, 12))
    plan.length = plan.length * ramp(steps, onset, 2 * over, 1.0, rng.uniform(1.0, 1.5))
    plan.truncated = plan.truncated + ramp(steps, onset, 2 * over, 0.0, rng.uniform(0.0, 0.2))
    plan.kl = ramp(steps, 0, steps, 0.001, 0.02) * ramp(steps, onset, over, 1.0, rng.uniform(5, 20))
    plan.rules, plan.severity = ("entropy-explosion", "reward-collapse"), "warning"
    plan.cause = "(?i)apart|random|entropy|epsilon|temperature|clip|long"
    plan.onset, plan.event_row, plan.grace = int(onset), is_gone, EVENT_ONLY
    return plan


def _kl_runaway(rng: np.random.Generator, steps: int) -> Plan:
    """The distance to the reference grows exponentially, and as it passes a few nats the reward turns down.

    Event: four rows with a mean `kl/ref` of 1 nat per token or more, where a token is on average no longer one that the
    reference would write.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.2, 0.35), steps * rng.uniform(0.3, 0.4)
    begin, end = np.log(rng.uniform(0.003, 0.03)), np.log(rng.uniform(5, 40))
    plan.logs_kl, plan.updates, plan.tails = True, int(rng.choice([1, 4])), 0.0  # one spike is no runaway
    share = np.clip((np.arange(1, steps + 1) - onset) / over, 0, 1)  # in a straight line, on a logarithmic scale
    plan.kl = ramp(steps, 0, onset, 0.2, 1.0) * np.exp(begin + (end - begin) * share)
    plan.success = ramp(steps, 0, steps * 0.4, rng.uniform(0.25, 0.4), rng.uniform(0.55, 0.75)) / (1 + plan.kl / 8)
    plan.gradient = (1 + plan.kl) ** 0.3
    plan.rules, plan.severity = ("kl-runaway", "reward-collapse"), "warning"
    plan.cause = "(?i)kl|reference|beta|learning rate|away|apart"
    plan.onset, plan.event_row = int(onset), reaches(["kl/ref"], 1.0)
    return plan


def _clip_saturated(rng: np.random.Generator, steps: int) -> Plan:
    """8 to 16 updates a rollout; ever more tokens are clipped, ratios drift from 1, and the reward stalls.

    Event: four rows in which 0.3 of the tokens or more are clipped, above and below together.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.25, 0.45), steps * rng.uniform(0.1, 0.25)
    plan.updates = int(rng.choice([8, 16]))
    plan.clip = ramp(steps, onset, over, rng.uniform(0.005, 0.03), rng.uniform(0.45, 0.9))
    plan.drift = ramp(steps, onset, over, 0.0, rng.uniform(0.05, 0.6))
    stop = np.minimum(np.arange(steps), int(onset))
    plan.success, plan.entropy = plan.success[stop], plan.entropy[stop]
    plan.gradient = 1 - 0.8 * plan.clip
    plan.rules, plan.severity = ("clip-saturated",), "warning"
    plan.cause = "(?i)updates|clip|epsilon|learning rate|ratio|off-policy|old"
    plan.onset, plan.event_row = int(onset), reaches(["clip/high", "clip/low"], 0.3)
    return plan


def _regulariser_dominates(rng: np.random.Generator, steps: int) -> Plan:
    """From one step on the verifier says one and the same of all: the policy's gradient is 0, the KL term's goes on.

    In half of the runs it says 0, in the others 0.5. Event: its first step. What tells the gradients apart is in every
    20th step, so that an alarm is in time for 60.
    """
    plan = with_tails(rng, steps)
    onset = int(steps * rng.uniform(0.35, 0.6))
    blind = np.arange(1, steps + 1) >= onset
    plan.logs_kl = True
    plan.success = np.where(blind, 0.0, plan.success)
    plan.stuck = np.where(blind, float(rng.random() < 0.5), plan.stuck)
    end = rng.uniform(0.03, 0.2)
    plan.kl = ramp(steps, 0, onset, 1e-3, end) * ramp(steps, onset, steps * 0.4, 1.0, 0.4)
    plan.regulariser = np.where(blind, rng.uniform(0.15, 0.6), rng.uniform(0.03, 0.1))
    plan.rules = ("regulariser-dominates", "dead-groups", "reward-collapse")
    plan.cause, plan.cause_loggers = (
        "(?i)regulari|kl|verifier|reward function|too hard|alike|one and the same",
        ("full",),
    )
    plan.onset = plan.event = onset
    plan.grace, plan.grace_steps = TWENTY_ROWS, 60
    return plan


def _low_diversity(rng: np.random.Generator, steps: int) -> Plan:
    """The completions of a group become one and the same, and most of these are not right.

    Event: four rows with a mean `groups/unique` of at most 2/G: hardly more than one text a group.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.2, 0.4), steps * rng.uniform(0.15, 0.3)
    level = rng.uniform(0.2, 0.4)
    plan.success = ramp(steps, 0, onset, level - 0.1, level)
    plan.stuck = ramp(steps, onset, over, float(plan.stuck[0]), rng.uniform(0.7, 0.85))
    plan.unique = ramp(steps, onset, over, rng.uniform(0.85, 0.99), rng.uniform(0.0, 0.08))
    plan.entropy = ramp(steps, onset, over, 1.0, rng.uniform(0.05, 0.25))
    plan.rules, plan.severity = ("low-diversity", "entropy-collapse", "dead-groups"), "warning"
    plan.cause = "(?i)alike|same|distinct|divers|temperature|updates|entropy|compare"
    plan.onset, plan.event_row = int(onset), sinks("groups/unique", 2 / plan.group)
    return plan


def _grad_spike(rng: np.random.Generator, steps: int) -> Plan:
    """Spikes of 10 to 100 times the usual gradient come in two or three clusters, and the reward is hurt.

    Event: the third row since the onset with a gradient 10 times the median of the 50 rows before it.
    """
    plan = with_tails(rng, steps)
    plan.tails = 0.0
    onset = int(steps * rng.uniform(0.35, 0.5))
    plan.gradient = np.ones(steps)
    begin = onset
    for _ in range(int(rng.integers(2, 4))):
        at = begin + np.sort(rng.choice(20, size=int(rng.integers(6, 11)), replace=False))
        at = at[at <= steps]
        plan.gradient[at - 1] = np.exp(rng.uniform(np.log(12), np.log(100), len(at)))
        begin += int(rng.integers(25, 45))
    plan.success = plan.success * ramp(steps, onset + 3, 30, 1.0, rng.uniform(0.45, 0.75))
    plan.rules, plan.severity = ("grad-spike",), "warning"
    plan.cause = "(?i)spike|clip|norm|batch|learning rate|precision|outlier|ratio"
    plan.onset, plan.event_row = onset, spiked(3, 10)
    return plan


CLASSES: Mapping[str, Kind] = {
    "entropy-explosion": Kind(_entropy_explosion),
    "kl-runaway": Kind(_kl_runaway),
    "clip-saturated": Kind(_clip_saturated, GROUPS),
    "regulariser-dominates": Kind(_regulariser_dominates, GROUPS),
    "low-diversity": Kind(_low_diversity, ("full",)),
    # in a row of several steps, the gradient is that of one of them
    "grad-spike": Kind(_grad_spike, layouts=EVERY_STEP),
}
