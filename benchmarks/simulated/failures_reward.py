"""Failures of what the reward says, and of the clock. Labels were fixed before any detector ran.

The docstring of each says what the event is. "Before" is the mean of the ten rows before the onset.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .events import ONE_ROW, evaluation_falls, reaches, shrinks, sinks
from .plan import ALL, GROUPS, Kind, Plan, healthy, ramp, with_tails


def _reward_stall(rng: np.random.Generator, steps: int) -> Plan:
    """The signal fades: half to three quarters of the groups are dead and not solved, and the reward stays flat.

    Event: four rows with a mean of half of the groups failed or stuck; from there it is half of what is generated.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.35, 0.42), steps * rng.uniform(0.06, 0.12)
    level = rng.uniform(0.4, 0.5)
    plan.success = ramp(steps, 0, onset, level - rng.uniform(0.1, 0.2), level)
    plan.stuck = ramp(steps, onset, over, float(plan.stuck[0]), rng.uniform(0.5, 0.65))
    plan.rules, plan.severity = ("reward-stall", "dead-groups"), "warning"
    plan.cause = "(?i)alike|dead|group|signal|stuck|same|hard|variance|nothing left"
    plan.onset, plan.event_row = int(onset), reaches(["groups/failed", "groups/stuck"], 0.5)
    return plan


def _reward_stall_inactive(rng: np.random.Generator, steps: int) -> Plan:
    """Groups are alive, but next to no token moves the policy, as where a mask takes them out; the reward stays flat.

    Event: four rows with a mean of at most 2 % active tokens.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.35, 0.42), steps * rng.uniform(0.03, 0.1)
    plan.active = ramp(steps, onset, over, 1.0, rng.uniform(0.0, 0.008))
    plan.gradient = np.sqrt(plan.active)
    stop = np.minimum(np.arange(steps), int(onset))
    plan.success, plan.entropy = plan.success[stop], plan.entropy[stop]
    plan.rules, plan.severity = ("reward-stall", "no-gradient"), "warning"
    plan.cause = "(?i)active|mask|token|signal|clip|gradient|weights"
    plan.onset, plan.event_row = int(onset), sinks("signal/active_tokens", 0.02)
    return plan


def _hacking_part(rng: np.random.Generator, steps: int) -> Plan:
    """What "format" gives, and with it the reward, rises while "correctness" falls to a fifth to a half.

    Event: four rows in which `reward/correctness` is at most 0.7 times what it was before.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.3, 0.45), steps * rng.uniform(0.15, 0.3)
    top = rng.uniform(0.5, 0.6)
    correct = ramp(steps, 0, onset, top - rng.uniform(0.1, 0.2), top)
    correct = correct * ramp(steps, onset, over, 1.0, rng.uniform(0.2, 0.5))
    plan.form = ramp(steps, 0, onset, rng.uniform(0.15, 0.25), 0.3) + ramp(steps, onset, over, 0.0, 0.65)
    share = rng.uniform(0.5, 0.6)
    plan.weights = (1 - share, share)
    plan.success, plan.evaluation = (1 - share) * correct + share * plan.form, None
    plan.stuck, plan.wander = np.zeros(steps), 0.15
    plan.rules, plan.severity = ("reward-hacking",), "warning"
    plan.cause = "(?i)format|correctness|part|hack|trade|weight"
    plan.onset, plan.event_row = int(onset), shrinks("reward/correctness", 0.7)
    return plan


def _hacking_evaluation(rng: np.random.Generator, steps: int) -> Plan:
    """The reward of the training rises on, while that of the evaluations, every 20 steps, falls to 0.3 to 0.6.

    Event: an evaluation and the next whose mean is at most 0.8 times that of the three before the onset. An alarm is in
    time by the next row, as ever, in which there mostly is no evaluation.
    """
    plan = with_tails(rng, steps)
    onset, over = steps * rng.uniform(0.35, 0.45), steps * rng.uniform(0.15, 0.3)
    begin = rng.uniform(0.3, 0.4)
    plan.success = ramp(steps, 0, steps * 0.9, begin, rng.uniform(0.75, 0.9))
    level = plan.success[int(onset)]
    true = np.minimum(plan.success, level) * ramp(steps, onset, over, 1.0, rng.uniform(0.3, 0.6))
    plan.evaluation, plan.evaluation_every = true * rng.uniform(0.85, 1.0), 20
    plan.rules, plan.severity = ("reward-hacking",), "warning"
    plan.cause = "(?i)eval|hack|overfit|training"
    plan.onset, plan.event_row = int(onset), evaluation_falls(0.8)
    return plan


def _stalled(rng: np.random.Generator, steps: int) -> Plan:
    """A healthy run whose job hangs once, for 30 to 300 times what a row takes, and then goes on.

    Event: the step of the row that came late; only its time, and in half of the runs its seconds, show it.
    """
    plan = healthy(rng, steps)
    plan.tails = rng.uniform(0.002, 0.01)
    plan.onset = plan.event = int(steps * rng.uniform(0.3, 0.8))
    plan.stall = (plan.event, float(np.exp(rng.uniform(np.log(30), np.log(300)))))
    plan.rules, plan.severity, plan.grace = ("stalled",), "warning", ONE_ROW
    return plan


CLASSES: Mapping[str, Kind] = {
    "reward-stall": Kind(_reward_stall, GROUPS),
    "reward-stall-inactive": Kind(_reward_stall_inactive, ("full",)),
    "reward-hacking-part": Kind(_hacking_part, GROUPS),
    "reward-hacking-evaluation": Kind(_hacking_evaluation, ALL),
    "stalled": Kind(_stalled, ALL),
}
