"""The training of the length bias: TRL's own GRPOTrainer and four losses; under one of them wrong answers grow.

The arms differ in loss_type alone: in what a token's loss is divided by. An answer is a letter, which a coin writes and
which alone decides the reward, and dots that the policy adds until it ends the answer; see
[`lengths_task`][rlwatch.lab.lengths_task]. The letter is masked out of the loss with TRL's `env_mask`. So no length is
better than another, nothing can be learnt, and what becomes of the lengths is the loss's doing:

    loss_type   a token's advantage is divided by           share of Σ|w| on the longest quarter, at first
    grpo        the tokens of its own answer · 128          .23 ± .01
    dr_grpo     the most tokens an answer may have · 128    .54 ± .02
    dapo        the tokens of the whole batch               .54 ± .01
    bnpo        the tokens of its micro-batch · 4           .52 ± .01

Under grpo a token of a short answer weighs more than one of a long answer. So a right answer (advantage > 0) is pushed
up the more, the earlier it ends, and a wrong one (advantage < 0) is held down the less, the later it ends: right
answers shrink and wrong ones grow (Dr.GRPO, arXiv:2503.20783). Where the denominator does not know how long this answer
is, the expected push on what follows the letter is zero, and lengths only wander.

Five seeds an arm, 60 steps of 128 answers, means of 5 steps at either end, mean ± standard deviation over the seeds:

    loss_type   wrong, tokens             right, tokens             gap                         rule length-bias
    grpo        6.7 ± 1.7 → 29.3 ± 1.9    6.6 ± 1.5 → 1.1 ± 0.0     +0.2 ± 0.6 → +28.3 ± 1.7    warns in 5, step 33-39
    dr_grpo     7.4 ± 1.0 → 7.0 ± 7.2     7.1 ± 1.1 → 7.6 ± 7.9     +0.4 ± 0.5 → -0.3 ± 0.7     quiet in 5
    dapo        7.5 ± 0.9 → 11.3 ± 9.5    7.1 ± 1.1 → 12.0 ± 10.0   +0.4 ± 0.4 → -0.6 ± 0.5     quiet in 5
    bnpo        7.2 ± 1.2 → 8.9 ± 5.8     7.0 ± 1.1 → 9.5 ± 6.3     +0.2 ± 0.6 → -0.4 ± 0.5     quiet in 5

- It is the gap that tells. Lengths wander far under every loss (dapo ended at 1.5 to 24.3 tokens), right and wrong ones
  together; in one run of dapo and one of grpo rlwatch also warned of length-explosion.
- bnpo is nearly dapo here, with 32 answers a micro-batch. With one answer a micro-batch it is grpo, by its formula.
- It vanishes with a denominator that answers share, and mostly where the policy writes the letter itself and is
  trained on it ([`own_letter`][rlwatch.lab.length_bias.own_letter], grpo, four seeds): .98 of the answers are right
  after 60 steps, both kinds get shorter, and the gap of what wrong answers are left is +14.6, +0.9, +0.7 and 0.0.
- Where the policy writes the letter and only its loss is masked (grpo, four seeds), the gap is much the same,
  +25.8 ± 3.6, but the reward falls from .40 to .09 ± .08 as well: the weights that move lengths move the letter too.
  Hence the coin.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from trl import GRPOConfig, GRPOTrainer

from rlwatch.lab.experiment import Arm
from rlwatch.lab.first_policy import FirstPolicy
from rlwatch.lab.lengths_task import (
    MOST_TOKENS,
    P_RIGHT,
    RIGHT,
    WRONG,
    first_policy,
    right_letter_reward,
)
from rlwatch.lab.task import PROMPTS
from rlwatch.lab.trainer import quiet_trainer
from rlwatch.lab.watched import QUIET

GENERATIONS = 8
"""G, the completions a prompt gets in a rollout: the size of a group."""

MICRO_BATCHES = 4
"""Parts that a step's batch is split into: what bnpo counts its tokens in. The other arms do not notice."""


