"""A generation: what came of sampling a batch of prompts once, in one place and in generation order.

Reward, group and length metrics of a step describe every generation that the step trained on, whole: a step that trains
on a part of a generation, or on one that an earlier step has used, has the metrics of all of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlwatch.signals.groups import (
    BoolArray,
    GroupCounts,
    RewardRange,
    count_groups,
    expected_zero_std,
    unique_share,
    wasted_tokens,
    zero_variance,
)
from rlwatch.signals.rollouts import length_metrics, reward_metrics
from rlwatch.signals.shares import carried_by, kinds_of, largest_group, needed_for

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
        weights: (functions,), their weights.
        per_function: (completions, functions), NaN where a function gave no reward.
        rewards: (completions,), the weighted total; NaN where no function gave one.
        lengths: (completions,), tokens that the policy wrote; NaN where the trainer does not show them.
        truncated: (completions,), 1 or 0.
        correct: (completions,), 1, 0 or NaN; None where nobody said what is correct.
        advantages: (completions,), as the loss gets them.
        fingerprints: (completions,), equal where the completions' tokens are.
        prompts: (completions,), equal where the prompts are, also between steps.
        seen: The run's range of rewards, this generation's included.
        each: Advantages are normalised a function, so a group is dead where every function is.
        texts: Prompt and completion of some rows, by row.
    """

    number: int
    group_size: int
    functions: tuple[str, ...]
    weights: FloatArray
    per_function: FloatArray
    rewards: FloatArray
    lengths: FloatArray
    truncated: FloatArray
    correct: FloatArray | None
    advantages: FloatArray
    fingerprints: NDArray[np.int64]
    prompts: NDArray[np.int64]
    seen: RewardRange
    each: bool
    texts: dict[int, tuple[str, str]]

    @cached_property
    def counts(self) -> GroupCounts:
        """Its groups by kind."""
        return count_groups(self.per_function, self.weights, self.group_size, self.seen, each=self.each, dead=self.dead)

    @cached_property
    def dead(self) -> BoolArray:
        """(groups,), which have no variance."""
        return zero_variance(self.per_function, self.weights, self.group_size, each=self.each)

    @cached_property
    def long(self) -> BoolArray:
        """(completions,), which are longer than the median."""
        return np.asarray(self.lengths > statistics.median(self.lengths.tolist()))

    @cached_property
    def kinds(self) -> FloatArray:
        """Of each completion, whether it is of each kind that |w| is added up by."""
        return kinds_of(self.lengths, self.correct, self.truncated, self.group_size)


def concentration(generations: Sequence[Generation], rows: FloatArray) -> dict[str, float]:
    """How few completions carry the update of a step that trained on all of these generations for the first time.

    Args:
        generations: They.
        rows: (completions, 3), of which the last is |w|, NaN where the step did not train on a completion.
    """
    if not generations or len(rows) != sum(len(g.rewards) for g in generations):
        return {}
    weights = rows[:, 2]
    found = {
        "weight/largest_group": largest_group(weights, generations[0].group_size),
        "weight/top_tenth": carried_by(weights, 0.1),
        "weight/half": needed_for(weights, 0.5),
    }
    return {name: value for name, value in found.items() if value is not None}


