"""What rlwatch has to know about a trainer: which it is, how it is configured, what its loss holds."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import sys
from typing import Any

from rlwatch.capture.releases import makes_rollouts

CONFIG = (
    # the loss and its denominators
    "loss_type", "beta", "epsilon", "epsilon_high", "delta", "importance_sampling_level", "scale_rewards",
    "multi_objective_aggregation", "mask_truncated_completions", "top_entropy_quantile", "off_policy_mask_threshold",
    "entropy_coef", "use_adaptive_entropy", "sapo_temperature_pos", "sapo_temperature_neg",
    # how rollouts are made and used
    "num_generations", "num_iterations", "steps_per_generation", "generation_batch_size", "max_completion_length",
    "temperature", "top_p", "top_k", "use_vllm", "vllm_mode",
    # the optimizer
    "learning_rate", "lr_scheduler_type", "optim", "max_grad_norm", "weight_decay", "warmup_steps",
    "per_device_train_batch_size", "gradient_accumulation_steps", "max_steps", "num_train_epochs", "seed", "bf16",
    "fp16", "gradient_checkpointing", "logging_steps",
)  # fmt: skip
"""The arguments that run.json holds: an allow-list, so that no token or path gets in by accident."""


def find_trainer(callback: Any) -> Any | None:
    """The trainer whose training calls this callback, found on the call stack.

    transformers gives callbacks the model and the optimizer and never the trainer. `rlwatch.watch(trainer)` passes it
    outright; this is what makes `callbacks=[RLWatchCallback()]` enough.
    """
    frame = sys._getframe(1)
    for _ in range(100):
        candidate = frame.f_locals.get("self")
        handler = getattr(candidate, "callback_handler", None)
        if handler is not None and callback in getattr(handler, "callbacks", ()):
            return candidate
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def run_info(trainer: Any) -> dict[str, Any]:
    """What run.json says about where a run comes from."""
    args = trainer.args
    config = {name: _plain(getattr(args, name)) for name in CONFIG if hasattr(args, name)}
    if config.get("epsilon_high") is None and hasattr(trainer, "epsilon_high"):
        config["epsilon_high"] = _plain(trainer.epsilon_high)
    model = trainer.model
    return {
        "trainer": type(trainer).__name__,
        "model": {
            "type": getattr(getattr(model, "config", None), "model_type", None),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        },
        "framework": versions(),
        "config": config,
        "reward_functions": dict(zip(function_names(trainer), reward_weights(trainer), strict=False)),
        "world_size": trainer.accelerator.num_processes,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """The versions of the libraries that make a run what it is, where they are installed."""
    found = {}
    for name, distribution in {"rlwatch": "rlwatch-monitor"}.items() | {
        (name, name) for name in ("trl", "transformers", "accelerate", "torch", "vllm", "deepspeed", "peft")
    }:
        try:
            found[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return dict(sorted(found.items()))


def function_names(trainer: Any) -> list[str]:
    """The reward functions' names, made different from each other with -2, -3, ... where they are not."""
    names: list[str] = []
    for name in getattr(trainer, "reward_func_names", ()):
        unique, count = str(name), 1
        while unique in names:
            count += 1
            unique = f"{name}-{count}"
        names.append(unique)
    return names


def reward_weights(trainer: Any) -> list[float]:
    """The weights of the reward functions."""
    weights = getattr(trainer, "reward_weights", None)
    return [] if weights is None else [float(weight) for weight in weights]


def is_rloo(trainer: Any) -> bool:
    """It is TRL's RLOOTrainer, or one made of it; that has no `loss_type`."""
    return any(owner.__name__ == "RLOOTrainer" for owner in type(trainer).__mro__)


def regularisers(trainer: Any) -> list[str]:
    """What the loss holds beside the policy term, in words.

    While there is any, not all of the gradient is the policy's.
    """
    found = []
    if not hasattr(trainer, "_calculate_rewards") and not makes_rollouts(trainer):
        found.append("terms that are not made of rewards")
    if getattr(trainer, "beta", 0.0) and not is_rloo(trainer):  # which takes its KL off the reward
        found.append(f"a KL term (beta={trainer.beta:g})")
    if getattr(trainer, "_entropy_bonus_enabled", False):
        found.append("an entropy bonus")
    if getattr(trainer, "aux_loss_enabled", False):
        found.append("a router auxiliary loss")
    # The outermost class that defines the loss: TRL's own is known, a subclass's may add anything.
    for method in ("compute_loss", "_compute_loss"):
        owner = next((c for c in type(trainer).__mro__ if method in vars(c)), None)
        if owner is not None and not owner.__module__.startswith(("trl.", "transformers.")):
            found.append(f"{owner.__name__}.{method}, whose terms rlwatch does not know")
    return found


def _plain(value: Any) -> Any:
    value = getattr(value, "value", value)  # an enum's value
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
