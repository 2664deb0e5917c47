"""A smoothed series against the best that it has been."""

from __future__ import annotations

from dataclasses import dataclass

from rlwatch.detect.level import Level


@dataclass(slots=True)
class Peak(Level):
    """A level that knows its best since it has a start; rows within `slack` of the best are its noise.

    Shares are of what there is to lose: the best, or, where levels were below 0, at least what was gained since the
    lowest of them.

    Args:
        name: Of the metric.
        slack: Share of the best that what is at its best may lack.
        gain: Share by which the best has to rise for a gain worth the name.

    Attributes:
        best: The highest level; None while there is no start.
        best_step: Where it was.
        gain_step: Where the best last gained.
        scale: What there is to lose.
    """

    name: str = ""
    slack: float = 0.1
    gain: float = 0.05
    values: int = 0
    best: float | None = None
    best_step: int = 0
    gain_step: int = 0
    scale: float = 0.0
    _lowest: float = 0.0
    _gained: float = 0.0

    def follow(self, step: int, value: float) -> None:
        """Take in a finite value."""
        level, best = self.update(step, value), self.best
        self.values += 1
        if best is None or best - level < self.slack * self.scale:
            self.keep()
        if self.start is None:
            return
        if level < self._lowest:
            self._lowest = level
        if best is None or level > best:
            self.best, self.best_step = level, step
            self.scale = max(level - self._lowest, abs(level))
            if best is None or level > self._gained + self.gain * self.scale:
                self._gained, self.gain_step = level, step

    @property
    def lost(self) -> float:
        """The share of the best that is gone."""
        return (self.best - self.now) / self.scale if self.best is not None and self.scale > 0 else 0.0

    @property
    def is_at_best(self) -> bool:
        """Whether it is its best but for the slack, or its own error."""
        if self.best is None:
            return False
        below = self.best - self.now - self.slack * self.scale
        return below <= 0 or below <= self.error
