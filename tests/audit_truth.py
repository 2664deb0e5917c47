"""What a real trainer's backward pass sees of each token, and what an audit says that it must be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlwatch.audit.advantages import advantages, normalize_then_sum
from rlwatch.audit.config import AuditConfig
from rlwatch.audit.weights import Batch, gradient


@dataclass
class Seen:
    """One rank's share: lists with one entry a generation, or a micro-batch."""

    rank: int = 0
    rewards: list[Any] = field(default_factory=list)  # (rows of all ranks, functions)
    lengths: list[Any] = field(default_factory=list)  # (rows of this rank,)
    truncated: list[Any] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)  # (B,), generation · 1000 + row over all ranks
    gradients: list[Any] = field(default_factory=list)  # (B, T), dL/dlog p
    kept: list[Any] = field(default_factory=list)  # (B, T), by top_entropy_quantile

    def save(self, path: Path) -> None:
        np.save(path, np.array([vars(self)], dtype=object), allow_pickle=True)

    @classmethod
    def load(cls, path: Path) -> Seen:
        return cls(**np.load(path, allow_pickle=True)[0])


def listen(trainer: Any) -> Seen:
    """Write down what the trainer does, from now on."""
    seen = Seen(rank=trainer.accelerator.process_index)
    ends = {trainer.processing_class.eos_token_id, trainer.processing_class.pad_token_id}
    generate, rewards = trainer._generate_and_score_completions, trainer._calculate_rewards
    forward, loss = trainer._get_per_token_logps_and_entropies, trainer.compute_loss

    def generated(*args: Any, **kwargs: Any) -> Any:
        output = generate(*args, **kwargs)
        count = len(output["advantages"])
        first = 1000 * (len(seen.rewards) - 1) + seen.rank * count
        output["test_row"] = torch.arange(count) + first
        return output

    def rewarded(inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        found = rewards(inputs, prompts, completions, ids)
        seen.rewards.append(found.double().numpy())
        seen.lengths.append(np.array([len(row) for row in ids]))
        seen.truncated.append(np.array([row[-1] not in ends for row in ids]))
        return found

    def scored(*args: Any, **kwargs: Any) -> Any:
        logps, entropies, aux = forward(*args, **kwargs)
        if logps.requires_grad:
            place = len(seen.gradients)
            seen.gradients.append(None)
            logps.register_hook(lambda g: seen.gradients.__setitem__(place, g.detach().double().numpy()))
            scored.entropies = entropies.detach()  # type: ignore[attr-defined]
        return logps, entropies, aux

    def lost(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        seen.rows.append(inputs["test_row"].numpy())
        found = loss(model, inputs, *args, **kwargs)
        quantile = getattr(trainer, "top_entropy_quantile", 1.0)
        if quantile < 1:
            mask = trainer.get_high_entropy_mask(scored.entropies, inputs["completion_mask"], 1 - quantile)  # type: ignore[attr-defined]
            seen.kept.append(mask.bool().numpy())
        return found

    trainer._generate_and_score_completions, trainer._calculate_rewards = generated, rewarded
    trainer._get_per_token_logps_and_entropies, trainer.compute_loss = scored, lost
    return seen


def largest_error(config: AuditConfig, ranks: list[Seen], weights: Any = None) -> tuple[float, int]:
    """The largest relative error of the audit's dL/dlog p over all tokens, and how many tokens had a gradient.

    Tokens whose true gradient is 0 have to be 0: an error there counts in units of the micro-batch's largest gradient.
    """
    worst, tokens = 0.0, 0
    width = max(g.shape[1] for seen in ranks for g in seen.gradients)
    for generation in range(len(ranks[0].rewards)):
        batch, gains = _generation(config, ranks, generation, width, weights)
        expected = gradient(config.loss, batch, gains)
        for seen in ranks:
            for rows, got in zip(seen.rows, seen.gradients, strict=True):
                if rows[0] // 1000 != generation:
                    continue
                want = expected[rows % 1000, : got.shape[1]]
                assert not expected[rows % 1000, got.shape[1] :].any()
                scale = np.where(want != 0, np.abs(want), np.abs(want).max() or 1.0)
                worst = max(worst, float((np.abs(got - want) / scale).max()))
                tokens += int((got != 0).sum())
    return worst, tokens


def _generation(config: AuditConfig, ranks: list[Seen], number: int, width: int, weights: Any) -> tuple[Batch, Any]:
    lengths = np.concatenate([seen.lengths[number] for seen in ranks])
    truncated = np.concatenate([seen.truncated[number] for seen in ranks])
    count = len(lengths)
    rank, micro = np.full(count, -1), np.full(count, -1)
    kept = np.ones((count, width), dtype=bool) if config.top_entropy_quantile < 1 else None
    for seen in ranks:
        of_this = [place for place, rows in enumerate(seen.rows) if rows[0] // 1000 == number]
        for order, place in enumerate(of_this):
            rows = seen.rows[place] % 1000
            rank[rows], micro[rows] = seen.rank, order % config.steps_per_generation
            if kept is not None:
                kept[rows, : seen.kept[place].shape[1]] = seen.kept[place]
    assert (micro >= 0).all(), "the training ended before all of the generation was used"
    batch = Batch(np.arange(width) < lengths[:, None], rank, micro, kept)
    if config.mask_truncated_completions:
        batch = batch.without(truncated)
    per_function = ranks[0].rewards[number]
    weights = np.ones(per_function.shape[1]) if weights is None else np.asarray(weights)
    if config.multi_objective_aggregation == "normalize_then_sum":
        return batch, normalize_then_sum(per_function, weights, config.num_generations)
    total = np.nansum(per_function * weights, axis=1)
    total[np.isnan(per_function).all(axis=1)] = np.nan
    return batch, advantages(total, config.scaling)
