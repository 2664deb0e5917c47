"""A generation: what came of sampling a batch of prompts once, in one place and in generation order.

Reward, group and length metrics of a step describe every generation that the step trained on, whole: a step that trains
on a part of a generation, or on one that an earlier step has used, has the metrics of all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlwatch.signals.groups import GroupCounts
from rlwatch.signals.rollouts import length_metrics, reward_metrics

if TYPE_CHECKING:
    import polars as pl

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Generation:
    """All completions of one generation, over all ranks; siblings of a group stand side by side.

    Args:
        number: Counts the generations of this process, from 0.
        group_size: Completions a prompt got.
        functions: The reward functions' names, each different.
        per_function: (completions, functions), NaN where a function gave no reward.
        rewards: (completions,), the weighted total; NaN where no function gave one.
        lengths: (completions,), tokens that the policy wrote; NaN where the trainer does not show them.
        truncated: (completions,), 1 or 0.
        correct: (completions,), 1, 0 or NaN; None where nobody said what is correct.
        advantages: (completions,), as the loss gets them.
        counts: Its groups, sorted when it was made.
    """

    number: int
    group_size: int
    functions: tuple[str, ...]
    per_function: FloatArray
    rewards: FloatArray
    lengths: FloatArray
    truncated: FloatArray
    correct: FloatArray | None
    advantages: FloatArray
    counts: GroupCounts


def rollout_metrics(generations: Sequence[Generation]) -> dict[str, float]:
    """The `reward/`, `groups/` and `length/` families of the generations that a step trained on."""
    if not generations:
        return {}
    counts = sum((generation.counts for generation in generations), GroupCounts())
    metrics = reward_metrics(_join([g.rewards for g in generations]))
    for index, name in enumerate(generations[0].functions):
        scores = _join([g.per_function[:, index] for g in generations])
        metrics[reward_name(name)] = float(np.nanmean(scores)) if not np.isnan(scores).all() else float("nan")
    if counts.groups:
        dead = counts.solved + counts.failed + counts.stuck
        metrics["groups/zero_std"] = dead / counts.groups
        metrics["groups/solved"] = counts.solved / counts.groups
        metrics["groups/failed"] = counts.failed / counts.groups
        metrics["groups/stuck"] = counts.stuck / counts.groups
    if counts.std_groups:
        metrics["groups/reward_std"] = counts.std_sum / counts.std_groups
    verdicts = [g.correct for g in generations if g.correct is not None]
    correct = _join(verdicts) if len(verdicts) == len(generations) else None
    lengths = _join([g.lengths for g in generations])
    if not np.isnan(lengths).any():
        metrics.update(length_metrics(lengths, _join([g.truncated for g in generations]), correct))
    return metrics


def rollout_table(step: int, generations: Sequence[Generation]) -> pl.DataFrame:
    """A row a completion, as rollouts/step-*.parquet holds them; `group` counts through the generations of the step."""
    import polars as pl

    tables = []
    groups_before = 0
    for generation in generations:
        rows = len(generation.rewards)
        row = np.arange(rows)
        columns: dict[str, object] = {
            "step": np.full(rows, step),
            "group": groups_before + row // generation.group_size,
            "index": row % generation.group_size,
            "reward": generation.rewards,
        }
        for index, name in enumerate(generation.functions):
            columns[reward_name(name)] = generation.per_function[:, index]
        verdicts = generation.correct if generation.correct is not None else np.full(rows, np.nan)
        columns["correct"] = [None if np.isnan(verdict) else bool(verdict) for verdict in verdicts]
        columns["length"] = [None if np.isnan(length) else int(length) for length in generation.lengths]
        columns["truncated"] = [None if np.isnan(cut) else bool(cut) for cut in generation.truncated]
        columns["advantage"] = generation.advantages
        tables.append(
            pl.DataFrame(columns, schema_overrides={"correct": pl.Boolean, "length": pl.Int64, "truncated": pl.Boolean})
        )
        groups_before += rows // generation.group_size
    return pl.concat(tables)


def reward_name(function: str) -> str:
    """The metric of one reward function; two names are taken by the metrics of the total."""
    return f"reward/{function}_function" if function in ("mean", "std") else f"reward/{function}"


def _join(arrays: Sequence[FloatArray]) -> FloatArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
