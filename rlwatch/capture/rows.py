"""Follows each completion from its generation to the micro-batches that train on it, through TRL's shuffles and splits.

A tensor of tags travels with a generation: TRL shuffles, splits and concatenates whatever tensors it finds there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlwatch.capture.generation import FloatArray, Generation
from rlwatch.capture.microbatch import MicroBatch
from rlwatch.capture.ranks import gather
from rlwatch.signals.tokens import wide
from rlwatch.signals.weights import row_weights

TAG = "rlwatch_row"
"""The key of the tensor that travels along."""

_SHIFT = 32  # a tag is (generation's number << 32) | row of this rank
_SEEN = 3  # entropy, Σ log p, |w|


class Rows:
    """What one rank knows of its rows of the generations that may still be trained on.

    Args:
        accelerator: The trainer's.
    """

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator
        self._seen: dict[int, torch.Tensor] = {}
        self._count = 0

    def begin(self, rows: int) -> tuple[int, torch.Tensor]:
        """The number of a new generation, and the tags of this rank's rows of it."""
        number, self._count = self._count, self._count + 1
        empty = torch.full((rows, _SEEN), torch.nan, dtype=torch.float32, device=self._accelerator.device)
        self._seen[number] = empty
        return number, torch.arange(rows) + (number << _SHIFT)

    def generations(self, tags: torch.Tensor | None) -> set[int]:
        """The generations that rows belong to. Nothing is known of those that began before this training did."""
        if tags is None:  # a subclass that drops keys it does not know: the newest is the likeliest
            return set(list(self._seen)[-1:])
        return self._seen.keys() & set(_split(tags)[0].tolist())

    def facts(
        self, tags: torch.Tensor | None, generations: Mapping[int, Generation], device: torch.device
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        """Length of each row, whether that is long, and whether it is correct, each (rows,); None if unknown."""
        if tags is None:
            return None, None, None
        numbers, rows = (part.cpu().numpy() for part in _split(tags))
        found = np.full((3, len(rows)), np.nan)
        for number in np.unique(numbers):
            generation = generations.get(int(number))
            if generation is None:
                continue
            mine = numbers == number
            own = rows[mine] + self._accelerator.process_index * len(self._seen[int(number)])
            found[0, mine], found[1, mine] = generation.lengths[own], generation.long[own]
            if generation.correct is not None:
                found[2, mine] = generation.correct[own]
        columns = torch.from_numpy(found).to(device, wide(device))
        sizes = (None, None) if np.isnan(found[0]).any() else (columns[0], columns[1])
        return *sizes, None if np.isnan(found[2]).all() else columns[2]

    def saw(self, tags: torch.Tensor, micro: MicroBatch, gradient: torch.Tensor | None) -> None:
        """Keep entropy, Σ log p and |w| of the rows, for the table of rollouts: as they were when first trained on."""
        mask, logps, entropies = micro.mask.bool(), micro.logps, micro.entropies
        assert logps is not None
        seen = torch.full((len(tags), _SEEN), torch.nan, dtype=torch.float32, device=mask.device)
        if entropies is not None:
            seen[:, 0] = torch.where(mask, entropies.detach(), 0).sum(1) / mask.sum(1)
        seen[:, 1] = torch.where(mask, logps.detach(), 0).sum(1)
        if gradient is not None:
            seen[:, 2] = row_weights(gradient, mask).float()
        numbers, rows = _split(tags)
        for number in self.generations(tags):
            table, mine = self._seen[number], numbers == number
            place = rows[mine].to(table.device)
            table[place] = torch.where(torch.isnan(table[place]), seen[mine.to(seen.device)], table[place])

    def gathered(self, numbers: list[int]) -> FloatArray:
        """What was kept of every completion of these generations, of all ranks: (completions, 3).

        Every rank has to call it with the same numbers.
        """
        tables = [gather(self._accelerator, self._seen[number]) for number in numbers]
        return torch.cat(tables).cpu().numpy().astype(np.float64)

    def forget_before(self, number: int) -> list[int]:
        """Drop generations older than this one, and say which: no step will train on them again."""
        old = [n for n in self._seen if n < number]
        for n in old:
            del self._seen[n]
        return old


def _split(tags: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The number of each tag's generation, and its row on this rank."""
    return tags >> _SHIFT, tags & ((1 << _SHIFT) - 1)
