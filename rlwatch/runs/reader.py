"""Reads run directories, also while they are written, and says what it had to skip.

A reader keeps a *cursor* (a byte offset) and asks for what came after it. A last line without its newline is still in
flight: it is left for the next time. Reading from a cursor costs what is new, not what is there.

A training that resumes from a checkpoint does steps again. The files say so by a *marker*, a line that takes back what
came after the checkpoint's step: whoever reads never sees what was taken back. A step that is there twice without a
marker takes back the first one and what came after it: each step is read once, as it was done last, and in order.
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from rlwatch.runs.jsonl import decode, restore_floats
from rlwatch.runs.records import Alert, AlertState, StepRecord
from rlwatch.runs.writer import MARKER, SCHEMA

T = TypeVar("T", StepRecord, Alert)

METRICS_FILE = "metrics.rank0.jsonl"
ALERTS_FILE = "alerts.jsonl"

_UNSOUND = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
"""What a line that rlwatch did not write can raise."""


@dataclass(frozen=True)
class Skipped:
    """Something that could not be read, and why, in words for a person."""

    path: Path
    why: str


@dataclass(frozen=True)
class Chunk(Generic[T]):
    """What a file holds after a cursor.

    Args:
        items: What was read, in file order.
        cursor: Where to go on reading.
        skipped: Whole lines that were not what they should be.
        restarted: What was read before the cursor holds no longer, and this chunk begins at the file's start: the file
            is shorter than the cursor, so it is another one, or the training went back to before what was read.
    """

    items: list[T]
    cursor: int
    skipped: list[Skipped] = field(default_factory=list)
    restarted: bool = False


@dataclass(frozen=True)
class RunSummary:
    """One line about a run, read in a time that does not grow with the run.

    Args:
        path: The run directory.
        info: Its run.json.
        state: `live` (a step came within the expected time), `stalled` (none did), `ended`, or `empty` (no step yet).
        last: The newest step, or None.
        alerts: The newest state of each alert, oldest first.
        skipped: What could not be read in it.
    """

    path: Path
    info: dict[str, Any]
    state: str
    last: StepRecord | None
    alerts: list[Alert]
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The run's name: that of its directory, which is unique under its root."""
        return self.path.name

    @property
    def created(self) -> float:
        """Unix seconds at which the run began; 0 where its run.json does not say."""
        value = self.info.get("created")
        return float(value) if isinstance(value, (int, float)) else 0.0

    @property
    def open_alerts(self) -> list[Alert]:
        """Alerts that are firing now, the most severe first."""
        firing = [alert for alert in self.alerts if alert.state is AlertState.FIRING]
        return sorted(firing, key=lambda alert: -alert.severity.rank)


def read_info(run: Path) -> dict[str, Any]:
    """A run's run.json.

    Raises:
        ValueError: It is missing, unreadable, not a JSON object, or of a later layout; the message says which.
    """
    path = run / "run.json"
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError("it holds no run.json, so it is no run of rlwatch") from None
    except OSError as error:
        raise ValueError(f"its run.json cannot be read: {error.strerror}") from None
    except ValueError:
        raise ValueError("its run.json is not JSON") from None
    if not isinstance(info, dict):
        raise ValueError("its run.json is not a JSON object")
    if info.get("schema") != SCHEMA:
        raise ValueError(f"its layout has the version {info.get('schema')!r}; this rlwatch reads version {SCHEMA}")
    return info


def read_records(run: Path, cursor: int = 0) -> Chunk[StepRecord]:
    """The steps after a cursor: each once, in order, as it was done last."""
    return _read_lines(run / METRICS_FILE, cursor, _record)


