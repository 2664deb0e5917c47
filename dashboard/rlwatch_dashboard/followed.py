"""Runs that pages look at again and again: of each file only what is new is read, and what did not change costs a stat.

All of it is a cache. Nothing of a page is in it, it is bounded, and a server that begins anew fills it again.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlwatch.runs.reader import (
    ALERTS_FILE,
    Chunk,
    RunSummary,
    latest_alerts,
    read_alerts,
    read_info,
    run_state,
)
from rlwatch.runs.records import Alert, StepRecord
from rlwatch_dashboard.column_store import ColumnStore, Reading
from rlwatch_dashboard.columns import Columns

MOST_BYTES = 512 << 20
"""The memory that the columns of all runs may take; the run that was asked for last stays whatever it takes."""

MOST_RUNS = 256

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True)
class Now:
    """A run as of now.

    Args:
        summary: As `rlwatch.runs.reader.read_summary` has it.
        facts: A fingerprint of its run.json.
        reading: Its metrics.
        alerts: Its alerts' changes, whole.
    """

    summary: RunSummary
    facts: str
    reading: Reading
    alerts: Chunk[Alert]

    @property
    def columns(self) -> Columns:
        """What stands of its metrics."""
        return self.reading.columns


class Followed:
    """One run."""

    def __init__(self, run: Path) -> None:
        self.path = run
        self.store = ColumnStore(run)
        self._lock = threading.Lock()
        self._info: tuple[Stamp, dict[str, Any], str] = (None, {}, "")
        self._alerts: tuple[Stamp, Chunk[Alert], list[Alert]] = (None, Chunk([], 0), [])
        self._last: tuple[Columns | None, StepRecord | None] = (None, None)

    def look(self) -> Now:
        """The run as of now.

        Raises:
            ValueError: It is no run; the message says why.
        """
        reading = self.store.read()
        with self._lock:
            info, facts = self._read_info()
            alerts, latest = self._read_alerts()
            last = self._newest(reading.columns)
        state = run_state(info, last, time.time())
        return Now(RunSummary(self.path, info, state, last, latest, alerts.skipped), facts, reading, alerts)

    def _read_info(self) -> tuple[dict[str, Any], str]:
        stamp = _stamp(self.path / "run.json")
        if stamp is None or stamp != self._info[0]:
            info = read_info(self.path)
            self._info = (stamp, info, fingerprint(info))
        return self._info[1:]

    def _read_alerts(self) -> tuple[Chunk[Alert], list[Alert]]:
        stamp = _stamp(self.path / ALERTS_FILE)
        if stamp != self._alerts[0] or stamp is None:
            alerts = read_alerts(self.path)
            self._alerts = (stamp, alerts, latest_alerts(alerts.items))
        return self._alerts[1:]

    def _newest(self, columns: Columns) -> StepRecord | None:
        if columns is not self._last[0]:
            self._last = (columns, columns.record(len(columns.steps) - 1) if len(columns.steps) else None)
        return self._last[1]


class Cache:
    """The runs that were looked at last. Any number of threads may ask it."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_runs: int = MOST_RUNS) -> None:
        self._most_bytes, self._most_runs = most_bytes, most_runs
        self._lock = threading.Lock()
        self._runs: OrderedDict[Path, Followed] = OrderedDict()

    def look(self, run: Path) -> Now:
        """A run as of now.

        Raises:
            ValueError: It is no run; the message says why.
        """
        with self._lock:
            followed = self._runs.pop(run, None) or Followed(run)
            self._runs[run] = followed
        try:
            return followed.look()
        except ValueError:
            with self._lock:
                self._runs.pop(run, None)
            raise
        finally:
            self._forget()

    @property
    def nbytes(self) -> int:
        """The memory that the columns take."""
        with self._lock:
            return sum(followed.store.nbytes for followed in self._runs.values())

    def _forget(self) -> None:
        with self._lock:
            sizes = [followed.store.nbytes for followed in self._runs.values()]
            while len(sizes) > 1 and (sum(sizes) > self._most_bytes or len(sizes) > self._most_runs):
                self._runs.popitem(last=False)
                del sizes[0]


_CACHE = Cache()


def look(run: Path) -> Now:
    """A run as of now.

    Raises:
        ValueError: It is no run; the message says why.
    """
    return _CACHE.look(run)


def fingerprint(info: Any) -> str:
    """What changes when run.json does."""
    return f"{zlib.crc32(json.dumps(info, sort_keys=True, default=str).encode()):08x}"


def _stamp(path: Path) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
