"""Numbers a step that go with those of `draw`: lengths by correctness, parts of the reward, clip, gradients, signal.

They have a stream of random numbers of their own, and NaN stands for a value that cannot be known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from .clock import clock
from .draw import Groups
from .noise import Array, spikes
from .plan import Plan, ramp

Series = dict[str, Array]


def further(plan: Plan, series: Mapping[str, Array], groups: Groups, rng: np.random.Generator, every: int) -> Series:
    """All of them; `grad/norm` among them, where a regulariser's gradient comes to it."""
    settle(plan, rng)
    made = parts(plan, groups, rng)
    made |= lengths(plan, series, groups, made, rng)
    made |= policy(plan, groups, rng)
    made |= signal(plan, series, groups, made, rng)
    made |= gradients(plan, series, groups, rng)
    assert plan.evaluation_every is not None
    made |= clock(plan, series["length/mean"], rng, every, plan.evaluation_every)
    made |= evaluations(plan, rng)
    made["entropy/p90"] = (
        series["entropy/mean"] * rng.uniform(2.2, 3.5) * np.exp(0.03 * rng.normal(size=len(plan.success)))
    )
    made["groups/unique"] = unique(plan, rng)
    return made


def settle(plan: Plan, rng: np.random.Generator) -> None:
    """Draws what the class left open and other things depend on."""
    share = float(rng.choice([0.1, 0.2]))
    every = int(rng.choice([50, 100]))
    room = rng.uniform(1.5, 4.0)
    longest = float(plan.length.max())
    plan.weights = plan.weights or (1 - share, share)
    plan.evaluation_every = plan.evaluation_every or every
    if plan.limit is None:
        plan.limit = longest if plan.truncated.min() >= 1 else longest * room


def parts(plan: Plan, groups: Groups, rng: np.random.Generator) -> Series:
    """What the reward functions "correctness" and "format" gave: their weighted sum is the reward.

    Unless the class says what the format earns, a correct completion has the right one, and of the others a share that
    soon is nearly all of them; a reward that is gone took the format with it.
    """
    assert plan.weights is not None
    steps, reward, (of_correct, of_form) = len(plan.success), groups.mean.mean(axis=1), plan.weights
    if plan.form is None:
        curve = ramp(steps, 0, steps * rng.uniform(0.1, 0.3), rng.uniform(0.3, 0.8), rng.uniform(0.9, 0.99))
        others = np.minimum(curve * rng.uniform(0.97, 1.0, steps), 0.5 * reward / of_form)
        correct = (reward - of_form * others) / (1 - of_form * others)
        form = correct + (1 - correct) * others
    else:
        form = plan.form + reward - plan.success + 0.005 * rng.normal(size=steps)
        least, most = np.maximum(0, (reward - of_correct) / of_form), np.minimum(1, reward / of_form)
        form = np.clip(form, least, most)
        correct = np.clip((reward - of_form * form) / of_correct, 0, 1)
    times, plus = plan.scale
    free = np.where(groups.stuck, 0.0, groups.won).mean(axis=1)  # the safe answer is not a correct one
    share = correct * np.divide(free, reward, out=np.zeros(steps), where=reward > 0)
    return {
        "reward/correctness": times * correct + plus,
        "reward/format": times * form + plus,
        "length/share_correct": np.clip(share, 0, 1),
    }


def lengths(
    plan: Plan, series: Mapping[str, Array], groups: Groups, made: Mapping[str, Array], rng: np.random.Generator
) -> Series:
    """Lengths by correctness: incorrect ones are longer than their siblings, and hard prompts get longer answers."""
    steps, mean, share = len(plan.success), series["length/mean"], made["length/share_correct"]
    usual = ramp(steps, 0, steps, begin := rng.uniform(-0.03, 0.2), begin + rng.uniform(-0.05, 0.05))
    free = plan.truncated < 1
    gap = mean * ((usual if plan.gap is None else plan.gap) + 0.04 * rng.normal(size=steps)) * free
    harder = mean * rng.uniform(0.0, 0.1) * free
    apart = np.minimum(gap + harder, 0.9 * mean / np.maximum(1 - share, 1e-9))
    mixed = (groups.within > 0).any(axis=1) & (share > 0) & (share < 1) & (plan.group > 1)
    return {
        "length/correct": np.where(share > 0, mean - (1 - share) * apart, np.nan),
        "length/incorrect": np.where(share < 1, mean + share * apart, np.nan),
        "length/gap": np.where(mixed, apart - harder, np.nan),
    }


