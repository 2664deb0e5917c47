"""Writes a run directory: the only truth about a run that rlwatch keeps.

    runs/<run>/run.json                 identity and config, written by replace
    runs/<run>/metrics.rank0.jsonl      {"step":12,"time":1764500000.1,"metrics":{"entropy/mean":1.93,"loss":"NaN"}}
    runs/<run>/alerts.jsonl             a line a change of an alert's state
    runs/<run>/rollouts/step-000012.parquet

A training that resumes from a checkpoint goes on in the directory that it began. Both files then get the line
{"resume":12,"time":1764500099.1}: what they say about steps after the 12th is taken back.

Each line is one `os.write` to a file opened with O_APPEND, so that a reader never sees two lines mixed, and a kill
loses at most the line in flight. Nothing is locked: it works on network file systems, and any number may read.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlwatch.runs.jsonl import encode
from rlwatch.runs.records import Alert, StepRecord

if TYPE_CHECKING:
    import polars as pl

SCHEMA = 1
"""The version of the run directory's layout, in every run.json."""

MARKER = "resume"
"""The key of a line that takes back what was written about later steps than its value."""


def create_run_directory(root: str | os.PathLike[str], name: str) -> Path:
    """A new, empty directory for a run: `root/name`, with -2, -3, ... behind it where that is taken.

    Characters that a file system or a URL could trip over become dashes.

    Raises:
        OSError: The directory cannot be made.
    """
    safe = re.sub(r"[^\w.+=-]+", "-", name).strip("-.") or datetime.now().strftime("run-%Y%m%d-%H%M%S")
    Path(root).mkdir(parents=True, exist_ok=True)
    for attempt in range(1, 10_000):
        path = Path(root) / (safe if attempt == 1 else f"{safe}-{attempt}")
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path
    raise FileExistsError(f"{Path(root) / safe} and 9,998 directories numbered after it are taken: choose another name")


class RunWriter:
    """Appends to one run directory. One instance a run and process; call it from one thread.

    Args:
        path: The run directory; it exists.
        info: What run.json says at first; see [`update_info`][rlwatch.runs.writer.RunWriter.update_info]. Where the run
            goes on, this holds what its run.json said before.
        rank: The rank whose metrics this process writes.
        back_to: The run goes on from this step, and later ones are taken back; None where it begins.
        on_fault: Called with the exception when a shard of rollouts could not be written, from the writing thread.
    """

    def __init__(
        self,
        path: Path,
        info: Mapping[str, Any],
        *,
        rank: int = 0,
        back_to: int | None = None,
        on_fault: Callable[[Exception], None] | None = None,
    ) -> None:
        self.path = path
        made = {"schema": SCHEMA, "name": path.name, "id": secrets.token_hex(8), "created": time.time()}
        self._info: dict[str, Any] = {**made, **info}
        if back_to is None:
            self._write_info()
        self._metrics = LineFile(path / f"metrics.rank{rank}.jsonl")
        self._alerts = LineFile(path / "alerts.jsonl")
        self._shards = _ShardThread(path / "rollouts", on_fault)
        if back_to is not None:
            marker = encode({MARKER: back_to, "time": time.time()})
            self._alerts.write(marker)
            self._metrics.write(marker)
            self._write_info()  # last: whoever reads that the run was resumed finds the markers

    @property
    def info(self) -> Mapping[str, Any]:
        """What run.json says."""
        return self._info

    @property
    def id(self) -> str:
        """What tells this run from every other, also from a later one of the same name."""
        return str(self._info["id"])

    def append(self, record: StepRecord) -> None:
        """Write a step.

        Raises:
            OSError: The disk is full or the directory is gone or read-only.
        """
        self._metrics.write(encode({"step": record.step, "time": record.time, "metrics": record.metrics}))

    def alert(self, alert: Alert) -> None:
        """Write a change of an alert's state. Raises as [`append`][rlwatch.runs.writer.RunWriter.append] does."""
        self._alerts.write(encode(alert.to_dict()))

    def rollouts(self, step: int, make_table: Callable[[], pl.DataFrame]) -> bool:
        """Hand a generation's rollouts to the writing thread; returns at once.

        Args:
            step: The first optimizer step that trains on them.
            make_table: Makes the table; it is called on the writing thread.

        Returns:
            False if the disk is so slow that the queue was full and the oldest waiting shard was dropped for this one.
        """
        return self._shards.put(step, make_table)

    def set_aside(self, step: int) -> None:
        """Move the shards of steps after this one to rollouts/abandoned: the steps are done again, or not at all.

        What a process left half-written when it was killed is removed.

        Raises:
            OSError: They cannot be moved.
        """
        shards = self.path / "rollouts"
        for torn in shards.glob(".step-*.parquet.*"):
            torn.unlink(missing_ok=True)
        for shard in [shard for shard in shards.glob("step-*.parquet") if _step_of(shard) > step]:
            (shards / "abandoned").mkdir(exist_ok=True)
            os.replace(shard, shards / "abandoned" / shard.name)

    def update_info(self, **changes: Any) -> None:
        """Change keys of run.json and replace the file. Raises as [`append`][rlwatch.runs.writer.RunWriter.append].

        Where the run has been resumed by another writer since, the file is that one's, and is left alone: a process
        that is slow to die must not say that the run has ended.
        """
        self._info.update(changes)
        if not self._taken_over():
            self._write_info()

    def finish_rollouts(self) -> None:
        """Wait until every shard is on disk."""
        self._shards.close()

    def close(self, **changes: Any) -> None:
        """Wait until every shard is on disk, close the files, and note the end and what else changes in run.json."""
        self._shards.close()
        self._metrics.close()
        self._alerts.close()
        self.update_info(**changes, ended=time.time())

    def _taken_over(self) -> bool:
        try:
            now = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
            return bool(now["resumed"] != self._info.get("resumed"))
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _write_info(self) -> None:
        temporary = self.path / f".run.json.{os.getpid()}.{threading.get_ident()}"
        temporary.write_text(encode(self._info) + "\n", encoding="utf-8")
        os.replace(temporary, self.path / "run.json")


