"""What `rlwatch audit` does."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rlwatch.audit import audit
from rlwatch.report.as_json import plain_json
from rlwatch.report.audit_html import audit_html
from rlwatch.report.audit_text import audit_report
from rlwatch.runs.records import Severity

FORMATS = ("text", "json", "html")
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
    found = audit(path, silence=silence)
    if format == "text" and output is None:
        console.print(audit_report(found))
    elif format == "text":
        with open(str(output), "w", encoding="utf-8") as file:
            Console(file=file, width=120).print(audit_report(found))
    else:
        text = audit_html(found) if format == "html" else json.dumps(plain_json(found.to_dict()), indent=2) + "\n"
        if output is None:
            sys.stdout.write(text)
        else:
            output.write_text(text, encoding="utf-8")
    if fail_on == "never":
        return 0
    return int(any(lint.severity.rank >= Severity(fail_on).rank for lint in found.lints))
