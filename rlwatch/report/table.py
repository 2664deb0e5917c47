"""The runs under a folder as a table for a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rlwatch.report.words import headline
from rlwatch.runs.reader import RunSummary, Skipped

TONE_STYLES = {"good": "green", "info": "cyan", "warning": "yellow", "critical": "bold red", "unknown": "dim"}


def runs_table(runs: Sequence[RunSummary], skipped: Sequence[Skipped]) -> RenderableType:
    """A line a run, newest first, and under it what was skipped and why."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("run", "state"):
        table.add_column(title, overflow="fold")
    for title in ("step", "reward", "entropy", "zero std", "last seen"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("how it is", overflow="fold")
    for run in runs:
        sentence = headline(run)
        table.add_row(
            escape(run.name),
            run.state,
            str(run.last.step) if run.last else "–",
            number(run, "reward/mean"),
            number(run, "entropy/mean"),
            number(run, "groups/zero_std"),
            ago(time.time() - run.last.time) if run.last else "–",
            Text(sentence.text, style=TONE_STYLES[sentence.tone]),
        )
    notes = [Text(f"skipped {item.path}: {item.why}", style="dim") for item in skipped]
    return Group(*([table] if runs else []), *notes)


def number(run: RunSummary, name: str) -> str:
    """A metric of the run's last step, three digits; a dash where it is absent or has no value."""
    value = run.last.metrics.get(name) if run.last else None
    return f"{value:.3g}" if value is not None else "–"


def ago(seconds: float) -> str:
    """How long ago, in the largest unit that fits.

    >>> ago(5), ago(150), ago(7300)
    ('5 s ago', '2 min ago', '2 h ago')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{max(0, int(seconds))} s ago"
