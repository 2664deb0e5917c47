"""Steps from the progress bars that stand between the rows of a console's log, where bars and rows are consistent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_BAR = re.compile(r"\d{1,3}%\|[^|]{0,400}\|\s*(\d{1,12})/(\d{1,12})\s*\[")


@dataclass
class Bars:
    """What the bars around a row said: count by total, the last before it and the first after it."""

    before: dict[int, int] = field(default_factory=dict)
    after: dict[int, int] = field(default_factory=dict)


class Watch:
    """Keeps the latest state of each bar while a log is read, line by line."""

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._latest: Bars | None = None

    def line(self, text: str) -> None:
        """Look for a bar in a line."""
        if "%|" not in text:
            return
        for match in _BAR.finditer(text):
            count, total = int(match[1]), int(match[2])
            if len(self._now) > 20 and total not in self._now:
                self._now.clear()  # one bar after the other, of files or batches
            self._now[total] = count
            if self._latest is not None:
                self._latest.after.setdefault(total, count)

    def row(self) -> Bars:
        """A row stands here: the bars before it, and in time the ones after it."""
        self._latest = Bars(before=dict(self._now))
        return self._latest


def steps_from(bars: Sequence[Bars]) -> tuple[list[int], int] | None:
    """The step of each row, and the total; None where no bar goes with the rows.

    A bar goes with them if it stands at every row, and moves by the same number of steps from each row to the next (the
    first of a training may be step 1, whatever the spacing; a count that goes back is a training that starts again).
    A bar of 1/1 or of an evaluation does not.
    """
    totals = Counter(total for bar in bars for total in {*bar.before, *bar.after})
    for total, _ in totals.most_common(5):
        before = _consistent([bar.before.get(total) for bar in bars])
        after = _consistent([bar.after.get(total, bar.before.get(total)) for bar in bars])
        chosen = before or after
        if before and after and before != after and before[0] % _spacing(before) and not after[0] % _spacing(after):
            chosen = after  # the bar was drawn late
        if chosen and total > 1:
            return chosen, total
    return None


def _consistent(counts: Sequence[int | None]) -> list[int] | None:
    steps = [count for count in counts if count is not None]
    if not steps or len(steps) < len(counts) or steps[0] < 1:
        return None
    gaps = {after - before for before, after in pairwise(steps) if after > before and before != 1}
    if len(gaps) > 1 or any(after == before for before, after in pairwise(steps)):
        return None
    return steps


def _spacing(steps: Sequence[int]) -> int:
    return next((after - before for before, after in pairwise(steps) if after > before > 1), 1)
