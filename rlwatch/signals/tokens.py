"""Sums over the tokens of a micro-batch, which add up over micro-batches and ranks, and the metrics made of them.

They stay on the device until a step is over. A mean of micro-batches' means is another number than the mean over all
tokens, wherever the micro-batches hold different counts of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from rlwatch.signals.losses import CLIPPED, LossConfig, TokenBatch, log_ratio, per_token_kl
from rlwatch.signals.totals import RARE

Sums = dict[str, torch.Tensor]
"""Name → a number, or one a row, on the device."""

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


def row_sums(values: Mapping[str, torch.Tensor], mask: torch.Tensor) -> Sums:
    """Σ m·v of each row, whatever v is under m = 0, NaN included: (B,) each, from (B, T) each.

    In float64 where the device has it, and all of them at once: a training on a small model is slowed by the number of
    operations, not by their size.
    """
    stacked = torch.stack([value.detach() for value in values.values()]).to(wide(mask.device))
    return dict(zip(values, stacked.masked_fill_(~mask.bool(), 0).sum(-1).unbind(), strict=True))


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


def entropy_rows(entropies: torch.Tensor, mask: torch.Tensor) -> Sums:
    """Tokens and Σ H of each row, (B,) each.

    Args:
        entropies: (B, T), nats.
        mask: (B, T), 1 for the tokens that the loss sees.
    """
    return row_sums({"tokens": mask, "entropy": entropies}, mask)


def by_correctness(rows: Mapping[str, torch.Tensor], correct: torch.Tensor) -> Sums:
    """Of the rows' tokens and entropy, those of correct and those of incorrect completions, (B,) each.

    Args:
        rows: With `tokens` and `entropy`.
        correct: (B,), 1, 0 or NaN where it is not known.
    """
    counts = torch.stack([rows["tokens"], rows["entropy"]])
    others = torch.stack([correct != 1, correct != 0])  # NaN is among both
    kept = counts.expand(2, 2, -1).masked_fill(others[:, None], 0).flatten(0, 1).unbind()
    return dict(zip(("correct_tokens", "correct_entropy", "incorrect_tokens", "incorrect_entropy"), kept, strict=True))


def policy_rows(config: LossConfig, batch: TokenBatch, gradient: torch.Tensor | None = None) -> tuple[Sums, Sums]:
    """What log-probabilities, ratio and gradient say of each row: (B,) each; and their maxima, a number each.

    Surprisal, covariance, clipping, KL, the sampler's gap; and of g = ∂L_policy/∂log p, (B, T), where it is known, how
    many tokens have any, Σ |g| and Σ g².
    """
    mask, logps = batch.mask.bool(), batch.logps.detach()
    kind = wide(logps.device)
    advantages = batch.advantages.detach().to(kind)
    columns = {"logp": logps, "advantage": advantages.expand_as(logps), "advantage_logp": advantages * logps}
    if gradient is not None:
        size = gradient.detach().abs().to(kind)
        columns |= {"weighed_tokens": mask, "active": size != 0, "weight": size, "gradient_squared": size * size}
    if batch.ref_logps is not None:
        columns["ref_kl"] = per_token_kl(batch)
    maxima: Sums = {}
    if batch.sampling_logps is not None:
        old = logps if batch.old_logps is None or config.loss_type == "rloo" else batch.old_logps
        gap = old - batch.sampling_logps
        reported = mask & ~torch.isnan(gap)
        gap = torch.where(reported, gap, 0.0)
        columns |= {"sampled": reported, "sampler_gap": gap.abs()}
        columns["sampler_ratio"] = torch.where(reported, gap.exp(), 0.0)
        maxima["sampler_gap"] = gap.abs().masked_fill(~reported, -torch.inf).max().to(kind)
    if batch.old_logps is None and not config.sequence_level:
        if _ceiling(config) < 1:  # cispo with TRL's default of 0.2: every token with A > 0 is cut
            columns["clipped_high"] = (batch.advantages > 0).expand_as(logps)
            columns["clipped_high_rare"] = columns["clipped_high"] & (logps.exp() < RARE)
        maxima["ratio"] = torch.ones((), dtype=kind, device=logps.device)
        return _ratio_of_one(config, mask.sum(dim=1, dtype=kind)) | row_sums(columns, mask), maxima
    ratio, of_ratio = _ratio_columns(config, batch)
    hidden = torch.zeros_like(ratio, dtype=torch.bool) if config.sequence_level else ~mask
    maxima["ratio"] = ratio.masked_fill(hidden, -torch.inf).max().to(kind)
    if config.loss_type != "rloo":
        drift = torch.zeros_like(logps) if batch.old_logps is None else logps - batch.old_logps
        columns["old_kl"] = drift.exp() - 1 - drift
    if not config.sequence_level:
        return row_sums(columns | of_ratio, mask), maxima
    return row_sums(columns, mask) | {name: value[:, 0].to(kind) for name, value in of_ratio.items()}, maxima


def _ratio_columns(config: LossConfig, batch: TokenBatch) -> tuple[torch.Tensor, Sums]:
    """r, and what is counted of it: (B, T) each, or (B, 1) where the loss has one ratio a completion."""
    ratio = log_ratio(config, batch).detach().exp()
    columns = {"ratios": torch.ones_like(ratio), "ratio": ratio}
    if config.loss_type in (*CLIPPED, "cispo"):
        columns["clipped_high"] = (ratio > _ceiling(config)) & (batch.advantages > 0)
        if not config.sequence_level:
            assert batch.old_logps is not None
            columns["clipped_high_rare"] = columns["clipped_high"] & (batch.old_logps.exp() < RARE)
    if config.loss_type in CLIPPED:
        columns["clipped_low"] = (ratio < 1 - config.epsilon_low) & (batch.advantages < 0)
    return ratio, columns


def _ratio_of_one(config: LossConfig, tokens: torch.Tensor) -> Sums:
    """The same of rows whose ratio is measured from this very policy, and so is exactly 1 throughout."""
    nothing = torch.zeros_like(tokens)
    rows = {"ratios": tokens, "ratio": tokens, "old_kl": nothing}
    if config.loss_type in (*CLIPPED, "cispo"):
        rows |= {"clipped_high": nothing, "clipped_high_rare": nothing}
    return rows | {"clipped_low": nothing} if config.loss_type in CLIPPED else rows


def _ceiling(config: LossConfig) -> float:
    """TRL's cispo cuts the weight at epsilon_high itself, the others at 1 + epsilon_high."""
    return config.epsilon_high if config.loss_type == "cispo" else 1 + config.epsilon_high
