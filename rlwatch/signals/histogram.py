"""Quantiles of token entropies from a histogram that adds up over micro-batches and ranks.

[`BINS`][rlwatch.signals.histogram.BINS] bins of equal ratio from 1e-4 to 16 nats (a vocabulary of 9 million), and one
for what is below. A quantile is given as its bin's geometric middle, so it is off by a factor of at most
[`RELATIVE_ERROR`][rlwatch.signals.histogram.RELATIVE_ERROR], or by 1e-4 nats below 1e-4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

LOWEST, HIGHEST, BINS = 1e-4, 16.0, 512
_WIDTH = math.log(HIGHEST / LOWEST) / (BINS - 1)
RELATIVE_ERROR = math.exp(_WIDTH / 2) - 1
"""1.2 %."""

EDGES = [LOWEST * math.exp(index * _WIDTH) for index in range(BINS - 1)]
"""Where the second bin and those after it begin; the last has no end."""


def entropy_histogram(entropies: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Counts of token entropies a bin, without waiting for the device.

    Args:
        entropies: Any shape, nats; what is not finite is not counted.
        mask: The same shape, 1 for the tokens that count.

    Returns:
        (BINS,), int64, on the same device.
    """
    import torch  # here alone: whoever counts otherwise needs none

    values = entropies.detach().float()
    place = torch.bucketize(values, _edges_on(values.device), right=True)
    place = torch.where(mask.bool() & torch.isfinite(values), place, BINS).flatten()
    counts = torch.zeros(BINS + 1, dtype=torch.int64, device=values.device)
    return counts.index_add_(0, place, torch.ones_like(place))[:BINS]


@functools.lru_cache
def _edges_on(device: torch.device) -> torch.Tensor:
    import torch

    return torch.tensor(EDGES, dtype=torch.float32, device=device)


def middle(index: int) -> float:
    """The entropy that a bin stands for, in nats."""
    return LOWEST / 2 if index == 0 else LOWEST * math.exp((index - 0.5) * _WIDTH)


def quantiles(counts: Sequence[float], shares: Sequence[float]) -> list[float]:
    """The values under which these shares of the counted tokens lie (the smallest with at least that share)."""
    total = sum(counts)
    found = []
    for share in shares:
        running = 0.0
        for index, count in enumerate(counts):
            running += count
            if running >= share * total and count:
                found.append(middle(index))
                break
    return found


def mean_of_top(counts: Sequence[float], share: float) -> float:
    """The mean of the highest share of the counted tokens."""
    wanted = share * sum(counts)
    left, total = wanted, 0.0
    for index in range(len(counts) - 1, -1, -1):
        taken = min(left, counts[index])
        total += taken * middle(index)
        left -= taken
        if left <= 0:
            break
    return total / wanted
