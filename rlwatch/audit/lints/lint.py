"""What a lint says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rlwatch.runs.records import Severity


@dataclass(frozen=True)
class Lint:
    """Something about a configuration that is wrong or worth knowing.

    Args:
        name: By which it can be silenced.
        severity: See [`Severity`][rlwatch.runs.records.Severity].
        message: What it is, in one line with a number in it.
        why: Why that matters.
        source: How that is known.
        setting: What to change.
        advice: To what.
    """

    name: str
    severity: Severity
    message: str
    why: str
    source: str
    setting: str
    advice: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**asdict(self), "severity": self.severity.value}
