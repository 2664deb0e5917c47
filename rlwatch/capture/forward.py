"""Entropy of a trainer that shows no rollouts, from what its model's forward pass gives: SFT, DPO, a plain Trainer.

TRL's own trainers ask the model for entropies, which costs nothing to look at. A plain causal language model gives
logits: a pass over the whole vocabulary for each token, so that is done on sampled steps alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlwatch.capture.guard import Guard
from rlwatch.signals.tokens import entropy_of_logits

IGNORED = -100
"""The label of a token that the loss does not count."""


class ForwardListener:
    """Hands over (entropies, mask), each (B, T), of every forward pass that is trained on.

    Args:
        model: The trainer's model, unwrapped.
        guard: Catches rlwatch's own faults.
        saw: Called with them.
    """

    def __init__(self, model: torch.nn.Module, guard: Guard, saw: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
        self.look_at_logits = False
        self._guard = guard
        self._saw = saw
        self._handle = model.register_forward_hook(self._after, with_kwargs=True)

    def close(self) -> None:
        """Take the hook off the model."""
        self._handle.remove()

    def _after(self, module: torch.nn.Module, _: Any, kwargs: dict[str, Any], output: Any) -> None:
        if module.training and torch.is_grad_enabled():  # neither evaluation nor a reference's pass
            self._guard.run("looking at a forward pass", self._look, kwargs, output)

    @torch.no_grad()
    def _look(self, kwargs: dict[str, Any], output: Any) -> None:
        entropies, mask = getattr(output, "entropy", None), getattr(output, "label_mask", None)
        if entropies is not None and mask is not None:
            self._saw(entropies.detach(), mask)
            return
        logits, labels = getattr(output, "logits", None), kwargs.get("labels")
        if not self.look_at_logits or logits is None or labels is None:
            return
        if labels.dim() == 2 and logits.shape[:-1] == labels.shape:  # else a class for each text, and not a token
            self._saw(entropy_of_logits(logits[:, :-1]), labels[:, 1:] != IGNORED)