def rollout_metrics(generations: Sequence[Generation]) -> dict[str, float]:
    """The `reward/`, `groups/` and `length/` families of the generations that a step trained on."""
    if not generations:
        return {}
    size = generations[0].group_size
    counts = sum((generation.counts for generation in generations), GroupCounts())
    metrics = reward_metrics(_join([g.rewards for g in generations]))
    for index, name in enumerate(generations[0].functions):
        scores = _join([g.per_function[:, index] for g in generations])
        metrics[reward_name(name)] = float(np.nanmean(scores)) if not np.isnan(scores).all() else float("nan")
    verdicts = [g.correct for g in generations if g.correct is not None]
    correct = _join(verdicts) if len(verdicts) == len(generations) else None
    if counts.groups:
        zero_std = (counts.solved + counts.failed + counts.stuck) / counts.groups
        metrics["groups/zero_std"] = zero_std
        metrics["groups/solved"] = counts.solved / counts.groups
        metrics["groups/failed"] = counts.failed / counts.groups
        metrics["groups/stuck"] = counts.stuck / counts.groups
        expected = expected_zero_std(correct, size) if correct is not None else None
        if expected is not None:
            metrics["groups/excess"] = zero_std - expected
    if counts.std_groups:
        metrics["groups/reward_std"] = counts.std_sum / counts.std_groups
    metrics["groups/unique"] = unique_share(np.concatenate([g.fingerprints for g in generations]), size)
    lengths = _join([g.lengths for g in generations])
    if not np.isnan(lengths).any():
        metrics |= length_metrics(lengths, _join([g.truncated for g in generations]), correct, size)
        wasted = wasted_tokens(np.concatenate([g.dead for g in generations]), lengths, size)
        if wasted is not None:
            metrics["groups/wasted_tokens"] = wasted
    return metrics


def rollout_table(step: int, generations: Sequence[Generation], rows: FloatArray | None = None) -> pl.DataFrame:
    """A row a completion, as rollouts/step-*.parquet holds them; `group` counts through the generations of the step.

    Args:
        step: The first step that trained on them.
        generations: They.
        rows: (completions, 3) entropy, Σ log p and |w| of each completion of all of them, as far as the step trained on
            it; NaN where it did not.
    """
    import polars as pl

    tables = []
    groups_before = rows_before = 0
    for generation in generations:
        count = len(generation.rewards)
        row = np.arange(count)
        columns: dict[str, object] = {
            "step": np.full(count, step),
            "group": groups_before + row // generation.group_size,
            "index": row % generation.group_size,
            "prompt_id": [f"{value & 0xFFFFFFFFFFFFFFFF:016x}" for value in generation.prompts.tolist()],
            "reward": _known(generation.rewards),
        }
        for index, name in enumerate(generation.functions):
            columns[reward_name(name)] = _known(generation.per_function[:, index])
        correct = generation.correct if generation.correct is not None else np.full(count, np.nan)
        columns["correct"] = [None if np.isnan(verdict) else bool(verdict) for verdict in correct]
        columns["length"] = [None if np.isnan(length) else int(length) for length in generation.lengths]
        columns["truncated"] = [None if np.isnan(cut) else bool(cut) for cut in generation.truncated]
        columns["advantage"] = _known(generation.advantages)
        mine = rows[rows_before : rows_before + count] if rows is not None else np.full((count, 3), np.nan)
        total = np.nansum(rows[:, 2]) if rows is not None else 0.0
        columns["weight"] = _known(mine[:, 2] / total if total else np.full(count, np.nan))
        columns["entropy"] = _known(mine[:, 0])
        columns["logprob_sum"] = _known(mine[:, 1])
        columns["prompt"] = [generation.texts.get(i, (None, None))[0] for i in range(count)]
        columns["completion"] = [generation.texts.get(i, (None, None))[1] for i in range(count)]
        tables.append(pl.DataFrame(columns, schema_overrides=_schema()))
        groups_before += count // generation.group_size
        rows_before += count
    return pl.concat(tables, how="diagonal")  # of one step, but perhaps of other reward functions


def reward_name(function: str) -> str:
    """The metric of one reward function; two names are taken by the metrics of the total."""
    return f"reward/{function}_function" if function in ("mean", "std") else f"reward/{function}"


def _schema() -> dict[str, pl.DataType | type[pl.DataType]]:
    """Types of the columns that may hold nothing but nulls."""
    import polars as pl

    floats = ("reward", "advantage", "weight", "entropy", "logprob_sum")
    return {
        **dict.fromkeys(floats, pl.Float64),
        "correct": pl.Boolean,
        "truncated": pl.Boolean,
        "length": pl.Int64,
        "prompt": pl.String,
        "completion": pl.String,
    }


def _known(values: FloatArray) -> list[float | None]:
    """Null where there is no value."""
    return [None if np.isnan(value) else value for value in values.tolist()]


def _join(arrays: Sequence[FloatArray]) -> FloatArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
