"""The trainer that the experiments share: TRL's own, quiet, on the prompts of a task."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerFast, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from rlwatch.lab.watched import SeedAtStart


def quiet_trainer(
    model: Any,
    tokenizer: PreTrainedTokenizerFast,
    config: GRPOConfig,
    prompts: Sequence[str],
    rewards: Sequence[Callable[..., Any]],
    callbacks: Sequence[Any],
    rollout_func: Callable[..., Any] | None = None,
    kind: type[GRPOTrainer] = GRPOTrainer,
) -> GRPOTrainer:
    """A trainer, ready to `.train()`; it prints nothing, and writes nothing outside its configuration's folder.

    Args:
        model: The policy, or where it was saved.
        tokenizer: Its tokenizer.
        config: The whole configuration.
        prompts: The dataset.
        rewards: Reward functions; their weights stand in the configuration.
        callbacks: transformers callbacks to run along.
        rollout_func: What samples, where that is not the trainer itself.
        kind: TRL's trainer, or a subclass of it.
    """
    # TRL 1.16 still uses names that transformers 5.24 has renamed, and warns that rollout_func may change; nobody who
    # runs the lab can do anything about either.
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing", category=FutureWarning)
    warnings.filterwarnings("ignore", message=".*'rollout_func', which is an experimental", category=UserWarning)
    trainer = kind(
        model=model,
        reward_funcs=list(rewards),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": list(prompts)}),
        processing_class=tokenizer,
        callbacks=[SeedAtStart(), *callbacks],
        rollout_func=rollout_func,
    )
    trainer.remove_callback(PrinterCallback)  # it would print every log line
    return trainer
