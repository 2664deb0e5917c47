"""`rlwatch.show`: a run's charts in the output of a notebook's cell."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from rlwatch.readers import UnreadableError
from rlwatch.report.analysis import analyze_run, load_run
from rlwatch.runs.reader import RunSummary, latest_alerts, run_state
from rlwatch.runs.records import Alert, Run

RUNS = Path("runs")
"""Where a run is looked for by its name."""

HEIGHT = 900
"""Pixels, where the frame cannot be fitted to what is in it."""


class Shown:
    """A run to be looked at: what a notebook shows of it is made when this is made, and stays as it is.

    Args:
        name: The run's name.
        document: A whole HTML document.
    """

    def __init__(self, name: str, document: str) -> None:
        self.name = name
        self.document = document

    def __repr__(self) -> str:
        return f"<rlwatch.show({self.name!r}): a notebook shows its charts>"

    def _repr_html_(self) -> str:
        """A frame of its own: the notebook's styles and the document's stay apart."""
        return (
            f'<iframe title="{escape(f"rlwatch: {self.name}", quote=True)}" '
            f'srcdoc="{escape(self.document, quote=True)}" '
            f'style="width:100%;height:{HEIGHT}px;border:0;background:transparent" allowtransparency></iframe>'
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}


def show(run: Any, *, theme: str = "auto") -> Shown:
    """A run's charts, the four signals first, with its alerts on them; the last thing in a cell shows itself.

        import rlwatch

        rlwatch.show("grpo-1130")            # a run in ./runs, or the path of any log
        rlwatch.show(callback)               # the run that a callback or a Monitor watches, as of now

    It is offline and bounded: some 2 MB, whatever the run's length.

    Args:
        run: The path of a run or of any log that `rlwatch.load` reads; the name of a run in `./runs`; what
            `rlwatch.load` gave; or an `RLWatchCallback` or a `Monitor`.
        theme: `light`, `dark`, or `auto`: what the notebook has.

    Raises:
        ImportError: The extra `dashboard` is not installed.
        UnreadableError: There is no such run, or it cannot be read.
        ValueError: The callback or Monitor has no run yet, or there is no such theme.
        TypeError: It is none of these.
    """
    try:
        from rlwatch_dashboard import notebook
    except ImportError as error:
        raise ImportError(
            'rlwatch.show needs the extra "dashboard": pip install "rlwatch-monitor[dashboard]"'
        ) from error
    if theme not in notebook.THEMES:
        raise ValueError(f"theme= takes one of {', '.join(notebook.THEMES)}, not {theme!r}")
    found = _run_of(run)
    changes = _changes(found)
    return Shown(found.name, notebook.document(found.name, _summary(found, changes), found.records, changes, theme))


def _run_of(run: Any) -> Run:
    if isinstance(run, Run):
        return run
    if hasattr(run, "run_dir"):
        if run.run_dir is None:
            raise ValueError(f"this {type(run).__name__} has no run yet: one begins with the training")
        return load_run(run.run_dir)
    if not isinstance(run, (str, os.PathLike)):
        raise TypeError(f"show() takes a path, a name, a run, a callback or a Monitor, not {type(run).__name__}")
    path = Path(run)
    if not path.exists() and (RUNS / path).is_dir():
        path = RUNS / path
    if not path.exists():
        there = sorted(one.name for one in RUNS.iterdir() if (one / "run.json").is_file()) if RUNS.is_dir() else []
        known = f"; in ./{RUNS} there are: {', '.join(there[:10])}" if there else ""
        raise UnreadableError(f"there is no {str(run)!r}, neither as a path nor as a run in ./{RUNS}{known}")
    return load_run(path)


def _changes(run: Run) -> Sequence[Alert]:
    """What was told when it ran; of a log that nobody watched, what would have been."""
    return run.alerts if run.format == "rlwatch" else analyze_run(run).changes


def _summary(run: Run, changes: Sequence[Alert]) -> RunSummary:
    last = run.records[-1] if run.records else None
    state = run_state(dict(run.info), last, time.time()) if run.format == "rlwatch" else "ended"
    return RunSummary(Path(run.path), dict(run.info), state, last, latest_alerts(changes))
