"""How far a series has moved from what it was at first, in units of its own noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.detect.trend import MOST_ALIKE

WILD = 3.0
"""Deviations beyond which a residual counts as this many: a single spike does not set the scale (Huber 1964)."""


@dataclass
class Shift:
    """The smoothed level of a series against the median of its first values.

    The scatter of single rows around the level is an exponential mean of squared residuals that are held at three
    deviations; φ is their autocorrelation. A mean of exponential weights λ = 2^−spacing/half_life over noise like that
    has the variance s²·(1 − λ)/(1 + λ)·(1 + φλ)/(1 − φλ), and the reference that of the median of n such values,
    (π/2)·s²/n·(1 + φ)/(1 − φ).

    Args:
        half_life: Of the level, in optimizer steps.
        records: Values that the reference is made of.
    """

    half_life: float = 20.0
    records: int = 10
    reference: float | None = None
    _level: Ewma = field(init=False)
    _squares: Ewma = field(init=False)
    _products: Ewma = field(init=False)
    _baseline: Baseline = field(init=False)
    _residual: float | None = None
    _count: int = 0
    _spacing: float = 1.0

    def __post_init__(self) -> None:
        self._level = Ewma(self.half_life)
        self._squares, self._products = Ewma(4 * self.half_life), Ewma(4 * self.half_life)
        self._baseline = Baseline(self.records)

    def update(self, step: int, value: float) -> float | None:
        """Take in a finite value; the level once there is a reference, else None."""
        if self._level.step is not None:
            self._spacing = max(1, step - self._level.step)
        if self._count:
            residual = value - self._level.level
            if self._count >= 5:
                bound = WILD * self.scatter
                if bound > 0:
                    residual = max(-bound, min(bound, residual))
            self._squares.update(step, residual * residual)
            if self._residual is not None:
                self._products.update(step, residual * self._residual)
            self._residual = residual
        self._count += 1
        level = self._level.update(step, value)
        self.reference = self._baseline.update(value)
        return level if self.reference is not None else None

    @property
    def level(self) -> float:
        """The smoothed value; NaN before the first."""
        return self._level.level

    @property
    def scatter(self) -> float:
        """The deviation of a single row; 0 before the second."""
        return math.sqrt(self._squares.level) if self._squares.weight else 0.0

    @property
    def alike(self) -> float:
        """φ of neighbouring rows, from 0 to `MOST_ALIKE`."""
        if not self._products.weight or self._squares.level <= 0:
            return 0.0
        return min(MOST_ALIKE, max(0.0, self._products.level / self._squares.level))

    @property
    def error(self) -> float:
        """The standard error of level − reference."""
        decay, phi, square = 0.5 ** (self._spacing / self.half_life), self.alike, self.scatter**2
        of_level = square * (1 - decay) / (1 + decay) * (1 + phi * decay) / (1 - phi * decay)
        of_reference = math.pi / 2 * square / self.records * (1 + phi) / (1 - phi)
        return math.sqrt(of_level + of_reference)

    @property
    def deviations(self) -> float:
        """(level − reference) in standard errors; 0 while there is no reference."""
        if self.reference is None:
            return 0.0
        moved, error = self.level - self.reference, self.error
        if error > 0:
            return moved / error
        return math.copysign(math.inf, moved) if moved else 0.0
