"""Smoothing of a curve: an exponential moving average without the pull towards its start."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from rlwatch_dashboard.columns import Floats

MOST = 0.999
"""The strongest smoothing: about a thousand points count."""

FORGOTTEN = 1e-9
"""A weight so small that what has it does not count any more."""


def smoothed(values: Floats, weight: float) -> Floats:
    """The bias-corrected exponential moving average.

    s_t = Σ_{i ≤ t} β^(k_t − k_i) · y_i / Σ_{i ≤ t} β^(k_t − k_i)

    over the finite y_i, where k_i counts them: a NaN or inf neither counts nor takes time, and the result has a gap
    there. Dividing by the sum of the weights is what Adam calls bias correction: with one value seen, s is that value.

    Args:
        values: (n,), in any unit.
        weight: β, 0 (nothing is smoothed) to below 1.

    Returns:
        (n,), in the same unit.
    """
    finite = np.isfinite(values)
    result = np.full(len(values), np.nan)
    known = pl.Series(values[finite])
    if len(known):
        result[finite] = known.ewm_mean(alpha=1 - weight, adjust=True).to_numpy() if weight > 0 else known.to_numpy()
    return result


def needed(weight: float) -> int:
    """How many values before a point count for it: those whose weight is not `FORGOTTEN`.

    >>> needed(0.0), needed(0.9)
    (1, 197)
    """
    return 1 if weight <= 0 else math.ceil(math.log(FORGOTTEN) / math.log(weight))
