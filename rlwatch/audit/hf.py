"""Trainers that learn from examples: plain Hugging Face, SFT and DPO. Means over tokens or over sequences.

Source: transformers 5.24 `Trainer.compute_loss` and `get_batch_samples`, TRL 1.16 `SFTTrainer` and `DPOTrainer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.audit.config import AuditConfig
from rlwatch.audit.values import Values

DPO_MEANS = {"ipo": "sequence-mean", "sigmoid_norm": "sequence-mean", "sft": "micro-batch-tokens"}
"""DPO's loss types that divide by a length; all others sum log p over the answer."""

DPO_SUMS = (
    "sigmoid", "hinge", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_zero",
    "apo_down", "discopop",
)  # fmt: skip

READ = (
    "loss_type", "gradient_accumulation_steps", "per_device_train_batch_size", "average_tokens_across_devices", "beta",
    "ld_alpha", "world_size", "label_smoothing_factor", "model_accepts_loss_kwargs", "max_length",
)  # fmt: skip


def supervised(data: Mapping[str, Any], source: str, trainer: str, notes: tuple[str, ...] = ()) -> AuditConfig:
    """SFTTrainer, or transformers' Trainer of a causal language model.

    Tokens of all micro-batches and ranks of a step, if the model takes `num_items_in_batch` (all of transformers'
    causal models do); else a mean over each micro-batch's tokens, and then over micro-batches.

    Args:
        data: Its arguments by name; `model_accepts_loss_kwargs` if that is known.
        source: Where they are from.
        trainer: The trainer's name.
        notes: What is known about where they come from.
    """
    values = Values(data, source)
    if not values.has("model_accepts_loss_kwargs"):
        notes = (
            *notes,
            "It is assumed that the model takes num_items_in_batch, as transformers' own causal models do.",
        )
    counted = values.flag("counted", True, "model_accepts_loss_kwargs")
    across = values.flag("average_tokens_across_devices", True)
    loss_type = values.word("loss_type", "nll") if trainer == "SFTTrainer" else "cross-entropy"
    return AuditConfig(
        loss_type=loss_type,
        aggregation=("step-tokens" if across else "rank-tokens") if counted else "micro-batch-tokens",
        objective="supervised",
        **_shared(values, trainer, notes),
    )


def preference(data: Mapping[str, Any], source: str, trainer: str, notes: tuple[str, ...] = ()) -> AuditConfig:
    """DPOTrainer; a list of losses is audited by its first."""
    values = Values(data, source)
    kinds = values.raw("loss_type") or "sigmoid"
    if isinstance(kinds, (list, tuple)):
        if len(kinds) > 1:
            notes = (*notes, f"Several losses are added up ({', '.join(map(str, kinds))}); the first is shown.")
        kinds = kinds[0] if kinds else "sigmoid"
    known = (*DPO_SUMS, *DPO_MEANS)
    kind = Values({"loss_type": kinds}, source).word("loss_type", "sigmoid", known)
    return AuditConfig(
        loss_type=kind,
        aggregation=DPO_MEANS.get(kind, "sequence-sum"),
        objective="preference",
        beta=values.number("beta", 0.1),
        ld_alpha=values.optional("ld_alpha"),
        **_shared(values, trainer, notes),
    )


def _shared(values: Values, trainer: str, notes: tuple[str, ...]) -> dict[str, Any]:
    accumulation = values.count("gradient_accumulation_steps", 1)
    if not values.has("world_size"):
        notes = (*notes, "It does not say on how many ranks: one is assumed.")
    return {
        "source": values.source,
        "framework": "transformers" if trainer == "Trainer" else "trl",
        "trainer": trainer,
        "baseline": "none",
        "scale_rewards": "none",
        "num_generations": 1,
        "steps_per_generation": accumulation,
        "gradient_accumulation_steps": accumulation,
        "per_device_train_batch_size": values.count("per_device_train_batch_size", 8),
        "ranks": values.count("ranks", 1, "world_size"),
        "names": {"ranks": "the number of processes", "max_completion_length": "max_length"},
        "given": frozenset(values.found),
        "notes": (*notes, *values.notes),
    }
