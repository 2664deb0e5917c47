"""The gradient as the optimizer gets it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def clip_coefficient(norm: float, max_norm: float | None) -> float:
    """What clipping by the norm multiplies a gradient by: min(1, max_norm / (‖g‖ + 1e-6)).

    As in `torch.nn.utils.clip_grad_norm_`. NaN and inf are not hidden: the coefficient of a NaN norm is NaN.

    Args:
        norm: ‖g‖₂ before clipping.
        max_norm: The limit; None or 0 where clipping is off, then the coefficient is 1.

    >>> round(clip_coefficient(2.0, 1.0), 6)
    0.5
    >>> clip_coefficient(0.5, 1.0)
    1.0
    """
    if not max_norm:
        return 1.0
    coefficient = max_norm / (norm + 1e-6)
    return 1.0 if coefficient > 1.0 else coefficient


def gradient_metrics(norm: Any, max_norm: float | None, *, clipped_here: bool, policy_only: bool) -> dict[str, float]:
    """The `grad/` family, as far as it is free.

    Args:
        norm: ‖g‖ before clipping, a number or a tensor; None where the trainer gave none.
        max_norm: The trainer's max_grad_norm.
        clipped_here: The trainer itself clips; a DeepSpeed engine does it out of sight.
        policy_only: The loss holds nothing but the policy term, so all of the gradient is the policy's.
    """
    if norm is None:
        return {}
    value = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
    metrics = {"grad/norm": value}
    if policy_only:
        metrics["grad/policy_norm"] = value
        metrics["grad/regulariser_norm"] = 0.0
    if clipped_here:
        coefficient = clip_coefficient(value, max_norm)
        metrics["grad/clip_coef"] = coefficient
        metrics["grad/applied_norm"] = coefficient * value
        if policy_only:
            metrics["grad/effective_norm"] = coefficient * value
    return metrics


def gradient_norm(gradients: Sequence[Any]) -> float:
    """‖g‖₂ = √(Σ g²) over all of them, summed in float64 where the device has it; 0 of none.

    Args:
        gradients: torch tensors, of any shapes, dtypes and devices; of a sharded one, all its shards count.
    """
    import torch

    norms = []
    for gradient in gradients:
        kind = torch.float32 if gradient.device.type == "mps" else torch.float64
        values = gradient.detach().coalesce().values() if gradient.is_sparse else gradient.detach()
        norm = torch.linalg.vector_norm(values, dtype=kind)
        norms.append(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
    if not norms:
        return 0.0
    squares = torch.stack([norm.to(norms[0].device, norms[0].dtype) for norm in norms]) ** 2
    return math.sqrt(squares.sum().item())
