"""One colour a meaning, the same in the charts, the badges and the alerts of reports and of the live page.

A chart's colours are drawn into it, so each of them has to be readable on white and on the dark panel: all have a
contrast of at least 3:1 with both (there is a test).
"""

from __future__ import annotations

SOLVED, FAILED, STUCK = "#2a9d63", "#d9485f", "#bf8300"
NEUTRAL, BLUE, VIOLET, TEAL = "#7c8798", "#4a82d9", "#8b6ad6", "#12949c"

SEVERITIES = {"critical": "#dc3a44", "warning": "#c27800", "info": "#4a82d9"}
SEVERITY_FILLS = {"critical": "#cf2f3a", "warning": "#a06200", "info": "#3a6fc4"}
"""The same, dark enough for small white letters on them (4.5:1)."""

SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
"""The same at a terminal, as rich takes it."""

METRIC_COLOURS = {
    "entropy/mean": VIOLET,
    "groups/solved": SOLVED,
    "groups/failed": FAILED,
    "groups/stuck": STUCK,
    "groups/zero_std": NEUTRAL,
    "length/mean": NEUTRAL,
    "length/correct": SOLVED,
    "length/incorrect": FAILED,
    "grad/norm": NEUTRAL,
    "grad/applied_norm": BLUE,
    "grad/effective_norm": TEAL,
    "reward/mean": BLUE,
    "groups/reward_std": STUCK,
}


def colour_of(metric: str) -> str:
    """The colour that a metric has everywhere; blue where it has no meaning of its own."""
    return METRIC_COLOURS.get(metric, BLUE)
