"""Follows each completion from its generation to the micro-batches that train on it, through TRL's shuffles and splits.

A tensor of tags travels with a generation: TRL shuffles, splits and concatenates whatever tensors it finds there. Tags
stay in the main memory and what is known of rows stays on the device, so that nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlwatch.capture.generation import FloatArray, Generation
from rlwatch.capture.ranks import gather
from rlwatch.signals.shares import KINDS
from rlwatch.signals.tokens import wide

TAG = "rlwatch_row"
"""The key of the tensor that travels along."""

_SHIFT = 32  # a tag is (generation's number << 32) | row of this rank
_ROW = (1 << _SHIFT) - 1


@dataclass
class _Table:
    """This rank's rows of one generation.

    Args:
        seen: (rows, 3), entropy, Σ log p and |w| as they were when a row was first trained on; NaN before.
        new: The rows that have not been trained on yet.
        facts: (3 + kinds, rows), length, whether that is long, correctness, and of which kinds it is; or None.
        knows_lengths: They are known of every row.
        knows_correct: It is known of some.
    """

    seen: torch.Tensor
    new: set[int]
    facts: torch.Tensor | None = None
    knows_lengths: bool = False
    knows_correct: bool = False


@dataclass(frozen=True)
class Facts:
    """What is known of the rows of a micro-batch, (B,) each on the device; None where it is not known.

    `kinds` is (kinds, B).
    """

    lengths: torch.Tensor | None = field(default=None)
    long: torch.Tensor | None = field(default=None)
    correct: torch.Tensor | None = field(default=None)
    kinds: torch.Tensor | None = field(default=None)


def split_tags(tags: torch.Tensor) -> list[tuple[int, int]]:
    """The generation's number and this rank's row of it, of each tag."""
    return [(tag >> _SHIFT, tag & _ROW) for tag in tags.tolist()]


class Rows:
    """What one rank knows of its rows of the generations that may still be trained on.

    Args:
        accelerator: The trainer's.
    """

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator
        self._tables: dict[int, _Table] = {}
        self._count = 0

    def begin(self, rows: int) -> tuple[int, torch.Tensor]:
        """The number of a new generation, and the tags of this rank's rows of it."""
        number, self._count = self._count, self._count + 1
        empty = torch.full((rows, 3), torch.nan, dtype=torch.float32, device=self._accelerator.device)
        self._tables[number] = _Table(empty, set(range(rows)))
        return number, torch.arange(rows) + (number << _SHIFT)

    def learn(self, generation: Generation) -> None:
        """Length and correctness of this rank's rows."""
        table = self._tables[generation.number]
        count = len(table.seen)
        first = self._accelerator.process_index * count
        correct = generation.correct if generation.correct is not None else np.full(len(generation.rewards), np.nan)
        facts = np.stack([generation.lengths, generation.long, correct, *generation.kinds])[:, first : first + count]
        table.facts = torch.from_numpy(facts).to(table.seen.device, wide(table.seen.device))
        table.knows_lengths = not np.isnan(facts[0]).any()
        table.knows_correct = not np.isnan(facts[2]).all()

    def generations(self, tags: torch.Tensor | None) -> set[int]:
        """The generations that rows belong to. Nothing is known of those that began before this training did."""
        if tags is None:  # a subclass that drops keys it does not know: the newest is the likeliest
            return set(list(self._tables)[-1:])
        return self._tables.keys() & set((tags >> _SHIFT).tolist())

    def facts(self, tags: torch.Tensor | None) -> Facts:
        """What is known of a micro-batch's rows."""
        parts = self._parts(tags)
        if not parts or not any(table is not None and table.facts is not None for table, _, _ in parts):
            return Facts()
        if len(parts) == 1:
            [(table, _, rows)] = parts
            columns = table.facts[:, rows]  # type: ignore[union-attr, index]
        else:
            device = self._accelerator.device
            shape = (3 + len(KINDS), sum(len(rows) for _, _, rows in parts))
            columns = torch.full(shape, torch.nan, dtype=wide(device)).to(device)
            for table, places, rows in parts:
                if table is not None and table.facts is not None:
                    columns[:, places] = table.facts[:, rows]
        known = all(table is not None and table.knows_lengths for table, _, _ in parts)
        correct = any(table is not None and table.knows_correct for table, _, _ in parts)
        everywhere = all(table is not None and table.facts is not None for table, _, _ in parts)
        return Facts(
            columns[0] if known else None,
            columns[1] if known else None,
            columns[2] if correct else None,
            columns[3:] if everywhere else None,
        )

    def saw(self, tags: torch.Tensor, sums: Mapping[str, torch.Tensor]) -> None:
        """Keep entropy, Σ log p and |w| of the rows that no micro-batch has held before, from their sums."""
        seen: torch.Tensor | None = None
        for table, places, rows in self._parts(tags):
            if table is None:
                continue
            fresh = [i for i, row in enumerate(rows) if row in table.new]
            table.new.difference_update(rows)
            if not fresh:
                continue
            if seen is None:
                nothing = torch.full_like(sums["logp"], torch.nan)
                entropy = sums["entropy"] / sums["tokens"] if "entropy" in sums else nothing
                seen = torch.stack([entropy, sums["logp"], sums.get("weight", nothing)], dim=1).float()
            table.seen[[rows[i] for i in fresh]] = seen[[places[i] for i in fresh]]

    def gathered(self, numbers: list[int]) -> FloatArray:
        """What was kept of every completion of these generations, of all ranks: (completions, 3).

        Every rank has to call it with the same numbers.
        """
        tables = [gather(self._accelerator, self._tables[number].seen) for number in numbers]
        return torch.cat(tables).cpu().numpy().astype(np.float64)

    def forget_before(self, number: int) -> list[int]:
        """Drop generations older than this one, and say which: no step will train on them again."""
        old = [n for n in self._tables if n < number]
        for n in old:
            del self._tables[n]
        return old

    def _parts(self, tags: torch.Tensor | None) -> list[tuple[_Table | None, list[int], list[int]]]:
        """For each generation in a micro-batch: its table, the places of its rows in the batch, and the rows."""
        if tags is None:
            return []
        parts: dict[int, tuple[_Table | None, list[int], list[int]]] = {}
        for place, tag in enumerate(tags.tolist()):
            number = tag >> _SHIFT
            if number not in parts:
                parts[number] = (self._tables.get(number), [], [])
            parts[number][1].append(place)
            parts[number][2].append(tag & _ROW)
        return list(parts.values())
