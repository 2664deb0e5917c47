"""The failure room's training: the same small policy with TRL's own GRPOTrainer, and an upper clip that differs.

The arms differ in one number, epsilon_high: while the probability of a token with a positive advantage is more than
a factor 1 + epsilon_high above what it was at the rollout, its gradient is cut off. A rare letter is right for half of
the prompts and wrong for the others, and what is learnt on one prompt spills over to the others. So it matters how far
it may rise where it is right, against how far it may fall where it is wrong (by a fifth, epsilon 0.2, in all of them).
What the first rollout does to the rare letters that were sampled, as the median factor on their probability:

    epsilon_high   where right   where wrong
    0.05           0.94          0.80           the upper clip is so tight that even right answers lose
    1.0            1.96          1.36           the policy explores first, and learns what is right where later

With the tight clip the rare letters die out and the safe habit stays: entropy falls, all the completions of a group
become the safe answer, they all earn 1/2, and

    advantage = (reward - mean of the group) / std of the group = 0.

The gradient is zero and the loss is a quiet line near zero, as it would be after convergence. The way out is known as
clip-higher (DAPO, arXiv:2503.14476, section 3.1); so small a task needs far more of it than the 0.28 used there.

Ten seeds, 480 steps, at the end, and how it depends on the regime:

    epsilon_high   groups dead and not solved   reward         runs that learnt the task
    0.05           .75 to .98                   .43 to .50     none of 10
    1.0            .00 to .12                   .85 to .99     10 of 10

- Between the two (.2, .28, .5) a run may learn the task, half of it (right letters for the odd prompts, the safe one
  for the even ones, or the reverse) or nothing; it is the seed that decides.
- Several updates a rollout are needed, here 8. With one, the ratio is exactly 1, the clip never acts, both arms are the
  same run and both settle on the safe answer. In larger models Skywork-OR1 (arXiv:2505.22312) saw the collapse with 2
  and 4 updates a rollout and not with 1.
- A peaked prior is needed, with rare better answers (see [`warm_start`][rlwatch.lab.warm_start]): with p = 0.3 for the
  safe one the tight clip collapses none of 8 runs. So are small steps: a large one jumps over the clip before it acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from rlwatch.lab.experiment import Arm
from rlwatch.lab.first_policy import FirstPolicy
from rlwatch.lab.task import PROMPTS, accuracy_reward, safe_answer_reward
from rlwatch.lab.trainer import quiet_trainer
from rlwatch.lab.warm_start import warm_start
from rlwatch.lab.watched import QUIET

GENERATIONS = 16
"""G, the completions a prompt gets in a rollout: the size of a group."""

UPDATES_PER_ROLLOUT = 8
"""Optimizer steps on the same completions, where the arm does not say otherwise."""


def prepare(seed: int, cache: Path | None = None) -> FirstPolicy:
    """The policy that every arm of a seed starts from; kept in a folder, if one is given."""
    return warm_start(seed, cache=cache)


def grpo_config(arm: Arm, *, seed: int, steps: int, output_dir: Path) -> GRPOConfig:
    """The whole configuration of an arm: all 16 prompts with 16 completions each a rollout, 8 updates on them."""
    given: dict[str, Any] = {"beta": 0.0, "num_iterations": UPDATES_PER_ROLLOUT, **arm.settings}
    return GRPOConfig(
        output_dir=str(output_dir),
        seed=seed,
        max_steps=steps,
        # the algorithm
        loss_type="dapo",
        scale_rewards="group",
        epsilon=0.2,
        num_generations=GENERATIONS,
        max_completion_length=4,  # a letter, a digit, the end token, and one to go wrong
        temperature=1.0,
        # the batch: one micro-batch a step, the whole rollout in it
        per_device_train_batch_size=len(PROMPTS) * GENERATIONS,
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        # the optimizer
        optim="sgd",
        learning_rate=0.07,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        **given,
        **QUIET,
    )


def build(
    arm: Arm, start: FirstPolicy, *, seed: int, steps: int, output_dir: Path, callbacks: Sequence[Any] = ()
) -> GRPOTrainer:
    """An arm's trainer, ready to `.train()`; the same warm start and seed give the same weights to the bit.

    Nothing is printed and nothing is written outside `output_dir`.

    Args:
        arm: Which one.
        start: The policy to start from; it is left as it is.
        seed: For the sampling of completions.
        steps: Optimizer steps; 8 of them share a rollout.
        output_dir: TRL's, made by it.
        callbacks: transformers callbacks to run along, for example an `RLWatchCallback`.
    """
    config = grpo_config(arm, seed=seed, steps=steps, output_dir=output_dir)
    rewards = [accuracy_reward, safe_answer_reward]
    return quiet_trainer(start.model(), start.tokenizer, config, PROMPTS, rewards, callbacks)
