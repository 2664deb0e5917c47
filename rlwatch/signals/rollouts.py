"""Rewards and lengths of a step's completions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def reward_metrics(rewards: FloatArray) -> dict[str, float]:
    """`reward/mean` and `reward/std` (with n−1) of the completions that have a reward.

    Args:
        rewards: (completions,), NaN where there is no reward.

    Returns:
        The two metrics; without the deviation where there is one reward, and NaN for the mean where there is none.
    """
    known = rewards[~np.isnan(rewards)]
    if known.size == 0:
        return {"reward/mean": float("nan")}
    metrics = {"reward/mean": float(known.mean())}
    if known.size > 1:
        metrics["reward/std"] = float(known.std(ddof=1))
    return metrics


def length_metrics(
    lengths: FloatArray, truncated: FloatArray, correct: FloatArray | None, group_size: int
) -> dict[str, float]:
    """The `length/` family.

    Args:
        lengths: (completions,) tokens that the policy wrote; those of tools are not counted.
        truncated: (completions,) 1 where the completion ran into the length limit, else 0.
        correct: (completions,) 1, 0, or NaN where it is not known; None where nobody said what counts as correct.
        group_size: Completions a prompt; siblings stand side by side.

    Returns:
        The metrics that can be known: there is no `length/correct` where no completion is correct, and no `length/gap`
        where no prompt has both kinds.
    """
    metrics = {"length/mean": float(lengths.mean()), "length/truncated": float(truncated.mean())}
    if correct is None or np.isnan(correct).all():
        return metrics
    right, wrong = correct == 1, correct == 0
    metrics["length/share_correct"] = float(right.sum() / (right.sum() + wrong.sum()))
    for name, rows in (("correct", right), ("incorrect", wrong)):
        if rows.any():
            metrics[f"length/{name}"] = float(lengths[rows].mean())
            metrics[f"length/truncated_{name}"] = float(truncated[rows].mean())
    gaps = []
    for start in range(0, len(lengths), group_size):
        group = slice(start, start + group_size)
        if right[group].any() and wrong[group].any():
            gaps.append(lengths[group][wrong[group]].mean() - lengths[group][right[group]].mean())
    if gaps:
        metrics["length/gap"] = float(np.mean(gaps))
    return metrics
