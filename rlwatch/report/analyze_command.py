"""`rlwatch analyze`: reads, judges, reports; what the command line says is in `cli.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rlwatch.readers import Options, UnreadableError, load
from rlwatch.readers.loading import files_of
from rlwatch.report.analysis import Analysis, analyze_run
from rlwatch.report.as_json import report
from rlwatch.runs.records import Severity
from rlwatch.settings import Chooser

FORMATS = ("text", "json", "html")


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
        except UnreadableError as error:
            unreadable[file] = str(error)
        except RecursionError:
            unreadable[file] = "it is nested too deeply"
        except (OSError, MemoryError) as error:
            unreadable[file] = f"it cannot be read: {error}"
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
        return
    if format == "json":
        text = json.dumps(report(analyses, unreadable), ensure_ascii=False, allow_nan=False, indent=1)
    else:
        from rlwatch.report.html import html_report

        text = html_report(analyses, unreadable, gpu_hour_price=gpu_hour_price, gpus=gpus)
    if output is None:
        sys.stdout.write(text + "\n")
    else:
        output.write_text(text + "\n", encoding="utf-8")


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

    if output is not None:
        with output.open("w", encoding="utf-8") as file:
            _write_text(analyses, unreadable, None, Console(file=file, width=120), gpu_hour_price, gpus)
        return
    if len(analyses) > 1:
        console.print(runs_report(analyses, unreadable))
        return
    for analysis in analyses:
        console.print(run_report(analysis, gpu_hour_price=gpu_hour_price, gpus=gpus))
    for path, why in unreadable.items():
        print(f"rlwatch: could not read {path}: {why}", file=sys.stderr)
