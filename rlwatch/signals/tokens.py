"""Sums over the tokens of a micro-batch, which add up over micro-batches and ranks, and the metrics made of them.

They stay on the device until a step is over. A mean of micro-batches' means is another number than the mean over all
tokens, wherever the micro-batches hold different counts of them.
"""

from __future__ import annotations

import torch

from rlwatch.signals.losses import CLIPPED, LossConfig, TokenBatch, log_ratio, per_token_kl
from rlwatch.signals.totals import RARE

Sums = dict[str, torch.Tensor]
"""Name → a number on the device."""

SUMS = (
    "tokens", "entropy", "correct_tokens", "correct_entropy", "incorrect_tokens", "incorrect_entropy", "logp",
    "advantage", "advantage_logp", "ratios", "ratio", "clipped_low", "clipped_high", "clipped_high_rare", "old_kl",
    "ref_kl", "sampled", "sampler_gap", "sampler_ratio",
)  # fmt: skip
"""The names of all sums that this file knows."""

MAXIMA = ("ratio", "sampler_gap")


def wide(device: torch.device) -> torch.dtype:
    """float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def masked_sum(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Σ m·v, whatever v is under m = 0, NaN included; a number in float64 where the device has it."""
    return torch.where(mask.bool(), values.detach(), 0).sum(dtype=wide(values.device))


def entropy_of_logits(logits: torch.Tensor, chunk: int = 256) -> torch.Tensor:
    """H = −Σ p·log p of each token's distribution p = softmax(z), in nats: (B, T) from (B, T, V).

    In float32, a few tokens at a time, so that no second tensor of the logits' size is ever there.
    """
    tokens = logits.detach().flatten(0, 1)
    found = torch.empty(len(tokens), dtype=torch.float32, device=logits.device)
    for start in range(0, len(tokens), chunk):
        z = torch.log_softmax(tokens[start : start + chunk].float(), dim=-1)
        p = z.exp()
        found[start : start + chunk] = -torch.where(p > 0, p * z, 0).sum(-1)  # 0·log 0 = 0
    return found.view(logits.shape[:2])


def entropy_sums(entropies: torch.Tensor, mask: torch.Tensor, correct: torch.Tensor | None) -> Sums:
    """Entropy over all tokens, and over those of correct and of incorrect completions.

    Args:
        entropies: (B, T), nats.
        mask: (B, T), 1 for the tokens that the loss sees.
        correct: (B,), 1, 0 or NaN where it is not known; None where nobody knows.
    """
    sums = {"tokens": mask.sum(dtype=wide(mask.device)), "entropy": masked_sum(entropies, mask)}
    if correct is not None:
        for name, rows in (("correct", correct == 1), ("incorrect", correct == 0)):
            kept = mask.bool() & rows[:, None]
            sums[f"{name}_tokens"] = kept.sum(dtype=wide(mask.device))
            sums[f"{name}_entropy"] = masked_sum(entropies, kept)
    return sums


def policy_sums(config: LossConfig, batch: TokenBatch) -> Sums:
    """What the log-probabilities and the ratio say: surprisal, covariance, clipping, KL, the sampler's gap."""
    mask, logps = batch.mask, batch.logps.detach()
    kind = wide(logps.device)
    advantages = batch.advantages.expand_as(logps)
    sums = {
        "logp": masked_sum(logps, mask),
        "advantage": masked_sum(advantages, mask),
        "advantage_logp": masked_sum(advantages.to(kind) * logps.to(kind), mask),
    }
    ratio = log_ratio(config, batch).detach().exp()
    counted = mask.bool() if ratio.shape[1] > 1 or mask.shape[1] == 1 else torch.ones_like(ratio, dtype=torch.bool)
    sums["ratios"] = counted.sum(dtype=kind)
    sums["ratio"] = masked_sum(ratio, counted)
    if config.loss_type in (*CLIPPED, "cispo"):
        # TRL's cispo cuts the weight at epsilon_high itself, the others at 1 + epsilon_high.
        ceiling = config.epsilon_high if config.loss_type == "cispo" else 1 + config.epsilon_high
        high = (ratio > ceiling) & (batch.advantages > 0) & counted
        sums["clipped_high"] = high.sum(dtype=kind)
        if not config.sequence_level:
            old = logps if batch.old_logps is None else batch.old_logps
            sums["clipped_high_rare"] = (high & (old.exp() < RARE)).sum(dtype=kind)
    if config.loss_type in CLIPPED:
        low = (ratio < 1 - config.epsilon_low) & (batch.advantages < 0) & counted
        sums["clipped_low"] = low.sum(dtype=kind)
    if config.loss_type != "rloo":
        drift = torch.zeros_like(logps) if batch.old_logps is None else logps - batch.old_logps
        sums["old_kl"] = masked_sum(drift.exp() - 1 - drift, mask)
    if batch.ref_logps is not None:
        sums["ref_kl"] = masked_sum(per_token_kl(batch), mask)
    if batch.sampling_logps is not None:
        trainer = logps if batch.old_logps is None or batch.old_logps.dim() == 1 else batch.old_logps
        gap = trainer - batch.sampling_logps
        reported = mask.bool() & ~torch.isnan(gap)
        sums["sampled"] = reported.sum(dtype=kind)
        sums["sampler_gap"] = masked_sum(gap.abs(), reported)
        sums["sampler_ratio"] = masked_sum(gap.exp(), reported)
    return sums


def policy_maxima(config: LossConfig, batch: TokenBatch) -> Sums:
    """The largest ratio, and the largest |log p − log p_sampler|."""
    lowest = torch.full((), -torch.inf, dtype=wide(batch.logps.device), device=batch.logps.device)
    ratio = log_ratio(config, batch).detach().exp()
    counted = batch.mask.bool() if ratio.shape[1] > 1 else torch.ones_like(ratio, dtype=torch.bool)
    maxima = {"ratio": torch.where(counted, ratio, -torch.inf).max().to(lowest.dtype)}
    if batch.sampling_logps is not None:
        logps = batch.logps.detach()
        trainer = logps if batch.old_logps is None or batch.old_logps.dim() == 1 else batch.old_logps
        gap = (trainer - batch.sampling_logps).abs()
        reported = batch.mask.bool() & ~torch.isnan(gap)
        maxima["sampler_gap"] = torch.where(reported, gap, -torch.inf).max().to(lowest.dtype)
    return maxima
