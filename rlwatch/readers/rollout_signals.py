"""What the completions of one step say: the `reward/`, `groups/` and `length/` families, as a live run has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlwatch.capture.generation import Generation, reward_name
from rlwatch.capture.ragged import OwnGeneration, group_metrics
from rlwatch.signals.groups import RewardRange
from rlwatch.signals.rollouts import length_metrics, reward_metrics
from rlwatch.signals.shares import share_metrics

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Completions:
    """Those of one step, in the order of the file.

    Args:
        rewards: (n,), the total; NaN where there is none.
        functions: The reward functions' names.
        per_function: (n, functions), what each of them gave.
        summed: The total is the plain sum of what they gave.
        groups: (n,), the number of each completion's group; None where nothing says what is a group.
        lengths: (n,), tokens; None where they are not known of all of them.
        truncated: (n,), 1 or 0; None where that is not known of all of them.
        correct: (n,), 1, 0 or NaN; None where nothing says what is correct.
        fingerprints: (n,), equal where the completions are; None where they are not known of all of them.
    """

    rewards: FloatArray
    functions: Sequence[str]
    per_function: FloatArray
    summed: bool
    groups: NDArray[np.int64] | None
    lengths: FloatArray | None
    truncated: FloatArray | None
    correct: FloatArray | None
    fingerprints: NDArray[np.int64] | None


def completion_metrics(completions: Completions, seen: RewardRange) -> dict[str, float]:
    """The metrics of a step; what cannot be known is absent.

    Args:
        completions: They.
        seen: The run's range of rewards so far, these included.
    """
    metrics = reward_metrics(completions.rewards)
    for index, name in enumerate(completions.functions):
        scores = completions.per_function[:, index]
        metrics[reward_name(name)] = float(np.nanmean(scores)) if not np.isnan(scores).all() else float("nan")
    nothing = np.zeros(len(completions.rewards))
    lengths = nothing if completions.lengths is None else completions.lengths
    truncated = nothing if completions.truncated is None else completions.truncated
    for name, value in length_metrics(lengths, truncated, completions.correct, len(lengths)).items():
        if name == "length/gap":
            continue  # it is one within groups
        about = "truncated" if "truncated" in name else "share" if name == "length/share_correct" else "lengths"
        if about == "share" or getattr(completions, about) is not None:
            metrics[name] = value
    if completions.groups is not None:
        metrics |= group_metrics(_generations(completions, seen), completions=completions.fingerprints is not None)
        if completions.lengths is not None:
            metrics |= _assumed_weights(completions, completions.groups, completions.lengths)
    return metrics


def _assumed_weights(completions: Completions, groups: NDArray[np.int64], lengths: FloatArray) -> dict[str, float]:
    """What each completion weighed in the update, had the loss been grpo or dapo, on policy.

    |w| = |A| where every completion's tokens are averaged (grpo), |A|·length where all tokens are alike (dapo,
    dr_grpo), with A = (r − mean of the group) / (std of the group + 1e-4).
    """
    known = np.isfinite(completions.rewards)
    if not known.all():
        return {}
    counts = np.bincount(groups)[groups]
    centred = completions.rewards - np.bincount(groups, completions.rewards)[groups] / counts
    spread = np.sqrt(np.bincount(groups, centred**2)[groups] / np.maximum(counts - 1, 1))
    size = np.where(spread > 1e-9, np.abs(centred) / (spread + 1e-4), 0.0)
    found: dict[str, float] = {}
    for family, weights in (("weight_grpo", size), ("weight_dapo", size * lengths)):
        shares = share_metrics(weights, lengths, completions.correct, completions.truncated, groups)
        found |= {f"{family}/{name}": value for name, value in shares.items()}
    return found


def _generations(completions: Completions, seen: RewardRange) -> list[Generation]:
    """One for each size that groups have, siblings side by side."""
    assert completions.groups is not None
    counts = np.bincount(completions.groups)
    order = np.argsort(completions.groups, kind="stable")
    size_of = counts[completions.groups[order]]
    made: list[Generation] = []
    for size in np.unique(size_of).tolist():
        rows = order[size_of == size]
        unknown = np.full(len(rows), np.nan)
        kind = Generation if completions.summed else OwnGeneration
        made.append(
            kind(
                number=0,
                group_size=size,
                functions=tuple(completions.functions),
                weights=np.ones(len(completions.functions)),
                per_function=completions.per_function[rows],
                rewards=completions.rewards[rows],
                lengths=unknown if completions.lengths is None else completions.lengths[rows],
                truncated=unknown,
                correct=None if completions.correct is None else completions.correct[rows],
                advantages=unknown,
                fingerprints=np.zeros(len(rows), np.int64)
                if completions.fingerprints is None
                else completions.fingerprints[rows],
                prompts=np.zeros(len(rows), np.int64),
                seen=seen,
                each=False,
                texts={},
            )
        )
    return made
