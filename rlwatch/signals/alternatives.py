"""What a loss would have made of the very same tokens, had one of its decisions been another.

An update is Jᵀg with g = ∂L_policy/∂log p: each alternative is another g for the same J.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from rlwatch.signals.decisions import DENOMINATORS, SCALINGS, WIDER
from rlwatch.signals.losses import CLIPPED, LossConfig, TokenBatch, aggregate, policy_terms

STD_EPSILON = 1e-4
"""What TRL adds to a standard deviation before it divides by it."""


@dataclass(frozen=True)
class Siblings:
    """What the rows of a micro-batch need to know of their groups, (B, 1) each.

    Args:
        centred: Reward minus the group's mean.
        group_std: The group's deviation of rewards (n − 1).
        batch_std: That of the whole generation (n − 1).
        alive: 1 where the group has variance.
        alive_items: Loss tokens of the whole generation in groups with variance; None where that is not known.
    """

    centred: torch.Tensor
    group_std: torch.Tensor
    batch_std: torch.Tensor
    alive: torch.Tensor
    alive_items: float | None = None


def token_gradient(config: LossConfig, batch: TokenBatch, kind: str | None = None) -> torch.Tensor:
    """∂L_policy/∂log p, (B, T), of the loss, or of the loss with another denominator.

    Args:
        config: The loss.
        batch: Its micro-batch.
        kind: The loss type whose denominator is taken; None for the loss's own.
    """
    with torch.enable_grad():
        leaf = batch.logps.detach().clone().requires_grad_()
        seen = replace(batch, logps=leaf)
        terms = policy_terms(config, seen)
        loss = aggregate(config if kind is None else replace(config, loss_type=kind), seen, terms)
        (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient


def alternatives(
    config: LossConfig, batch: TokenBatch, siblings: Siblings | None, scaling: str | None
) -> dict[str, torch.Tensor]:
    """g of each alternative that makes sense for this loss, (B, T) each, and `actual`.

    Args:
        config: The loss.
        batch: One micro-batch.
        siblings: What is known of its groups; without it, scaling and dead groups are left out.
        scaling: TRL's `scale_rewards`, one of `SCALINGS`; None where it is something else.
    """
    found = {"actual": token_gradient(config, batch)}
    if config.loss_type != "rloo":
        for kind in DENOMINATORS:
            if kind == "dapo" and batch.items is None:
                continue
            found[f"denominator-{kind}"] = token_gradient(config, batch, kind)
    if config.loss_type in CLIPPED and math.isfinite(config.epsilon_high):
        wider = replace(config, epsilon_high=WIDER * config.epsilon_high)
        found["clip-higher"] = token_gradient(wider, batch)
    if siblings is None or config.loss_type == "rloo" or batch.advantages.shape[1] != 1:
        return found
    if scaling is not None and _as_scaled(siblings, scaling, batch.advantages):
        for name in SCALINGS:
            scaled = replace(batch, advantages=_scaled(siblings, name).to(batch.advantages))
            found[f"scaling-{name}"] = token_gradient(config, scaled)
    dropped = _without_dead(config, batch, siblings)
    if dropped is not None:
        found["drop-dead"] = dropped
    return found


def _scaled(siblings: Siblings, scaling: str) -> torch.Tensor:
    if scaling == "none":
        return siblings.centred
    std = siblings.group_std if scaling == "group" else siblings.batch_std
    return siblings.centred / (std + STD_EPSILON)


def _as_scaled(siblings: Siblings, scaling: str, advantages: torch.Tensor) -> bool:
    """Whether the advantages are what the rewards and this scaling give: a subclass may have its own."""
    expected = _scaled(siblings, scaling).to(advantages)
    return bool(torch.allclose(expected, advantages, rtol=1e-3, atol=1e-4))


def _without_dead(config: LossConfig, batch: TokenBatch, siblings: Siblings) -> torch.Tensor | None:
    """g with the rows of dead groups taken out of the micro-batch, 0 there; None where the denominator is not known."""
    keep = siblings.alive[:, 0] > 0
    gradient = torch.zeros_like(batch.logps)
    if not keep.any():
        return gradient
    items = batch.items
    if config.loss_type in ("dapo", "cispo", "vespo"):
        if items is None or siblings.alive_items is None:
            return None
        items = torch.as_tensor(siblings.alive_items).to(items)

    def rows(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor[keep]

    part = TokenBatch(
        logps=batch.logps[keep],
        mask=batch.mask[keep],
        advantages=batch.advantages[keep],
        old_logps=rows(batch.old_logps),
        ref_logps=rows(batch.ref_logps),
        sampling_logps=rows(batch.sampling_logps),
        sampling_ratio=rows(batch.sampling_ratio),
        entropy_mask=rows(batch.entropy_mask),
        items=items,
        accumulation=batch.accumulation,
    )
    gradient[keep] = token_gradient(config, part)
    return gradient
