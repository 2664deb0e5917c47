"""What the curves are drawn over: steps, the viewer's clock, or the tokens that were generated so far."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from functools import lru_cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import numpy as np
from flask import has_request_context, request

from rlwatch_dashboard.columns import Columns, Floats, Ints

TOKENS = ("tokens/total", "num_tokens", "raw/num_tokens")
"""Metrics that count a run's tokens from its start on."""

ZONE_COOKIE = "rlwatch-zone"
"""The browser says its time zone in it (assets/views.js)."""

_DAY = 86_400
_MOST_DAYS = 4000


@dataclass(frozen=True)
class Axis:
    """What a run's curves are drawn over.

    Args:
        kind: `step`, `time` or `tokens`.
        zone: The viewer's time zone.
    """

    kind: str = "step"
    zone: tzinfo = timezone.utc

    def of(self, columns: Columns) -> Floats:
        """(n,), where each row is: its step; milliseconds of the viewer's clock; or tokens. NaN where not known.

        The milliseconds are such that Plotly, which knows of no zones, writes the viewer's clock. A row without a count
        of tokens is at the last one before it.
        """
        if self.kind == "time":
            return np.round(1000 * (columns.times + offsets(columns.times, self.zone)))
        if self.kind == "tokens":
            return _counted(columns)
        return columns.steps.astype(np.float64)

    def places(self, columns: Columns, steps: Iterable[int]) -> list[float | None]:
        """Where steps are; one between two rows is at the later one. None where that is not known."""
        x = self.of(columns)
        if self.kind == "step":
            return [float(step) for step in steps]
        rows = [min(columns.row_of(step), len(x) - 1) for step in steps] if len(x) else [None for _ in steps]
        return [float(x[row]) if row is not None and math.isfinite(x[row]) else None for row in rows]


def tokens_metric(columns: Columns) -> str | None:
    """The metric that counts a run's tokens, or None."""
    return next((name for name in TOKENS if name in columns.values), None)


def viewers_zone() -> tzinfo:
    """The zone that the browser says it is in; UTC where it says none that is known here."""
    name = unquote(request.cookies.get(ZONE_COOKIE, "")) if has_request_context() else ""
    return zone_of(name)


def zone_of(name: str) -> tzinfo:
    """A time zone by its name; UTC where there is none of it."""
    try:
        return ZoneInfo(name) if name and len(name) < 100 else timezone.utc
    except (ValueError, OSError, KeyError):  # no such zone, or no name of one
        return timezone.utc


def offsets(times: Floats, zone: tzinfo) -> Floats:
    """(n,), by how many seconds the zone's clock is ahead of UTC at each time (unix seconds); NaN where that is NaN."""
    known = times[np.isfinite(times) & (np.abs(times) < 1e11)]
    result = np.full(len(times), np.nan)
    if not len(known):
        return result
    days = int(known.min() // _DAY), int(known.max() // _DAY) + 1
    begins, ahead = _changes(zone, *days)
    usable = np.isfinite(times) & (np.abs(times) < 1e11)
    result[usable] = np.array(ahead)[np.searchsorted(begins, times[usable], side="right")]
    return result


@lru_cache(maxsize=64)
def _changes(zone: tzinfo, first: int, last: int) -> tuple[list[float], list[float]]:
    """When the zone's clock changes between two days, and by how much it is ahead before, between and after."""
    begins: list[float] = []
    ahead = [_ahead(zone, first * _DAY)]
    for day in range(first, min(last, first + _MOST_DAYS)):
        low, high = day * _DAY, (day + 1) * _DAY
        now = _ahead(zone, high)
        if now == ahead[-1]:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _ahead(zone, middle) == ahead[-1] else (low, middle)
        begins.append(high)
        ahead.append(now)
    return begins, ahead


def _ahead(zone: tzinfo, seconds: float) -> float:
    offset = datetime.fromtimestamp(seconds, zone).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def _counted(columns: Columns) -> Floats:
    result = np.full(len(columns.steps), np.nan)
    name = tokens_metric(columns)
    rows, values = columns.points(name) if name is not None else (np.empty(0, np.int64), np.empty(0))
    known = np.isfinite(values)
    if known.any():
        kept, counts = rows[known], np.maximum.accumulate(values[known])
        before: Ints = np.searchsorted(kept, np.arange(len(result)), side="right") - 1
        result[before >= 0] = counts[before[before >= 0]]
    return result
