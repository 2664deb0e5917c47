"""What `rlwatch audit` does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group

from rlwatch.audit import Audit, ConfigError, audit
from rlwatch.readers import UnreadableError, load
from rlwatch.report.as_json import plain_json
from rlwatch.report.audit_html import audit_html
from rlwatch.report.audit_measured import Measured, measured
from rlwatch.report.audit_text import audit_report, measured_report
from rlwatch.report.output import FORMATS, draw, write
from rlwatch.runs.records import Severity

FAIL_ON = ("never", "info", "warning", "critical")


def run_audit(
    path: Path, *, format: str, output: Path | None, fail_on: str, silence: Sequence[str], console: Console
) -> int:
    """Audit a path and write what was found.

    Returns:
        0; 1 if a lint is as bad as `fail_on`.

    Raises:
        ValueError: The path cannot be audited, or an option is none that there is.
        OSError: The output cannot be written.
    """
    if format not in FORMATS:
        raise ValueError(f"--format {format}: there is {', '.join(FORMATS)}")
    if fail_on not in FAIL_ON:
        raise ValueError(f"--fail-on {fail_on}: there is {', '.join(FAIL_ON)}")
    found, seen = _look(path, silence)
    if format == "text":
        draw([Group(*measured_report(seen)) if found is None else audit_report(found, seen)], output, console)
    else:
        data = {**(found.to_dict() if found is not None else {}), "measured": seen.to_dict() if seen else None}
        text = audit_html(found, seen) if format == "html" else json.dumps(plain_json(data), indent=2) + "\n"
        write(text, output)
    if fail_on == "never" or found is None:
        return 0
    return int(any(lint.severity.rank >= Severity(fail_on).rank for lint in found.lints))


def _look(path: Path, silence: Sequence[str]) -> tuple[Audit | None, Measured]:
    """The configuration's audit, and what the run shows; a dump of completions has no configuration.

    Raises:
        ValueError: There is neither.
    """
    try:
        seen = measured(load(path)[0])
    except UnreadableError:
        seen = Measured()
    try:
        return audit(path, silence=silence), seen
    except ConfigError:
        if not seen:
            raise
        return None, seen
