"""TRL's GRPOTrainer and RLOOTrainer: their arguments, as an object or from a file. Defaults are those of TRL 1.16."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from rlwatch.audit.config import AuditConfig, ConfigError
from rlwatch.audit.values import Values, nearest
from rlwatch.audit.weights import LOSS_TYPES

READ = (
    "loss_type", "scale_rewards", "multi_objective_aggregation", "num_generations", "num_iterations",
    "steps_per_generation", "generation_batch_size", "gradient_accumulation_steps", "per_device_train_batch_size",
    "max_completion_length", "mask_truncated_completions", "epsilon", "epsilon_high", "delta",
    "importance_sampling_level", "beta", "top_entropy_quantile", "off_policy_mask_threshold", "entropy_coef",
    "use_adaptive_entropy", "use_vllm", "normalize_advantages", "world_size",
)  # fmt: skip
"""The arguments that an audit asks for."""

SCALES = {True: "group", False: "none", "group": "group", "batch": "batch", "none": "none"}


def grpo(
    data: Mapping[str, Any], source: str, trainer: str = "GRPOTrainer", notes: tuple[str, ...] = ()
) -> AuditConfig:
    """The configuration of a GRPOTrainer.

    Args:
        data: Its arguments by name; `world_size` is its ranks.
        source: Where they are from.
        trainer: The trainer's name.
        notes: What is known about where they come from.

    Raises:
        ConfigError: One of them makes no sense.
    """
    values = Values(data, source)
    known = [name for name in LOSS_TYPES if name != "rloo"]
    loss_type = values.word("loss_type", "dapo", known)
    scale = values.raw("scale_rewards")
    if isinstance(scale, str):
        scale = {"true": True, "false": False}.get(scale.lower(), scale)
    if scale is not None and (not isinstance(scale, (str, bool)) or scale not in SCALES):
        raise values.wrong("scale_rewards", scale, "group, batch or none", nearest(str(scale), ["group", "batch"]))
    aggregations = ["sum_then_normalize", "normalize_then_sum"]
    return AuditConfig(
        loss_type=loss_type,
        aggregation=LOSS_TYPES[loss_type],
        scale_rewards=SCALES[scale] if scale is not None else "group",
        multi_objective_aggregation=values.word("multi_objective_aggregation", "sum_then_normalize", aggregations),
        delta=values.optional("delta"),
        importance_sampling_level=values.word("importance_sampling_level", "token", ["token", "sequence"]),
        top_entropy_quantile=values.number("top_entropy_quantile", 1.0),
        off_policy_mask_threshold=values.optional("off_policy_mask_threshold"),
        entropy_coef=values.number("entropy_coef", 0.0),
        use_adaptive_entropy=values.flag("use_adaptive_entropy", False),
        **_shared(values, group_size=8, length=512, trainer=trainer, beta=0.0, notes=notes),
    )


def rloo(
    data: Mapping[str, Any], source: str, trainer: str = "RLOOTrainer", notes: tuple[str, ...] = ()
) -> AuditConfig:
    """The configuration of an RLOOTrainer; see [`grpo`][rlwatch.audit.trl.grpo]."""
    values = Values(data, source)
    return AuditConfig(
        loss_type="rloo",
        aggregation=LOSS_TYPES["rloo"],
        baseline="leave-one-out",
        scale_rewards="whiten" if values.flag("scale_rewards", False, "normalize_advantages") else "none",
        importance_sampling_level="sequence",
        kl_in="reward",
        **_shared(values, group_size=2, length=512, trainer=trainer, beta=0.05, notes=notes),
    )


def _shared(
    values: Values, *, group_size: int, length: int, trainer: str, beta: float, notes: tuple[str, ...]
) -> dict[str, Any]:
    """What both have."""
    rows = values.count("per_device_train_batch_size", 8)
    accumulation = values.count("gradient_accumulation_steps", 1)
    ranks = values.count("ranks", 1, "world_size")
    epsilon = values.number("epsilon", 0.2)
    if not values.has("world_size"):
        notes = (*notes, "It does not say on how many ranks: one is assumed.")
    unknown = [f"{name!r} is no setting{near}" for name in values.data if (near := _typo(str(name)))]
    found: dict[str, Any] = {
        "source": values.source,
        "framework": "trl",
        "trainer": trainer,
        "objective": "policy",
        "num_generations": values.count("num_generations", group_size),
        "num_iterations": values.count("num_iterations", 1),
        "steps_per_generation": _steps_per_generation(values, rows * ranks, accumulation),
        "gradient_accumulation_steps": accumulation,
        "per_device_train_batch_size": rows,
        "ranks": ranks,
        "max_completion_length": values.count("max_completion_length", length),
        "mask_truncated_completions": values.flag("mask_truncated_completions", False),
        "epsilon": epsilon,
        "epsilon_high": values.number("epsilon_high", epsilon),
        "beta": values.number("beta", beta),
        "use_vllm": values.flag("use_vllm", False),
        "names": {"ranks": "the number of processes"},
    }
    if trainer == "RLOOTrainer":
        found["names"]["scale_rewards"] = "normalize_advantages"
        found["own"] = {"scale_rewards": str(values.flag("scale_rewards", False, "normalize_advantages"))}
    return found | {"given": frozenset(values.found), "notes": (*notes, *values.notes, *unknown)}


def _steps_per_generation(values: Values, global_rows: int, accumulation: int) -> int:
    """spg as GRPOConfig makes it: given, or from the generation's size, or as many as are accumulated."""
    if values.has("steps_per_generation"):
        return values.count("steps_per_generation", accumulation)
    if not values.has("generation_batch_size"):
        return accumulation
    size = values.count("steps_per_generation", 0, "generation_batch_size")
    if size % global_rows:
        raise ConfigError(
            f"{values.source}: generation_batch_size: {size} is no multiple of the {global_rows} rows a step"
        )
    return size // global_rows


def _typo(name: str) -> str:
    """What a long name that is not read was probably meant to be."""
    if name in READ or len(name) < 8:
        return ""
    close = difflib.get_close_matches(name, READ, n=1, cutoff=0.9)
    return f"; did you mean {close[0]!r}?" if close else ""
