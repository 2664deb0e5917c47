"""The rollouts that a loop of one's own has told of, in groups of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlwatch.capture import inputs
from rlwatch.capture.generation import FloatArray, Generation, reward_name
from rlwatch.capture.ragged import OwnGeneration, group_metrics
from rlwatch.capture.text import as_text, fingerprint
from rlwatch.signals.arrays import TokenArrays
from rlwatch.signals.groups import RewardRange
from rlwatch.signals.rollouts import length_metrics, reward_metrics


@dataclass(frozen=True)
class Given:
    """One call of `monitor.rollouts()`: n completions in the user's order. None was not given.

    Args:
        rewards: (n,), NaN where there is none.
        members: The rows of each group, or None where nobody said what is a group.
        functions: Scores of each reward function, (n,) each.
        lengths: (n,), tokens.
        truncated: (n,), 1 or 0.
        correct: (n,), 1, 0 or NaN.
        advantages: (n,).
        prompts: n prompts.
        completions: n completions, as text or tokens.
    """

    rewards: FloatArray
    members: list[list[int]] | None
    functions: Mapping[str, FloatArray]
    lengths: FloatArray | None = None
    truncated: FloatArray | None = None
    correct: FloatArray | None = None
    advantages: FloatArray | None = None
    prompts: list[Any] | None = None
    completions: list[Any] | None = None

    @classmethod
    def read(
        cls, rewards: Any, groups: Any, group_size: Any, functions: Mapping[str, Any] | None, **others: Any
    ) -> Given:
        """What a user has given; the arguments are those of `Monitor.rollouts`, which says what is raised."""
        total = inputs.numbers("rewards", rewards)
        count = total.size
        if total.ndim != 1 or not count:
            raise ValueError(
                f"rewards= has shape {total.shape}: it takes one number a completion, (n,); flatten rewards of "
                "(prompts, completions) and say group_size="
            )
        if functions is not None and not isinstance(functions, Mapping):
            raise TypeError(f"functions= takes a mapping of names to scores, not {type(functions).__name__}")
        scores = {str(n): inputs.per_completion(f"functions[{n!r}]", x, count) for n, x in (functions or {}).items()}
        read: dict[str, Callable[[str, Any, int], Any]] = {
            "lengths": inputs.token_counts,
            "truncated": inputs.facts,
            "correct": inputs.verdicts,
            "advantages": inputs.per_completion,
            "prompts": inputs.rows_of,
            "completions": inputs.rows_of,
        }
        found = {n: None if value is None else read[n](n, value, count) for n, value in others.items()}
        return cls(total, inputs.group_members(groups, group_size, count), scores, **found)


Placed = tuple[Generation, list[int]]
"""A generation, and the user's row of each of its rows."""


def generations_of(given: Given, number: int, seen: RewardRange, keep: int | None) -> list[Placed]:
    """One generation for each size that groups have.

    Siblings stand side by side in a [`Generation`][rlwatch.capture.generation.Generation], all in groups of one size.

    Args:
        given: What was given. Without groups, each completion stands for itself.
        number: Of the call, from 0.
        seen: The run's range of rewards, these included.
        keep: Groups whose text is kept; None keeps all.
    """
    members = given.members if given.members is not None else [[row] for row in range(len(given.rewards))]
    by_size: dict[int, list[int]] = {}
    kept: set[int] = set()
    names: dict[int, int] = {}
    for index, rows in enumerate(members):
        by_size.setdefault(len(rows), []).extend(rows)
        names.update(dict.fromkeys(rows, fingerprint(f"group {index} of call {number}")))
        if keep is None or index < keep:
            kept.update(rows)
    unknown = np.full(len(given.rewards), np.nan)
    made: list[Placed] = []
    for size, rows in by_size.items():
        scores = [values[rows] for values in given.functions.values()]
        generation = OwnGeneration(
            number=number,
            group_size=size,
            functions=tuple(given.functions),
            weights=np.full(len(scores), np.nan),
            per_function=np.stack(scores, axis=1) if scores else np.empty((len(rows), 0)),
            rewards=given.rewards[rows],
            lengths=(unknown if given.lengths is None else given.lengths)[rows],
            truncated=(unknown if given.truncated is None else given.truncated)[rows],
            correct=None if given.correct is None else given.correct[rows],
            advantages=(unknown if given.advantages is None else given.advantages)[rows],
            fingerprints=_fingerprints(given.completions, rows),
            prompts=_fingerprints(given.prompts, rows) if given.prompts else np.array([names[row] for row in rows]),
            seen=seen,
            each=False,
            texts={place: _texts(given, row) for place, row in enumerate(rows) if row in kept},
        )
        made.append((generation, rows))
    return made


