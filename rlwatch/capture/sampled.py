"""What costs too much for every step and is measured on every n-th: the policy's share of the gradient, the update."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from rlwatch.signals.tokens import wide

Reduce = Callable[[torch.Tensor], torch.Tensor]
"""The mean of a tensor over all ranks."""


class GradientSplit:
    """The regulariser's part of the gradient, gathered over a step's micro-batches by a backward pass of its own.

    Holds one copy of the trainable parameters' gradients, and only during a step that is split.
    """

    def __init__(self) -> None:
        self._regulariser: list[torch.Tensor] | None = None

    @property
    def gathered(self) -> bool:
        """There is something to finish."""
        return self._regulariser is not None

    def add(self, gradients: Sequence[torch.Tensor]) -> None:
        """Count in a micro-batch's part."""
        if self._regulariser is None:
            self._regulariser = [g.detach().clone() for g in gradients]
        else:
            torch._foreach_add_(self._regulariser, list(gradients))

    def finish(self, parameters: Sequence[torch.Tensor], coefficient: float, reduce: Reduce) -> dict[str, float]:
        """The norms of both parts, once the gradients are clipped; nothing where nothing was gathered.

        Args:
            parameters: With their gradients as the optimizer will get them.
            coefficient: What clipping multiplied them by.
            reduce: Takes the mean over ranks, as the gradients have been.
        """
        regulariser, self._regulariser = self._regulariser, None
        if regulariser is None:
            return {}
        policy, other = 0.0, 0.0
        for parameter, part in zip(parameters, regulariser, strict=True):
            part = reduce(part)
            applied = parameter.grad if parameter.grad is not None else torch.zeros_like(part)
            policy += _squares(applied - coefficient * part)
            other += _squares(part)
        effective = math.sqrt(policy)
        return {
            "grad/effective_norm": effective,
            "grad/policy_norm": effective / coefficient if coefficient else math.nan,
            "grad/regulariser_norm": math.sqrt(other),
        }


class UpdateNorm:
    """What the optimizer really did to the weights, from a copy of them that lives for one step."""

    def __init__(self) -> None:
        self._before: list[torch.Tensor] | None = None

    def before(self, parameters: Sequence[torch.Tensor]) -> None:
        """Just before the optimizer's step."""
        self._before = [p.detach().clone() for p in parameters]

    def after(self, parameters: Sequence[torch.Tensor]) -> dict[str, float]:
        """Just after it: ‖Δθ‖ and ‖Δθ‖/‖θ‖ with θ as it was before."""
        before, self._before = self._before, None
        if before is None:
            return {}
        moved = sum(_squares(p.detach() - b) for p, b in zip(parameters, before, strict=True))
        size = sum(_squares(b) for b in before)
        metrics = {"update/norm": math.sqrt(moved)}
        if size:
            metrics["update/relative"] = math.sqrt(moved / size)
        return metrics


def _squares(tensor: torch.Tensor) -> float:
    """Σ x²; of a sharded tensor over all its shards."""
    norm = torch.linalg.vector_norm(tensor, dtype=wide(tensor.device))
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm) ** 2
