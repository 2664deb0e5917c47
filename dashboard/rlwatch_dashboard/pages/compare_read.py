"""The runs of a comparison, read and judged as `rlwatch compare` does it; what was is kept as long as its files stay.

Reading and judging takes time that grows with the runs, so it is bounded, and one comparison is worked on at a time:
other pages are answered meanwhile.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlwatch.readers import load
from rlwatch.readers.loading import FAULTS, why_not
from rlwatch.report.analysis import Analysis, analyze_run
from rlwatch.runs.reader import METRICS_FILE
from rlwatch.settings import Chooser, SettingsError
from rlwatch.settings.find import find
from rlwatch_dashboard.roots import Roots

MOST_BYTES = 64_000_000
"""Of metrics that are read for one comparison, and kept: some 40,000 steps, 15 seconds of work the first time."""

Stamp = tuple[tuple[str, int, int], ...]


@dataclass
class Read:
    """What was read.

    Args:
        analyses: The runs, in the order in which they were asked for.
        keys: What the site calls each of them.
        unreadable: What the address calls a run → why it is not compared.
        live: Names of those whose training goes on.
    """

    analyses: list[Analysis] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    live: list[str] = field(default_factory=list)


class Cache:
    """Analyses by their run's files, the least recently used dropped where they are too many."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.lock = threading.Lock()
        self._most = most_bytes
        self._known: OrderedDict[Path, tuple[Stamp, int, Analysis]] = OrderedDict()

    def get(self, run: Path, stamp: Stamp) -> Analysis | None:
        """The analysis of a run whose files are still the same."""
        known = self._known.get(run)
        if known is None or known[0] != stamp:
            return None
        self._known.move_to_end(run)
        return known[2]

    def put(self, run: Path, stamp: Stamp, size: int, analysis: Analysis) -> None:
        """Keep one."""
        self._known[run] = (stamp, size, analysis)
        self._known.move_to_end(run)
        while len(self._known) > 1 and sum(size for _, size, _ in self._known.values()) > self._most:
            self._known.popitem(last=False)


def read(roots: Roots, keys: Sequence[str], cache: Cache, most_bytes: int = MOST_BYTES) -> Read:
    """The runs that are called so. What cannot be read, is not there or would take too long is named.

    Args:
        roots: Where the runs are.
        keys: What the site calls them.
        cache: What was read before.
        most_bytes: Of metrics, over all of them; runs that do not fit any more are left out.
    """
    found = Read()
    left = most_bytes
    with cache.lock:
        for key in keys:
            run = roots.find(key)
            if run is None:
                found.unreadable[key] = "there is no such run here"
                continue
            size = _size(run / METRICS_FILE)
            if size > left:
                found.unreadable[key] = (
                    f"{size / 1e6:,.0f} MB of metrics are too many for this page: rlwatch compare reads them"
                )
                continue
            try:
                analysis = _analysis(run, size, cache)
            except (SettingsError, *FAULTS) as error:
                found.unreadable[key] = why_not(error)
                continue
            left -= size
            found.analyses.append(analysis)
            found.keys.append(key)
            if "ended" not in analysis.run.info:
                found.live.append(analysis.run.name)
    return found


def _analysis(run: Path, size: int, cache: Cache) -> Analysis:
    stamp = _stamp(run)
    known = cache.get(run, stamp)
    if known is None:
        (read,) = load(run)  # a run directory is one run
        known = analyze_run(read, settings=Chooser().of(run, read.info))
        cache.put(run, stamp, size, known)
    return known


def _stamp(run: Path) -> Stamp:
    """What changes when the run does, or the settings that it is judged by."""
    settings = find(run)
    paths = [run / "run.json", run / METRICS_FILE, *([settings] if settings is not None else [])]
    stamp = []
    for path in paths:
        try:
            status = path.stat()
            stamp.append((str(path), status.st_size, status.st_mtime_ns))
        except OSError:
            stamp.append((str(path), -1, -1))
    return tuple(stamp)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
