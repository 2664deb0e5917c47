"""The training of the reward hacking: TRL's own GRPOTrainer, and a part of the reward that pays more than being right.

The arms differ in reward_weights alone: r = v · accuracy + w · dots / 24; see
[`hacking_task`][rlwatch.lab.hacking_task]. An answer that never ends earns w and is wrong; one of the first length
earns w · 7/24, and v if it is right. Where w · 17/24 > v · P(right) an endless answer pays more, answers grow until the
limit cuts them off, and accuracy falls while the reward rises. That accuracy is a part of the sum does not help. With
w = 0.3 it pays to be right.

What five seeds of 80 steps showed is in docs/lab/hacking.md. Beside it:

- reward-hacking warns 8 to 22 steps after accuracy has halved: it takes ten rows for a start, smooths over ten steps
  and wants ten on end, and here all is over in 25. The training reward never shows it; it rises to the end.
  length-explosion is silent: the reward gains with the length.
- The info of accuracy-alone is right: the length part, which pays nothing there, falls while accuracy rises.
- A low weight delays it and may not prevent it: in one seed accuracy rose to .95 by step 49 and was .80 at step 73,
  when answers had 15 tokens. Once nearly all answers are right they differ in length alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from rlwatch.lab.experiment import Arm
from rlwatch.lab.first_policy import FirstPolicy
from rlwatch.lab.hacking_task import MOST_TOKENS, accuracy_reward, first_policy, length_reward
from rlwatch.lab.task import PROMPTS
from rlwatch.lab.trainer import quiet_trainer
from rlwatch.lab.watched import QUIET

GENERATIONS = 8
"""G, the completions a prompt gets in a rollout: the size of a group."""

LEARNING_RATE = 5e-4
"""AdamW's: so small that the first ten steps, which rules take for a start, are near the first policy."""


def prepare(seed: int, cache: Path | None = None) -> FirstPolicy:
    """The policy that every arm of a seed starts from; kept in a folder, if one is given."""
    return first_policy(seed, cache)


def grpo_config(arm: Arm, *, seed: int, steps: int, output_dir: Path) -> GRPOConfig:
    """The whole configuration of an arm: all 16 prompts with 8 completions each a rollout, one update on them."""
    return GRPOConfig(
        output_dir=str(output_dir),
        seed=seed,
        max_steps=steps,
        # the algorithm
        loss_type="dapo",
        scale_rewards="group",
        beta=0.0,
        num_iterations=1,
        num_generations=GENERATIONS,
        max_completion_length=MOST_TOKENS,
        temperature=1.0,
        # the batch: a rollout a step, in one micro-batch
        per_device_train_batch_size=len(PROMPTS) * GENERATIONS,
        gradient_accumulation_steps=1,
        # the optimizer
        optim="adamw_torch",
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        **arm.settings,
        **QUIET,
    )


def build(
    arm: Arm, start: FirstPolicy, *, seed: int, steps: int, output_dir: Path, callbacks: Sequence[Any] = ()
) -> GRPOTrainer:
    """An arm's trainer, ready to `.train()`; the same start and seed give the same weights to the bit.

    Args:
        arm: Which one; its settings have the weights of the two parts of the reward, accuracy and length.
        start: The policy to start from; it is left as it is.
        seed: For the sampling of completions.
        steps: Optimizer steps, each with a rollout of its own.
        output_dir: TRL's, made by it.
        callbacks: transformers callbacks to run along, for example an `RLWatchCallback`.
    """
    config = grpo_config(arm, seed=seed, steps=steps, output_dir=output_dir)
    return quiet_trainer(start.model(), start.tokenizer, config, PROMPTS, [accuracy_reward, length_reward], callbacks)
