"""Failures that show in how long completions are. Labels were fixed before any detector ran.

The docstring of each says what the event is. "Before" is the mean of the ten rows before the onset.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .events import gap_reaches, grows, shrinks
from .plan import Kind, Plan, ramp, with_tails


def _length_bias(rng: np.random.Generator, steps: int) -> Plan:
    """Under a loss with 1/|o| incorrect completions grow against correct ones, while the reward rises slowly or not.

    The gap goes from about 0 to 0.35 to 1 of the mean length. Event: four rows in which it is a quarter of it.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.1, 0.25), steps * rng.uniform(0.35, 0.5)
    level = rng.uniform(0.35, 0.5)
    plan.success = ramp(steps, 0, steps, level, level + rng.uniform(0.0, 0.15))
    plan.gap = ramp(steps, onset, over, rng.uniform(-0.03, 0.04), rng.uniform(0.35, 1.0))
    plan.length = plan.length * (1 + 0.4 * plan.gap)
    plan.loss_type = "grpo"
    plan.rules, plan.severity = ("length-bias",), "warning"
    plan.cause = r"(?i)1/\|?[oL]|denominator|loss_type|grpo|length|longer|normali"
    plan.onset, plan.event_row = int(onset), gap_reaches(0.25)
    return plan


def _length_explosion(rng: np.random.Generator, steps: int) -> Plan:
    """Completions grow to 2.2 to 5 times their length, toward the limit; more are truncated, the reward gains nothing.

    Event: four rows in which they are twice as long as before.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.25, 0.4), steps * rng.uniform(0.15, 0.3)
    begin, level, factor = rng.uniform(0.3, 0.4), rng.uniform(0.45, 0.65), rng.uniform(2.3, 5)
    plan.success = ramp(steps, 0, onset, begin, level) * ramp(steps, onset, over, 1.0, rng.uniform(0.75, 1.0))
    plan.length = plan.length * ramp(steps, onset, over, 1.0, factor)
    plan.limit = float(plan.length.max()) * rng.uniform(1.05, 1.3)
    plan.truncated = ramp(steps, onset, over, float(plan.truncated[0]) / 2, rng.uniform(0.4, 0.85))
    plan.entropy = ramp(steps, 0, onset, 1.0, 0.7) * ramp(steps, onset, over, 1.0, rng.uniform(0.8, 1.5))
    plan.rules, plan.severity = ("length-explosion", "truncation"), "warning"
    plan.cause = "(?i)long|length|limit|truncat|end|repeat|loop"
    plan.onset, plan.event_row = int(onset), grows("length/mean", 2.0)
    return plan


def _length_collapse(rng: np.random.Generator, steps: int) -> Plan:
    """Completions shrink to 5 to 25 % of their length, while the reward stalls or falls to 60 % of what it was.

    Event: four rows in which they are at most 0.35 times as long as before.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.25, 0.4), steps * rng.uniform(0.1, 0.3)
    begin, level = rng.uniform(0.3, 0.4), rng.uniform(0.45, 0.65)
    plan.success = ramp(steps, 0, onset, begin, level) * ramp(steps, onset, over, 1.0, rng.uniform(0.6, 1.0))
    plan.length = np.maximum(2, plan.length * ramp(steps, onset, over, 1.0, rng.uniform(0.05, 0.25)))
    plan.entropy = ramp(steps, 0, onset, 1.0, 0.8) * ramp(steps, onset, over, 1.0, rng.uniform(0.3, 0.8))
    plan.truncated = plan.truncated * ramp(steps, onset, over, 1.0, 0.0)
    plan.rules, plan.severity = ("length-collapse", "reward-collapse"), "warning"
    plan.cause = "(?i)short|length|denominator|penal|format|skip|reasoning|1/"
    plan.onset, plan.event_row = int(onset), shrinks("length/mean", 0.35)
    return plan


CLASSES: Mapping[str, Kind] = {
    "length-bias": Kind(_length_bias, ("full",)),
    "length-explosion": Kind(_length_explosion),
    "length-collapse": Kind(_length_collapse),
}
