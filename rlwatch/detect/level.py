"""A smoothed series, the noise of its rows, and how far it has moved by more than that."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median

WILD = 3.0
"""Deviations beyond which a row counts as this many: a single spike does not set the scale (Huber 1964)."""

ROWS = 30
"""Of which the noise is measured: enough to know it to a sixth, few enough to follow it."""

MOST_ALIKE = 0.8
"""An autocorrelation beyond this is a movement, in so few rows, and no noise."""


AGAIN = 5
"""Calm rows after which the noise is worked out anew, if it is asked for: it is costly, and hardly moves in between."""

PRIOR = 5
"""Rows without autocorrelation that an estimate of it is weighed against: from few rows it comes out as anything."""


@dataclass(slots=True)
class Level:
    """An exponential mean that rests on some rows, however far apart, and the noise of these while nothing happened.

    The noise is that of the last 30 rows that were kept as calm, from how far neighbours are apart: a movement, which
    the mean lags behind, is hardly in it. With V₁ and V₂ the variances of the differences of neighbours and of every
    other row, around their median and each held at three deviations, an AR(1) has V₂/V₁ = 1 + φ and the variance
    s² = V₁ / 2(1 − φ), and its mean of exponential weights, λ from row to row, s²·(1 − λ)/(1 + λ)·(1 + φλ)/(1 − φλ).
    From n rows φ is shrunk by n/(n + 5). The median of its first n rows has about (π/2)·s²/n·(1 + φ)/(1 − φ). All of
    that is worked out when it is asked for, and kept until five more calm rows have come.

    Args:
        half_life: Optimizer steps after which a value counts half.
        rows: The same in rows, where so many stand for more steps: at 1, no row outweighs all before it.
        first: Rows that the start is the median of: it is not set by a wild one. At 0 there is none.
        of_means: The half-life where rows are more than one step apart, which are means already. 0 for no other one.

    Attributes:
        now: The level; NaN before the first value.
        start: The median of the first rows, once there are enough.

    >>> level = Level(half_life=10)
    >>> level.update(1, 0.0), level.update(11, 3.0)  # (0·½ + 3·1) / (½ + 1)
    (0.0, 2.0)
    """

    half_life: float
    rows: float = 1.0
    first: int = 0
    of_means: float = 0.0
    now: float = math.nan
    start: float | None = None
    _step: int | None = None
    _passed: int = 0
    _decay: float = 1.0
    _weight: float = 0.0
    _newest: float = math.nan
    _calm: list[float] = field(default_factory=list)
    _begins: list[float] = field(default_factory=list)
    _scatter: float = math.inf  # s and φ as of so many calm rows ago
    _alike: float = 0.0
    _age: int = AGAIN

    def update(self, step: int, value: float) -> float:
        """Take in a finite value and return the new level."""
        now, weight = value, 1.0
        if self._step is not None:
            passed = step - self._step
            if passed != self._passed:  # most rows are as far apart as the two before, and a power is costly
                half_life = self.of_means if passed > 1 and self.of_means else self.half_life
                self._passed, self._decay = passed, 0.5 ** min(1 / self.rows, max(0, passed) / half_life)
            kept = self._weight * self._decay
            weight += kept
            now = (self.now * kept + value) / weight
        self._weight = weight
        self._newest = value
        self._step = step
        self.now = now
        if self.first and self.start is None:
            self._begins.append(value)
            if len(self._begins) >= self.first:
                self.start = median(self._begins)
                self._begins.clear()
        return now

    def keep(self) -> None:
        """The newest row was calm, and says something about the noise."""
        calm = self._calm
        calm.append(self._newest)
        if len(calm) > ROWS:
            del calm[0]
        self._age += 1

    @property
    def kept(self) -> int:
        """Rows that the noise is known from."""
        return len(self._calm)

    @property
    def noise(self) -> tuple[float, float]:
        """s and φ: the deviation of a single row, and the autocorrelation of neighbours; inf before the fourth row."""
        count = len(self._calm)
        if count < 4:
            return math.inf, 0.0
        if self._age >= AGAIN or (self._age and count < ROWS):
            first, second = _mean_square(self._calm, 1), _mean_square(self._calm, 2)
            phi = min(MOST_ALIKE, max(0.0, second / first - 1)) if first > 0 else 0.0
            self._alike = phi = phi * count / (count + PRIOR)
            self._scatter, self._age = math.sqrt(first / 2 / (1 - phi)), 0
        return self._scatter, self._alike

    @property
    def error(self) -> float:
        """The standard error of the difference of two such levels."""
        scatter, phi = self.noise
        return scatter * math.sqrt(2 * self._share(phi))

    @property
    def error_of_move(self) -> float:
        """The standard error of now − start."""
        scatter, phi = self.noise
        of_start = math.pi / 2 / self.first * (1 + phi) / (1 - phi) if self.first else math.inf
        return scatter * math.sqrt(self._share(phi) + of_start)

    def is_late(self, step: int, times: float) -> bool:
        """Whether the last value is longer ago than so many times the distance of the two before, or never was."""
        return self._step is None or step - self._step > times * max(1, self._passed)

    def _share(self, phi: float) -> float:
        """Of a row's variance, what is left in a mean of exponential weights."""
        decay = self._decay if self._passed else 0.5 ** min(1 / self.rows, 1 / self.half_life)
        return (1 - decay) / (1 + decay) * (1 + phi * decay) / (1 - phi * decay)


def _mean_square(values: list[float], lag: int) -> float:
    """Of the differences around their median, each held at three deviations (1.4826 times their median's size)."""
    moves = [later - earlier for earlier, later in zip(values, values[lag:], strict=False)]
    usual = median(moves)
    sizes = [abs(move - usual) for move in moves]
    bound = WILD * 1.4826 * median(sizes) or math.inf
    return sum(min(size, bound) ** 2 for size in sizes) / (len(sizes) - 1)
