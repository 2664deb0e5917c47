"""TRL's losses once more, from their formulas.

They serve to check what was captured against what was trained on, and to tell the policy's part of a loss from its
regularisers'.

Notation: B rows, T tokens, m the loss mask, A the advantage, r = exp(log p − log p_old) the ratio, GA the accumulation
steps, P the ranks. `loss_type` names are TRL's; `rloo` is its RLOOTrainer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo", "rloo")
"""Loss types that clip the ratio on both sides."""

KNOWN = (*CLIPPED, "cispo", "sapo", "vespo")


@dataclass(frozen=True)
class LossConfig:
    """What of a trainer's configuration its loss depends on; the names are those of TRL's GRPOConfig."""

    loss_type: str
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    delta: float | None = None
    importance_sampling_level: str = "token"
    beta: float = 0.0
    use_bias_correction_kl: bool = False
    max_completion_length: int = 1
    off_policy_mask_threshold: float | None = None
    sapo_temperature_pos: float = 1.0
    sapo_temperature_neg: float = 1.05
    vespo_k_pos: float = 2.0
    vespo_lambda_pos: float = 3.0
    vespo_k_neg: float = 3.0
    vespo_lambda_neg: float = 2.0
    steps_per_generation: int = 1
    ranks: int = 1
    windowed: bool = True  # dapo's tokens are those of an accumulation window; TRL before 1.9.1: of the generation

    @property
    def sequence_level(self) -> bool:
        """One ratio a completion, not one a token."""
        return self.loss_type == "rloo" or self.importance_sampling_level == "sequence"


@dataclass(frozen=True)
class TokenBatch:
    """One micro-batch as the loss sees it.

    Args:
        logps: (B, T), log p of each sampled token under the policy.
        mask: (B, T), 1 for the tokens that the loss counts.
        advantages: (B, 1) or (B, T).
        old_logps: (B, T) under the policy that the ratio is measured from; None where that is this very policy. For
            `rloo` it is (B,), the sum over each row.
        ref_logps: (B, T) under the reference policy, or None.
        sampling_logps: (B, T) as the sampler reported them, or None; NaN where it reported none.
        sampling_ratio: (B, T) or (B, 1), what the loss is multiplied by to correct for the sampler, or None.
        entropy_mask: (B, T), the tokens that a `top_entropy_quantile` keeps, or None.
        items: Tokens of the whole generation, over all ranks, or None.
        accumulation: GA of this step.
    """

    logps: torch.Tensor
    mask: torch.Tensor
    advantages: torch.Tensor
    old_logps: torch.Tensor | None = None
    ref_logps: torch.Tensor | None = None
    sampling_logps: torch.Tensor | None = None
    sampling_ratio: torch.Tensor | None = None
    entropy_mask: torch.Tensor | None = None
    items: torch.Tensor | None = None
    accumulation: int = 1


def log_ratio(config: LossConfig, batch: TokenBatch) -> torch.Tensor:
    """log r: (B, T), or (B, 1) where the loss has one ratio a completion.

    Sequence level: the mean over the row's tokens (GSPO, 2507.18071); `rloo`: their sum.
    """
    if config.loss_type == "rloo":
        assert batch.old_logps is not None
        return ((batch.logps * batch.mask).sum(1) - batch.old_logps)[:, None]
    old = batch.logps.detach() if batch.old_logps is None else batch.old_logps
    difference = batch.logps - old
    if not config.sequence_level:
        return difference
    return ((difference * batch.mask).sum(-1) / batch.mask.sum(-1).clamp(min=1.0))[:, None]


def policy_terms(config: LossConfig, batch: TokenBatch) -> torch.Tensor:
    """The policy's part of the loss before it is averaged: (B, T), or (B, 1) where the loss has one term a completion.

    Raises:
        ValueError: The loss type is not one of [`KNOWN`][rlwatch.signals.losses.KNOWN].
    """
    losses = _per_token(config, batch)
    if config.off_policy_mask_threshold is not None:
        losses = losses * _off_policy_mask(config.off_policy_mask_threshold, batch)
    if batch.entropy_mask is not None:
        losses = losses * batch.entropy_mask
    if batch.sampling_ratio is not None and config.loss_type != "vespo":
        losses = losses * batch.sampling_ratio
    return losses


def kl_terms(config: LossConfig, batch: TokenBatch) -> torch.Tensor:
    """The KL term of the loss before it is averaged, (B, T): β·k3, times r where TRL corrects its bias.

    It has the policy's denominator, but neither its masks nor its correction for the sampler.
    """
    kl = config.beta * per_token_kl(batch)
    return kl * log_ratio(config, batch).exp() if config.use_bias_correction_kl else kl


def per_token_kl(batch: TokenBatch) -> torch.Tensor:
    """k3 = exp(log p_ref − log p) − (log p_ref − log p) − 1 of each token, (B, T), in nats."""
    assert batch.ref_logps is not None
    difference = batch.ref_logps - batch.logps
    return difference.exp() - difference - 1


def aggregate(config: LossConfig, batch: TokenBatch, losses: torch.Tensor) -> torch.Tensor:
    """From a loss a token, (B, T) or (B, 1), to the micro-batch's scalar: where the denominators are.

    grpo, sapo: mean over a row's tokens, then over rows; bnpo: mean over all tokens; dr_grpo: Σ / (B · max length);
    dapo, cispo, vespo: Σ / the tokens of one accumulation window on all ranks; luspo: a row's sum, then mean over rows.
    """
    mask, kind = batch.mask, config.loss_type
    if kind == "rloo":
        return losses.mean()
    if kind in ("grpo", "sapo"):
        return ((losses * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean() / batch.accumulation
    if kind == "bnpo":
        return (losses * mask).sum() / mask.sum().clamp(min=1.0) / batch.accumulation
    if kind == "dr_grpo":
        return (losses * mask).sum() / (losses.size(0) * config.max_completion_length) / batch.accumulation
    if kind == "luspo":
        return (losses * mask).sum(-1).mean() / batch.accumulation
    assert batch.items is not None
    tokens = batch.items.clamp(min=1.0) / config.ranks
    if config.windowed:
        tokens = tokens * batch.accumulation / config.steps_per_generation
    return (losses * mask).sum() / tokens


def _per_token(config: LossConfig, batch: TokenBatch) -> torch.Tensor:
    ratio = log_ratio(config, batch).exp()
    advantages = batch.advantages
    if config.loss_type == "cispo":
        return -ratio.clamp(max=config.epsilon_high).detach() * advantages * batch.logps
    if config.loss_type in CLIPPED:
        clipped = ratio.clamp(1 - config.epsilon_low, 1 + config.epsilon_high)
        if config.delta is not None:
            ratio = ratio.clamp(max=config.delta)
        return -torch.min(ratio * advantages, clipped * advantages)
    if config.loss_type == "sapo":
        positive, negative = config.sapo_temperature_pos, config.sapo_temperature_neg
        temperature = torch.where(advantages > 0, positive, negative)
        return -torch.sigmoid(temperature * (ratio - 1)) * 4 / temperature * advantages
    if config.loss_type == "vespo":
        return -_gamma_weights(config, batch) * advantages * batch.logps
    raise ValueError(f"rlwatch does not know the loss type {config.loss_type!r}; it knows {', '.join(KNOWN)}")


def _off_policy_mask(threshold: float, batch: TokenBatch) -> torch.Tensor:
    """1 for the rows to keep, (B, 1): those with A ≥ 0, or a mean log p_sampler − log p of at most the threshold."""
    reference = batch.old_logps if batch.sampling_logps is None else batch.sampling_logps
    reference = batch.logps if reference is None else reference
    drift = torch.nan_to_num(reference - batch.logps.detach(), nan=0.0)
    mean = (drift * batch.mask).sum(1, keepdim=True) / batch.mask.sum(1, keepdim=True).clamp(min=1.0)
    return ((batch.advantages >= 0) | (mean <= threshold)).to(batch.mask.dtype)


def _gamma_weights(config: LossConfig, batch: TokenBatch) -> torch.Tensor:
    """VESPO's φ(w) = e^λ · w^k · e^(−λw) of the row's ratio w, without a gradient; (B, 1)."""
    floor = math.log(1e-8)
    with torch.no_grad():
        old = batch.logps if batch.old_logps is None else batch.old_logps
        log_w = ((batch.logps - old).clamp(-20.0, 20.0) * batch.mask).sum(-1, keepdim=True)
        if batch.sampling_ratio is not None:
            log_w = log_w + batch.sampling_ratio.log().clamp(floor, 20.0).sum(-1, keepdim=True)
        log_w = log_w.clamp(floor, 20.0)
        positive = batch.advantages >= 0
        k = torch.where(positive, config.vespo_k_pos, config.vespo_k_neg)
        lam = torch.where(positive, config.vespo_lambda_pos, config.vespo_lambda_neg).clamp(min=1e-4)
        return (lam + k * log_w - lam * log_w.exp()).exp().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
