"""Follows a growing log of another framework: judged live, and if wanted kept as a run directory for the page.

The log is read again from its start whenever it has grown, for that is right for every format, and a log of 100,000
rows takes about two seconds; the larger it is, the longer the wait in between. Only records that are new are judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlwatch.detect.engine import Engine
from rlwatch.detect.rules import default_rules
from rlwatch.readers import Options, UnreadableError, load
from rlwatch.runs.records import Alert, Run, StepRecord
from rlwatch.runs.writer import RunWriter, create_run_directory

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

    Attributes:
        run_dir: The run directory, once there is one.
    """

    def __init__(self, path: str | Path, options: Options, *, into: Path | None, tell: Callable[[Alert], None]) -> None:
        self.run_dir: Path | None = None
        self._path = Path(path)
        self._options = options
        self._into = into
        self._tell = tell
        self._engine: Engine | None = None
        self._writer: RunWriter | None = None
        self._name = ""
        self._done: list[tuple[int, int]] = []  # step and number of metrics of each record that was judged
        self._size = -1

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
            return 0
        self._size = size
        run = load(self._path, self._options)[-1]
        return self._take(run, run.records[:-1])

    def finish(self) -> int:
        """Nothing more will come: judge the last row too, and close the run directory."""
        judged = 0
        try:
            run = load(self._path, self._options)[-1]
            judged = self._take(run, run.records)
        except UnreadableError:
            pass
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        return judged

    def _take(self, run: Run, records: Any) -> int:
        seen = len(self._done)
        known = [(record.step, len(record.metrics)) for record in records[:seen]]
        if self._engine is None or run.name != self._name or known != self._done[: len(known)]:
            self._begin(run)  # at first, or where another training has begun in the file or this one was resumed
            seen = 0
        assert self._engine is not None
        fresh = records[seen:]
        for record in fresh:
            self._judge(self._engine, record)
        return len(fresh)

    def _begin(self, run: Run) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._name, self._done = run.name, []
        name = run.name.replace("#", "-")
        if self._into is not None:
            self.run_dir = create_run_directory(self._into, name)
            name = self.run_dir.name
            self._writer = RunWriter(self.run_dir, _info(run))
        self._engine = Engine(default_rules(_config(run)), run=name)

    def _judge(self, engine: Engine, record: StepRecord) -> None:
        self._done.append((record.step, len(record.metrics)))
        if record.time != record.time:  # the log has no times: that of reading it is the next best
            record = StepRecord(record.step, time.time(), record.metrics)
        if self._writer is not None:
            self._writer.append(record)
        for change in engine.feed(record):
            if self._writer is not None:
                self._writer.alert(change)
            self._tell(change)


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