def policy(plan: Plan, groups: Groups, rng: np.random.Generator) -> Series:
    """How far the policy moves between the updates on one rollout: not at all at the first, most at the last."""
    steps = len(plan.success)
    phase = np.arange(steps) % plan.updates
    pace = np.sqrt(phase / max(plan.updates - 1, 1))
    pace = pace / max(pace[: plan.updates].mean(), 1e-9) * ~plan.frozen * np.sqrt(groups.alive)
    usual = math.exp(rng.uniform(math.log(3e-4), math.log(1e-2)))
    jitter = np.exp((0.5 if plan.clip is None else 0.1) * rng.normal(size=steps))
    either = np.minimum((usual if plan.clip is None else plan.clip) * pace * jitter, 0.97)
    above = np.clip(rng.uniform(0.35, 0.65) + 0.05 * rng.normal(size=steps), 0, 1)
    distance = math.exp(rng.uniform(math.log(5e-5), math.log(2e-3))) * pace**2 * np.exp(0.5 * rng.normal(size=steps))
    distance = distance * spikes(rng, steps, 0.005)
    if plan.clip is not None:
        distance = distance + 0.3 * either**2
    ratio = 1 + 0.05 * np.sqrt(distance) * rng.normal(size=steps)
    return {
        "clip/either": either,
        "clip/high": either * above,
        "clip/low": either - either * above,
        "kl/old": distance,
        "kl/old of k1": distance + 0.1 * np.sqrt(distance) * rng.normal(size=steps),
        "ratio/mean": ratio if plan.drift is None else ratio + plan.drift * pace,
    }


def signal(
    plan: Plan, series: Mapping[str, Array], groups: Groups, made: Mapping[str, Array], rng: np.random.Generator
) -> Series:
    """Tokens with an advantage that are not clipped, and the advantage's size under group scaling."""
    steps, siblings = len(plan.success), plan.group
    active = groups.alive * (1 - made["clip/either"]) * np.exp(0.03 * rng.normal(size=steps))
    if plan.active is not None:
        active = active * plan.active
    if plan.alone:
        size = np.abs(series["reward/mean"])
    else:
        spread = groups.within * math.sqrt(siblings / (siblings - 1))
        apart = np.where(groups.stuck, 0.0, 2 * groups.won * (1 - groups.won))
        size = np.divide(apart, spread, out=np.zeros_like(spread), where=spread > 0).mean(axis=1)
    return {"signal/active_tokens": np.clip(active, 0, 1), "signal/abs_advantage": size}


def gradients(plan: Plan, series: Mapping[str, Array], groups: Groups, rng: np.random.Generator) -> Series:
    """The gradient's two parts, at right angles, and what clipping leaves. The rows choose which of them a log has."""
    steps, norm = len(plan.success), series["grad/norm"]
    share = rng.uniform(0.02, 0.15) if plan.regulariser_share is None else plan.regulariser_share
    jitter, most = np.exp(0.3 * rng.normal(size=steps)), float(rng.choice([0.2, 0.5, 1.0]))
    if not plan.logs_kl:
        regulariser, of_policy = np.zeros(steps), norm.copy()
    elif plan.regulariser is not None:
        regulariser, of_policy = groups.gradient * plan.regulariser * jitter, norm.copy()
        norm = np.hypot(regulariser, of_policy)
    else:
        times = share / (1 - share) * jitter
        of_policy = norm / np.sqrt(1 + times**2)
        regulariser = times * of_policy
    factor = np.minimum(1, most / (norm + 1e-6))
    return {
        "grad/norm": norm,
        "grad/policy_norm": of_policy,
        "grad/regulariser_norm": regulariser,
        "grad/clip_coef": factor,
        "grad/applied_norm": factor * norm,
        "grad/effective_norm": factor * of_policy,
        "grad/effective_estimate": factor * of_policy * np.exp(0.15 * rng.normal(size=steps)),
    }


def evaluations(plan: Plan, rng: np.random.Generator) -> Series:
    """The reward on other prompts, where an evaluation was: a little lower, and without a batch's luck."""
    steps = len(plan.success)
    lower, noise = rng.uniform(0.85, 1.0), 0.012 * rng.normal(size=steps)
    curve = lower * ((1 - plan.stuck) * plan.success + 0.5 * plan.stuck) if plan.evaluation is None else plan.evaluation
    times, plus = plan.scale
    assert plan.evaluation_every is not None
    done = np.arange(1, steps + 1) % plan.evaluation_every == 0
    return {"eval/reward": np.where(done, times * np.clip(curve + noise * (curve > 0), 0, 1) + plus, np.nan)}


def unique(plan: Plan, rng: np.random.Generator) -> Array:
    """Distinct completions of a group, as a share: nearly all of them until hardly any entropy is left."""
    scale = math.exp(rng.uniform(math.log(0.01), math.log(0.08)))
    differ = 0.995 * (1 - np.exp(-plan.entropy / scale)) if plan.unique is None else plan.unique
    others = rng.binomial(plan.group - 1, np.broadcast_to(differ[:, None], (len(differ), plan.prompts)))
    return (1 + others.mean(axis=1)) / plan.group
