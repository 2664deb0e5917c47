"""`rlwatch analyze`, `compare` and `audit`: files are read and judged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rlwatch.cli.common import (
    EveryOption,
    FormatOption,
    NoSendOption,
    OutputOption,
    SettingsOption,
    chooser_of,
    console,
    missing,
    options_of,
    wrong,
)
from rlwatch.cli.follow import follow_log


def analyze(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Logs, run directories, folders, patterns; - is standard input."),
    ],
    format: FormatOption = "text",
    output: OutputOption = None,
    fail_on: Annotated[
        str, typer.Option(help="Exit with 1 if anything was as bad: info, warning or critical.")
    ] = "critical",
    since_step: Annotated[int, typer.Option(help="Tell nothing of earlier steps.", min=0)] = 0,
    every: EveryOption = None,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="correct=COLUMN: which completions of a dump are correct, a column or column>0.5. RULE.SETTING=VALUE: "
            "judge with this setting; rlwatch settings lists them. Repeatable.",
        ),
    ] = [],  # noqa: B006
    settings: SettingsOption = None,
    gpu_hour_price: Annotated[float | None, typer.Option(help="To say in money what was wasted.", min=0)] = None,
    gpus: Annotated[int, typer.Option(help="GPUs that the run used.", min=1)] = 1,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with a growing log, and alert live; end with Ctrl-C.")
    ] = False,
    no_send: NoSendOption = False,
) -> None:
    """Read any log and say what happened, when it began, why, and what the log cannot show.

    Exit code: 0 if nothing at or above --fail-on was found, 1 if something was, 2 if a path could not be read.
    """
    from rlwatch.report.analyze_command import exit_code, read_and_judge, write
    from rlwatch.report.output import FORMATS
    from rlwatch.runs.records import Severity

    if format not in FORMATS:
        raise wrong(f"--format {format}: there is {', '.join(FORMATS)}")
    if fail_on not in [severity.value for severity in Severity]:
        raise wrong(f"--fail-on {fail_on}: there is info, warning and critical")
    options = options_of(every, sets)
    chooser = chooser_of(settings, sets)
    if follow:
        if len(paths) != 1:
            raise wrong("--follow takes one file")
        follow_log(paths[0], options, into=None, send=not no_send, chooser=chooser)
        return
    try:
        analyses, unreadable = read_and_judge(paths, options, since_step, Console(stderr=True), chooser)
    except ValueError as error:
        raise wrong(str(error)) from None
    for hint in dict.fromkeys(hint for analysis in analyses for hint in analysis.settings.hints):
        print(f"rlwatch: {hint}?", file=sys.stderr)
    try:
        write(
            analyses,
            unreadable,
            format=format,
            output=output,
            console=console(),
            gpu_hour_price=gpu_hour_price,
            gpus=gpus,
        )
    except ImportError as error:
        raise missing("dashboard", error) from None
    except OSError as error:
        raise wrong(f"{output}: {error.strerror}") from None
    raise typer.Exit(exit_code(analyses, unreadable, Severity(fail_on)))


def compare(
    paths: Annotated[list[str], typer.Argument(metavar="RUN...", help="Logs, run directories, folders, patterns.")],
    by: Annotated[
        list[str], typer.Option(help="What tells the groups apart: a setting, name, or NAME=PATTERN; repeatable.")
    ] = [],  # noqa: B006
    format: FormatOption = "text",
    output: OutputOption = None,
    every: EveryOption = None,
) -> None:
    """Runs, or groups of runs by configuration, side by side, and whether so many seeds can show the difference."""
    from rlwatch.report.compare_command import run_compare

    try:
        code = run_compare(paths, by, format, output, options=options_of(every, []), console=console())
    except OSError as error:
        raise wrong(f"{output}: {error.strerror}") from None
    raise typer.Exit(code)


def audit(
    path: Annotated[
        Path, typer.Argument(help="A run directory, a trainer_state.json, or a YAML, JSON or TOML configuration.")
    ],
    format: FormatOption = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the audit to this file.")] = None,
    fail_on: Annotated[
        str, typer.Option(help="Exit with 1 if a lint is as bad: never, info, warning or critical.")
    ] = "never",
    silence: Annotated[list[str], typer.Option(help="Leave out the lint of this name; repeatable.")] = [],  # noqa: B006
) -> None:
    """What a configuration divides by: who weighs what in the update, where, and what is unwise about it.

    Exit code: 0, 1 if a lint is at or above --fail-on, 2 if the path cannot be audited.
    """
    from rlwatch.report.audit_command import run_audit

    try:
        code = run_audit(path, format=format, output=output, fail_on=fail_on, silence=silence, console=console())
    except ValueError as error:
        raise wrong(str(error)) from None
    except OSError as error:
        raise wrong(f"{output}: {error.strerror}") from None
    raise typer.Exit(code)