class OwnRollouts:
    """The completions that steps train on until others come: one call of `monitor.rollouts()`, or several.

    Attributes:
        first_step: The first step that trained on them; None before that.
        count: How many completions there are.
    """

    def __init__(self) -> None:
        self.first_step: int | None = None
        self.count = 0
        self._given: list[Given] = []
        self._generations: list[Generation] = []
        self._rows: list[int] = []  # the user's row of each row of the generations
        self._seen = np.empty((0, 3))  # entropy, Σ log p and |w| of each of the user's rows

    def add(self, given: Given, generations: Sequence[Placed]) -> None:
        """Count in a call."""
        for generation, rows in generations:
            self._generations.append(generation)
            self._rows += [self.count + row for row in rows]
        self._given.append(given)
        self.count += len(given.rewards)
        self._seen = np.concatenate([self._seen, np.full((len(given.rewards), 3), np.nan)])

    def saw(self, rows: list[int], batch: TokenArrays) -> None:
        """Keep entropy and Σ log p of rows of a micro-batch, for the table: as they were when first trained on."""
        tokens = batch.mask.sum(axis=1)
        found = np.full((len(rows), 3), np.nan)
        found[:, 1] = np.where(batch.mask, batch.logps, 0.0).sum(axis=1)
        if batch.entropies is not None:
            found[:, 0] = np.where(batch.mask, batch.entropies, 0.0).sum(axis=1) / np.maximum(tokens, 1)
        found[tokens == 0] = np.nan
        self._seen[rows] = np.where(np.isnan(self._seen[rows]), found, self._seen[rows])

    def correct(self, rows: list[int]) -> FloatArray | None:
        """Whether these completions are correct, or None where that was not said."""
        verdicts = _all_of([given.correct for given in self._given])
        return None if verdicts is None else verdicts[rows]

    def table(self) -> tuple[list[Generation], FloatArray]:
        """What the table of rollouts is made of."""
        return self._generations, self._seen[self._rows]

    def metrics(self) -> dict[str, float]:
        """The `reward/`, `groups/` and `length/` families; what one call did not give is not known of all."""
        if not self._given:
            return {}
        metrics = reward_metrics(np.concatenate([given.rewards for given in self._given]))
        for name in self._given[0].functions:
            scores = _all_of([given.functions.get(name) for given in self._given])
            if scores is not None:
                metrics[reward_name(name)] = float(np.nanmean(scores)) if not np.isnan(scores).all() else float("nan")
        if all(given.members is not None for given in self._given):
            completions = all(given.completions is not None for given in self._given)
            metrics |= group_metrics(self._generations, completions=completions)
        lengths, truncated, correct = (
            _all_of([getattr(given, name) for given in self._given]) for name in ("lengths", "truncated", "correct")
        )
        nothing = np.zeros(self.count)
        found = length_metrics(
            nothing if lengths is None else lengths, nothing if truncated is None else truncated, correct, 1
        )
        known = {"length": lengths is not None, "truncated": truncated is not None, "share": True}
        metrics |= {name: value for name, value in found.items() if known[_about(name)]}
        return metrics


def _all_of(arrays: Sequence[FloatArray | None]) -> FloatArray | None:
    """They one after the other; None where one is missing."""
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if len(known) == len(arrays) else None


def _about(name: str) -> str:
    return "truncated" if "truncated" in name else "share" if name == "length/share_correct" else "length"


def _fingerprints(things: list[Any] | None, rows: list[int]) -> NDArray[np.int64]:
    if things is None:
        return np.zeros(len(rows), dtype=np.int64)
    return np.array([fingerprint(as_text(things[row])) for row in rows], dtype=np.int64)


def _texts(given: Given, row: int) -> Any:
    """Prompt and completion of a row, None where they were not given."""
    return tuple(None if things is None else as_text(things[row]) for things in (given.prompts, given.completions))
