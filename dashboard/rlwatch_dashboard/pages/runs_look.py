"""One look at all runs: what is there now, at the cost of what has changed since the look before.

What is kept between looks can be made again from the folders at any time: each run's row, known by the size and the
time of its files, and its curves as far as they were read. It holds the runs that are there and no others. Each row has
the number of the look that changed it, so that a page, which knows the number of its last look, is sent the newer rows
only.
"""

from __future__ import annotations

import functools
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlwatch.runs.acks import FILE as ANSWERS_FILE
from rlwatch.runs.reader import ALERTS_FILE, METRICS_FILE, RunSummary, Skipped, read_summary, run_state
from rlwatch.runs.records import Alert, StepRecord
from rlwatch_dashboard.alert_answers import said_of
from rlwatch_dashboard.pages.runs_groups import folds, group_row
from rlwatch_dashboard.pages.runs_rows import CURVES, fold_key, fold_name, run_row
from rlwatch_dashboard.roots import Roots
from rlwatch_dashboard.sparklines import Curves

SLICE = 0.2
"""Seconds of a look that go into curves which have yet to be read; what is left waits for the next look."""

Signature = tuple[Any, ...]


@dataclass
class Known:
    """What is known of a run while its files stay as they are."""

    signature: Signature
    row: dict[str, Any]
    small: dict[str, Any]  # of its run.json: what its state hangs on
    last: StepRecord | None
    fold: str | None
    base: str
    curves: Curves
    inode: int | None
    skipped: list[Skipped]
    worst: Alert | None  # that is open
    caught_up: bool = False


@dataclass(frozen=True)
class Look:
    """What a look saw.

    Args:
        number: Of the look in which something changed last.
        membership: Of the look in which the rows that there are changed last.
        rows: All rows by their id, each with the look that changed it.
        skipped: What could not be read.
        runs: How many runs there are.
        pending: Whether curves have yet to be read: the next look should come soon.
    """

    number: int
    membership: int
    rows: dict[str, tuple[int, dict[str, Any]]]
    skipped: list[Skipped] = field(default_factory=list)
    runs: int = 0
    pending: bool = False


