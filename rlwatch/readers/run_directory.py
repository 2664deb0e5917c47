"""rlwatch's own run directory: run.json, metrics.rank0.jsonl, alerts.jsonl. The names in it are ours already."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rlwatch.readers.loading import Options
from rlwatch.readers.source import Source, UnreadableError
from rlwatch.runs.reader import ALERTS_FILE, METRICS_FILE, read_alerts, read_info, read_records
from rlwatch.runs.records import Run

_LINE = re.compile(rb'\s*\{"(step":\d+,"time":[^{}]*,"metrics":\{|resume":\d+,"time":|rule":"[\w-]+","severity":")')
_NAMED = 3


def sniff(source: Source) -> bool:
    """Whether it is one of the files of a run directory: the metrics, the alerts, or run.json."""
    if source.path.name == "run.json":
        return sniff_directory(source.path.parent)
    return _LINE.match(source.head) is not None


def read(source: Source, options: Options) -> list[Run]:
    """The run that the file lies in.

    Raises:
        UnreadableError: It is not where such a file lies.
    """
    folder = source.path.parent
    if source.path.name in ("run.json", METRICS_FILE, ALERTS_FILE) and sniff_directory(folder):
        return read_directory(folder, options)
    if source.path.name == METRICS_FILE:
        return [_run(folder, {}, ["there is no run.json beside it: nothing is known of its configuration"])]
    raise UnreadableError("it is a part of one of rlwatch's run directories: give the directory")


def sniff_directory(path: Path) -> bool:
    """Whether it holds a run.json, and beside it the metrics or at least a run.json that is ours."""
    try:
        if not (path / "run.json").is_file():
            return False
        return (path / METRICS_FILE).is_file() or b'"schema"' in (path / "run.json").read_bytes()[:1000]
    except OSError:
        return False


def read_directory(path: Path, options: Options) -> list[Run]:
    """The run: its steps as they were done last, and what was told when it ran.

    Raises:
        UnreadableError: Its run.json is not one that this rlwatch can read.
    """
    try:
        info = read_info(path)
    except ValueError as error:
        raise UnreadableError(str(error)) from None
    return [_run(path, info, [])]


def _run(path: Path, info: dict[str, Any], notes: list[str]) -> Run:
    records, alerts = read_records(path), read_alerts(path)
    skipped = [f"{each.path.name}: {each.why}" for each in (*records.skipped, *alerts.skipped)]
    notes = notes + skipped[:_NAMED]
    if len(skipped) > _NAMED:
        notes.append(f"{len(skipped) - _NAMED} more lines are not what rlwatch writes")
    if not records.items:
        notes.append("no step is recorded in it")
    versions = info.get("framework")
    of_trl = isinstance(versions, dict) and "trl" in versions and info.get("trainer") != "own loop"
    name = path.resolve().name
    return Run(
        name, str(path), "rlwatch", "trl" if of_trl else None, records.items, info, tuple(notes), tuple(alerts.items)
    )