def stream_records(run: Path) -> Iterator[StepRecord]:
    """What [`read_records`][rlwatch.runs.reader.read_records] reads from the start, one at a time.

    The memory that it takes does not grow with the run. For that the file is gone through twice: first for the places
    at which the training went back, then for the steps that no later place takes back.

    Raises:
        OSError: The file cannot be read.
    """
    path = run / METRICS_FILE
    went_back: list[tuple[int, float]] = []  # at which line, and to which step
    newest, lines = -1, 0
    for number, line in enumerate(_whole_lines(path)):
        lines = number + 1
        parsed = _parse_soundly(line, _record)
        if parsed is None:
            continue
        back_to = _goes_back_to(parsed)
        if back_to < newest:
            went_back.append((number, back_to))
        newest = parsed.step if isinstance(parsed, StepRecord) else min(newest, parsed.step)
    # From a line on, a step stays if it is not after the earliest step that the training goes back to later.
    limits: list[tuple[float, float]] = [(math.inf, math.inf)]
    for number, back_to in reversed(went_back):
        limits.append((number, min(back_to, limits[-1][1])))
    for number, line in enumerate(_whole_lines(path)):
        if number == lines:
            return
        while number >= limits[-1][0]:
            limits.pop()
        parsed = _parse_soundly(line, _record)
        if isinstance(parsed, StepRecord) and parsed.step <= limits[-1][1]:
            yield parsed


def read_alerts(run: Path, cursor: int = 0) -> Chunk[Alert]:
    """The changes of alerts' states after a cursor, without those that a resumed training took back."""
    return _read_lines(run / ALERTS_FILE, cursor, alert_of)


def latest_alerts(changes: Sequence[Alert]) -> list[Alert]:
    """The newest state of each alert. An alert is known by its rule and the step at which it began."""
    newest: dict[tuple[str, int], Alert] = {}
    for change in changes:
        newest[change.rule, change.since] = change
    return list(newest.values())


def newest_step(run: Path) -> int | None:
    """A run's newest step, read in a time that does not grow with the run; None where it has none."""
    last = _newest(run / METRICS_FILE, _record)
    return last.step if last is not None else None


def read_summary(run: Path, now: float | None = None) -> RunSummary:
    """One line about a run.

    Raises:
        ValueError: It is not a run; see [`read_info`][rlwatch.runs.reader.read_info].
    """
    info = read_info(run)
    last = _newest(run / METRICS_FILE, _record)
    alerts = read_alerts(run)
    state = run_state(info, last, time.time() if now is None else now)
    return RunSummary(run, info, state, last, latest_alerts(alerts.items), alerts.skipped)


def run_state(info: dict[str, Any], last: StepRecord | None, now: float) -> str:
    """`ended`, `empty`, `live` or `stalled`.

    A run is stalled when no step came for ten times its last step's duration, and for at least two minutes; one that
    was resumed had no step to show before that.
    """
    if "ended" in info:
        return "ended"
    since = last.time if last else info.get("created")
    if not isinstance(since, (int, float)):
        return "empty"
    since = max(since, _resumed_at(info))
    seconds = (last.metrics.get("step_seconds") if last else None) or 0.0
    if now - since > max(120.0, 10 * seconds):
        return "stalled"
    return "live" if last else "empty"


def list_runs(root: Path, now: float | None = None) -> tuple[list[RunSummary], list[Skipped]]:
    """All runs directly under a folder, the newest first, and what else lies there.

    Never raises for what it finds: a missing folder, a foreign file or a broken run is named in the second list.
    """
    try:
        entries = sorted(root.iterdir())
    except FileNotFoundError:
        return [], [Skipped(root, "there is no such folder; a run that rlwatch watches makes it")]
    except OSError as error:
        return [], [Skipped(root, f"it cannot be listed: {error.strerror}")]
    runs: list[RunSummary] = []
    skipped: list[Skipped] = []
    for entry in entries:
        if entry.name.startswith(".") or entry.name in ("rlwatch.toml", "_reports"):
            continue
        if not entry.is_dir():
            skipped.append(Skipped(entry, "it is a file, not a run directory"))
            continue
        try:
            runs.append(read_summary(entry, now))
        except ValueError as error:
            skipped.append(Skipped(entry, str(error)))
        else:
            skipped.extend(runs[-1].skipped)
    runs.sort(key=lambda run: run.created, reverse=True)
    return runs, skipped


def _record(data: dict[str, Any]) -> StepRecord:
    return StepRecord(int(data["step"]), float(data["time"]), restore_floats(data["metrics"]))


