"""What each completion weighs in an update, from the loss's gradient with respect to its tokens' log-probabilities.

g = ∂L_policy/∂log p of a token holds everything that the loss multiplies its score function by: the advantage, the
ratio, every mask and every denominator. |w| of a completion is Σ |g| over its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from rlwatch.signals.tokens import Sums, masked_sum, wide

SUMS = (
    "active", "weighed_tokens", "gradient_squared", "rows", "abs_advantage", "weight", "weight_squared", "weight_long",
    "weight_length", "length", "length_squared", "weight_incorrect", "weight_known",
)  # fmt: skip
"""The names of all sums that this file knows."""


def row_weights(gradient: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """|w| of each row: Σ m·|g|. (B,) from (B, T), in float64 where the device has it."""
    kept = torch.where(mask.bool(), gradient.detach().abs(), 0)
    return kept.sum(dim=1, dtype=wide(gradient.device))


def weight_sums(
    gradient: torch.Tensor,
    mask: torch.Tensor,
    advantages: torch.Tensor,
    lengths: torch.Tensor | None,
    long: torch.Tensor | None,
    correct: torch.Tensor | None,
) -> Sums:
    """Sums over a micro-batch that add up.

    Args:
        gradient: (B, T), g.
        mask: (B, T), 1 for the tokens that the loss sees.
        advantages: (B, 1) or (B, T).
        lengths: (B,), tokens that the policy wrote; None where nobody knows.
        long: (B,), 1 where that is more than the median of the row's generation; None with `lengths`.
        correct: (B,), 1, 0 or NaN; None where nobody knows.
    """
    kind = wide(gradient.device)
    weights = row_weights(gradient, mask)
    sums = {
        "active": ((gradient != 0) & mask.bool()).sum(dtype=kind),
        "weighed_tokens": mask.sum(dtype=kind),
        "gradient_squared": masked_sum(gradient.to(kind) ** 2, mask),
        "rows": torch.full((), float(len(weights)), dtype=kind, device=weights.device),
        "abs_advantage": advantages.detach().abs().mean(dim=1).sum(dtype=kind),
        "weight": weights.sum(),
        "weight_squared": (weights**2).sum(),
    }
    if lengths is not None and long is not None:
        lengths = lengths.to(kind)
        sums["weight_long"] = (weights * long).sum()
        sums["weight_length"] = (weights * lengths).sum()
        sums["length"] = lengths.sum()
        sums["length_squared"] = (lengths**2).sum()
    if correct is not None:
        sums["weight_incorrect"] = masked_sum(weights, correct == 0)
        sums["weight_known"] = masked_sum(weights, ~torch.isnan(correct))
    return sums


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
    if "weight_long" not in sums:
        return metrics
    if weight:
        metrics["weight/long"] = sums["weight_long"] / weight
    covariance = sums["weight_length"] / rows - weight / rows * (sums["length"] / rows)
    spread = (squared / rows - (weight / rows) ** 2) * (sums["length_squared"] / rows - (sums["length"] / rows) ** 2)
    if spread > 1e-18 * squared / rows * sums["length_squared"] / rows:  # else one of the two does not vary
        metrics["weight/length_corr"] = covariance / math.sqrt(spread)
    return metrics
