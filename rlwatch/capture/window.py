"""One optimizer step as it happens: sums that stay on the device until the step is over."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from rlwatch.signals.gradients import clip_coefficient
from rlwatch.signals.tokens import masked_sums


@dataclass
class _Sums:
    """A sum on the device, and how many micro-batches are in it."""

    total: torch.Tensor | None = None
    micro_batches: int = 0

    def add(self, values: torch.Tensor) -> None:
        self.total = values if self.total is None else self.total + values
        self.micro_batches += 1


class StepWindow:
    """Collects what the micro-batches of one optimizer step bring, on one rank.

    Nothing is read off the device before [`totals`][rlwatch.capture.window.StepWindow.totals].
    """

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.learning_rate: float | None = None
        self.grad_norm: Any = None
        self.generations: set[int] = set()
        self._entropy = _Sums()
        self._loss = _Sums()

    def add_entropies(self, entropies: torch.Tensor, mask: torch.Tensor) -> None:
        """Count in a micro-batch's token entropies, (rows, tokens), where the mask is 1."""
        self._entropy.add(masked_sums(entropies, mask))

    def add_loss(self, loss: torch.Tensor) -> None:
        """Count in the loss that a micro-batch gave to backward, already scaled for accumulation."""
        self._loss.add(loss.detach().to(_wide(loss.device)))

    def totals(self, device: torch.device) -> torch.Tensor:
        """What adds up over ranks, (5,): Σ m·H, Σ m, micro-batches in these, Σ loss, micro-batches in it."""
        totals = no_totals(device)
        if self._entropy.total is not None:
            totals[:2] = self._entropy.total.to(device)
        if self._loss.total is not None:
            totals[3] = self._loss.total.to(device)
        totals[2], totals[4] = self._entropy.micro_batches, self._loss.micro_batches
        return totals


def no_totals(device: torch.device) -> torch.Tensor:
    """The totals of a rank that has seen nothing."""
    return torch.zeros(5, dtype=_wide(device), device=device)


def window_metrics(totals: list[float], micro_batches: int, ranks: int) -> dict[str, float]:
    """Entropy and loss of a step from the totals of all ranks.

    Args:
        totals: As [`StepWindow.totals`][rlwatch.capture.window.StepWindow.totals] gives them, added up.
        micro_batches: How many the step had on each rank. Where some were missed, on any rank, the metric is absent:
            the mean of a part is not the mean.
        ranks: How many there are.
    """
    entropy, tokens, with_entropy, loss, with_loss = totals
    expected = micro_batches * ranks
    metrics = {}
    if tokens and with_entropy >= expected:
        metrics["entropy/mean"] = entropy / tokens
    if with_loss >= expected:
        metrics["loss"] = loss / ranks
    return metrics


def _wide(device: torch.device) -> torch.dtype:
    """float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def gradient_metrics(norm: Any, max_norm: float | None, *, clipped_here: bool, policy_only: bool) -> dict[str, float]:
    """The `grad/` family.

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
    if clipped_here:
        coefficient = clip_coefficient(value, max_norm)
        metrics["grad/clip_coef"] = coefficient
        metrics["grad/applied_norm"] = coefficient * value
        if policy_only:
            metrics["grad/effective_norm"] = coefficient * value
    return metrics
