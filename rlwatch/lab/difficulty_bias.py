"""The training of the difficulty bias: TRL's own GRPOTrainer, and an advantage that is divided by one thing or another.

The arms differ in scale_rewards alone. A third of the prompts is nearly solved (p = .95), a third even (.5), a third
nearly hopeless (.05); see [`own_letter_task`][rlwatch.lab.own_letter_task]. All answers have two tokens, so what a
completion weighs in the update is |A|, and a group with k of G right weighs

    none, batch    2 k (G − k) / G                  expected: ∝ p (1 − p)
    group          2 √(k (G − k) (G − 1) / G)       expected: towards √(p (1 − p)), where G p is not small

So dividing by the std of the group moves the update from even prompts to those at either end (Dr. GRPO,
arXiv:2503.20783). With G = 32 the binomial mean of that gives hard groups 14.0 % of the update without scaling and
21.8 % with it; at 16 it is 15.8 % and 21.5 %, for then most hard groups have one right answer or none. The batch's std
is one number for all and changes no share. The gradient is cut to one length in every arm, so that arms differ in where
the update goes and not in how large it is; the first 20 steps are shorter, so that the first policy's shares show.

What five seeds of 60 steps of 288 answers showed is in docs/lab/difficulty-bias.md. Beside it:

- The shares are those of the formula. What follows from them is small: hard prompts are half right one to three
  steps earlier in each seed, and at the end nothing differs.
- Tried before, five seeds: 12 prompts whose wrong letter was the next one, G = 16, no warm-up. There hard groups had
  20.9 ± 7.2 % and 15.0 ± 7.2 % at first (5.9 points more in the mean, 5 of 5 seeds), and hard prompts were half right
  at step 10 in both arms: what is learnt on even prompts probably spilled over to hard ones.
- It vanishes where all prompts are equally hard: no share and no rate differs by a hundredth.
- No rule of rlwatch tells of it, and none should: nothing failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from rlwatch.lab.experiment import Arm
from rlwatch.lab.first_policy import FirstPolicy
from rlwatch.lab.own_letter_task import ALIKE, DIFFERENT, PROMPTS, accuracy_reward, easy, even, first_policy, hard
from rlwatch.lab.trainer import quiet_trainer
from rlwatch.lab.watched import QUIET

GENERATIONS = 32
"""G, the completions a prompt gets in a rollout: the size of a group."""

STEP_LENGTH = 0.02
"""How far a step moves the weights, in every arm: the gradient is cut to this norm, and the learning rate is 1."""

WARM_UP = 20
"""Steps over which steps get longer, to that length: the first ones show the first policy's update."""


@dataclass(frozen=True)
class Starts:
    """Where the arms of a seed start from.

    Args:
        different: The policy for which prompts are of different difficulty.
        alike: That for which all are equally hard.
    """

    different: FirstPolicy
    alike: FirstPolicy


def prepare(seed: int, cache: Path | None = None) -> Starts:
    """The policies of a seed; kept in a folder, if one is given."""
    return Starts(first_policy(seed, DIFFERENT, cache), first_policy(seed, ALIKE, cache))


def grpo_config(arm: Arm, *, seed: int, steps: int, output_dir: Path) -> GRPOConfig:
    """The whole configuration of an arm: all 9 prompts with 32 completions each a rollout, one update on them."""
    return GRPOConfig(
        output_dir=str(output_dir),
        seed=seed,
        max_steps=steps,
        # the algorithm
        loss_type="dapo",
        beta=0.0,
        num_iterations=1,
        num_generations=GENERATIONS,
        max_completion_length=2,  # a letter and the end token
        temperature=1.0,
        reward_weights=[1.0, 0.0, 0.0, 0.0],
        # the batch: a rollout a step, in one micro-batch
        per_device_train_batch_size=len(PROMPTS) * GENERATIONS,
        gradient_accumulation_steps=1,
        # the optimizer
        optim="sgd",
        learning_rate=1.0,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=WARM_UP,
        max_grad_norm=STEP_LENGTH,
        **arm.settings,
        **QUIET,
    )


def build(
    arm: Arm, start: Starts, *, seed: int, steps: int, output_dir: Path, callbacks: Sequence[Any] = ()
) -> GRPOTrainer:
    """An arm's trainer, ready to `.train()`; the same start and seed give the same weights to the bit.

    Args:
        arm: Which one; with `prompts="alike"` in its task all prompts are equally hard.
        start: The policies to start from; they are left as they are.
        seed: For the sampling of completions.
        steps: Optimizer steps, each with a rollout of its own.
        output_dir: TRL's, made by it.
        callbacks: transformers callbacks to run along, for example an `RLWatchCallback`.
    """
    policy = start.alike if arm.task.get("prompts") == "alike" else start.different
    config = grpo_config(arm, seed=seed, steps=steps, output_dir=output_dir)
    return quiet_trainer(
        policy.model(), policy.tokenizer, config, PROMPTS, [accuracy_reward, easy, even, hard], callbacks
    )
