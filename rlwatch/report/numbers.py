"""Numbers as a person reads them on a page or in a report. One that is missing is never a zero."""

from __future__ import annotations

import math
from typing import Any

from rlwatch.runs.metrics import describe

_WORDS = {"NaN": "NaN", "Infinity": "∞", "-Infinity": "−∞"}
"""How runs/jsonl.py writes what JSON has no number for, and how it is shown."""


def plain(value: Any) -> str:
    """Four significant digits, whatever the size.

    >>> plain(0.000123456), plain(1234567.0), plain(float("nan")), plain(None), plain(12)
    ('0.0001235', '1,234,567', 'NaN', 'none', '12')
    >>> plain(1e-05)
    '1e-5'
    """
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _WORDS.get(str(value), str(value))
    try:
        number = float(value)
    except OverflowError:
        return "out of range"
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    if number != 0 and not 1e-4 <= abs(number) < 1e9:
        text = f"{number:.3g}".replace("e-0", "e-").replace("e+", "e")
    elif abs(number) >= 1000:
        text = f"{number:,.0f}"
    else:
        text = f"{number:.4g}"
    return text.replace("-", "−") if number < 0 else text


def of_metric(name: str, value: Any) -> str:
    """A metric's value in its own unit: shares as per cent.

    >>> of_metric("groups/zero_std", 0.625), of_metric("length/mean", 210.0)
    ('62.5 %', '210')
    """
    if is_share(name) and isinstance(value, (int, float)) and math.isfinite(value):
        return f"{100 * value:.1f} %".replace(".0 %", " %")
    return plain(value)


def is_share(name: str) -> bool:
    """Whether a metric is a share, from 0 to 1."""
    return describe(name).unit.startswith("share")
