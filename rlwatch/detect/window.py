"""The mean of the last so many optimizer steps, at the same cost a value however long the window is."""

from __future__ import annotations


class Window:
    """Values of a stretch of steps, and their sum; O(1) a value on average.

    A value that left is not subtracted (1e20 would leave its rounding error behind for ever): the sum is that of two
    stacks, of which the older one holds the sum of what is still in it beside each value.

    >>> window = Window()
    >>> for step in (1, 2, 3):
    ...     window.push(step, 10.0 * step)
    >>> window.pop_until(1), window.mean, window.oldest, len(window)
    ([(1, 10.0)], 25.0, 2, 2)
    """

    __slots__ = ("_new_steps", "_new_sum", "_new_values", "_old_steps", "_old_sums", "_old_values")

    def __init__(self) -> None:
        self._new_steps: list[int] = []
        self._new_values: list[float] = []
        self._new_sum = 0.0
        self._old_steps: list[int] = []  # the oldest is the last
        self._old_values: list[float] = []
        self._old_sums: list[float] = []

    def __len__(self) -> int:
        return len(self._new_steps) + len(self._old_steps)

    @property
    def oldest(self) -> int | None:
        """The step of the oldest value; None where there is none."""
        if self._old_steps:
            return self._old_steps[-1]
        return self._new_steps[0] if self._new_steps else None

    @property
    def mean(self) -> float:
        """The mean of the values; there has to be one."""
        return ((self._old_sums[-1] if self._old_sums else 0.0) + self._new_sum) / len(self)

    def push(self, step: int, value: float) -> None:
        """Take in a finite value; steps never go back."""
        self._new_steps.append(step)
        self._new_values.append(value)
        self._new_sum += value

    def pop_until(self, step: float) -> list[tuple[int, float]]:
        """Let go of what is not newer than this step: the steps and values, the oldest first."""
        gone = []
        while (oldest := self.oldest) is not None and oldest <= step:
            if not self._old_steps:
                self._turn()
            self._old_sums.pop()
            gone.append((self._old_steps.pop(), self._old_values.pop()))
        return gone

    def _turn(self) -> None:
        self._old_steps, self._old_values = self._new_steps[::-1], self._new_values[::-1]
        total = 0.0
        for value in self._old_values:
            total += value
            self._old_sums.append(total)
        self._new_steps, self._new_values, self._new_sum = [], [], 0.0
