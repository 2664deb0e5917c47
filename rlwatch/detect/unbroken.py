"""A condition that has held for so many rows in a row, and how likely that is by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass

PRIOR = 5.0
"""Rows that what is known beforehand weighs as much as: one of five shows the condition."""


@dataclass(slots=True)
class Unbroken:
    """Counts rows that a condition has held for without a break, and compares with how it came and went before.

    Let q = (held + 1)/(rows + 5) be about the share of earlier rows in which it held. That it holds once more after a
    row in which it held has a Beta distribution: with a = followed + 5q, of such rows those that were followed by
    another one, and b = held − followed + 5(1 − q). A streak of n has the probability B(a + n, b)/B(a, b), which allows
    for how little is known at first. A streak that was found to be no chance does not count as how the run is.

    Attributes:
        length: Rows in a row, up to the last one.
        since: The step of the first of them; None while there is none.
        odd: It is no chance.
    """

    length: int = 0
    since: int | None = None
    odd: bool = False
    _rows: int = 0  # before this streak
    _held: int = 0
    _followed: int = 0

    def update(self, step: int, holds: bool) -> None:
        """Take in whether it holds in the next row."""
        if holds:
            if not self.length:
                self.since = step
            self.length += 1
            return
        if self.length:
            if not self.odd:
                self._rows += self.length
                self._held += self.length
                self._followed += self.length - 1
            self.length, self.since, self.odd = 0, None, False
        self._rows += 1

    def chance(self, same: float = 1.0) -> float:
        """How likely a streak of this length is at the run's own rate; 1 while there is none.

        Args:
            same: How many rows always show the same, and so count as one.
        """
        q, n = (self._held + 1) / (self._rows + PRIOR), self.length / same
        a, b = self._followed + PRIOR * q, self._held - self._followed + PRIOR * (1 - q)
        return math.exp(math.lgamma(a + n) - math.lgamma(a) + math.lgamma(a + b) - math.lgamma(a + b + n))
