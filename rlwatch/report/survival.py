"""Time to an event that not every run had: the Kaplan-Meier curve and the log-rank test.

Times are optimizer steps. A run without the event is censored at its last step: it was seen to hold until there, and
nothing is known of later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlwatch.report.statistics import Floats, permutation_test


@dataclass(frozen=True)
class Survival:
    """A step of the curve: from `time` on, this `share` is left; `at_risk` were there just before."""

    time: float
    share: float
    at_risk: int
    events: int


@dataclass(frozen=True)
class LogRank:
    """What the test says.

    Args:
        observed: Events in the first group.
        expected: Events that it would have with the hazard of both groups taken together.
        chi_square: (observed − expected)²/variance, one degree of freedom.
        p: Of chi-square; too small for a handful of runs.
        p_permutation: Of dealing the runs to the groups anew; the one to judge by.
    """

    observed: int
    expected: float
    chi_square: float
    p: float
    p_permutation: float


def kaplan_meier(times: ArrayLike, events: ArrayLike) -> list[Survival]:
    """S(t) = Π over event times tᵢ ≤ t of (1 − dᵢ/nᵢ) (Kaplan & Meier 1958).

    Args:
        times: (n,) step of the event, or of the censoring.
        events: (n,) bool, whether it was the event. One censored at the time of an event still counts as at risk.

    Returns:
        One a distinct time at which there was an event.
    """
    when, had = np.asarray(times, dtype=np.float64), np.asarray(events, dtype=bool)
    share, curve = 1.0, []
    for time in np.unique(when[had]):
        at_risk, here = int((when >= time).sum()), int((had & (when == time)).sum())
        share *= 1 - here / at_risk
        curve.append(Survival(float(time), share, at_risk, here))
    return curve


def median_time(curve: Sequence[Survival]) -> float | None:
    """The first time at which half or less is left; None where the curve does not come down so far."""
    return next((point.time for point in curve if point.share <= 0.5 + 1e-12), None)


def log_rank(
    first: tuple[ArrayLike, ArrayLike], second: tuple[ArrayLike, ArrayLike], *, seed: int = 0
) -> LogRank | None:
    """Whether two groups differ in their time to the event (Mantel 1966).

    Over event times: E = Σ d·n₁/n, V = Σ d·(n₁/n)·(n₂/n)·(n − d)/(n − 1). The p of chi-square with one degree of
    freedom is erfc(√(χ²/2)). O − E is the sum over the first group of δᵢ − Λ(tᵢ), Λ the Nelson-Aalen estimate of all,
    and so the permutation test of these scores is that of the log-rank statistic: exact for up to 8 a side.

    Args:
        first: Times (n,) and events (n,), as in [`kaplan_meier`][rlwatch.report.survival.kaplan_meier].
        second: The same of the other group, (m,).
        seed: Of the permutations, where they are drawn.

    Returns:
        None where nobody had the event, or it cannot be told apart who did.
    """
    groups = [(np.asarray(t, dtype=np.float64), np.asarray(e, dtype=bool)) for t, e in (first, second)]
    times, events = (np.concatenate([group[i] for group in groups]) for i in (0, 1))
    size = len(groups[0][0])
    mine = np.arange(len(times)) < size
    expected = variance = 0.0
    hazard: Floats = np.zeros(len(times))
    for time in np.unique(times[events]):
        risk = times >= time
        n, n1, d = int(risk.sum()), int((risk & mine).sum()), int((events & (times == time)).sum())
        expected += d * n1 / n
        hazard += risk * (d / n)
        if n > 1:
            variance += d * (n1 / n) * (1 - n1 / n) * (n - d) / (n - 1)
    if variance <= 0:
        return None
    observed = int((events & mine).sum())
    chi_square = (observed - expected) ** 2 / variance
    scores = events - hazard
    return LogRank(
        observed,
        expected,
        chi_square,
        math.erfc(math.sqrt(chi_square / 2)),
        permutation_test(scores[:size], scores[size:], seed=seed),
    )