class Looks:
    """Looks at the runs under some roots, one at a time. It may be asked from several threads."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self.mark = secrets.token_hex(4)
        """Tells this server from the one before: its numbers mean nothing to another one."""
        self._known: dict[Path, Known] = {}
        self._lock = threading.Lock()
        self._begun = 0
        self._latest = Look(0, 0, {})

    def look(self) -> Look:
        """What is there now. Who waits for a look that began after the question gets that one."""
        asked = self._begun
        with self._lock:
            if self._begun == asked:
                self._begun += 1
                self._latest = self._see()
            return self._latest

    def _see(self) -> Look:
        known: dict[Path, Known] = {}
        skipped: list[Skipped] = []
        now = time.time()
        for run in self._candidates(skipped):
            try:
                known[run] = self._know(run, now)
            except ValueError as error:
                skipped.append(Skipped(run, str(error)))
            else:
                skipped += known[run].skipped
        self._known = known
        pending = self._read_curves()
        return self._number(self._rows(), skipped, pending)

    def _candidates(self, skipped: list[Skipped]) -> Iterator[Path]:
        for folder in self.roots.folders:
            try:
                entries = sorted(folder.iterdir())
            except FileNotFoundError:
                skipped.append(Skipped(folder, "there is no such folder; a run that rlwatch watches makes it"))
                continue
            except OSError as error:
                skipped.append(Skipped(folder, f"it cannot be listed: {error.strerror}"))
                continue
            for entry in entries:
                if entry.name.startswith(".") or entry.name == "rlwatch.toml":
                    continue
                if entry.is_dir():
                    yield entry
                else:
                    skipped.append(Skipped(entry, "it is a file, not a run directory"))

    def _know(self, run: Path, now: float) -> Known:
        signature = tuple(_stat(run / name) for name in ("run.json", METRICS_FILE, ALERTS_FILE, ANSWERS_FILE))
        known = self._known.get(run)
        if known is None or known.signature != signature:
            known = self._read(run, signature, known)
        state = run_state(known.small, known.last, now)
        if state != known.row["state"]:
            known.row = {**known.row, "state": state}
        if known.worst is not None and known.row["answered"]:  # a silence ends by itself, and no file says so
            words = said_of(run, known.last.step if known.last else None).words(known.worst)
            if words != known.row["answered"]:
                known.row = {**known.row, "answered": words}
        return known

    def _read(self, run: Path, signature: Signature, before: Known | None) -> Known:
        summary = read_summary(run)
        root = str(run.parent) if len(self.roots.folders) > 1 else ""
        inode = signature[1][2] if signature[1] else None
        goes_on = before is not None and before.inode == inode
        curves = before.curves if before is not None and goes_on else Curves(run, tuple(CURVES.values()))
        row = run_row(summary, self.roots.key_of(run), root)
        row["lines"] = _lines_of(curves)
        return Known(
            signature=signature,
            row=row,
            small={name: summary.info[name] for name in ("ended", "created", "resumed") if name in summary.info},
            last=_bare(summary),
            fold=fold_key(summary, root),
            base=fold_name(summary),
            curves=curves,
            inode=inode,
            skipped=summary.skipped,
            worst=next(iter(summary.open_alerts), None),
            caught_up=goes_on and before is not None and before.caught_up and before.signature[1] == signature[1],
        )

    def _read_curves(self) -> bool:
        """Read on what curves there are to read, the newest runs first; whether some are left."""
        until = time.monotonic() + SLICE
        waiting = [known for known in self._known.values() if not known.caught_up]
        for known in sorted(waiting, key=lambda known: -(known.row["started"] or 0)):
            while not known.caught_up:
                if time.monotonic() > until:
                    return True
                known.caught_up = known.curves.advance()
            known.row = {**known.row, "lines": _lines_of(known.curves)}
        return False

    def _rows(self) -> dict[str, dict[str, Any]]:
        by_key = {known.row["id"]: known for known in self._known.values()}
        rows = {key: {**known.row, "group": None} for key, known in by_key.items()}
        groups = folds({key: known.fold for key, known in by_key.items()}, rows)
        for group, members in groups.items():
            for key in members:
                rows[key]["group"] = group
            names = list(dict.fromkeys(by_key[key].base for key in members))
            name = names[0] if len(names) == 1 else f"{names[0]} and others"
            ordered = sorted(members, key=lambda key: (rows[key]["seed"] or 0, key))
            rows[group] = group_row(group, name, [rows[key] for key in ordered])
        return rows

    def _number(self, rows: dict[str, dict[str, Any]], skipped: list[Skipped], pending: bool) -> Look:
        before = self._latest
        number = before.number + 1
        numbered = {}
        for key, row in rows.items():
            old = before.rows.get(key)
            numbered[key] = old if old is not None and old[1] == row else (number, row)
        same = numbered.keys() == before.rows.keys()
        changed = not same or any(at == number for at, _ in numbered.values())
        return Look(
            number if changed or before.number == 0 else before.number,
            before.membership if same and before.number else number,
            numbered,
            skipped,
            len(self._known),
            pending,
        )


@functools.lru_cache(maxsize=8)
def looks_of(roots: Roots) -> Looks:
    """The looks at some roots: all pages of this process share them."""
    return Looks(roots)


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _bare(summary: RunSummary) -> StepRecord | None:
    """Of the newest step what a run's state hangs on."""
    last = summary.last
    seconds = last.metrics.get("step_seconds") if last else None
    return None if last is None else StepRecord(last.step, last.time, {"step_seconds": seconds})


def _lines_of(curves: Curves) -> dict[str, list[dict[str, Any]]]:
    found = {column: curves.lines.get(metric) for column, metric in CURVES.items()}
    return {column: [line] for column, line in found.items() if line is not None}
