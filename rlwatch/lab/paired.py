"""What runs that were paired by their seed can show: differences, their intervals, exact tests, and seeds needed.

Pure functions of numbers. A pair is the same seed in two arms: the same first weights and the same first samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

from rlwatch.report.statistics import Interval, t_quantile

EXACT = 16
"""Pairs up to which all 2ⁿ ways to flip their signs are counted; of more, the normal approximation is used."""


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """x̄ ± t(n − 1)·s/√n, the interval of Student (1908); without one for fewer than two values.

    Args:
        values: (n,), any unit. For pairs, their differences.
        level: The share of such intervals that hold the true mean.

    >>> interval = mean_interval([1.0, 2.0, 3.0])
    >>> interval.value, round(interval.low, 2), round(interval.high, 2)
    (2.0, -0.48, 4.48)
    """
    mean = fmean(values)
    if len(values) < 2:
        return Interval(mean)
    half = t_quantile((1 + level) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def sign_flip(differences: Sequence[float]) -> float:
    """The share of the ways to flip signs in which the sum is at least as large: one-sided, exact (Fisher 1935).

    Small where the differences are above 0. It asks nothing of their distribution but that, were there no effect, each
    might as well have had the other sign. With n pairs it is never below 1/2ⁿ.

    Args:
        differences: (n,), any unit.

    >>> sign_flip([1.0, 2.0, 3.0])  # 1 way of 8
    0.125
    """
    n = len(differences)
    total = sum(differences)
    slack = 1e-9 * sum(abs(d) for d in differences)
    if n > EXACT:
        spread = math.sqrt(sum(d * d for d in differences))
        return 1 - NormalDist().cdf(total / spread) if spread else 1.0
    ways = itertools.product((1, -1), repeat=n)
    found = sum(sum(s * d for s, d in zip(signs, differences, strict=True)) >= total - slack for signs in ways)
    return float(found / 2**n)


def effect_size(differences: Sequence[float]) -> float | None:
    """d_z = mean/s of the differences (Cohen 1988): in deviations of the difference; ±inf where none varies.

    None for fewer than two pairs, and where all differences are 0.
    """
    if len(differences) < 2:
        return None
    mean, spread = fmean(differences), stdev(differences)
    if spread <= 1e-12 * max(abs(d) for d in differences):
        return math.copysign(math.inf, mean) if mean else None
    return mean / spread


def pairs_needed(effect: float | None, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Pairs with which a two-sided paired t-test shows an effect d_z with this probability.

    n = (z₁₋α⸝₂ + z_power)²/d² + z²₁₋α⸝₂/2, with Guenther's (1981) correction for the t distribution, and never fewer
    than the exact test needs to reach α one-sided (5 at 5 %).

    Args:
        effect: d_z; its sign does not matter.
        alpha: The level of the test.
        power: The probability.

    Returns:
        None for no effect: no number of pairs shows it.

    >>> pairs_needed(0.76), pairs_needed(0.5), pairs_needed(5.0)
    (16, 34, 5)
    """
    if not effect:
        return None
    least = math.ceil(math.log2(1 / alpha))
    z = NormalDist().inv_cdf(1 - alpha / 2)
    needed = 0.0 if math.isinf(effect) else (z + NormalDist().inv_cdf(power)) ** 2 / effect**2 + z * z / 2
    return max(least, math.ceil(needed))
