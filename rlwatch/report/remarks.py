"""What is unwise about the configuration of a run, where its log tells the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlwatch.runs.records import Run, Severity

if TYPE_CHECKING:
    from rlwatch.audit.lints import Lint


def remarks(run: Run, silence: Sequence[str] = ()) -> list[Lint]:
    """The lints of its configuration, the worst first; none where the log tells no loss.

    Args:
        run: The run.
        silence: Names of lints to leave out.
    """
    config = run.info.get("config")
    if not isinstance(config, dict) or "loss_type" not in config:
        return []
    from rlwatch.audit import ConfigError, audit  # numpy takes longer to import than most logs to read

    info = {key: run.info[key] for key in ("trainer", "world_size") if key in run.info}
    try:
        found = audit({"config": config, "schema": 1, **info} if "trainer" in info else config)
    except (ConfigError, ValueError):
        return []
    return [lint for lint in found.lints if lint.name not in silence]


def in_lines(lints: Sequence[Lint], path: str) -> list[tuple[str, str]]:
    """A name and a sentence each for what is a warning or worse; the rest by name."""
    lines = [
        (f"{lint.severity.value} · {lint.name}", f"{lint.message}. {lint.setting}: {lint.advice}.")
        for lint in lints
        if lint.severity is not Severity.INFO
    ]
    others = [lint.name for lint in lints if lint.severity is Severity.INFO]
    if others:
        lines.append(("worth knowing", f"{', '.join(others)}; rlwatch audit {path} tells of them"))
    return lines
