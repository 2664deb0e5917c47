"""Numbers as a person reads them in a report. One that is missing is never a zero."""

from __future__ import annotations

import math
from typing import Any

from rlwatch.runs.metrics import describe


def plain(value: Any) -> str:
    """Four significant digits, whatever the size; what is no number as it is.

    >>> plain(0.000123456), plain(1234567.0), plain(float("nan")), plain(None), plain(12), plain(-1e-05)
    ('0.0001235', '1,234,567', 'NaN', 'none', '12', '−1e-5')
    """
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        text = f"{value:.3g}".replace("e-0", "e-").replace("e+", "e")
    elif abs(value) >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.4g}"
    return "−" + text[1:] if value < 0 and text.startswith("-") else text


def of_metric(name: str, value: float | None) -> str:
    """A metric's value in its own unit: shares as per cent.

    >>> of_metric("groups/zero_std", 0.625), of_metric("length/mean", 210.0)
    ('62.5 %', '210')
    """
    if is_share(name) and value is not None and math.isfinite(value):
        return f"{100 * value:.1f} %".replace(".0 %", " %")
    return plain(value)


def is_share(name: str) -> bool:
    """Whether a metric is a share, from 0 to 1."""
    return describe(name).unit.startswith("share")
