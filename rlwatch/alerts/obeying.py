"""What people have answered to alerts, as delivery obeys it: looked at cheaply, and what follows for what waits.

An alert that is acknowledged is not told again, unless it becomes worse or is over. A rule that is silenced is not told
at all; when the silence has ended, how things stand then is told, if it still fires, or if people think it does.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rlwatch.alerts.pacing import Told
from rlwatch.runs.acks import Answer, Stamp, Standing, read_answers, stamp_of, standing_of
from rlwatch.runs.reader import latest_alerts, newest_step, read_alerts
from rlwatch.runs.records import Alert, AlertState

LOOK = 1.0
"""Seconds between two looks at the file, at the least."""


class Watch:
    """The answers to one run's alerts as of now: a stat a second, and the file is read where it has changed.

    Args:
        run: The run directory; None without a disk, where nobody can answer.
        clock: Unix seconds.

    Attributes:
        standing: What holds.
    """

    def __init__(self, run: Path | None, clock: Callable[[], float] = time.time) -> None:
        self.standing = Standing()
        self._run = run
        self._clock = clock
        self._looked: float | None = None
        self._stamp: Stamp | None = None
        self._step: int | None = None
        self._silent: frozenset[str] = frozenset()

    def look(self) -> frozenset[str]:
        """Look, unless that was less than a second ago; the rules whose silence has ended since the last look.

        Raises:
            OSError: The file is there and cannot be read; what held, holds.
        """
        now = self._clock()
        if self._run is None or (self._looked is not None and 0 <= now - self._looked < LOOK):
            return frozenset()
        self._looked = now
        stamp = stamp_of(self._run)
        if stamp != self._stamp:
            answers, _ = read_answers(self._run)
            self.standing, self._stamp = standing_of(answers), stamp
        if any(answer.until_step is not None for answer in self.standing.silenced.values()):
            self._step = newest_step(self._run)
        before, self._silent = self._silent, self.standing.silent(self._step, now)
        return before - self._silent

    def silence(self, rule: str) -> Answer | None:
        """The silence that holds of a rule, as of the last look at the run's step."""
        return self.standing.silence(rule, self._step, self._clock())

    def why_quiet(self, alert: Alert) -> str:
        """Why nobody is told of a change, in words; empty where somebody is."""
        answers = self.standing.of(alert, self._step, self._clock())
        return answers[-1].words if answers else ""

    def still_firing(self, rules: Iterable[str]) -> list[Alert]:
        """What fires of some rules and is not acknowledged, as the run directory says."""
        if self._run is None:
            return []
        wanted = list(rules)  # a line that rlwatch did not write may hold anything for a rule
        changes = [change for change in read_alerts(self._run).items if change.rule in wanted]
        return [
            alert
            for alert in latest_alerts(changes)
            if alert.state is AlertState.FIRING and self.standing.acknowledgement(alert) is None
        ]


def why_quiet(run: Path | None, alert: Alert) -> str:
    """Why nobody is told of a change in a run, in words; empty where somebody is, or where that cannot be read."""
    watch = Watch(run)
    with contextlib.suppress(OSError):
        watch.look()
    return watch.why_quiet(alert)


def sort(alerts: Sequence[Alert], watch: Watch, told: Told, *, ending: bool) -> tuple[list[int], list[int]]:
    """Which of one rule's waiting changes may be told, and which never are: their places in the list.

    What is in neither waits for the end of a silence: no more than the newest, for it says how things stand.

    Args:
        alerts: The changes, the oldest first.
        watch: What people have said.
        told: What was told of the rule.
        ending: The session ends: nothing can wait any longer.
    """
    never = [i for i, alert in enumerate(alerts) if watch.standing.acknowledgement(alert) is not None]
    rest = [i for i in range(len(alerts)) if i not in never]
    if not rest or watch.silence(alerts[0].rule) is None:
        return rest, never
    newest = alerts[rest[-1]]
    believed = told.last is not None and told.last.state is AlertState.FIRING
    waits = not ending and (newest.state is AlertState.FIRING or believed)
    return [], sorted(never + (rest[:-1] if waits else rest))
