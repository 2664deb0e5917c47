"""The outbox: an alert is on disk before it is sent, and stays there until it has arrived.

    runs/<run>/outbox/<time>-<number>.<channel>.json    waits; one small file a change and channel, put there by rename
    runs/<run>/outbox/sent/                             has arrived
    runs/<run>/outbox/refused/                          never will: the other side said that it does not take it

One thread a session sends. A rename, made once the other side has answered, is the note that something was sent; so an
alert is sent twice only where a kill fell between the two. What a process left behind is sent by the next session in
the same folder of runs; a lock that ends with its process tells what was left from what another process is sending.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlwatch.alerts.channel import Channel, Message, Refused, TryLater
from rlwatch.runs.jsonl import encode
from rlwatch.runs.reader import alert_of
from rlwatch.runs.records import Alert, AlertState, Severity

try:
    import fcntl
except ImportError:  # Windows: nothing tells there what was left behind, so it stays where it is
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("rlwatch")

CAPACITY = 1000
"""Changes that may wait."""

_LONGEST_ASKED = 3600.0  # seconds that a Retry-After may ask for
_AT_THE_END = 1.0  # seconds between tries while the process waits to end
_OWNED: set[Path] = set()  # folders that a session of this process sends from: locks do not tell its sessions apart
_OWNED_LOCK = threading.Lock()
_numbers = itertools.count()


@dataclass(eq=False)
class _Change:
    """One change that waits for one channel; `put` is when, or -inf where another process left it behind."""

    alert: Alert
    channel: str
    put: float
    path: Path | None

    @property
    def key(self) -> tuple[str, ...]:
        alert = self.alert
        return (self.channel, alert.rule, alert.state.value, alert.severity.value, str(alert.since))


@dataclass
class _Told:
    """What one channel has been told of one rule: the last alert, and when it was last told of each kind."""

    last: Alert | None = None
    times: dict[str, float] = field(default_factory=dict)


class _Box:
    """The folder of one run, the changes that wait in it, and what was told."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.waiting: list[_Change] = []
        self.told: dict[tuple[str, str], _Told] = {}
        self.sent: dict[tuple[str, ...], float] = {}
        self.held = folder is None
        self._fd: int | None = None
        self._key: Path | None = None

    def acquire(self, *, foreign: bool) -> bool:
        """Take the lock. A folder of another run is left alone where locks do not work."""
        if self.held or self.folder is None:
            return True
        key = self.folder.resolve()
        with _OWNED_LOCK:
            if key in _OWNED:
                return False
            if fcntl is None:
                if foreign:
                    return False
            else:
                fd = None
                try:
                    fd = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._fd = fd
                except OSError as error:
                    if fd is not None:
                        os.close(fd)
                    if foreign or (fd is not None and isinstance(error, (BlockingIOError, PermissionError))):
                        return False
            _OWNED.add(key)
            self._key, self.held = key, True
        return True

    def release(self) -> None:
        with _OWNED_LOCK:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            if self._key is not None:
                _OWNED.discard(self._key)
                self._key, self.held = None, False

    def load(self, channels: Sequence[Channel], now: float, repeat: float) -> None:
        """Take up what is there: what waits for these channels, and what was told not long ago."""
        assert self.folder is not None
        known = {change.path for change in self.waiting}
        names = {channel.name for channel in channels}
        left = [_Change(alert, channel, -math.inf, path) for path, alert, channel in _read(self.folder)]
        self.waiting[:0] = [change for change in left if change.path not in known and change.channel in names]
        for path, alert, channel in _read(self.folder / "sent", newer_than=now - repeat):
            with contextlib.suppress(OSError):
                self.note(_Change(alert, channel, 0.0, path), path.stat().st_mtime)

    def note(self, change: _Change, now: float) -> None:
        """Remember that a change has been told."""
        told = self.told.setdefault((change.channel, change.alert.rule), _Told())
        told.last = change.alert
        told.times[_kind(change.alert)] = now
        self.sent[change.key] = now

    def file(self, change: _Change, folder: str) -> None:
        """Move a change's file away from those that wait."""
        if change.path is None or self.folder is None:
            return
        (self.folder / folder).mkdir(exist_ok=True)
        moved = self.folder / folder / change.path.name
        os.replace(change.path, moved)
        with contextlib.suppress(OSError):
            os.utime(moved)  # when it was told


