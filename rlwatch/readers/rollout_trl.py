"""What is peculiar to TRL's completions_*.parquet.

TRL keeps as many completions as a generation of the training has, the newest, and writes them whenever it logs. So a
file holds one whole generation, siblings side by side; or, written after an evaluation, the completions of that, and
before them what they have left of the training's. Nothing in a row tells one from the other, nor how many siblings a
group has, nor which columns are reward functions and which were logged beside them, nor the functions' weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from rlwatch.readers.rollout_columns import Columns
from rlwatch.readers.rollout_steps import FloatArray, Segment, Table

ALIKE = 0.999
"""Correlation with the advantages from which a group's rewards are what they were made of."""

Hashes = NDArray[np.uint64]


class Layout:
    """Which completions of a step are an evaluation's, as far as the sizes of groups tell.

    Steps that hold both are told by themselves: groups of one size, and behind them groups of another; a group that is
    cut can only be the first, and shows that something has come after the training's. A step of one size is taken
    for an evaluation where others have shown that to be the evaluation's size and not the training's, or, where no step
    shows both, where it is the rarer of two sizes.

    Args:
        steps: Each step, with the prompt and the completion of each of its rows, in their order.
    """

    def __init__(self, steps: Sequence[tuple[int, Hashes, Hashes]]) -> None:
        sizes = [sizes_of_runs(prompts) for _, prompts, _ in steps]
        uniform = Counter(runs[0] for runs in sizes if len(set(runs)) == 1)
        mixed = [found for runs in sizes if (found := _mixed(runs)) is not None]
        self._train = {train for train, _, _ in mixed if train is not None}
        self._evaluation = {evaluation for _, evaluation, _ in mixed} - self._train
        if not mixed and len(uniform) == 2:
            (often, _), (rarely, _) = uniform.most_common()
            self._train, self._evaluation = {often}, {rarely}
        self._left_out = 0
        self._from = 0
        self._repeated = _repeated(steps)

    def training(self, sizes: Sequence[int]) -> tuple[int, int]:
        """The first and the one-past-last row of a step that are the training's, and of a whole group."""
        first, end = self._groups(sizes)
        left_out = sum(sizes[end:])
        self._left_out += left_out
        self._from += left_out > 0
        return sum(sizes[:first]), sum(sizes[:end])

    def _groups(self, sizes: Sequence[int]) -> tuple[int, int]:
        if len(set(sizes)) == 1:
            return (0, 0) if sizes[0] in self._evaluation else (0, len(sizes))
        found = _mixed(sizes)
        if found is None:
            return 0, len(sizes)
        end = found[2]
        is_cut = sizes[0] not in self._train if end == 1 else sizes[0] < sizes[1]
        return int(is_cut), end

    def notes(self) -> list[str]:
        """What a person has to know."""
        both = "TRL writes the completions of training and evaluation into the same files"
        if self._left_out:
            groups = " or ".join(map(str, sorted(self._evaluation)))
            notes = [
                f"{both}: {self._left_out} completions on {self._from} steps are in groups of {groups}, are taken for "
                "an evaluation's, and are left out; what is left of the training's on these steps may not be all"
            ]
        else:
            notes = [f"{both}, and nothing here tells them apart: if there was an evaluation, it is in these numbers"]
        if self._repeated:
            where = ", ".join(map(str, self._repeated[:5])) + (", ..." if len(self._repeated) > 5 else "")
            notes.append(f"steps {where} ask the same prompts in the same order, as an evaluation does")
        return notes


