"""Runs that are fine, with lengths, KL, clip, gradients, parts of the reward or pauses that would alarm someone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .noise import autoregressive
from .plan import EVERY_STEP, Kind, Plan, ramp, with_tails


def _learns(rng: np.random.Generator, steps: int) -> Plan:
    """With a clear gain of reward."""
    plan = with_tails(rng, steps)
    plan.success = ramp(steps, 0, steps * rng.uniform(0.7, 0.95), rng.uniform(0.2, 0.35), rng.uniform(0.65, 0.85))
    return plan


def _reasoning_grows(rng: np.random.Generator, steps: int) -> Plan:
    """Completions get 2 to 4 times as long, and better: the model learns to reason."""
    plan = _learns(rng, steps)
    plan.length = plan.length * ramp(steps, 0, steps * rng.uniform(0.6, 0.95), 1.0, rng.uniform(2, 4))
    plan.limit = float(plan.length.max()) * rng.uniform(1.5, 3)
    plan.truncated = ramp(steps, 0, steps, 0.0, rng.uniform(0.0, 0.12))
    return plan


def _concise(rng: np.random.Generator, steps: int) -> Plan:
    """Answers get to the point: 20 to 40 % of the length, and a rising reward."""
    plan = _learns(rng, steps)
    plan.length = plan.length * ramp(steps, 0, steps * rng.uniform(0.4, 0.8), 1.0, rng.uniform(0.2, 0.4))
    return plan


def _steady_kl(rng: np.random.Generator, steps: int) -> Plan:
    """The distance to the reference grows in a straight line or with the root of the steps, as learning takes it."""
    plan = _learns(rng, steps)
    power = rng.choice([0.5, 1.0])
    plan.logs_kl, plan.tails = True, rng.uniform(0.005, 0.02)
    plan.kl = rng.uniform(0.05, 0.8) * (np.arange(1, steps + 1) / steps) ** power
    return plan


def _lone_spikes(rng: np.random.Generator, steps: int) -> Plan:
    """On 1 to 2 % of the steps gradient or KL is 5 to 30 times the usual, and the reward goes on."""
    plan = _learns(rng, steps)
    plan.tails = rng.uniform(0.01, 0.02)
    return plan


def _entropy_doubles(rng: np.random.Generator, steps: int) -> Plan:
    """Entropy doubles and stays there, with a reward that rises all along."""
    plan = _learns(rng, steps)
    plan.entropy = ramp(steps, steps * rng.uniform(0.1, 0.3), steps * rng.uniform(0.2, 0.5), 1.0, rng.uniform(1.7, 2.4))
    return plan


def _steady_clip(rng: np.random.Generator, steps: int) -> Plan:
    """A tenth to a fifth of the tokens is clipped from the first row to the last."""
    plan = _learns(rng, steps)
    plan.updates = int(rng.choice([4, 8]))
    plan.clip = np.full(steps, rng.uniform(0.1, 0.2))
    return plan


def _wide_gap(rng: np.random.Generator, steps: int) -> Plan:
    """Incorrect completions are longer than correct ones by 40 to 90 % of the mean, from the first row to the last."""
    plan = with_tails(rng, steps)
    plan.gap = np.full(steps, rng.uniform(0.4, 0.9))
    return plan


def _two_parts(falls: bool) -> Callable[[np.random.Generator, int], Plan]:
    """The format is learnt soon; then it stays, or gives up 5 to 10 %, while correctness and the reward rise."""

    def make(rng: np.random.Generator, steps: int) -> Plan:
        plan = with_tails(rng, steps)
        over, share = steps * rng.uniform(0.1, 0.25), rng.uniform(0.2, 0.35)
        top = rng.uniform(0.93, 0.97)
        end = rng.uniform(0.9, 0.95) if falls else 1.0
        plan.form = ramp(steps, 0, over, rng.uniform(0.4, 0.6), top) * ramp(steps, 1.5 * over, steps * 0.5, 1.0, end)
        correct = ramp(steps, 0, steps * rng.uniform(0.7, 0.95), rng.uniform(0.15, 0.3), rng.uniform(0.6, 0.75))
        plan.weights = (1 - share, share)
        plan.success = (1 - share) * correct + share * plan.form
        plan.stuck, plan.wander = np.zeros(steps), 0.15
        return plan

    return make


def _evaluation_wanders(rng: np.random.Generator, steps: int) -> Plan:
    """Evaluations of few prompts go up and down around one level, while the reward gains a little."""
    plan = with_tails(rng, steps)
    level = rng.uniform(0.35, 0.55)
    plan.success = ramp(steps, 0, steps, level, level + rng.uniform(0.05, 0.2))
    plan.evaluation_every = int(rng.choice([10, 20, 50]))
    walk = autoregressive(rng, steps // plan.evaluation_every + 2, rng.uniform(0.0, 0.5))
    plan.evaluation = level + rng.uniform(0.03, 0.07) * np.repeat(walk, plan.evaluation_every)[:steps]
    return plan


def _slow_steps(rng: np.random.Generator, steps: int) -> Plan:
    """Every 50 steps an evaluation takes as long as 15 to 25 steps."""
    plan = with_tails(rng, steps)
    plan.evaluation_every, plan.pause = 50, rng.uniform(15, 25)
    return plan


def _alike_since_solved(rng: np.random.Generator, steps: int) -> Plan:
    """Siblings become one and the same text, which is the right one."""
    plan = with_tails(rng, steps)
    over = steps * rng.uniform(0.3, 0.6)
    plan.success = ramp(steps, 0, over, rng.uniform(0.35, 0.6), rng.uniform(0.96, 0.995))
    plan.entropy = ramp(steps, 0, over, 1.0, rng.uniform(0.03, 0.15))
    plan.unique = ramp(steps, 0, over, rng.uniform(0.85, 0.99), rng.uniform(0.03, 0.25))
    plan.stuck = ramp(steps, 0, over, 0.03, 0.0)
    return plan


def _large_regulariser(rng: np.random.Generator, steps: int) -> Plan:
    """The KL term is 20 to 40 % of the gradient, by the norms of both parts, and groups are alive."""
    plan = _learns(rng, steps)
    plan.logs_kl, plan.regulariser_share = True, rng.uniform(0.2, 0.4)
    plan.kl = ramp(steps, 0, steps * 0.6, 1e-3, rng.uniform(0.02, 0.1))
    return plan


def _warm_up(rng: np.random.Generator, steps: int) -> Plan:
    """The learning rate rises from 0 over a tenth to a fifth of the run: KL and gradient are small at first."""
    plan = with_tails(rng, steps)
    over = steps * rng.uniform(0.1, 0.2)
    share = np.clip(np.arange(1, steps + 1) / over, 0, 1)
    plan.lr, plan.gradient = 1e-6 * share, 0.15 + 0.85 * share
    plan.kl = 2e-4 * np.cumsum(share**2) + 1e-7
    plan.success = ramp(steps, over / 2, steps * rng.uniform(0.5, 0.8), rng.uniform(0.25, 0.4), rng.uniform(0.6, 0.8))
    plan.entropy = ramp(steps, over / 2, steps * rng.uniform(0.5, 0.8), 1.0, rng.uniform(0.35, 0.7))
    return plan


CLASSES: Mapping[str, Kind] = {
    "reasoning-grows": Kind(_reasoning_grows),
    "concise": Kind(_concise),
    "steady-kl": Kind(_steady_kl),
    # in a row of several steps, the gradient is that of one of them
    "lone-spikes": Kind(_lone_spikes, layouts=EVERY_STEP),
    "entropy-doubles": Kind(_entropy_doubles),
    "steady-clip": Kind(_steady_clip),
    "wide-gap": Kind(_wide_gap),
    "part-at-ceiling": Kind(_two_parts(falls=False)),
    "part-gives-a-little": Kind(_two_parts(falls=True)),
    "evaluation-wanders": Kind(_evaluation_wanders),
    "slow-steps": Kind(_slow_steps),
    "alike-since-solved": Kind(_alike_since_solved),
    "large-regulariser": Kind(_large_regulariser),
    "warm-up": Kind(_warm_up),
}
