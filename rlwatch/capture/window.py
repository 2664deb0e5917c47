"""One optimizer step as it happens: sums that stay on the device until it is over, and then go over all ranks once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from rlwatch.signals import tokens, weights
from rlwatch.signals.histogram import BINS, mean_of_top, quantiles
from rlwatch.signals.tokens import Sums, wide
from rlwatch.signals.totals import token_metrics
from rlwatch.signals.weights import weight_metrics

NAMES = (*tokens.SUMS, *weights.SUMS, "loss")
"""Everything that is summed, in the order of the vector that goes over the ranks."""

_PLACES = {name: place for place, name in enumerate(NAMES)}


class StepWindow:
    """Collects what the micro-batches of one optimizer step bring, on one rank."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.learning_rate: float | None = None
        self.grad_norm: Any = None
        self.generations: set[int] = set()
        self.extra: dict[str, float] = {}
        self._sums: dict[tuple[str, ...], tuple[torch.Tensor, int]] = {}  # by names, over how many micro-batches
        self._maxima: Sums = {}
        self._histogram: torch.Tensor | None = None
        self._histograms = 0

    def add(self, rows: Mapping[str, torch.Tensor]) -> None:
        """Count in what adds up of a micro-batch's rows, (B,) each, or of all of them, (1,)."""
        names, sums = tuple(rows), torch.stack(list(rows.values())).sum(-1)
        known = self._sums.get(names)
        self._sums[names] = (sums, 1) if known is None else (known[0] + sums, known[1] + 1)

    def add_maxima(self, maxima: Sums) -> None:
        """Count in a micro-batch's maxima."""
        for name, value in maxima.items():
            known = self._maxima.get(name)
            self._maxima[name] = value if known is None else torch.maximum(known, value)

    def add_histogram(self, counts: torch.Tensor) -> None:
        """Count in a micro-batch's entropies."""
        self._histogram = counts if self._histogram is None else self._histogram + counts
        self._histograms += 1

    def vector(self, device: torch.device) -> torch.Tensor:
        """Everything as one vector on the device: sums, in how many micro-batches each was, maxima, the histogram."""
        kind = wide(device)
        sums, counts = torch.zeros(len(NAMES), dtype=kind, device=device), [0] * (len(NAMES) + 1)
        for names, (values, count) in self._sums.items():
            places = [_PLACES[name] for name in names]
            sums[places] += values.to(device, kind)
            for place in places:
                counts[place] += count
        counts[-1] = self._histograms
        maxima = torch.full((len(tokens.MAXIMA),), -torch.inf, dtype=kind, device=device)
        for name, value in self._maxima.items():
            maxima[tokens.MAXIMA.index(name)] = value
        histogram = self._histogram if self._histogram is not None else torch.zeros(BINS)
        return torch.cat([sums, maxima, torch.tensor(counts, dtype=kind).to(device), histogram.to(device, kind)])


def empty_vector(device: torch.device) -> torch.Tensor:
    """The vector of a rank that saw nothing."""
    return StepWindow().vector(device)


@dataclass(frozen=True)
class Totals:
    """A step's sums over all of its micro-batches and ranks; what one of them missed is left out.

    The mean of a part is not the mean, so a sum that lacks a micro-batch is no sum.
    """

    sums: dict[str, float]
    maxima: dict[str, float]
    histogram: list[float] | None

    @classmethod
    def read(cls, vectors: torch.Tensor, micro_batches: int) -> Totals:
        """From the vectors of all ranks, (ranks, n).

        Args:
            vectors: One a rank.
            micro_batches: How many the step had on each rank.
        """
        ranks, largest = vectors.shape[0], slice(len(NAMES), len(NAMES) + len(tokens.MAXIMA))
        maxima = vectors[:, largest].max(dim=0).values.tolist()
        added = vectors.sum(dim=0).tolist()
        counts = added[largest.stop : largest.stop + len(NAMES) + 1]
        wanted = micro_batches * ranks
        sums = {name: added[i] for i, name in enumerate(NAMES) if counts[i] >= wanted}
        histogram = added[-BINS:] if counts[-1] >= wanted else None
        return cls(sums, dict(zip(tokens.MAXIMA, maxima, strict=True)), histogram)

    def metrics(self, ranks: int) -> dict[str, float]:
        """Entropy, policy, weight and loss metrics."""
        found = token_metrics(self.sums, self.maxima) | weight_metrics(self.sums)
        if self.histogram is not None and any(self.histogram):
            names = ("entropy/p10", "entropy/p50", "entropy/p90")
            found |= dict(zip(names, quantiles(self.histogram, (0.1, 0.5, 0.9)), strict=True))
            found["entropy/top20"] = mean_of_top(self.histogram, 0.2)
        if "loss" in self.sums:
            found["loss"] = self.sums["loss"] / ranks
        return found
