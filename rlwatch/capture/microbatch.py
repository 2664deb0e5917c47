"""One micro-batch of a TRL trainer, from what its loss is given to the gradient that comes back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from rlwatch.capture.releases import counts_a_window
from rlwatch.capture.trainer import is_rloo
from rlwatch.signals.losses import LossConfig, TokenBatch, aggregate, kl_terms, policy_terms

_OPTIONAL = (
    "delta", "use_bias_correction_kl", "off_policy_mask_threshold", "sapo_temperature_pos", "sapo_temperature_neg",
    "vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg", "steps_per_generation",
)  # fmt: skip


def loss_config(trainer: Any) -> LossConfig | None:
    """What the trainer's loss is, or None for a trainer whose loss is not made of rewards."""
    args = trainer.args
    kind = getattr(trainer, "loss_type", None)
    if kind is None and is_rloo(trainer):
        kind = "rloo"
    if kind is None:
        return None
    settings = {name: getattr(args, name) for name in _OPTIONAL if hasattr(args, name)}
    return LossConfig(
        loss_type=kind,
        epsilon_low=trainer.epsilon_low,
        epsilon_high=trainer.epsilon_high,
        importance_sampling_level=getattr(trainer, "importance_sampling_level", "token"),
        beta=0.0 if kind == "rloo" else trainer.beta,  # RLOOTrainer takes its KL off the reward
        max_completion_length=trainer.max_completion_length,
        ranks=trainer.accelerator.num_processes,
        windowed=counts_a_window(),
        **settings,
    )


@dataclass
class MicroBatch:
    """What is known of the micro-batch that is being trained on.

    Args:
        inputs: What `compute_loss` was given.
        accumulation: Micro-batches of this step.
        entropy_coef: The entropy bonus's coefficient as it was when the loss began; TRL may change it at the end.
        logps: (B, T) with their graph.
        entropies: (B, T) with their graph where there is an entropy bonus.
        aux_loss: A router's auxiliary loss, or None.
        entropy_mask: What a `top_entropy_quantile` keeps, or None.
        gradient: (B, T), ∂L/∂log p as it came back from the loss, or None before that.
    """

    inputs: dict[str, Any]
    accumulation: int
    entropy_coef: float
    logps: torch.Tensor | None = None
    entropies: torch.Tensor | None = None
    aux_loss: torch.Tensor | None = None
    entropy_mask: torch.Tensor | None = None
    gradient: torch.Tensor | None = None
    _listening: bool = field(default=True, repr=False)

    @property
    def mask(self) -> torch.Tensor:
        """(B, T), 1 for the tokens that the loss counts: the policy's own, of rows that are not masked out."""
        mask: torch.Tensor = self.inputs["completion_mask"]
        return mask * self.inputs["tool_mask"] if "tool_mask" in self.inputs else mask

    def take(self, logps: torch.Tensor, entropies: torch.Tensor | None, aux_loss: torch.Tensor | None) -> None:
        """The forward pass of the loss; its log-probabilities will tell their gradient."""
        self.logps, self.entropies, self.aux_loss = logps, entropies, aux_loss
        if logps.requires_grad:
            logps.register_hook(self._came_back)  # type: ignore[no-untyped-call]

    def _came_back(self, gradient: torch.Tensor) -> None:
        if self._listening:
            self.gradient = gradient.detach().clone()

    def pause(self) -> None:
        """The backward passes that come now are not the one whose gradient is wanted."""
        self._listening = False

    def go_on(self) -> None:
        """The next one is."""
        self._listening = True

    def tokens(self, *, detached: bool = True) -> TokenBatch:
        """It as the loss's formulas take it."""
        assert self.logps is not None
        inputs = self.inputs
        advantages = inputs["advantages"]
        return TokenBatch(
            logps=self.logps.detach() if detached else self.logps,
            mask=self.mask,
            advantages=advantages[:, None] if advantages.dim() == 1 else advantages,
            old_logps=inputs.get("old_per_token_logps", inputs.get("old_logps")),
            ref_logps=inputs.get("ref_per_token_logps"),
            sampling_logps=inputs.get("sampling_per_token_logps"),
            sampling_ratio=inputs.get("importance_sampling_ratio"),
            entropy_mask=self.entropy_mask,
            items=inputs.get("num_items_in_batch"),
            accumulation=self.accumulation,
        )

    def regulariser(self, config: LossConfig, aux_coef: float) -> torch.Tensor | None:
        """All of the loss but the policy's part, with its graph; None where there is nothing else."""
        parts = []
        if config.beta:
            batch = self.tokens(detached=False)
            parts.append(aggregate(config, batch, kl_terms(config, batch)))
        if self.entropy_coef:
            assert self.entropies is not None
            kept = self.mask if self.entropy_mask is None else self.mask * self.entropy_mask
            mean = (self.entropies * kept).sum() / kept.sum().clamp(min=1.0)
            parts.append(-self.entropy_coef * mean / self.accumulation)
        if self.aux_loss is not None and aux_coef:
            parts.append(aux_coef * self.aux_loss / (1 if config.loss_type == "rloo" else self.accumulation))
        return torch.stack(parts).sum() if parts else None

    def regulariser_gradients(
        self, config: LossConfig, aux_coef: float, parameters: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Its gradient, by one backward pass of its own; zeros where it is off in this step.

        Raises:
            RuntimeError: The graph does not allow it, as under reentrant checkpointing.
        """
        loss = self.regulariser(config, aux_coef)
        if loss is None:
            return [torch.zeros_like(p) for p in parameters]
        self.pause()
        try:
            found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        finally:
            self.go_on()
        return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]

    def policy_gradient(self, config: LossConfig) -> torch.Tensor | None:
        """∂L_policy/∂log p, (B, T), up to a factor that all tokens share; None if nothing came back from the loss.

        What came back is just that, unless there is a KL term: then it is computed from the formulas, because taking
        the KL term's part off would leave rounding errors where a token is clipped or has no advantage.
        """
        if not config.beta:
            return self.gradient
        with torch.enable_grad():
            batch = self.tokens()
            leaf = batch.logps.clone().requires_grad_()
            batch = replace(batch, logps=leaf)
            (gradient,) = torch.autograd.grad(aggregate(config, batch, policy_terms(config, batch)), leaf)
        return gradient

    def mismatch(self, config: LossConfig, loss: torch.Tensor, aux_coef: float) -> float:
        """How far the loss that these formulas give is from the trainer's, as a share of its terms' size.

        The loss itself is no yardstick: advantages of both signs cancel in it to nearly zero.
        """
        with torch.no_grad():
            batch = self.tokens()
            terms = policy_terms(config, batch)
            mine = aggregate(config, batch, terms)
            other = self.regulariser(config, aux_coef)
            mine = mine if other is None else mine + other
            size = aggregate(config, batch, terms.abs()) + (0 if other is None else other.abs())
            return float((mine - loss).abs() / torch.maximum(size, loss.abs()).clamp(min=1e-12))