def sizes_of_runs(values: Hashes) -> list[int]:
    """How many neighbours share a value, again and again."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.diff([0, *edges.tolist(), len(values)]).tolist()  # type: ignore[no-any-return, unused-ignore]


def _mixed(sizes: Sequence[int]) -> tuple[int | None, int, int] | None:
    """The training's size, the evaluation's, and where that begins; None where a step does not show two kinds."""
    runs = [(size, len(list(run))) for size, run in groupby(sizes)]
    if len(runs) == 2:
        (first, count), (second, others) = runs
        if _twice(first, count, second) or _twice(second, others, first):
            return None
        return (first if count > 1 else None), second, count
    if len(runs) == 3:
        (first, one), (second, count), (third, _) = runs
        if one == 1 and first < second and not _twice(second, count, third):
            return second, third, 1 + count
    return None


def _twice(size: int, count: int, other: int) -> bool:
    """It may be a prompt that came twice in a row, and so one run of two groups."""
    return count == 1 and size % other == 0


def _repeated(steps: Sequence[tuple[int, Hashes, Hashes]]) -> list[int]:
    """Steps that ask what others ask, in one order, and get other answers; none where that is how the training is."""
    asked: dict[bytes, dict[bytes, int]] = {}
    for step, prompts, completions in steps:
        if len(set(prompts.tolist())) >= 3:
            asked.setdefault(prompts.tobytes(), {}).setdefault(completions.tobytes(), step)
    repeated = sorted(step for answers in asked.values() if len(answers) > 1 for step in answers.values())
    return repeated if 2 * len(repeated) < len(steps) else []


def as_trl_writes_them(columns: Columns, table: Table, segments: Sequence[Segment], notes: list[str]) -> Columns:
    """The columns without those that were logged beside the reward functions; a note says how rewards are added up."""
    if columns.reward is not None or not columns.functions:
        return columns
    names = [name for name, _ in columns.functions]
    count: int | None = len(names)
    if "advantage" in table and columns.framework == "trl":
        begins = np.zeros(len(table["prompt"]), np.int64)
        begins[[lo for _, lo, _ in segments]] = 1
        begins[1:] |= table["prompt"][1:] != table["prompt"][:-1]
        scores = np.column_stack([table[f"f{index}"] for index in range(len(names))])
        count = _reward_columns(scores, table["advantage"], np.cumsum(begins) - 1)
    if count is not None and count < len(names):
        notes.append(f"{', '.join(names[count:])}: the advantages do not come of it, so it is no reward function's")
        names = names[:count]
    if len(names) > 1:
        notes.append(f"the reward is the plain sum of {', '.join(names)}: no file says what they weigh")
    if count is None:
        notes.append("the advantages do not come of that reward: it was weighted, scaled or penalised in another way")
    return replace(columns, functions=columns.functions[: len(names)])


def _reward_columns(per_column: FloatArray, advantages: FloatArray, runs: NDArray[np.int64]) -> int | None:
    """How many of the first columns are reward functions, and added up with equal weights.

    The advantages tell: within a group they are the reward's distance from the mean, times something that is the same
    for all siblings, under every scaling of TRL's. The rewards come first, and behind them what was logged beside them.

    Args:
        per_column: (completions, columns), every column that may be a reward function's.
        advantages: (completions,).
        runs: (completions,), the number of each completion's group.

    Returns:
        None where no number of columns explains the advantages.
    """
    for count in range(per_column.shape[1], 0, -1):
        known = ~np.isnan(per_column[:, :count]).all(axis=1) & ~np.isnan(advantages)
        rewards = np.nansum(per_column[known, :count], axis=1)
        if _explained(rewards, advantages[known], runs[known]) > 0.95:
            return count
    return None


def _explained(rewards: FloatArray, advantages: FloatArray, runs: NDArray[np.int64]) -> float:
    """The share of groups whose advantages go with their rewards."""
    if not len(rewards):
        return 1.0
    groups = np.unique(runs, return_inverse=True)[1]
    count = np.bincount(groups)

    def centred(values: FloatArray) -> FloatArray:
        return np.asarray(values - (np.bincount(groups, values) / count)[groups])

    apart, signal = centred(rewards), centred(advantages)
    both, one, other = (np.bincount(groups, x) for x in (apart * signal, apart**2, signal**2))
    flat = one <= 1e-10 * (1 + np.bincount(groups, rewards**2))
    alike = np.where(flat, other <= 1e-4 * count, (other > 0) & (both >= ALIKE * np.sqrt(one * other)))
    return float(alike.mean())