def prepare(seed: int, cache: Path | None = None) -> FirstPolicy:
    """The policy that every arm of a seed starts from; kept in a folder, if one is given."""
    return first_policy(seed, cache=cache)


def grpo_config(arm: Arm, *, seed: int, steps: int, output_dir: Path) -> GRPOConfig:
    """The whole configuration of an arm: all 16 prompts with 8 completions each a rollout, one update on them."""
    return GRPOConfig(
        output_dir=str(output_dir),
        seed=seed,
        max_steps=steps,
        # the algorithm
        scale_rewards="group",
        beta=0.0,
        num_iterations=1,
        num_generations=GENERATIONS,
        max_completion_length=MOST_TOKENS,
        temperature=1.0,
        # the batch: a rollout a step
        per_device_train_batch_size=len(PROMPTS) * GENERATIONS // MICRO_BATCHES,
        gradient_accumulation_steps=MICRO_BATCHES,
        # the optimizer
        optim="adamw_torch",
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        **arm.settings,
        **QUIET,
    )


def given_letter(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """TRL's `rollout_func`: a coin writes the letter and the policy goes on from there.

    `env_mask` tells TRL which tokens are the policy's (1) and which are the environment's (0). The letter stays in the
    context, but has no loss, no place in any denominator, and counts in no length.
    """
    tokenizer = trainer.processing_class
    prompt_ids = tokenizer(prompts)["input_ids"]
    right, wrong = tokenizer.convert_tokens_to_ids([RIGHT, WRONG])
    letters = torch.where(torch.rand(len(prompts)) < P_RIGHT, right, wrong).tolist()
    begun = [[*ids, letter] for ids, letter in zip(prompt_ids, letters, strict=True)]
    rests = _continued(begun, trainer, MOST_TOKENS - 1)
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": [[letter, *rest] for letter, rest in zip(letters, rests, strict=True)],
        "env_mask": [[0] + [1] * len(rest) for rest in rests],
        "logprobs": None,  # the trainer's own model has sampled: there is no other policy to correct for
    }


def own_letter(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Another `rollout_func`: the policy writes the letter too and is trained on it, so it learns which is right."""
    prompt_ids = trainer.processing_class(prompts)["input_ids"]
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": _continued(prompt_ids, trainer, MOST_TOKENS),
        "logprobs": None,
    }


def _continued(begun: list[list[int]], trainer: Any, tokens: int) -> list[list[int]]:
    """What the policy writes after each of these texts, all of one length: up to the end token, or `tokens` tokens."""
    inputs, end = torch.tensor(begun), trainer.processing_class.eos_token_id
    config = copy.copy(trainer.generation_config)
    config.max_new_tokens = tokens
    with torch.no_grad():
        sampled = trainer.model.generate(inputs, attention_mask=torch.ones_like(inputs), generation_config=config)
    answers = sampled[:, inputs.shape[1] :].tolist()
    return [ids[: ids.index(end) + 1] if end in ids else ids for ids in answers]


def build(
    arm: Arm,
    start: FirstPolicy,
    *,
    seed: int,
    steps: int,
    output_dir: Path,
    callbacks: Sequence[Any] = (),
) -> GRPOTrainer:
    """An arm's trainer, ready to `.train()`; the same start and seed give the same weights to the bit.

    Nothing is printed and nothing is written outside `output_dir`.

    Args:
        arm: Which one; with `letter="own"` in its task the policy writes the letter.
        start: The policy to start from; it is left as it is.
        seed: For the sampling of completions.
        steps: Optimizer steps, each with a rollout of its own.
        output_dir: TRL's, made by it.
        callbacks: transformers callbacks to run along, for example an `RLWatchCallback`.
    """
    config = grpo_config(arm, seed=seed, steps=steps, output_dir=output_dir)
    rollout_func = own_letter if arm.task.get("letter") == "own" else given_letter
    return quiet_trainer(
        start.model(), start.tokenizer, config, PROMPTS, [right_letter_reward], callbacks, rollout_func
    )
