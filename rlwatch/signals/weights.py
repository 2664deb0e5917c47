"""What each completion weighs in an update, from the loss's gradient with respect to its tokens' log-probabilities.

g = ∂L_policy/∂log p of a token holds everything that the loss multiplies its score function by: the advantage, the
ratio, every mask and every denominator. |w| of a completion is Σ |g| over its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from rlwatch.signals.shares import KINDS
from rlwatch.signals.tokens import Sums

SUMS = (
    "active", "weighed_tokens", "gradient_squared", "rows", "abs_advantage", "weight", "weight_squared", "weight_long",
    "weight_length", "length", "length_squared", "weight_incorrect", "weight_known",
    *(f"weight_{kind}" for kind in KINDS),
)  # fmt: skip
"""The names of all sums that this file knows."""


def weight_rows(
    policy: Mapping[str, torch.Tensor],
    advantages: torch.Tensor,
    lengths: torch.Tensor | None,
    long: torch.Tensor | None,
    correct: torch.Tensor | None,
    kinds: torch.Tensor | None = None,
) -> Sums:
    """What adds up of each row of a micro-batch, (B,) each.

    Args:
        policy: With `weight`: |w| of each row, as [`policy_rows`][rlwatch.signals.tokens.policy_rows] gives it.
        advantages: (B, 1) or (B, T).
        lengths: (B,), tokens that the policy wrote; None where nobody knows.
        long: (B,), 1 where that is more than the median of the row's generation; None with `lengths`.
        correct: (B,), 1, 0 or NaN; None where nobody knows.
        kinds: (len(KINDS), B), 1 where a row is of a kind, as [`kinds_of`][rlwatch.signals.shares.kinds_of] gives it;
            None where nobody knows.
    """
    weight = policy["weight"]
    kind = weight.dtype
    rows = {
        "rows": torch.ones_like(weight),
        "abs_advantage": advantages.detach().to(kind).abs().mean(dim=1),
        "weight_squared": weight * weight,
    }
    if lengths is not None and long is not None:
        lengths = lengths.to(kind)
        rows |= {
            "weight_long": weight * long,
            "weight_length": weight * lengths,
            "length": lengths,
            "length_squared": lengths * lengths,
        }
    if correct is not None:
        rows["weight_incorrect"] = weight.masked_fill(correct != 0, 0)
        rows["weight_known"] = weight.masked_fill(torch.isnan(correct), 0)
    if kinds is not None:
        for name, row in zip(KINDS, kinds.to(weight.dtype) * weight, strict=True):
            rows[f"weight_{name}"] = row
    return rows


def weight_metrics(sums: Mapping[str, float]) -> dict[str, float]:
    """The `signal/` and `weight/` families from the sums of a step; a share of no weight at all is absent."""
    rows = sums.get("rows")
    if not rows:
        return {}
    weight, squared = sums["weight"], sums["weight_squared"]
    metrics = {
        "signal/abs_advantage": sums["abs_advantage"] / rows,
        "signal/ess": weight**2 / squared / rows if squared else 0.0,
    }
    if sums["weighed_tokens"]:
        metrics["signal/active_tokens"] = sums["active"] / sums["weighed_tokens"]
    if sums.get("weight_known"):
        metrics["weight/incorrect"] = sums["weight_incorrect"] / sums["weight_known"]
    metrics |= _by_kind(sums, weight)
    if "weight_long" not in sums:
        return metrics
    if weight:
        metrics["weight/long"] = sums["weight_long"] / weight
    covariance = sums["weight_length"] / rows - weight / rows * (sums["length"] / rows)
    spread = (squared / rows - (weight / rows) ** 2) * (sums["length_squared"] / rows - (sums["length"] / rows) ** 2)
    if spread > 1e-18 * squared / rows * sums["length_squared"] / rows:  # else one of the two does not vary
        metrics["weight/length_corr"] = covariance / math.sqrt(spread)
    return metrics


def _by_kind(sums: Mapping[str, float], weight: float) -> dict[str, float]:
    metrics = {}
    if weight > 0:
        for kind in ("q1", "q2", "q3", "q4", "truncated"):
            share = sums.get(f"weight_{kind}", math.nan) / weight
            if not math.isnan(share):
                metrics[f"weight/{'length_' if kind[0] == 'q' else ''}{kind}"] = share
    if sums.get("weight_graded"):
        metrics["weight/hard"] = sums["weight_hard"] / sums["weight_graded"]
        metrics["weight/easy"] = sums["weight_easy"] / sums["weight_graded"]
    return metrics
