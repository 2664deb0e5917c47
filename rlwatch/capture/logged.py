"""Steps of a trainer that cannot be looked into, with what it logs of them itself: better than nothing, and no more.

A trainer logs a step after it has ended, and not every step; so a step waits for its log until the next one begins.
What was measured stays; what only the log has is taken as it is, with TRL's own means over micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rlwatch.runs.aliases import RAW, Translator
from rlwatch.runs.records import StepRecord

HandOver = Callable[..., None]
"""Takes a record, and whatever came with it."""


class Logged:
    """Holds each step back until its log has come.

    Args:
        hand_over: Where a step goes then.
    """

    def __init__(self, hand_over: HandOver) -> None:
        self._hand_over = hand_over
        self._waiting: tuple[StepRecord, tuple[Any, ...]] | None = None
        self._translate = Translator("trl")

    def hold(self, record: StepRecord, *others: Any) -> None:
        """A step has ended."""
        self.let_go()
        self._waiting = record, others

    def logged(self, step: int, logs: Mapping[str, Any]) -> None:
        """The trainer has logged something; of an evaluation it is no step's."""
        if self._waiting is None or self._waiting[0].step != step or "loss" not in logs:
            return
        record, others = self._waiting
        self._waiting = replace(record, metrics={**from_log(logs, self._translate), **record.metrics}), others
        self.let_go()

    def let_go(self) -> None:
        """No log of the step that waits will come any more."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._hand_over(waiting[0], *waiting[1])


def from_log(logs: Mapping[str, Any], translate: Translator) -> dict[str, float]:
    """Our metrics in a row of TRL's log; what is none of ours, and no number, is left out."""
    numbers = {name: float(v) for name, v in logs.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    names = translate.all(list(numbers))
    return {ours: v for ours, v in zip(names, numbers.values(), strict=True) if not ours.startswith(RAW)}
