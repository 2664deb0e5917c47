"""Alerts as a block of text on the terminal, readable between a trainer's log lines and its progress bar."""

from __future__ import annotations

import io
import sys

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.table import Table

from rlwatch.runs.records import Alert, AlertState, Severity

WIDTH = 100
_STYLES = {Severity.INFO: "cyan", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}


def render(alert: Alert, *, color: bool = False) -> str:
    """One change of an alert as text: what, since when, the numbers, why, what to try. For info, a line."""
    if alert.severity is Severity.INFO:
        return f"rlwatch · info · {alert.rule} · run {alert.run}: {alert.message} ({_when(alert)})"
    buffer = io.StringIO()
    console = Console(
        file=buffer, width=WIDTH, force_terminal=color, color_system="standard" if color else None, highlight=False
    )
    over = alert.state is AlertState.RESOLVED
    style = "green" if over else _STYLES[alert.severity]
    word = "RESOLVED" if over else alert.severity.value.upper()
    console.print(Rule(f"rlwatch · {word} · {escape(alert.rule)} · run {escape(alert.run)}", style=style, align="left"))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("What", escape(alert.message))
    if over:
        table.add_row("When", f"from step {alert.since} to step {alert.resolved_step}")
    else:
        table.add_row("Since", f"step {alert.since}; told at step {alert.step}")
        numbers = [f"{name} {value:.3g}" for name, value in alert.evidence.items() if value is not None]
        if numbers:
            table.add_row("Numbers", escape("   ".join(numbers)))
        if alert.forecast is not None:
            table.add_row("Ahead", escape(alert.forecast.text))
        for index, cause in enumerate(alert.causes):
            table.add_row("Why" if index == 0 else "", escape(cause.beside(alert.evidence)))
        for index, advice in enumerate(alert.advice):
            table.add_row("Try" if index == 0 else "", escape(f"{advice.text} [{advice.source}]"))
    console.print(table)
    console.print(Rule(style=style))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def say(text: str) -> None:
    """Print to stdout; above the progress bar where tqdm draws one."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is None:
        print(text, flush=True)
    else:
        tqdm.tqdm.write(text, file=sys.stdout)
        sys.stdout.flush()


def show(alert: Alert, quiet: str = "") -> None:
    """Print an alert's block, in colour on a terminal; a line where nobody wants to be told, and why."""
    if quiet:
        say(f"rlwatch · {alert.rule} · {alert.severity.value} · {quiet}: {alert.message} ({_when(alert)})")
    else:
        say("\n" + render(alert, color=sys.stdout.isatty()) + "\n")


def _when(alert: Alert) -> str:
    return f"over at step {alert.resolved_step}" if alert.resolved_step is not None else f"since step {alert.since}"
