"""Where one rule stands: what it has found, for how long, and what has been told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlwatch.detect.rule import Finding, Hold, Untold
from rlwatch.runs.records import Alert, Severity, StepRecord


@dataclass(slots=True)
class Streak:
    """Records in a row: at which step they began, how many there are, and the shortest that one of them has to hold."""

    since: int
    records: int = 1
    hold: Hold | None = None

    def ask(self, hold: Hold) -> None:
        """A record asks for as long as this."""
        if self.hold is None or hold.steps < self.hold.steps:
            self.hold = hold

    def held(self, hold: Hold, step: int, spacing: int) -> bool:
        """Whether it is as long as it has to be at a record of this step that stands for so many steps."""
        # A row stands for the steps since the row before it: one row of every tenth step has held for ten steps.
        return self.records >= hold.records and step - self.since + spacing >= hold.steps


class Track:
    """Where one rule stands.

    Attributes:
        at_least: Since when it has found something of each severity or a higher one, the lowest first; as many as the
            last finding is severe.
        clear: Since when it has found nothing.
        alert: What has been told and is not over.
        waiting: What the last record showed and has not held for long enough, and that record.
        busy: Something is found, or told and not over.
        as_told: The severity of the last finding, where nothing worse than that has been told; found again, it changes
            nothing but for how long it has held.
    """

    __slots__ = ("alert", "as_told", "at_least", "busy", "clear", "waiting")

    def __init__(self) -> None:
        self.at_least: list[Streak] = []
        self.clear: Streak | None = None
        self.alert: Alert | None = None
        self.waiting: tuple[Finding | Untold, StepRecord] | None = None
        self.busy = False
        self.as_told: Severity | None = None

    @property
    def is_critical(self) -> bool:
        """It has told of something critical that is not over."""
        return self.alert is not None and self.alert.severity is Severity.CRITICAL

    def state(self) -> dict[str, Any]:
        """All but what waits, as plain values."""
        return {
            "at_least": [[streak.since, streak.records] for streak in self.at_least],
            "clear": None if self.clear is None else [self.clear.since, self.clear.records],
            "alert": None if self.alert is None else self.alert.to_dict(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of [`state`][rlwatch.detect.track.Track.state]."""
        self.at_least = [Streak(*streak) for streak in state["at_least"]]
        self.clear = None if state["clear"] is None else Streak(*state["clear"])
        self.alert = None if state["alert"] is None else Alert.from_dict(state["alert"])
        self.busy = self.alert is not None or bool(self.at_least)