def _step_of(shard: Path) -> int:
    """The step in a shard's name; -1 where a file has another name."""
    digits = shard.stem.removeprefix("step-")
    return int(digits) if digits.isdecimal() else -1


class LineFile:
    """A file of lines that is only ever appended to, a line a write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._torn = _is_torn(path)

    def write(self, line: str) -> None:
        """Append a line.

        Raises:
            OSError: The disk is full, or the file was deleted.
            ValueError: It is closed.
        """
        if self._fd is None:
            raise ValueError(f"{self._path} is closed")
        if os.fstat(self._fd).st_nlink == 0:  # else it would be written to nowhere, without an error
            raise FileNotFoundError(f"{self._path} was deleted while the run was being written")
        # A line that a killed process left torn is ended with the next one, which so stands alone.
        data = (("\n" if self._torn else "") + line + "\n").encode()
        self._torn = False
        written = os.write(self._fd, data)
        if written != len(data):  # the disk is full: end the torn line, so that the next one stands alone
            with contextlib.suppress(OSError):
                os.write(self._fd, b"\n")
            raise OSError(f"only {written} of {len(data)} bytes of a line fitted into {self._path}")

    def close(self) -> None:
        """Close the file; once more does no harm."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _is_torn(path: Path) -> bool:
    """Whether a file ends in the middle of a line."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) not in (b"", b"\n")


class _ShardThread:
    """Writes parquet shards one after the other, off the training thread; keeps a few waiting, never more."""

    CAPACITY = 8
    PATIENCE = 30.0  # seconds

    def __init__(self, directory: Path, on_fault: Callable[[Exception], None] | None) -> None:
        self._directory = directory
        self._on_fault = on_fault
        self._queue: queue.Queue[tuple[int, Callable[[], pl.DataFrame]] | None] = queue.Queue(self.CAPACITY)
        self._thread: threading.Thread | None = None

    def put(self, step: int, make_table: Callable[[], pl.DataFrame]) -> bool:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rlwatch-rollouts", daemon=True)
            self._thread.start()
        kept_all = True
        while True:
            try:
                self._queue.put_nowait((step, make_table))
                return kept_all
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._queue.get_nowait()
                    kept_all = False

    def close(self) -> None:
        """Wait for what is queued, but never longer than a dead disk may hold up the end of a training."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._queue.put(None, timeout=self.PATIENCE)
            self._thread.join(self.PATIENCE)
            self._thread = None

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                self._write(*item)
            except Exception as fault:
                if self._on_fault is not None:
                    self._on_fault(fault)

    def _write(self, step: int, make_table: Callable[[], pl.DataFrame]) -> None:
        self._directory.mkdir(exist_ok=True)
        temporary = self._directory / f".step-{step:06d}.parquet.{os.getpid()}"
        try:
            make_table().write_parquet(temporary)
            os.replace(temporary, self._directory / f"step-{step:06d}.parquet")
        finally:
            temporary.unlink(missing_ok=True)
