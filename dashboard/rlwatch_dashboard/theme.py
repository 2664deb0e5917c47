"""The colours of the reports, for the page: what only the page draws (text, lines, panels) is in base.css."""

from __future__ import annotations

from rlwatch.report.colours import (
    BLUE,
    FAILED,
    METRIC_COLOURS,
    NEUTRAL,
    SEVERITIES,
    SEVERITY_FILLS,
    SOLVED,
    STUCK,
    TEAL,
    VIOLET,
    colour_of,
)

__all__ = [
    "BLUE", "FAILED", "METRIC_COLOURS", "NEUTRAL", "SEVERITIES", "SEVERITY_FILLS", "SOLVED", "STUCK", "TEAL", "VIOLET",
    "colour_of", "css_variables",
]  # fmt: skip


def css_variables() -> str:
    """The colours that the style sheets and scripts share with the charts, as one CSS rule."""
    fills = {f"{name}-fill": colour for name, colour in SEVERITY_FILLS.items()}
    names = {"solved": SOLVED, "failed": FAILED, "stuck": STUCK, **SEVERITIES, **fills}
    return ":root{" + "".join(f"--{name}:{colour};" for name, colour in names.items()) + "}"
