"""Sums over tokens that stay on the device: adding them up over micro-batches and ranks gives exact means."""

from __future__ import annotations

import torch


def masked_sums(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Σ m·v and Σ m: the mean over all tokens of a step is the ratio of these sums over all its micro-batches.

    A mean of the micro-batches' means is another number wherever they hold different counts of tokens.

    Args:
        values: (rows, tokens), any floating type; what lies under m = 0 is not looked at, NaN included.
        mask: (rows, tokens), 1 for the tokens that count.

    Returns:
        (2,) on the values' device, in float64 where the device has it.
    """
    wide = torch.float32 if values.device.type == "mps" else torch.float64
    counted = mask.to(torch.bool)
    total = torch.where(counted, values.detach(), 0).sum(dtype=wide)
    return torch.stack([total, counted.sum().to(wide)])
