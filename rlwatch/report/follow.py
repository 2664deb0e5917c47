"""Follows a growing log of another framework: judged live, and if wanted kept as a run directory for the page.

The log is read again from its start whenever it has grown, for that is right for every format, and a log of 100,000
rows takes about two seconds; the larger it is, the longer the wait in between. Only records that are new are judged.

All alerts are printed. Those about rows that came after following had begun are sent as well: whoever starts to follow
an old log, or starts again, is not sent what is past.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlwatch.alerts.outbox import Outbox
from rlwatch.detect.config import config_of
from rlwatch.detect.engine import Engine
from rlwatch.readers import Options, UnreadableError, load
from rlwatch.runs.records import Alert, Run, StepRecord
from rlwatch.runs.writer import RunWriter, create_run_directory
from rlwatch.settings import NONE, Settings

POLL = 1.0  # seconds between two looks at the file
PATIENCE = 20.0  # times as long as reading took, before it is read again


class Follower:
    """Judges what a log says as it grows.

    The last training in the file is followed. A row that may still be in flight, the last one, is judged when the next
    one has come; [`finish`][rlwatch.report.follow.Follower.finish] takes it in.

    Args:
        path: The log.
        options: What a person says about it.
        into: A folder of runs, to keep it in one; None keeps nothing.
        tell: Called with each change of an alert's state.
        open_outbox: Opens the outbox of a run, in the folder that it is given if there is one; None sends nothing.
        settings: What a user has set.

    Attributes:
        run_dir: The run directory, once there is one.
    """

    def __init__(
        self,
        path: str | Path,
        options: Options,
        *,
        into: Path | None,
        tell: Callable[[Alert], None],
        open_outbox: Callable[[Path | None], Outbox] | None = None,
        settings: Settings = NONE,
    ) -> None:
        self.run_dir: Path | None = None
        self._path = Path(path)
        self._options = options
        self._into = into
        self._tell = tell
        self._open_outbox = open_outbox
        self._settings = settings
        self._outbox: Outbox | None = None
        self._engine: Engine | None = None
        self._writer: RunWriter | None = None
        self._name = ""
        self._done: list[tuple[int, int]] = []  # step and number of metrics of each record that was judged
        self._fingerprints: list[int] = []  # of the same records
        self._size = -1
        self._past: int | None = None  # rows about which nothing is sent; None before the first look
        self._sent: set[tuple[Any, ...]] = set()  # what was sent about this training
        self._is_live = False  # a row has come since following began

    def look(self) -> int:
        """Read what there is if the file has changed; how many records were judged.

        Raises:
            UnreadableError: It cannot be read, or not yet.
        """
        try:
            size = self._path.stat().st_size
        except OSError as error:
            raise UnreadableError(f"it cannot be read: {error.strerror}") from None
        if size == self._size:
            self._tick()
            return 0
        self._size = size
        if size == 0:
            self._past = 0
        run = load(self._path, self._options)[-1]
        return self._take(run, run.records[:-1])

    def finish(self) -> int:
        """Nothing more will come: judge the last row too, send what waits, and close the run directory."""
        judged = 0
        try:
            run = load(self._path, self._options)[-1]
            judged = self._take(run, run.records)
        except UnreadableError:
            pass
        self._close()
        return judged

    def _take(self, run: Run, records: Any) -> int:
        if self._past is None:
            self._past = len(run.records)  # the last one as well: it was there before
        seen = len(self._done)
        known = [(record.step, len(record.metrics)) for record in records[:seen]]
        if self._engine is None or run.name != self._name:
            if self._engine is not None:  # another training has begun in the file
                self._past, self._sent = 0, set()
            self._begin(run)
            seen = 0
        elif known != self._done:  # it was resumed, or its rows were written anew: what was judged is judged again
            self._past = seen
            if len(records) < seen:  # resumed: it goes on where the values differ
                pairs = zip(map(_fingerprint, records), self._fingerprints, strict=False)
                self._past = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            self._begin(run)
            seen = 0
        assert self._engine is not None
        fresh = records[seen:]
        for record in fresh:
            self._judge(self._engine, record)
        return len(fresh)

    def _begin(self, run: Run) -> None:
        self._close()
        self._name, self._done, self._fingerprints = run.name, [], []
        name = run.name.replace("#", "-")
        if self._into is not None:
            self.run_dir = create_run_directory(self._into, name)
            name = self.run_dir.name
            self._writer = RunWriter(self.run_dir, {**_info(run), **_of_settings(self._settings)})
        if self._open_outbox is not None:
            self._outbox = self._open_outbox(self.run_dir / "outbox" if self.run_dir is not None else None)
        self._engine = Engine(self._settings.rules(config_of(run.info)), run=name)

    def _close(self) -> None:
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _judge(self, engine: Engine, record: StepRecord) -> None:
        past = self._past is not None and len(self._done) < self._past
        self._done.append((record.step, len(record.metrics)))
        self._fingerprints.append(_fingerprint(record))
        now, seen = time.time(), record
        if record.time != record.time:  # the log has no times: that of reading it is the next best
            seen = replace(record, time=now)
        if self._writer is not None:
            self._writer.append(seen)
        for change in engine.feed(record if past else seen):  # rows read at once did not come at once
            self._told(change if change.time == change.time else replace(change, time=now), past)
        self._is_live = self._is_live or not past

    def _tick(self) -> None:
        """No row has come. A log that was complete when following began is none that has stalled."""
        if self._engine is not None and self._is_live:
            for change in self._engine.tick(time.time()):
                self._told(change, past=False)

    def _told(self, change: Alert, past: bool) -> None:
        if not past:
            self._send(change)
        if self._writer is not None:
            self._writer.alert(change)
        self._tell(change)

    def _send(self, change: Alert) -> None:
        key = (change.rule, change.state, change.severity, change.since)
        if self._outbox is None or key in self._sent:
            return
        self._sent.add(key)
        with contextlib.suppress(OverflowError):  # as many wait as may
            self._outbox.put(change)


def follow(follower: Follower, *, until: Callable[[], bool] = lambda: False) -> Iterator[int]:
    """Look again and again; gives the number of records that were judged each time there were new ones.

    Args:
        follower: What looks.
        until: Asked between two looks: whether to stop.

    Raises:
        UnreadableError: At the first look, if the file is not there.
    """
    if not follower._path.exists():
        raise UnreadableError("there is no such file")
    while True:
        began = time.monotonic()
        try:
            judged = follower.look()
        except UnreadableError:  # nothing in it yet
            judged = 0
        took = time.monotonic() - began
        if judged:
            yield judged
        if until():
            return
        time.sleep(max(POLL, PATIENCE * took))


def _of_settings(settings: Settings) -> dict[str, Any]:
    said = settings.to_dict()
    return {"settings": said} if said else {}


def _fingerprint(record: StepRecord) -> int:
    return hash((record.step, str(tuple(record.metrics.values()))))


def _config(run: Run) -> Mapping[str, Any]:
    config = run.info.get("config")
    return config if isinstance(config, dict) else {}


def _info(run: Run) -> dict[str, Any]:
    versions = run.info.get("framework")
    return {
        "trainer": f"followed from {run.format}",
        "framework": versions if isinstance(versions, dict) else {run.framework or "unknown": "unknown"},
        "config": dict(_config(run)),
        "source": run.path,
    }
