"""`rlwatch compare`: reads, judges, groups, compares; what the command line says is in `cli/logs.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rlwatch.readers import Options
from rlwatch.report.analyze_command import read_and_judge
from rlwatch.report.compare import Comparison, compare
from rlwatch.report.compare_json import comparison_json
from rlwatch.report.compare_text import comparison_report
from rlwatch.report.output import FORMATS, draw, write
from rlwatch.settings import SettingsError


def run_compare(
    paths: Sequence[str],
    by: Sequence[str] = (),
    format: str = "text",
    output: Path | None = None,
    *,
    options: Options | None = None,
    console: Console | None = None,
) -> int:
    """Compare the runs that the paths name, and write the report to a file or to standard output.

    Args:
        paths: Files, run directories, folders or patterns.
        by: See [`group_runs`][rlwatch.report.grouping.group_runs].
        format: One of [`FORMATS`][rlwatch.report.output.FORMATS].
        output: The file; None for standard output.
        options: What a person says about the files.
        console: Where text goes; one as wide as the terminal, or 140 where there is none.

    Returns:
        0; 2 where a path could not be read (the others are compared), there is no run, or `by` or `format` makes no
        sense.
    """
    if format not in FORMATS:
        return _fail(f"there is no format {format!r}; there are: {', '.join(FORMATS)}")
    if console is None:
        console = Console()
        console = console if console.is_terminal else Console(width=140)
    try:
        analyses, unreadable = read_and_judge(paths, options or Options(), 0, console)
    except SettingsError as error:
        return _fail(str(error))
    for path, why in unreadable.items():
        print(f"rlwatch: could not read {path}: {why}", file=sys.stderr)
    if not analyses:
        return _fail("there is no run to compare")
    try:
        comparison = compare(analyses, by)
    except ValueError as error:
        return _fail(str(error))
    if format == "text":
        draw([comparison_report(comparison)], output, console)
    else:
        try:
            text = _file(comparison, unreadable, format)
        except ImportError as error:
            return _fail(str(error))
        write(text, output)
    return 2 if unreadable else 0


def _file(comparison: Comparison, unreadable: dict[str, str], format: str) -> str:
    if format == "html":
        from rlwatch.report.compare_html import comparison_html

        return comparison_html(comparison, unreadable)
    return json.dumps(comparison_json(comparison, unreadable), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _fail(why: str) -> int:
    print(f"rlwatch: {why}", file=sys.stderr)
    return 2
