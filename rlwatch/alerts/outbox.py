"""The outbox: an alert is on disk before it is sent, and stays there until it has arrived.

One thread a session sends. What it does not get through it tries again, later each time; an alert is sent twice only
where a kill fell between the other side's answer and the note of it. What a process left behind is sent by the next
session in the same folder of runs. The files are in [`box`][rlwatch.alerts.box], how often somebody is told in
[`pacing`][rlwatch.alerts.pacing], what people have answered in [`obeying`][rlwatch.alerts.obeying].
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rlwatch.alerts.box import Box, Change
from rlwatch.alerts.channel import Channel, Message, Refused, TryLater
from rlwatch.alerts.obeying import LOOK, sort
from rlwatch.alerts.pacing import Told
from rlwatch.runs.records import Alert, AlertState

logger = logging.getLogger("rlwatch")

CAPACITY = 1000
"""Changes that may wait."""

REPEAT = 3600.0
"""The repeat interval, in seconds."""

_LONGEST_ASKED = 3600.0  # seconds that a Retry-After may ask for
_AT_THE_END = 1.0  # seconds between tries while the process waits to end


class Outbox:
    """Sends the alerts of one session, each channel by itself; how often is in [`pacing`][rlwatch.alerts.pacing].

    The folder is made, and the thread started, when there is a channel that can be sent through.

    Args:
        channels: Where to; without any nothing is kept, and no thread is started.
        folder: Where to keep what waits; None if there is no disk.
        others: The folder of runs, to send what other sessions left there; None to leave it.
        note: Called with a place and an exception when something failed; from any thread.
        repeat: The repeat interval, in seconds.
        together: Seconds to wait for what happens at the same step, where a channel takes several rules together.
        first_wait: Seconds before the second try; each further one waits twice as long, and somewhat more or less.
        longest_wait: Seconds between tries, at the most.
        clock: Unix seconds.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        folder: Path | None,
        *,
        others: Path | None = None,
        note: Callable[[str, Exception], None],
        repeat: float = REPEAT,
        together: float = 1.0,
        first_wait: float = 1.0,
        longest_wait: float = 300.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._channels = list(channels)
        self._others = others
        self._note = note
        self._repeat = repeat
        self._together = together
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._clock = clock
        self._changed = threading.Condition()
        self._own = Box(folder, clock)
        self._boxes = [self._own]
        self._tries: dict[str, int] = {}
        self._not_before: dict[str, tuple[float, bool]] = {}  # when, and whether the other side asked for it
        self._one_by_one: set[str] = set()
        self._deadline: float | None = None  # set when it is to end
        self._thread: threading.Thread | None = None
        if any(channel.active for channel in self._channels):
            self._start()

    def put(self, alert: Alert) -> None:
        """Write an alert down and have it sent; returns at once.

        Raises:
            OverflowError: So many wait already that this one is not sent.
        """
        if alert.state is AlertState.PENDING:
            return
        for channel in self._channels:
            if alert.severity.rank < channel.least.rank or not channel.active:
                continue
            if self._thread is None and self._deadline is None:
                self._start()
            change = Change(alert, channel.name, self._clock(), None)
            with self._changed:
                waiting = self._own.waiting
                told = self._own.sent.get(change.key, -math.inf) > change.put - self._repeat
                if told or any(other.key == change.key for other in waiting if other.put == -math.inf):
                    continue  # a resumed training tells what it told before it was killed
                if len(waiting) >= CAPACITY:
                    raise OverflowError(f"{CAPACITY} alerts wait for being sent: one more is not taken")
            try:
                self._own.write(change)
            except OSError as error:  # it is sent all the same
                self._note("writing an alert to the outbox", error)
            with self._changed:
                if change.path is None or all(other.path != change.path for other in waiting):  # else it was loaded
                    waiting.append(change)
                self._changed.notify_all()

    def close(self, patience: float = 10.0) -> int:
        """Send what waits, for so many seconds at the most; how many changes are left for the next start."""
        if self._thread is None:
            return 0
        with self._changed:
            self._deadline = self._clock() + patience
            self._not_before = {name: (when, asked) for name, (when, asked) in self._not_before.items() if asked}
            self._changed.notify_all()
        self._thread.join(patience + 0.5)
        self._thread = None
        with self._changed:
            left = len(self._own.waiting)
        if left:
            where = f"in {self._own.folder}, and are sent at the next start" if self._own.folder else "and are lost"
            self._note("sending alerts", TimeoutError(f"{left} changes of alerts are left {where}"))
        return left

    # At the start.

    def _start(self) -> None:
        try:
            self._open_own()
        except OSError as error:
            self._note("opening the outbox", error)
            self._own.folder, self._own.held = None, True
        self._thread = threading.Thread(target=self._run, name="rlwatch-alerts", daemon=True)
        self._thread.start()

    def _open_own(self) -> None:
        if self._own.folder is not None:
            self._own.folder.mkdir(exist_ok=True)
            if self._own.acquire(foreign=False):
                self._own.load([channel.name for channel in self._channels], self._clock(), self._repeat)

    def _adopt(self) -> None:
        """Take over what sessions that are no more have left in other runs."""
        if self._others is None or not self._others.is_dir():
            return
        names = [channel.name for channel in self._channels if channel.active]
        for folder in sorted(self._others.glob("*/outbox")):
            if folder == self._own.folder or not any(folder.glob("*.json")):
                continue
            box = Box(folder, self._clock)
            with contextlib.suppress(OSError):
                if box.acquire(foreign=True):
                    box.load(names, self._clock(), self._repeat)
                    self._look(box)
                    box.waiting = [c for c in box.waiting if box.watch.silence(c.alert.rule) is None]  # stay there
                    if box.waiting:
                        with self._changed:
                            self._boxes.append(box)
                    else:
                        box.release()

    # The thread that sends.

    def _run(self) -> None:
        try:
            try:
                self._adopt()
            except Exception as error:
                self._note("looking for alerts that were left", error)
            while (work := self._next()) is not None:
                self._attempt(*work)
        except Exception as error:
            self._note("sending alerts", error)
        finally:
            with self._changed:
                for box in self._boxes:
                    box.release()

    def _next(self) -> tuple[Channel | None, Box, list[list[Change]]] | None:
        """Wait until something is to be sent, or to be put away (through None); None when it is time to end."""
        while True:
            self._obey()
            with self._changed:
                now = self._clock()
                if self._deadline is not None and now >= self._deadline:
                    return None
                work, when = self._due(now)
                if work is not None:
                    return work
                if self._deadline is not None and (when >= self._deadline):
                    return None
                pause = min(math.inf if self._own.folder is None else LOOK, max(0.001, when - now))
                self._changed.wait(None if pause == math.inf else pause)

    def _obey(self) -> None:
        """Look at what people have answered. What a silence held back, and still fires when it ends, is told."""
        for box in list(self._boxes):
            ended = self._look(box)
            if not ended:
                continue
            with self._changed:
                for change in box.waiting:
                    if change.alert.rule in ended:
                        change.put = -math.inf
            if box is self._own:  # told before the silence, or not: it fires after it
                for alert in box.watch.still_firing(ended & box.watch.standing.silenced.keys()):
                    self._remind(alert)

    def _look(self, box: Box) -> frozenset[str]:
        try:
            return box.watch.look()
        except Exception as error:
            self._note("reading who has acknowledged what", error)
            return frozenset()

    def _remind(self, alert: Alert) -> None:
        for channel in self._channels:
            if alert.severity.rank < channel.least.rank or not channel.active:
                continue
            with self._changed:
                if any(c.channel == channel.name and c.alert.rule == alert.rule for c in self._own.waiting):
                    continue
            change = Change(alert, channel.name, -math.inf, None)
            try:
                self._own.write(change)
            except OSError as error:  # it is sent all the same
                self._note("writing an alert to the outbox", error)
            with self._changed:
                self._own.waiting.append(change)

    def _due(self, now: float) -> tuple[tuple[Channel | None, Box, list[list[Change]]] | None, float]:
        """What is to be sent now; if nothing is, when to look again."""
        soonest = math.inf
        for box in self._boxes:
            if not box.held and box.waiting:
                if box.acquire(foreign=False):  # a process that was slow to end has ended
                    box.load([channel.name for channel in self._channels], now, self._repeat)
                else:
                    soonest = min(soonest, now + 1.0)
                    continue
            for channel in self._channels:
                rules: dict[str, list[Change]] = {}
                for change in box.waiting:
                    if change.channel == channel.name:
                        rules.setdefault(change.alert.rule, []).append(change)
                if not channel.active:
                    continue
                rules, never = self._obeyed(box, channel, rules)
                if never:
                    return (None, box, [never]), now
                if not rules:
                    continue
                times = {rule: self._when(box, channel, changes) for rule, changes in rules.items()}
                earliest = max(min(times.values()), self._not_before.get(channel.name, (-math.inf, False))[0])
                if earliest > now:
                    soonest = min(soonest, earliest)
                    continue
                # What has only just happened goes along.
                ready = [changes for rule, changes in rules.items() if times[rule] <= now + self._together]
                if not channel.together or channel.name in self._one_by_one:
                    ready = [rules[min(times, key=lambda rule: times[rule])]]
                return (channel, box, [list(changes) for changes in ready]), now
        return None, soonest

    def _obeyed(
        self, box: Box, channel: Channel, rules: dict[str, list[Change]]
    ) -> tuple[dict[str, list[Change]], list[Change]]:
        """What people want to be told of what waits, by rule; and what they never want to be told."""
        tell: dict[str, list[Change]] = {}
        never: list[Change] = []
        for rule, changes in rules.items():
            told = box.told.get((channel.name, rule), Told())
            alerts = [change.alert for change in changes]
            may, not_ever = sort(alerts, box.watch, told, ending=self._deadline is not None)
            never += [changes[place] for place in not_ever]
            if may:
                tell[rule] = [changes[place] for place in may]
        return tell, never

    def _when(self, box: Box, channel: Channel, changes: Sequence[Change]) -> float:
        """When a rule's changes are to be told, all together."""
        if self._deadline is not None:
            return -math.inf
        told = box.told.get((channel.name, changes[0].alert.rule), Told())
        wait = self._together if channel.together else 0.0
        return told.when([(change.alert, change.put + wait) for change in changes], self._repeat)

    def _attempt(self, channel: Channel | None, box: Box, groups: list[list[Change]]) -> None:
        if channel is None:
            self._finish(box, groups, "quiet")
            return
        try:
            channel.send([Message(tuple(change.alert for change in changes)) for changes in groups])
        except TryLater as problem:
            self._wait_longer(channel, problem)
            return
        except Exception as problem:
            refused = problem if isinstance(problem, Refused) else None
            if refused is not None and not refused.keep and len(groups) > 1:
                self._one_by_one.add(channel.name)  # one of them may be what is not taken
                return
            self._note(f"sending an alert through {channel.name}", refused or _nameless(problem))
            folder = "refused" if refused is not None and not refused.keep else None
            self._finish(box, groups, folder)
            return
        self._tries.pop(channel.name, None)
        now = self._clock()
        with self._changed:
            for change in itertools.chain(*groups):
                box.note(change, now)
        self._finish(box, groups, "sent")

    def _finish(self, box: Box, groups: list[list[Change]], folder: str | None) -> None:
        done = list(itertools.chain(*groups))
        for change in done:
            if folder is not None:
                try:
                    box.file(change, folder)
                except OSError as error:
                    self._note("noting that an alert was sent", error)
        with self._changed:
            box.waiting[:] = [change for change in box.waiting if change not in done]
            if box is not self._own and not box.waiting:
                self._boxes.remove(box)
                box.release()

    def _wait_longer(self, channel: Channel, problem: TryLater) -> None:
        tries = self._tries[channel.name] = self._tries.get(channel.name, 0) + 1
        if tries == 1:
            logger.warning("rlwatch: an alert did not get through %s: %s. It is tried again.", channel.name, problem)
        asked = problem.after is not None
        if problem.after is not None:
            wait = min(problem.after, _LONGEST_ASKED)
        else:
            wait = min(self._longest_wait, self._first_wait * 2.0 ** min(tries - 1, 30)) * random.uniform(0.5, 1.5)
        with self._changed:
            if self._deadline is not None and not asked:
                wait = min(wait, _AT_THE_END)
            self._not_before[channel.name] = (self._clock() + wait, asked)


def _nameless(error: Exception) -> Exception:
    """What an unknown exception says may hold a secret; its type does not."""
    return RuntimeError(f"an unexpected {type(error).__name__}")
