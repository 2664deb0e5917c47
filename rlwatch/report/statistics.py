"""What a few seeds can and cannot show: robust means, intervals, tests that hold for small groups, and power.

Pure functions of numbers. Values are one per run (a seed), in whatever unit the caller has; times are optimizer steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

EXACT = 20_000
"""Ways to deal the seeds to two groups up to which all are counted: 8 against 8 has 12870 of them."""
DRAWS = 20_000
SAMPLES = 4_000


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its interval, in the unit of the values; both ends None where none can be given."""

    value: float
    low: float | None = None
    high: float | None = None


def interquartile_mean(values: ArrayLike) -> Floats:
    """IQM: the mean of what is left after ⌊n/4⌋ of the n values are cut off at each end (2108.13264).

    With fewer than four values it is the mean.

    Args:
        values: (..., n), any unit.

    Returns:
        (...), the same unit.

    >>> float(interquartile_mean([0, 1, 2, 3, 4, 5, 6, 100]))
    3.5
    """
    array = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    cut = array.shape[-1] // 4
    return np.asarray(array[..., cut : array.shape[-1] - cut].mean(axis=-1))


def stratified_bootstrap(
    strata: Sequence[ArrayLike],
    statistic: Callable[[list[Floats]], Floats],
    *,
    level: float = 0.95,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Interval:
    """A percentile interval: every stratum is resampled with replacement on its own, to its own size (2108.13264).

    It is too narrow for few values: for the IQM of n normal values the 95 % interval held the truth in 49, 73, 87, 90
    and 95 % of cases for n = 2, 3, 4, 5 and 8 (600 repetitions).

    Args:
        strata: One (n_i,) a stratum: a group, or a task.
        statistic: From one (samples, n_i) a stratum to (samples,).
        level: Share of the bootstrap distribution inside.
        samples: Resamples.
        seed: Of the resampling.
    """
    generator = np.random.default_rng(seed)
    arrays = [np.asarray(values, dtype=np.float64) for values in strata]
    drawn = [array[generator.integers(len(array), size=(samples, len(array)))] for array in arrays]
    low, high = np.quantile(statistic(drawn), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(statistic([array[None] for array in arrays])[0]), float(low), float(high))


def iqm_interval(values: ArrayLike, *, seed: int = 0) -> Interval:
    """The [IQM][rlwatch.report.statistics.interquartile_mean] of (n,) values and its 95 % bootstrap interval."""
    return stratified_bootstrap([values], lambda drawn: interquartile_mean(drawn[0]), seed=seed)


def iqm_difference(first: ArrayLike, second: ArrayLike, *, seed: int = 0) -> Interval:
    """IQM of (n,) values minus IQM of (m,) values, with its 95 % bootstrap interval; each group is a stratum."""
    return stratified_bootstrap(
        [first, second], lambda drawn: interquartile_mean(drawn[0]) - interquartile_mean(drawn[1]), seed=seed
    )


@lru_cache(maxsize=256)
def t_quantile(probability: float, degrees: float) -> float:
    """Student's t: the value below which a share ½ ≤ p < 1 of it lies.

    With t = √ν·tan θ its density is ∝ cos^(ν−1) θ, which is integrated numerically: right to four digits for ν ≥ 1.

    >>> round(t_quantile(0.975, 4), 3)
    2.776
    """
    angle = np.linspace(0.0, math.pi / 2, 200_001)
    density = np.clip(np.cos(angle), 0.0, 1.0) ** (degrees - 1)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    at = np.interp((probability - 0.5) * 2, below / below[-1], angle)
    return math.sqrt(degrees) * math.tan(float(at))


def mean_difference(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> Interval:
    """Mean of (n,) minus mean of (m,) ± t·√(s₁²/n + s₂²/m), the degrees of freedom after Welch (1947).

    Without an interval where a group has one value.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    value = float(a.mean() - b.mean())
    if min(len(a), len(b)) < 2:
        return Interval(value)
    parts = [float(group.var(ddof=1)) / len(group) for group in (a, b)]
    variance = sum(parts)
    if variance <= 0:
        return Interval(value, value, value)
    spread = sum(part**2 / (len(group) - 1) for part, group in zip(parts, (a, b), strict=True))
    half = t_quantile((1 + level) / 2, variance**2 / spread) * math.sqrt(variance)
    return Interval(value, value - half, value + half)


def cohens_d(first: ArrayLike, second: ArrayLike) -> float | None:
    """(mean₁ − mean₂) / s, s² = ((n−1)s₁² + (m−1)s₂²)/(n + m − 2): a difference in standard deviations (Cohen 1988).

    ±inf where no value varies inside its group, None where the means are equal too or no group has two values.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    degrees = len(a) + len(b) - 2
    if degrees < 1:
        return None
    difference = float(a.mean() - b.mean())
    pooled = math.sqrt(float(((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()) / degrees)
    if pooled <= 1e-12 * max(1e-300, float(np.abs(np.concatenate([a, b])).max())):
        return math.copysign(math.inf, difference) if difference else None
    return difference / pooled


def permutation_test(first: ArrayLike, second: ArrayLike, *, seed: int = 0) -> float:
    """The share of the ways to deal all values to groups of n and m whose means differ at least as much (Fisher 1935).

    Two-sided. Every way is counted where there are at most [`EXACT`][rlwatch.report.statistics.EXACT], so that the p is
    exact for up to 8 values a side; else random ones are drawn, and p = (found + 1)/(drawn + 1).

    >>> permutation_test([1, 2, 3, 4], [5, 6, 7, 8])  # 2 of 70
    0.02857142857142857
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n, pool = len(a), np.concatenate([a, b])
    pool = pool - pool.mean()
    ways = math.comb(len(pool), n)
    if ways <= EXACT:
        sums = pool[np.array(list(combinations(range(len(pool)), n)))].sum(axis=1)
    else:
        generator = np.random.default_rng(seed)
        sums = generator.permuted(np.broadcast_to(pool, (DRAWS, len(pool))), axis=1)[:, :n].sum(axis=1)
    # The pool sums to zero: the difference of the means is the first sum times a constant.
    enough = np.abs(sums) >= abs(float(pool[:n].sum())) - 1e-9 * float(np.abs(pool).sum())
    found = int(enough.sum())
    return found / ways if ways <= EXACT else (found + 1) / (DRAWS + 1)


def least_p(first: int, second: int) -> float:
    """The smallest p that the two-sided permutation test of n against m distinct values can give: 2/C(n+m, n) or less.

    With n ≠ m only one of the ways is as extreme as complete separation, at worst; the careful 1/C is given then.

    >>> least_p(3, 3), round(least_p(4, 4), 4)
    (0.1, 0.0286)
    """
    return min(1.0, (2 if first == second else 1) / math.comb(first + second, first))


def seeds_needed(effect: float, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Seeds a side with which a two-sided test shows a true effect of this size with this probability.

    n = 2(z₁₋α⸝₂ + z_power)²/d² + z²₁₋α⸝₂/4: the normal approximation with the correction for the t distribution of
    Guenther (1981), and never fewer than the exact permutation test needs to be able to reach α (4 at 5 %).

    Args:
        effect: Cohen's d; its sign does not matter.
        alpha: The level of the test.
        power: The probability.

    Returns:
        None for an effect of zero: no number of seeds shows it.

    >>> seeds_needed(0.5), seeds_needed(0.8), seeds_needed(1.0)
    (64, 26, 17)
    """
    if not effect:
        return None
    least = next(n for n in range(2, 100) if least_p(n, n) <= alpha)
    z = NormalDist().inv_cdf(1 - alpha / 2)
    needed = 2 * (z + NormalDist().inv_cdf(power)) ** 2 / effect**2 + z**2 / 4
    return max(least, math.ceil(needed))


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p as it is after k comparisons at once (Holm 1979): the i-th smallest times k − i + 1, never falling.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
