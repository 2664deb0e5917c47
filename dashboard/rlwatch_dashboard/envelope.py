"""Which points of a long curve are drawn, so that it looks as if all were: each stretch's smallest and largest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlwatch_dashboard.columns import Floats, Ints

OUTSIDE = 8
"""What lies outside a window gets one in so many of the points: it is seen again before the server has answered."""


def envelope(curves: Sequence[Floats], limit: int) -> Ints:
    """The places of the points that are drawn, in order, for one curve or for several that share their x.

    The n points are cut into stretches of equal numbers of points. A stretch keeps, of each curve, its smallest and its
    largest finite value where they are (the first of equal ones); and, where a curve has a gap (NaN or inf) in it, the
    first place of a gap. The first and the last point are kept. So a spike is as high as it was, at its own x, and a
    gap stays one: a line is broken at it. All of it where it is not more than the limit.

    Args:
        curves: Each (n,).
        limit: How many places at most; at least 16.

    Returns:
        (at most limit,), strictly increasing.
    """
    n = len(curves[0])
    if n <= limit:
        return np.arange(n)
    finite = [np.isfinite(curve) for curve in curves]
    kept = sum(2 if usable.all() else 3 for usable in finite)  # of a stretch
    stretches = max(1, (limit - 2) // kept)
    width = -(-n // stretches)
    starts = np.arange(0, n, width)
    chosen = [np.array([0, n - 1])]
    for curve, usable in zip(curves, finite, strict=True):
        for wanted in (np.where(usable, curve, np.inf), -np.where(usable, curve, -np.inf)):
            places = starts + _in_stretches(wanted, width, np.inf).argmin(axis=1)
            chosen.append(places[usable[np.minimum(places, n - 1)]])
        if not usable.all():
            gap = _in_stretches(~usable, width, False)
            chosen.append((starts + gap.argmax(axis=1))[gap.any(axis=1)])
    return np.unique(np.concatenate(chosen))


def in_window(x: Floats, curves: Sequence[Floats], window: tuple[float, float] | None, limit: int) -> Ints:
    """As `envelope`, where a window of x is looked at: nearly all points are in it, and a few show what is outside.

    The last point before the window and the first one after it are kept, so that the curve runs on to its edges.

    Args:
        x: (n,), not decreasing.
        curves: Each (n,).
        window: The smallest and the largest x that is seen; None for all.
        limit: How many places at most.
    """
    if window is None or len(x) <= limit:
        return envelope(curves, limit)
    few = max(16, limit // OUTSIDE)
    first = max(0, int(np.searchsorted(x, window[0])) - 1)
    last = max(first, min(len(x), int(np.searchsorted(x, window[1], side="right")) + 1))
    pieces = ((0, first, few), (first, last, max(16, limit - 2 * few)), (last, len(x), few))
    found = [
        begin + envelope([curve[begin:end] for curve in curves], most) for begin, end, most in pieces if begin < end
    ]
    return np.concatenate(found) if found else np.arange(0)


def _in_stretches(values: NDArray[np.generic], width: int, filler: object) -> NDArray[np.generic]:
    """(stretches, width), the last one filled up."""
    missing = -len(values) % width
    return np.append(values, np.full(missing, filler, values.dtype)).reshape(-1, width)