def alert_of(data: dict[str, Any]) -> Alert:
    """An alert from its line, NaN and inf restored.

    Raises:
        KeyError, ValueError, TypeError, AttributeError: It is not what rlwatch writes.
    """
    numbers = restore_floats({name: data[name] for name in ("value", "reference", "time")})
    steps = {name: int(data[name]) for name in ("since", "step")}
    causes = [{**cause, "evidence": restore_floats(cause.get("evidence", {}))} for cause in data.get("causes", ())]
    evidence = restore_floats(data.get("evidence", {}))
    return Alert.from_dict({**data, **numbers, **steps, "evidence": evidence, "causes": causes})


def _resumed_at(info: dict[str, Any]) -> float:
    """Unix seconds at which a run was last resumed; 0 where it was not, or its run.json holds something else there."""
    try:
        return float(info["resumed"][-1]["time"])
    except (*_UNSOUND, IndexError):
        return 0.0


@dataclass(frozen=True)
class _Marker:
    """The training goes on from this step: what is after it in the lines before was taken back."""

    step: int


def _parse(line: bytes, parse: Callable[[dict[str, Any]], T]) -> T | _Marker:
    """A line as what it is.

    Raises:
        Exception: One of `_UNSOUND`; it is not a line that rlwatch writes.
    """
    data = decode(line)
    if MARKER not in data:
        return parse(data)
    step = data[MARKER]
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise ValueError(f"it goes back to {step!r}, which is no step")
    return _Marker(step)


def _parse_soundly(line: bytes, parse: Callable[[dict[str, Any]], T]) -> T | _Marker | None:
    try:
        return _parse(line, parse)
    except _UNSOUND:
        return None


def _goes_back_to(parsed: StepRecord | Alert | _Marker) -> float:
    """The step after which a line takes back everything before it; inf if it takes back nothing.

    A step that is done a second time was gone back to. Of an alert there are several changes, also at one step.
    """
    if isinstance(parsed, _Marker):
        return parsed.step
    return parsed.step - 1 if isinstance(parsed, StepRecord) else math.inf


def _read_lines(path: Path, cursor: int, parse: Callable[[dict[str, Any]], T]) -> Chunk[T]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            restarted = cursor > size
            start = 0 if restarted else cursor
            file.seek(start)
            data = file.read(size - start)
    except FileNotFoundError:
        return Chunk([], 0, restarted=cursor > 0)
    except OSError as error:
        return Chunk([], cursor, [Skipped(path, f"it cannot be read: {error.strerror}")])
    whole = data[: data.rfind(b"\n") + 1]
    known = _newest(path, parse, start) if start and whole else None  # what the reader has
    items: list[T] = []
    skipped: list[Skipped] = []
    offset = start
    for line in io.BytesIO(whole):
        if not line.isspace():
            try:
                parsed = _parse(line, parse)
            except _UNSOUND as error:
                skipped.append(Skipped(path, f"the line at byte {offset} is not what rlwatch writes: {error}"))
            else:
                back_to = _goes_back_to(parsed)
                if known is not None and known.step > back_to:
                    return replace(_read_lines(path, 0, parse), restarted=True)
                while items and items[-1].step > back_to:
                    items.pop()
                if not isinstance(parsed, _Marker):
                    items.append(parsed)
        offset += len(line)
    return Chunk(items, start + len(whole), skipped, restarted)


def _newest(path: Path, parse: Callable[[dict[str, Any]], T], end: int | None = None) -> T | None:
    """The newest item that stands, found from the end of the file, or from a place in it, backwards."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2) if end is None else end
            span = 1 << 14
            while True:
                start = max(0, end - span)
                file.seek(start)
                lines = file.read(end - start).split(b"\n")
                limit = math.inf
                # The first piece may be the tail of a line, the last piece is a line still in flight.
                for line in reversed(lines[(1 if start else 0) : -1]):
                    parsed = _parse_soundly(line, parse)
                    if isinstance(parsed, _Marker):
                        limit = min(limit, parsed.step)
                    elif parsed is not None and parsed.step <= limit:
                        return parsed
                if start == 0 or span > 1 << 24:
                    return None
                span *= 8
    except OSError:
        return None


def _whole_lines(path: Path) -> Iterator[bytes]:
    """A file's lines one by one, without one that is still in flight."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line
