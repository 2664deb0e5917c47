"""Numbers as the page has them: as the reports say them, and as charts get them."""

from __future__ import annotations

import math

from rlwatch.report.numbers import is_share, of_metric, plain

__all__ = ["NOT_RECORDED", "for_chart", "is_share", "of_metric", "plain"]

NOT_RECORDED = "not recorded"


def for_chart(value: float | None) -> float | None:
    """A value as a chart gets it: six significant digits, and None (a gap in the line) for what is no number.

    >>> for_chart(0.123456789), for_chart(float("inf")), for_chart(None)
    (0.123457, None, None)
    """
    try:
        return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
    except OverflowError:  # a whole number with more digits than a float can hold
        return None
