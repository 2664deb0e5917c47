"""Statistics of a series that cost the same at its millionth value as at its first."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ewma:
    """An exponentially weighted mean that forgets by optimizer steps, not by records.

    level = Σ wᵢ·xᵢ / Σ wᵢ with wᵢ = 2^−(step − stepᵢ)/half_life. Rows every 10th step and rows every step so give the
    same memory, and the first values are not pulled towards zero.

    Args:
        half_life: Optimizer steps after which a value counts half.
        of_means: The same where rows are more than one step apart: such a row is a mean already. 0 for no other one.

    >>> mean = Ewma(half_life=1)
    >>> mean.update(1, 0.0)
    0.0
    >>> mean.update(2, 3.0)  # (0·½ + 3·1) / (½ + 1)
    2.0
    """

    half_life: float
    level: float = math.nan
    weight: float = 0.0
    step: int | None = None
    of_means: float = 0.0
    _passed: int = field(default=0, init=False, repr=False, compare=False)  # steps between the last two values
    _decay: float = field(default=1.0, init=False, repr=False, compare=False)  # what is left of a weight after so many

    def update(self, step: int, value: float) -> float:
        """Take in a finite value and return the new level."""
        weight = 1.0
        kept = self.weight
        if kept:
            passed = step - self.step  # type: ignore[operator]  # what has weight has a step
            if passed != self._passed:  # most rows are as far apart as the two before, and a power is costly
                half_life = self.of_means if passed > 1 and self.of_means else self.half_life
                self._passed, self._decay = passed, 0.5 ** (max(0, passed) / half_life)
            kept *= self._decay
            weight += kept
            value = (self.level * kept + value) / weight
        self.weight = weight
        self.step = step
        self.level = value
        return value


@dataclass(slots=True)
class CountedEwma(Ewma):
    """The same, which knows how many values it rests on."""

    squared_weight: float = 0.0

    def update(self, step: int, value: float) -> float:
        """Take in a finite value and return the new level."""
        level = Ewma.update(self, step, value)
        self.squared_weight = self.squared_weight * self._decay * self._decay + 1.0
        return level

    @property
    def effective_count(self) -> float:
        """(Σw)²/Σw²: how many equally weighted values the level rests on."""
        return self.weight**2 / self.squared_weight if self.squared_weight else 0.0


@dataclass(slots=True)
class Baseline:
    """What a series was at first: the median of its first values, fixed once it has them.

    A median, so that one wild first step does not set the scale that a whole run is judged by.

    Args:
        records: How many values it is made of.

    >>> start = Baseline(records=3)
    >>> [start.update(x) for x in (2.0, 9.0, 1.0, 0.0)]
    [None, None, 2.0, 2.0]
    """

    records: int
    value: float | None = None
    _first: list[float] = field(default_factory=list)

    def update(self, value: float) -> float | None:
        """Take in a finite value; the baseline, or None while it is not known yet."""
        if self.value is None:
            self._first.append(value)
            if len(self._first) == self.records:
                middle = sorted(self._first)
                half = self.records // 2
                self.value = middle[half] if self.records % 2 else (middle[half - 1] + middle[half]) / 2
                self._first.clear()
        return self.value
