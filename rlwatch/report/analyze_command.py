"""`rlwatch analyze`: reads, judges, reports; what the command line says is in `cli/logs.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rlwatch.readers import Options, load
from rlwatch.readers.loading import FAULTS, files_of, why_not
from rlwatch.report.analysis import Analysis, analyze_run
from rlwatch.report.as_json import report
from rlwatch.report.output import draw
from rlwatch.report.output import write as put
from rlwatch.runs.records import Severity
from rlwatch.settings import Chooser


def read_and_judge(
    paths: Sequence[str], options: Options, since_step: int, console: Console, chooser: Chooser | None = None
) -> tuple[list[Analysis], dict[str, str]]:
    """Every run that the paths name, and what could not be read, with the reason.

    Args:
        paths: Files, folders, patterns, or `-`.
        options: What a person says about the files.
        since_step: Tell nothing of earlier steps.
        console: Where a progress bar is drawn, if it is a terminal.
        chooser: Says which settings hold for which run; by default those of the file that is found for it.

    Raises:
        SettingsError: A file of settings that was found makes no sense.
    """
    from rich.progress import track

    chooser = chooser or Chooser()
    files = list(dict.fromkeys(file for path in paths for file in files_of(path)))
    found: list[Analysis] = []
    unreadable: dict[str, str] = {}
    for file in track(
        files, "reading", console=console, transient=True, disable=len(files) < 3 or not console.is_terminal
    ):
        try:
            for run in load(file, options):
                settings = chooser.of(None if file == "-" else file, run.info)
                found.append(analyze_run(run, since_step=since_step, settings=settings))
        except FAULTS as error:
            unreadable[file] = why_not(error)
    return found, unreadable


def write(
    analyses: Sequence[Analysis],
    unreadable: dict[str, str],
    *,
    format: str,
    output: Path | None,
    console: Console,
    gpu_hour_price: float | None,
    gpus: int,
) -> None:
    """The report, to a file or to standard output.

    Raises:
        ImportError: An HTML report needs plotly, which is not installed.
        OSError: The file cannot be written.
    """
    if format == "text":
        _write_text(analyses, unreadable, output, console, gpu_hour_price, gpus)
    elif format == "json":
        text = json.dumps(report(analyses, unreadable), ensure_ascii=False, allow_nan=False, indent=1)
        put(text + "\n", output)
    else:
        from rlwatch.report.html import html_report

        put(html_report(analyses, unreadable, gpu_hour_price=gpu_hour_price, gpus=gpus) + "\n", output)


def exit_code(analyses: Sequence[Analysis], unreadable: dict[str, str], fail_on: Severity) -> int:
    """2 where a path could not be read, else 1 where something was found that is as bad, else 0."""
    if unreadable:
        return 2
    return int(any(a.worst is not None and a.worst.rank >= fail_on.rank for a in analyses))


def _write_text(
    analyses: Sequence[Analysis],
    unreadable: dict[str, str],
    output: Path | None,
    console: Console,
    gpu_hour_price: float | None,
    gpus: int,
) -> None:
    from rlwatch.report.text import run_report, runs_report

    if len(analyses) > 1:
        draw([runs_report(analyses, unreadable)], output, console)
        return
    draw([run_report(analysis, gpu_hour_price=gpu_hour_price, gpus=gpus) for analysis in analyses], output, console)
    for path, why in unreadable.items():
        print(f"rlwatch: could not read {path}: {why}", file=sys.stderr)
