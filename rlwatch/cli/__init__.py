"""The command `rlwatch`: a file a family of commands, which do no more than ask and say."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rlwatch._version import __version__
from rlwatch.cli import alerts, follow, lab, logs, page

app = typer.Typer(
    help="Know within a few steps that an RL fine-tuning run has stopped learning, why, and what to change.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line."""
    app()


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(f"rlwatch {__version__}")
        raise typer.Exit


for command in (page.runs, logs.analyze, logs.compare, logs.audit, follow.follow):
    app.command()(command)


@app.command("settings")
def show_settings() -> None:
    """Print a rlwatch.toml with everything that can be set: every rule, its numbers, and where they come from."""
    from rlwatch.settings.template import template

    sys.stdout.write(template())


app.add_typer(alerts.app, name="alerts")
app.command()(page.dashboard)
app.command()(lab.lab)
