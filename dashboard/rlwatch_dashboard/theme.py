"""One colour a meaning, the same in the charts, the badges and the alerts.

A chart's colours are drawn into it, so each of them has to be readable on white and on the dark panel: all have a
contrast of at least 3:1 with both (there is a test). What only the page draws (text, lines, panels) is in base.css.
"""

from __future__ import annotations

SOLVED = "#2a9d63"
FAILED = "#d9485f"
STUCK = "#bf8300"
NEUTRAL = "#7c8798"
BLUE = "#4a82d9"
VIOLET = "#8b6ad6"
TEAL = "#12949c"

SEVERITIES = {"critical": "#dc3a44", "warning": "#c27800", "info": "#4a82d9"}
SEVERITY_FILLS = {"critical": "#cf2f3a", "warning": "#a06200", "info": "#3a6fc4"}
"""The same, dark enough for small white letters on them (4.5:1)."""

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


def css_variables() -> str:
    """The colours that the style sheets and scripts share with the charts, as one CSS rule."""
    fills = {f"{name}-fill": colour for name, colour in SEVERITY_FILLS.items()}
    names = {"solved": SOLVED, "failed": FAILED, "stuck": STUCK, **SEVERITIES, **fills}
    return ":root{" + "".join(f"--{name}:{colour};" for name, colour in names.items()) + "}"
