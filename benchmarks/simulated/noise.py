"""Where noise comes from: an AR(1), or what real runs left around their own trend."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Array = np.ndarray


class Noise:
    """Where unit noise comes from: an AR(1), or the residuals of real runs in blocks.

    Args:
        residuals: Of each real run one series of mean 0 and deviation 1; none for AR(1).
    """

    BLOCK = 10

    def __init__(self, residuals: Sequence[Array] = ()) -> None:
        self._residuals = [r for r in residuals if len(r) >= 2 * self.BLOCK]

    def __len__(self) -> int:
        """How many real series there are."""
        return len(self._residuals)

    @property
    def real(self) -> bool:
        """Whether it comes from real runs."""
        return bool(self._residuals)

    def draw(self, rng: np.random.Generator, steps: int, every: int) -> Array:
        """One value a step. Real residuals are those of rows, so there the steps of a row share theirs."""
        if not self._residuals:
            return autoregressive(rng, steps, rng.uniform(0.3, 0.8))
        rows = -(-steps // every)
        blocks: list[Array] = []
        while sum(map(len, blocks)) < rows:
            series = self._residuals[rng.integers(len(self._residuals))]
            start = rng.integers(len(series) - self.BLOCK + 1)
            blocks.append(series[start : start + self.BLOCK])
        return np.repeat(np.concatenate(blocks)[:rows], every)[:steps]


def autoregressive(rng: np.random.Generator, steps: int, phi: float) -> Array:
    """An AR(1) of mean 0 and deviation 1."""
    shocks = rng.normal(0, math.sqrt(1 - phi**2), steps)
    values = np.empty(steps)
    level = rng.normal()
    for i, shock in enumerate(shocks):
        level = phi * level + shock
        values[i] = level
    return values


def spikes(rng: np.random.Generator, steps: int, rate: float, low: float = 5.0, high: float = 30.0) -> Array:
    """A factor a step: 1, and `low` to `high` on a share `rate` of the steps, as heavy tails have it."""
    hit = rng.random(steps) < rate
    return np.where(hit, np.exp(rng.uniform(np.log(low), np.log(high), steps)), 1.0)


def residual(values: Sequence[float], window: int = 9) -> Array:
    """What a series' centred moving mean leaves, scaled to a deviation of 1; empty where that is nothing."""
    series = np.asarray(values, dtype=float)
    kernel = np.ones(window)
    smooth = np.convolve(series, kernel, "same") / np.convolve(np.ones(len(series)), kernel, "same")
    left = series - smooth
    spread = left.std()
    return (left - left.mean()) / spread if spread > 1e-9 else left[:0]