class Outbox:
    """Sends the alerts of one session, each channel by itself.

    What changes together is told together, and what changes often is told rarely: of one rule, a warning, a critical
    alert and an end are each told at once, and again only after the repeat interval, all that has happened meanwhile in
    one message. A critical alert never waits, unless the last that was told of its rule is that it is critical.

    Args:
        channels: Where to; without any nothing is kept, and no thread is started.
        folder: Where to keep what waits; None if there is no disk.
        others: The folder of runs, to send what other sessions left there; None to leave it.
        note: Called with a place and an exception when something failed; from any thread.
        repeat: The repeat interval, in seconds.
        together: Seconds to wait for what happens at the same step.
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
        repeat: float = 3600.0,
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
        self._own = _Box(folder)
        self._boxes = [self._own]
        self._tries: dict[str, int] = {}
        self._not_before: dict[str, tuple[float, bool]] = {}  # when, and whether the other side asked for it
        self._one_by_one: set[str] = set()
        self._deadline: float | None = None  # set when it is to end
        self._thread: threading.Thread | None = None
        if self._channels:
            try:
                self._open_own()
            except OSError as error:
                note("opening the outbox", error)
                self._own.folder, self._own.held = None, True
            self._thread = threading.Thread(target=self._run, name="rlwatch-alerts", daemon=True)
            self._thread.start()

    def put(self, alert: Alert) -> None:
        """Write an alert down and have it sent; returns at once.

        Raises:
            OverflowError: So many wait already that this one is not sent.
        """
        if alert.state is AlertState.PENDING:
            return
        for channel in self._channels:
            if alert.severity.rank < channel.least.rank:
                continue
            change = _Change(alert, channel.name, self._clock(), None)
            with self._changed:
                waiting = self._own.waiting
                told = self._own.sent.get(change.key, -math.inf) > change.put - self._repeat
                if told or any(other.key == change.key for other in waiting if other.put == -math.inf):
                    continue  # a resumed training tells what it told before it was killed
                if len(waiting) >= CAPACITY:
                    raise OverflowError(f"{CAPACITY} alerts wait for being sent: one more is not taken")
            if self._own.folder is not None:
                try:
                    change.path = _write(self._own.folder, change)
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

    def _open_own(self) -> None:
        if self._own.folder is not None:
            self._own.folder.mkdir(exist_ok=True)
            if self._own.acquire(foreign=False):
                self._own.load(self._channels, self._clock(), self._repeat)

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

    def _adopt(self) -> None:
        """Take over what sessions that are no more have left in other runs."""
        if self._others is None or not self._others.is_dir():
            return
        for folder in sorted(self._others.glob("*/outbox")):
            if folder == self._own.folder or not any(folder.glob("*.json")):
                continue
            box = _Box(folder)
            with contextlib.suppress(OSError):
                if box.acquire(foreign=True):
                    box.load(self._channels, self._clock(), self._repeat)
                    if box.waiting:
                        with self._changed:
                            self._boxes.append(box)
                    else:
                        box.release()

    def _next(self) -> tuple[Channel, _Box, list[list[_Change]]] | None:
        """Wait until something is to be sent; None when it is time to end."""
        with self._changed:
            while True:
                now = self._clock()
                if self._deadline is not None and now >= self._deadline:
                    return None
                work, when = self._due(now)
                if work is not None:
                    return work
                if self._deadline is not None and (when >= self._deadline):
                    return None
                self._changed.wait(None if when == math.inf else max(0.001, when - now))

    def _due(self, now: float) -> tuple[tuple[Channel, _Box, list[list[_Change]]] | None, float]:
        """What is to be sent now; if nothing is, when to look again."""
        soonest = math.inf
        for box in self._boxes:
            if not box.held and box.waiting:
                if box.acquire(foreign=False):  # a process that was slow to end has ended
                    box.load(self._channels, now, self._repeat)
                else:
                    soonest = min(soonest, now + 1.0)
                    continue
            for channel in self._channels:
                rules: dict[str, list[_Change]] = {}
                for change in box.waiting:
                    if change.channel == channel.name:
                        rules.setdefault(change.alert.rule, []).append(change)
                if not rules:
                    continue
                times = {rule: self._when(box, channel.name, changes) for rule, changes in rules.items()}
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

    def _when(self, box: _Box, channel: str, changes: Sequence[_Change]) -> float:
        """When a rule's changes are to be told, all together."""
        if self._deadline is not None:
            return -math.inf
        told = box.told.get((channel, changes[0].alert.rule), _Told())
        last, soonest = told.last, math.inf
        before = last
        for change in changes:
            before_kind, kind = before and _kind(before), _kind(change.alert)
            when = change.put + self._together
            critical = kind == Severity.CRITICAL.value
            escalates = critical and (before_kind in ("info", "warning") or (last and _kind(last)) != kind)
            if kind in told.times and not escalates:
                when = max(when, told.times[kind] + self._repeat)
            if change.put == -math.inf:
                when = -math.inf
            soonest = min(soonest, when)
            before = change.alert
        return soonest

    def _attempt(self, channel: Channel, box: _Box, groups: list[list[_Change]]) -> None:
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

    def _finish(self, box: _Box, groups: list[list[_Change]], folder: str | None) -> None:
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


def _kind(alert: Alert) -> str:
    return "end" if alert.state is AlertState.RESOLVED else alert.severity.value


def _nameless(error: Exception) -> Exception:
    """What an unknown exception says may hold a secret; its type does not."""
    return RuntimeError(f"an unexpected {type(error).__name__}")


def _write(folder: Path, change: _Change) -> Path:
    name = f"{time.time_ns():020d}-{next(_numbers):06d}.{change.channel}.json"
    temporary = folder / f".{name}.{os.getpid()}"
    try:
        temporary.write_text(encode(change.alert.to_dict()) + "\n", encoding="utf-8")
        os.replace(temporary, folder / name)
    finally:
        temporary.unlink(missing_ok=True)
    return folder / name


def _read(folder: Path, newer_than: float = -math.inf) -> Iterator[tuple[Path, Alert, str]]:
    """The changes in a folder, in the order in which they were put there; what is no change is left alone."""
    for path in sorted(folder.glob("[0-9]*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            if path.stat().st_mtime >= newer_than:
                yield path, alert_of(json.loads(path.read_text(encoding="utf-8"))), path.suffixes[-2].removeprefix(".")
