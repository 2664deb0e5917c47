"""Sums over the tokens of a micro-batch from numpy arrays: where no torch is, or tensors need not stay on a device.

Names and definitions are those of [`signals.tokens`][rlwatch.signals.tokens], for a loss with one ratio a token that is
clipped on both sides, and [`signals.totals`][rlwatch.signals.totals] makes metrics of either. Here a mask selects: what
it hides is never calculated with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlwatch.signals.histogram import BINS, EDGES
from rlwatch.signals.totals import RARE

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class TokenArrays:
    """One micro-batch: B completions, T tokens; log-probabilities and entropies in nats. None is not known.

    Args:
        logps: (B, T), log p of each sampled token under the policy.
        mask: (B, T), which tokens the loss counts.
        entropies: (B, T), of the policy's distribution over each token.
        old_logps: (B, T), log p under the policy that the ratio is measured from.
        ref_logps: (B, T), under the reference policy.
        sampler_logps: (B, T), as the sampler reported them; NaN where it reported none.
        advantages: (B, 1) or (B, T).
        epsilon: How far below and above 1 the ratio is clipped.
        correct: (B,), 1, 0 or NaN.
    """

    logps: FloatArray
    mask: BoolArray
    entropies: FloatArray | None = None
    old_logps: FloatArray | None = None
    ref_logps: FloatArray | None = None
    sampler_logps: FloatArray | None = None
    advantages: FloatArray | None = None
    epsilon: tuple[float, float] | None = None
    correct: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.advantages is not None and self.advantages.shape[1] == 1:
            object.__setattr__(self, "advantages", np.broadcast_to(self.advantages, self.mask.shape))


def token_sums(batch: TokenArrays) -> tuple[dict[str, float], dict[str, float]]:
    """Sums and maxima by the names of `signals.tokens`; what they need and is not known is left out."""
    with np.errstate(all="ignore"):  # a ratio that overflows is inf, and is told as that
        sums = {"tokens": float(batch.mask.sum()), "logp": float(batch.logps[batch.mask].sum())}
        maxima: dict[str, float] = {}
        _add_entropy(batch, sums)
        _add_advantages(batch, sums)
        _add_ratio(batch, sums, maxima)
        _add_distances(batch, sums, maxima)
    return sums, maxima


def _add_entropy(batch: TokenArrays, sums: dict[str, float]) -> None:
    """Σ H, over all tokens and over those of correct and of incorrect completions."""
    if batch.entropies is None:
        return
    sums["entropy"] = float(batch.entropies[batch.mask].sum())
    if batch.correct is not None:
        for name, rows in (("correct", batch.correct == 1), ("incorrect", batch.correct == 0)):
            kept = batch.mask & rows[:, None]
            sums[f"{name}_tokens"] = float(kept.sum())
            sums[f"{name}_entropy"] = float(batch.entropies[kept].sum())


def _add_advantages(batch: TokenArrays, sums: dict[str, float]) -> None:
    """Σ A, Σ A·log p, and Σ over completions of the mean |A| over a completion's tokens."""
    if batch.advantages is None:
        return
    advantages = batch.advantages[batch.mask]
    sums["advantage"] = float(advantages.sum())
    sums["advantage_logp"] = float((advantages * batch.logps[batch.mask]).sum())
    tokens = batch.mask.sum(axis=1)
    sizes = np.where(batch.mask, np.abs(batch.advantages), 0.0).sum(axis=1)
    sums["rows"] = float((tokens > 0).sum())
    sums["abs_advantage"] = float((sizes[tokens > 0] / tokens[tokens > 0]).sum())


def _add_ratio(batch: TokenArrays, sums: dict[str, float], maxima: dict[str, float]) -> None:
    """r = p/p_old: Σ r, max r, Σ (r − 1 − log r), and which tokens are clipped or move the policy.

    min(r·A, clip(r)·A) has a gradient where A ≠ 0, unless A > 0 and r > 1 + ε_high, or A < 0 and r < 1 − ε_low.
    """
    if batch.old_logps is None:
        return
    old = batch.old_logps[batch.mask]
    log_ratio = batch.logps[batch.mask] - old
    ratio = np.exp(log_ratio)
    sums["ratios"], sums["ratio"] = float(ratio.size), float(ratio.sum())
    sums["old_kl"] = float((np.expm1(log_ratio) - log_ratio).sum())
    maxima["ratio"] = float(ratio.max(initial=-math.inf))
    if batch.advantages is None or batch.epsilon is None:
        return
    advantages = batch.advantages[batch.mask]
    low = (ratio < 1 - batch.epsilon[0]) & (advantages < 0)
    high = (ratio > 1 + batch.epsilon[1]) & (advantages > 0)
    sums["clipped_low"], sums["clipped_high"] = float(low.sum()), float(high.sum())
    sums["clipped_high_rare"] = float((high & (np.exp(old) < RARE)).sum())
    sums["active"] = float(((advantages != 0) & ~low & ~high).sum())


def _add_distances(batch: TokenArrays, sums: dict[str, float], maxima: dict[str, float]) -> None:
    """Σ of the k3 estimate of the KL to the reference; |log p − log p_sampler| and p/p_sampler where that is known.

    The sampler is held against the policy that sampled: the old one, where there is one.
    """
    if batch.ref_logps is not None:
        difference = batch.ref_logps[batch.mask] - batch.logps[batch.mask]
        sums["ref_kl"] = float((np.expm1(difference) - difference).sum())
    if batch.sampler_logps is not None:
        own = batch.logps if batch.old_logps is None else batch.old_logps
        gap = (own - batch.sampler_logps)[batch.mask]
        gap = gap[~np.isnan(gap)]
        sums["sampled"] = float(gap.size)
        sums["sampler_gap"], sums["sampler_ratio"] = float(np.abs(gap).sum()), float(np.exp(gap).sum())
        maxima["sampler_gap"] = float(np.abs(gap).max(initial=-math.inf))


def signal_metrics(sums: Mapping[str, float]) -> dict[str, float]:
    """`signal/abs_advantage` and `signal/active_tokens` from the sums of a step; what was not summed is absent."""
    metrics = {}
    if "abs_advantage" in sums and sums.get("rows"):
        metrics["signal/abs_advantage"] = sums["abs_advantage"] / sums["rows"]
    if "active" in sums and sums.get("tokens"):
        metrics["signal/active_tokens"] = sums["active"] / sums["tokens"]
    return metrics


def entropy_histogram(entropies: FloatArray, mask: BoolArray) -> FloatArray:
    """Counts of token entropies in the bins of [`signals.histogram`][rlwatch.signals.histogram], (BINS,).

    Args:
        entropies: (B, T), nats; what is not finite is not counted.
        mask: (B, T), which tokens count.
    """
    values = entropies[mask]
    values = values[np.isfinite(values)]
    place = np.searchsorted(EDGES, values, side="right")
    return np.bincount(place, minlength=BINS).astype(np.float64)
