"""The outbox on disk: what waits for being sent, and what has been.

    runs/<run>/outbox/<time>-<number>.<channel>.json    waits; one small file a change and channel, put there by rename
    runs/<run>/outbox/sent/                             has arrived
    runs/<run>/outbox/refused/                          never will: the other side said that it does not take it
    runs/<run>/outbox/quiet/                            never will: somebody had acknowledged it, or silenced its rule

A rename, made once the other side has answered, is the note that something was sent. A lock that ends with its process
tells what was left behind from what another process is sending.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rlwatch.alerts.obeying import Watch
from rlwatch.alerts.pacing import Told
from rlwatch.runs.jsonl import encode
from rlwatch.runs.reader import alert_of
from rlwatch.runs.records import Alert

try:
    import fcntl
except ImportError:  # Windows: nothing tells there what was left behind, so it stays where it is
    fcntl = None  # type: ignore[assignment]

_OWNED: set[Path] = set()  # folders that a session of this process sends from: locks do not tell its sessions apart
_OWNED_LOCK = threading.Lock()
_numbers = itertools.count()


@dataclass(eq=False)
class Change:
    """One change of an alert that waits for one channel.

    Args:
        alert: The alert as it has become.
        channel: The channel's name.
        put: Unix seconds at which it was put there; -inf where another process left it behind.
        path: Its file; None without a disk.
    """

    alert: Alert
    channel: str
    put: float
    path: Path | None

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from every other; the same for one that a resumed training tells again."""
        alert = self.alert
        return (self.channel, alert.rule, alert.state.value, alert.severity.value, str(alert.since))


class Box:
    """The folder of one run, the changes that wait in it, and what was told.

    Args:
        folder: The run's outbox; None without a disk.
        clock: Unix seconds.

    Attributes:
        watch: What people have answered to the run's alerts.
        waiting: The changes that wait, in the order in which they were put there.
        told: What was told, by channel and rule.
        sent: When each change was sent, by its key.
        held: Whether this process may send what is here.
    """

    def __init__(self, folder: Path | None, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.watch = Watch(folder.parent if folder is not None else None, clock)
        self.waiting: list[Change] = []
        self.told: dict[tuple[str, str], Told] = {}
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
        """Give the lock back."""
        with _OWNED_LOCK:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            if self._key is not None:
                _OWNED.discard(self._key)
                self._key, self.held = None, False

    def load(self, channels: Iterable[str], now: float, repeat: float) -> None:
        """Take up what is there: what waits for these channels, and what was told within the repeat interval."""
        assert self.folder is not None
        known = {change.path for change in self.waiting}
        names = set(channels)
        left = [Change(alert, channel, -math.inf, path) for path, alert, channel in _read(self.folder)]
        self.waiting[:0] = [change for change in left if change.path not in known and change.channel in names]
        for path, alert, channel in _read(self.folder / "sent", newer_than=now - repeat):
            with contextlib.suppress(OSError):
                self.note(Change(alert, channel, 0.0, path), path.stat().st_mtime)

    def note(self, change: Change, now: float) -> None:
        """Remember that a change has been told."""
        self.told.setdefault((change.channel, change.alert.rule), Told()).note(change.alert, now)
        self.sent[change.key] = now

    def write(self, change: Change) -> None:
        """Put a change's file there, whole or not at all.

        Raises:
            OSError: The disk is full, or the folder is gone or read-only.
        """
        if self.folder is None:
            return
        name = f"{time.time_ns():020d}-{next(_numbers):06d}.{change.channel}.json"
        temporary = self.folder / f".{name}.{os.getpid()}"
        try:
            temporary.write_text(encode(change.alert.to_dict()) + "\n", encoding="utf-8")
            os.replace(temporary, self.folder / name)
        finally:
            temporary.unlink(missing_ok=True)
        change.path = self.folder / name

    def file(self, change: Change, folder: str) -> None:
        """Move a change's file away from those that wait.

        Raises:
            OSError: It cannot be moved.
        """
        if change.path is None or self.folder is None:
            return
        (self.folder / folder).mkdir(exist_ok=True)
        moved = self.folder / folder / change.path.name
        os.replace(change.path, moved)
        with contextlib.suppress(OSError):
            os.utime(moved)  # when it was told


def _read(folder: Path, newer_than: float = -math.inf) -> Iterator[tuple[Path, Alert, str]]:
    """The changes in a folder, in the order in which they were put there; what is no change is left alone."""
    for path in sorted(folder.glob("[0-9]*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            if path.stat().st_mtime >= newer_than:
                yield path, alert_of(json.loads(path.read_text(encoding="utf-8"))), path.suffixes[-2].removeprefix(".")
