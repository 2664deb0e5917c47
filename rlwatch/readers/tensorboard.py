"""TensorBoard's event files, `events.out.tfevents.*`, read without TensorBoard.

An event names one step and the values of one tag, or of several: the events of one step are one row here. The folder
of a run holds several files where the run was resumed; they are read one after the other.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

from rlwatch.readers.events import HYPERPARAMETERS, Event, Events, tags
from rlwatch.readers.loading import Options
from rlwatch.readers.rows import Log, Row
from rlwatch.readers.settings import simple_settings
from rlwatch.readers.source import Source, UnreadableError
from rlwatch.readers.tfrecord import begins_a_file, records, whole
from rlwatch.readers.tracker import tracker_log
from rlwatch.readers.wire import WireError

_NAME = re.compile(r".*\.tfevents\.(\d+)?.*")
_WALL_TIME = b"\x09"
_TOTALS = re.compile(r"train/(train_.*|total_flos)")
_RUNTIME = "train/train_runtime"
_ARGUMENTS = "args/text_summary"


def sniff(source: Source) -> bool:
    """Whether it begins with a record, and that with a time."""
    return begins_a_file(source.head) and source.head[12:13] == _WALL_TIME


def read(source: Source, options: Options) -> list[Log]:
    """What is in one file."""
    found = _Found()
    found.file(source, found.notes)
    folder = "" if source.name == "stdin" else source.path.resolve().parent.name
    return [found.log(folder or None)]


def sniff_directory(path: Path) -> bool:
    """Whether event files lie in it, and nothing else but folders that a writer made for parts of the same run."""
    try:
        files, others = _parts(path)
        return bool(files) and all(other.is_dir() and _is_a_part(other) for other in others)
    except OSError:
        return False


def read_directory(path: Path, options: Options) -> list[Log]:
    """The run whose files these are."""
    found = _Found()
    try:
        files, others = _parts(path)
    except OSError as error:
        raise UnreadableError(f"it cannot be listed: {error.strerror}") from None
    for file in files:
        notes: list[str] = []
        try:
            source = Source(file)
            if sniff(source):
                found.file(source, notes)
            else:
                notes.append("it is no event file")
        except UnreadableError as error:
            notes.append(str(error))
        found.notes += [f"{file.name}: {note}" for note in notes]
    if others:
        names = ", ".join(other.name for other in others[:5]) + ", ..." * (len(others) > 5)
        found.notes.append(f"what is in {names} is left out: charts of several lines, or hyperparameters")
    return [found.log(path.resolve().name)]


def _parts(path: Path) -> tuple[list[Path], list[Path]]:
    """A folder's event files by their time, and what else is in it."""
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    files = [entry for entry in entries if _NAME.fullmatch(entry.name) and entry.is_file()]
    return sorted(files, key=_time), [entry for entry in entries if entry not in files]


def _time(path: Path) -> tuple[int, str]:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match and match[1] else 0, path.name


def _is_a_part(path: Path) -> bool:
    """Whether it is of `add_scalars`, which makes a folder for each line of one chart, or of `add_hparams`."""
    files, others = _parts(path)
    if not files or others:
        return False
    try:
        head = Source(files[0]).head
        seen = {tag for record in whole(head)[0] for tag in tags(record)} if begins_a_file(head) else {"", "none"}
    except (UnreadableError, WireError):
        return False
    return len(seen) <= 1 or any(tag.startswith(HYPERPARAMETERS) for tag in seen)


class _Found:
    """The rows of one run, by their steps; where it went back, those from there on follow."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._rows: list[Row] = []
        self._open: dict[int, Row] = {}
        self._last: dict[str, int] = {}  # the last step of each tag
        self._without_steps: list[Row] = []
        self._config: dict[str, Any] = {}

    def file(self, source: Source, notes: list[str]) -> None:
        """What one more file says."""
        events = Events()
        with source.open() as file:
            try:
                for record in records(file, notes):
                    simple = events.simple(record)
                    if simple is not None:
                        self._put(*simple)
                    else:
                        self._add(events.decode(record))
            except WireError as error:
                notes.append(f"it is not read to its end: a record that is no event ({error})")

    def log(self, name: str | None) -> Log:
        """All of it."""
        self._close()
        if not self._rows:
            raise UnreadableError("; ".join(["it holds no scalars", *self.notes]))
        if len(self._without_steps) > 1 and all(row.step == 0 for row in self._rows):
            self._rows = self._without_steps
        info = {"config": self._config} if self._config else {}
        return tracker_log(self._rows, format="tensorboard", name=name, info=info, notes=self.notes)

    def _add(self, event: Event) -> None:
        if event.restarts and event.step > 0:
            void = [step for step in self._open if step >= event.step]
            if void:
                self.notes.append(f"the run starts again at step {event.step}: what it said of later ones is left out")
            for step in void:
                del self._open[step]
            self._last = {tag: min(last, event.step - 1) for tag, last in self._last.items()}
        for tag, value in event.scalars.items():
            self._put(tag, event.step, event.time, value)
        if _ARGUMENTS in event.texts:
            with contextlib.suppress(ValueError, RecursionError):
                self._config = simple_settings(json.loads(event.texts[_ARGUMENTS]))

    def _put(self, tag: str, step: int, time: float, value: float) -> None:
        if step < self._last.get(tag, step):
            self._close()
        self._last[tag] = step
        row = self._open.get(step)
        if row is None:
            row = self._open[step] = Row({}, step)
        _set(row, tag, value, time)
        if step == 0:
            if not self._without_steps or tag in self._without_steps[-1].values:
                self._without_steps.append(Row({}))
            _set(self._without_steps[-1], tag, value, time)

    def _close(self) -> None:
        for _, row in sorted(self._open.items()):
            self._rows.append(row)
            if _RUNTIME in row.values:  # logged for the last step, about all of them: a row of its own in other logs
                totals = {tag: value for tag, value in row.values.items() if _TOTALS.fullmatch(tag)}
                row.values = {tag: value for tag, value in row.values.items() if tag not in totals}
                self._rows.append(Row(totals, row.step, row.time))
        self._open.clear()
        self._last.clear()


def _set(row: Row, tag: str, value: float, time: float) -> None:
    row.values[tag] = value  # type: ignore[index]
    if time == time:
        row.time = time
