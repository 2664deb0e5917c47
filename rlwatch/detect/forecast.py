"""When a trend gets to a mark: with an interval, and only where it can be known."""

from __future__ import annotations

import math

from rlwatch.detect.trend import Trend
from rlwatch.runs.records import Forecast

REAL = 4.0
"""Standard errors of a slope from which it is a trend. A run looks at it at every record, so the two of a single look
would find one in most runs of pure noise: with an autocorrelation up to 0.9, four found one in 1 of 100 runs."""

ENOUGH = 10.0
"""Equally weighted records that the line must rest on."""

DEVIATIONS = 1.96


def forecast(trend: Trend, metric: str, mark: float, *, seen: int, is_log: bool = False) -> Forecast | None:
    """When the line of a trend crosses a mark, or None: no real trend, the other way, or further off than it was seen.

    The interval is Fieller's (1954): all times T at which level + slope·T − mark is within its own error
    √(V_level + 2T·C + T²·V_slope) of 0.

    Args:
        trend: Of the metric, or of its logarithm.
        metric: Its name.
        mark: Where it must not get to.
        seen: Steps that the run is old: what lies further ahead than that is not told.
        is_log: The trend is of the metric's natural logarithm: it changes by a factor a step.
    """
    if trend.step is None or trend.effective_count < ENOUGH or abs(trend.significance) < REAL:
        return None
    covariance = trend.covariance
    if covariance is None or (is_log and mark <= 0):
        return None
    of_level, of_both, of_slope = covariance
    away = (math.log(mark) if is_log else mark) - trend.level
    ahead = away / trend.slope
    if not 0 < ahead <= seen:
        return None
    # (slope·T − away)² = z²·(V_level + 2T·C + T²·V_slope)
    z2 = DEVIATIONS**2
    a = trend.slope**2 - z2 * of_slope
    b = -2 * trend.slope * away - 2 * z2 * of_both
    c = away * away - z2 * of_level
    inside = b * b - 4 * a * c
    if a <= 0 or inside < 0:
        return None
    low, high = ((-b + sign * math.sqrt(inside)) / (2 * a) for sign in (-1, 1))
    if high > 2 * seen:
        return None
    now = trend.step
    return Forecast(metric, mark, now + round(ahead), now + max(0, math.floor(low)), now + math.ceil(high))
