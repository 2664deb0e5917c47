"""Whatever holds a configuration, an object, a mapping or a path, in the one shape that audits have."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlwatch.audit import hf, trl
from rlwatch.audit.config import AuditConfig, ConfigError
from rlwatch.audit.files import load
from rlwatch.audit.openrlhf import openrlhf
from rlwatch.audit.prime_rl import prime_rl
from rlwatch.audit.values import Values
from rlwatch.audit.verl import verl

MARKS: Mapping[str, Sequence[str]] = {
    "verl": ("actor_rollout_ref", "actor.loss_agg_mode", "algorithm.adv_estimator", "ppo_mini_batch_size"),
    "prime-rl": ("orchestrator", "trainer.loss", "rollouts_per_example", "loss.ratio_type"),
    "openrlhf": (
        "algo.advantage.estimator", "rollout.n_samples_per_prompt", "actor.eps_clip", "advantage_estimator",
        "n_samples_per_prompt", "eps_clip", "micro_train_batch_size",
    ),
    "rloo": ("normalize_advantages", "reward_clip_range"),
    "grpo": (
        "scale_rewards", "num_generations", "importance_sampling_level", "epsilon_high", "epsilon", "num_iterations",
        "steps_per_generation", "max_completion_length", "mask_truncated_completions", "reward_funcs",
    ),
    "dpo": ("ld_alpha", "precompute_ref_log_probs", "precompute_ref_batch_size", "use_weighting", "f_divergence_type"),
    "sft": ("packing", "assistant_only_loss", "completion_only_loss", "dataset_text_field", "eos_token"),
    "trainer": ("per_device_train_batch_size", "gradient_accumulation_steps", "average_tokens_across_devices"),
}  # fmt: skip
"""Keys that tell whose configuration it is; the first line of which one is there."""

READERS: Mapping[str, Callable[[Mapping[str, Any], str], AuditConfig]] = {
    "verl": verl,
    "prime-rl": prime_rl,
    "openrlhf": openrlhf,
    "rloo": trl.rloo,
    "grpo": trl.grpo,
    "dpo": lambda data, source: hf.preference(data, source, "DPOTrainer"),
    "sft": lambda data, source: hf.supervised(data, source, "SFTTrainer"),
    "trainer": lambda data, source: hf.supervised(data, source, "Trainer"),
}

BESIDE = ("run.json", "args.json", "training_args.json", "config.yaml", "config.yml")
"""Where the arguments may lie beside a trainer_state.json, or in the folder above it."""


def read(target: Any) -> AuditConfig:
    """The configuration of a trainer, its arguments, a mapping, a file or a run directory.

    Raises:
        ConfigError: It is none of these, cannot be read, or makes no sense.
    """
    if isinstance(target, AuditConfig):
        return target
    if isinstance(target, (str, os.PathLike)):
        return _path(Path(target))
    if isinstance(target, Mapping):
        return _mapping(target, "the mapping")
    if hasattr(target, "args") and callable(getattr(target, "train", None)):
        return _trainer(target)
    return _arguments(target, target, {}, type(target).__name__)


def _path(path: Path) -> AuditConfig:
    if path.is_dir():
        for name in ("run.json", "trainer_state.json", *BESIDE):
            if (path / name).is_file():
                return _path(path / name)
        raise ConfigError(f"{path}: a folder with none of run.json, trainer_state.json, {', '.join(BESIDE[1:])}")
    data = load(path)
    if "log_history" in data and "global_step" in data:
        return _state(data, path)
    return _mapping(data, str(path))


def _state(data: Mapping[str, Any], path: Path) -> AuditConfig:
    """A trainer_state.json: it has no arguments of its own, unless somebody put them there."""
    for key in ("args", "training_args", "config"):
        if isinstance(data.get(key), Mapping):
            return _mapping(data[key], f"{path}: {key}")
    for folder in (path.parent, path.parent.parent):
        for name in BESIDE:
            if (folder / name).is_file():
                return _path(folder / name)
    raise ConfigError(
        f"{path}: a trainer_state.json says nothing of the loss, and there is none of {', '.join(BESIDE)} beside or "
        "above it. training_args.bin is a pickle, which is not opened. Save the arguments from Python: "
        "json.dump(trainer.args.to_dict(), open('args.json', 'w'))"
    )


def _mapping(data: Mapping[str, Any], source: str) -> AuditConfig:
    if isinstance(data.get("config"), Mapping) and ("trainer" in data or "schema" in data):
        return _run(data, source)
    values = Values(data, source)
    for kind, marks in MARKS.items():
        if kind == "rloo" and values.has("loss_type"):  # which RLOO has not, and all others name differently
            return READERS[_kind_of_loss(data["loss_type"])](data, source)
        if values.has(*marks):
            return READERS[kind](data, source)
    raise ConfigError(
        f"{source}: none of its keys is known from TRL (num_generations, loss_type), verl (actor_rollout_ref), "
        "OpenRLHF (n_samples_per_prompt), prime-rl (orchestrator) or a Hugging Face trainer "
        "(per_device_train_batch_size). A line is enough where all else is the default: loss_type: dapo"
    )


def _kind_of_loss(name: object) -> str:
    if name in ("nll", "dft"):
        return "sft"
    return "dpo" if isinstance(name, list) or name in (*hf.DPO_SUMS, *hf.DPO_MEANS) else "grpo"


def _run(data: Mapping[str, Any], source: str) -> AuditConfig:
    """A run.json of rlwatch."""
    trainer = str(data.get("trainer"))
    config = {**data["config"], "world_size": data.get("world_size", 1)}
    if trainer == "RLOOTrainer":
        return trl.rloo(config, source)
    if "loss_type" in config and _kind_of_loss(config["loss_type"]) == "grpo":
        loss = config["loss_type"]
        notes = {
            "GRPOTrainer": (),
            "own loop": (f"A loop of its own: shown is TRL's {loss}, which its loss may not be.",),
        }
        return trl.grpo(config, source, notes=notes.get(trainer, (f"A {trainer}, audited as TRL's GRPOTrainer.",)))
    raise ConfigError(f"{source}: config: a run by {trainer!r}, which does not tell its loss (no loss_type of TRL)")


def _trainer(trainer: Any) -> AuditConfig:
    known = {"world_size": trainer.accelerator.num_processes} if hasattr(trainer, "accelerator") else {}
    if hasattr(trainer, "model_accepts_loss_kwargs"):
        counted = bool(trainer.model_accepts_loss_kwargs or getattr(trainer, "compute_loss_func", None))
        known["model_accepts_loss_kwargs"] = counted
    return _arguments(trainer, trainer.args, known, type(trainer).__name__)


def _arguments(owner: Any, args: Any, known: Mapping[str, Any], source: str) -> AuditConfig:
    """By the classes that the trainer, or the arguments, are made of."""
    classes = [owner_class.__name__ for owner_class in type(owner).__mro__]
    kind = next((name for name in classes if name in _KINDS), None)
    if kind is None:
        raise ConfigError(f"{source}: no trainer, arguments, mapping or path that an audit knows")
    trainer = _KINDS[kind]
    notes: tuple[str, ...] = ()
    loss = _owner_of_the_loss(owner)
    if loss and not loss.__module__.startswith(("trl.", "transformers.")):
        notes = (f"{loss.__name__} computes its own loss, which an audit cannot see: shown is {trainer}'s.",)
    elif kind == "Trainer" and loss and loss.__name__ != "Trainer":
        raise ConfigError(f"{source}: a {loss.__name__}, whose loss an audit does not know")
    elif kind == "TrainingArguments" and classes[0] != kind:
        raise ConfigError(f"{source}: arguments of a trainer whose loss an audit does not know")
    names = dict.fromkeys((*trl.READ, *hf.READ))
    data = {name: _plain(getattr(args, name)) for name in names if hasattr(args, name)} | dict(known)
    if trainer == "GRPOTrainer":
        return trl.grpo(data, source, notes=notes)
    if trainer == "RLOOTrainer":
        return trl.rloo(data, source, notes=notes)
    if trainer == "DPOTrainer":
        return hf.preference(data, source, trainer, notes)
    return hf.supervised(data, source, trainer, notes)


_KINDS = {
    "GRPOTrainer": "GRPOTrainer", "GRPOConfig": "GRPOTrainer", "RLOOTrainer": "RLOOTrainer",
    "RLOOConfig": "RLOOTrainer",
    "DPOTrainer": "DPOTrainer", "DPOConfig": "DPOTrainer", "SFTTrainer": "SFTTrainer", "SFTConfig": "SFTTrainer",
    "Trainer": "Trainer", "TrainingArguments": "Trainer",
}  # fmt: skip
"""A class's name → the trainer whose loss it has."""


def _owner_of_the_loss(trainer: Any) -> type | None:
    """The outermost class that says how the loss is computed; None of arguments."""
    return next((c for c in type(trainer).__mro__ if {"compute_loss", "_compute_loss"} & set(vars(c))), None)


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)  # an enum's value
