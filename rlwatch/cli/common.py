"""What several commands share: their options, and how they say what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from rlwatch.readers import Options
    from rlwatch.settings import Chooser

RUNS = Path("runs")
SettingsOption = Annotated[
    Path | None,
    typer.Option("--settings", help="The rlwatch.toml; by default one beside the run or in the working directory."),
]
NoSendOption = Annotated[
    bool, typer.Option("--no-send", help="When following: only print alerts, send them through no channel.")
]
EveryOption = Annotated[
    int | None, typer.Option(help="Steps from one row to the next, if the rows carry no step.", min=1)
]
FormatOption = Annotated[str, typer.Option(help="text, json or html (one file that opens offline).")]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to this file.")]


def options_of(every: int | None, settings: list[str]) -> Options:
    """How to read, from what was asked for."""
    from rlwatch.readers import Options

    values = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if (name != "correct" and "." not in name) or not value:
            there_is = "correct=COLUMN, correct=COLUMN>0.5, correct=COLUMN>=1 and RULE.SETTING=VALUE"
            raise wrong(f"--set {setting}: there is {there_is}")
        if name == "correct":
            values[name] = value
    return Options(every=every, **values)


def chooser_of(settings: Path | None, sets: list[str]) -> Chooser:
    """Which settings hold, from what was asked for."""
    from rlwatch.settings import Chooser

    pairs = [setting.partition("=") for setting in sets]
    try:
        return Chooser(settings, [(name, value) for name, _, value in pairs if name != "correct"])
    except ValueError as error:
        raise wrong(str(error)) from None


def wrong(message: str) -> typer.Exit:
    """Say what is wrong; the exit to raise."""
    print(f"rlwatch: {message}", file=sys.stderr)
    return typer.Exit(2)


def missing(extra: str, error: ImportError) -> typer.Exit:
    """Say which extra is not installed; the exit to raise."""
    if "pip install" in str(error):  # it says so itself
        return wrong(str(error))
    return wrong(f"this needs an extra: pip install 'rlwatch-monitor[{extra}]' ({error})")


def console() -> Console:
    """As wide as the terminal; where there is none, wide enough for a table."""
    console = Console()
    return console if console.is_terminal else Console(width=140)
