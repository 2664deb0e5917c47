"""From rewards to advantages, and what they are divided by on the way.

Source: `_generate_and_score_completions` of TRL 1.16's GRPOTrainer and RLOOTrainer; verl 0.5 `core_algos`; OpenRLHF
0.11 `experience_maker`. A reward of NaN is none: it is left out of means and deviations, and its advantage is 0.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from rlwatch.audit.weights import FloatArray

BASELINES = ("group", "leave-one-out", "batch", "none")
SCALES = ("group", "batch", "whiten", "none")


@dataclass(frozen=True)
class Scaling:
    """How advantages are made.

    Args:
        baseline: What is taken off a reward: the mean of its `group`, that of its siblings alone (`leave-one-out`),
            that of the `batch`, or `none`.
        scale: What the difference is divided by: the std of its `group`'s rewards, that of the `batch`'s rewards, the
            std of all advantages after their mean is taken off (`whiten`), or `none`. Deviations have n − 1 below.
        epsilon: What is added to a deviation, in reward units.
        group_size: Completions a prompt.
    """

    baseline: str = "group"
    scale: str = "group"
    epsilon: float = 1e-4
    group_size: int = 8

    def __post_init__(self) -> None:
        if self.baseline not in BASELINES or self.scale not in SCALES:
            raise ValueError(f"baseline {self.baseline!r} of {BASELINES}, scale {self.scale!r} of {SCALES}")


def advantages(rewards: FloatArray, scaling: Scaling) -> FloatArray:
    """A of each completion, (R,): (r − baseline) / (std + ε), groups side by side.

    Raises:
        ValueError: The completions do not divide into groups.
    """
    centred = rewards - baselines(rewards, scaling)
    if scaling.scale == "whiten":
        centred = centred - _mean(centred, axis=None)
    return np.asarray(np.nan_to_num(centred / divisors(rewards, scaling), nan=0.0))


def baselines(rewards: FloatArray, scaling: Scaling) -> FloatArray:
    """What is taken off each reward, (R,)."""
    grouped = _grouped(rewards, scaling.group_size)
    if scaling.baseline == "none":
        return np.zeros_like(rewards)
    if scaling.baseline == "batch":
        return np.full_like(rewards, _mean(rewards, axis=None))
    if scaling.baseline == "group":
        return np.repeat(_mean(grouped, axis=1), scaling.group_size)
    others = (~np.isnan(grouped)).sum(axis=1, keepdims=True) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        siblings = (np.nansum(grouped, axis=1, keepdims=True) - grouped) / others
    return np.asarray(siblings.reshape(-1))


def divisors(rewards: FloatArray, scaling: Scaling) -> FloatArray:
    """What each difference is divided by, (R,): std + ε, or 1."""
    if scaling.scale == "none":
        return np.ones_like(rewards)
    if scaling.scale == "group":
        spread = np.repeat(_std(_grouped(rewards, scaling.group_size), axis=1), scaling.group_size)
    elif scaling.scale == "batch":
        spread = np.full_like(rewards, _std(rewards, axis=None))
    else:
        spread = np.full_like(rewards, _std(rewards - baselines(rewards, scaling), axis=None))
    return np.asarray(spread + scaling.epsilon)


def normalize_then_sum(per_function: FloatArray, weights: FloatArray, group_size: int) -> FloatArray:
    """A of TRL's `multi_objective_aggregation="normalize_then_sum"` (GDPO), (R,), whatever `scale_rewards` is.

    z_f = (r_f − group mean) / (group std + 1e-4) for each function f; s = Σ w_f·z_f; A = (s − mean s) / (std s + 1e-4)
    over the whole batch.

    Args:
        per_function: (R, functions), NaN where a function gave no reward.
        weights: (functions,).
        group_size: Completions a prompt.
    """
    grouped = per_function.reshape(-1, group_size, per_function.shape[1])
    scaled = (grouped - _mean(grouped, axis=1)[:, None]) / (_std(grouped, axis=1)[:, None] + 1e-4)
    total = np.nansum(scaled.reshape(per_function.shape) * weights, axis=1)
    total[np.isnan(per_function).all(axis=1)] = np.nan
    return np.asarray(np.nan_to_num((total - _mean(total, axis=None)) / (_std(total, axis=None) + 1e-4), nan=0.0))


def _grouped(rewards: FloatArray, group_size: int) -> FloatArray:
    if group_size < 1 or len(rewards) % group_size:
        raise ValueError(f"{len(rewards)} completions do not divide into groups of {group_size}")
    return np.asarray(rewards.reshape(-1, group_size))


def _mean(values: FloatArray, axis: int | None) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of nothing but NaN: NaN
        return np.asarray(np.nanmean(values, axis=axis))


def _std(values: FloatArray, axis: int | None) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of one value: NaN
        return np.asarray(np.nanstd(values, axis=axis, ddof=1))
