"""The training of dynamic sampling: TRL's GRPOTrainer, with the resampling of DAPO that TRL does not have.

A group whose completions earn the same has no advantage. DAPO (arXiv:2503.14476, section 3.2) throws such groups away
and draws others until the batch is full. If a share d of the groups is dead at each draw, then with up to T draws

    dead groups that are trained on   dᵀ
    tokens of a rollout               (1 + d + ... + dᵀ⁻¹) times those of one draw, T times where all are dead
    live groups a generated token     (1 − d) / (tokens of a group), whatever T is

So a step has 1/(1 − d) times as many live groups and costs as many times the tokens: under SGD, whose step grows with
the number of live groups, nothing is gained a token at first order; what may be gained is a step, and so time, where
the update is what costs. Nothing is drawn where no group is dead: with a grader whose noise tells all completions apart
it is TRL's own trainer, to the bit.

What rlwatch shows of it is the batch that was kept: `groups/zero_std` is near 0 and `groups/solved` is 0 whatever the
policy can do, and `reward/mean` is that of groups with variance. So the policy's own reward, its dead groups and the
tokens of all draws are recorded beside it, as reward functions of no weight: `reward/first_draw`,
`reward/first_draw_dead`, `reward/generated_tokens`. rlwatch takes them for parts of the reward: where the dead share
falls or rises, its rule reward-hacking says so, as an info.

The task is the failure room's without the safe answer's reward: the right answers have a prior of 0.05 together, so
with groups of 4 most are failed at first, about (1 − 0.05)⁴ = 0.8 of them. What five seeds showed is in
docs/lab/dynamic-sampling.md; in short, the dead groups are gone from the batch (1 % in place of 36 %) for 1.6 times the
tokens, and no order of the rewards is shown after 240 steps: +0.04, from -0.18 to +0.27. Few groups were solved by
then, so late rollouts cost 2.2 times one draw's tokens, and not the 8 that they might.

Before that one seed (0) was looked at to choose the task: with the safe answer rewarded, the arms began at .48 and .49
and ended at .50 and .51 after 160 steps; without it, and after 240 steps, plain ended at .53 and resampled at .89.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trl import GRPOConfig

from rlwatch.lab.experiment import Arm
from rlwatch.lab.first_policy import FirstPolicy
from rlwatch.lab.resampling import Grader, Ledger, Resampling
from rlwatch.lab.task import PROMPTS
from rlwatch.lab.trainer import quiet_trainer
from rlwatch.lab.warm_start import warm_start
from rlwatch.lab.watched import QUIET

GENERATIONS = 4
"""G, the completions a prompt gets: few, so that many groups have no variance."""


def prepare(seed: int, cache: Path | None = None) -> FirstPolicy:
    """The policy that every arm of a seed starts from; kept in a folder, if one is given."""
    return warm_start(seed, cache=cache)


def grpo_config(arm: Arm, *, seed: int, steps: int, output_dir: Path) -> GRPOConfig:
    """The whole configuration of an arm: all 16 prompts a rollout, 8 updates on them, the failure room's wide clip."""
    given: dict[str, Any] = {
        "num_generations": GENERATIONS,
        "num_iterations": 8,
        "loss_type": "dapo",
        "scale_rewards": "group",
        "epsilon": 0.2,
        "epsilon_high": 1.0,
        "optim": "sgd",
        "learning_rate": 0.07,
        **arm.settings,
    }
    return GRPOConfig(
        output_dir=str(output_dir),
        seed=seed,
        max_steps=steps,
        reward_weights=[1.0, 0.0, 0.0, 0.0, 0.0],  # what is trained on, and what is only written down
        beta=0.0,
        max_completion_length=4,
        temperature=1.0,
        per_device_train_batch_size=len(PROMPTS) * given["num_generations"],
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        **given,
        **QUIET,
    )


def build(
    arm: Arm, start: FirstPolicy, *, seed: int, steps: int, output_dir: Path, callbacks: Sequence[Any] = ()
) -> Resampling:
    """An arm's trainer, ready to `.train()`; the same warm start and seed give the same weights to the bit.

    Args:
        arm: Which one; `draws` in its task says how often a rollout may draw at most, `noise` what the grader adds.
        start: The policy to start from; it is left as it is.
        seed: For the sampling of completions and the grader's noise.
        steps: Optimizer steps; 8 of them share a rollout.
        output_dir: TRL's, made by it.
        callbacks: transformers callbacks to run along, for example an `RLWatchCallback`.
    """
    ledger, grader = Ledger(), Grader(float(arm.task.get("noise", 0.0)), seed)
    config = grpo_config(arm, seed=seed, steps=steps, output_dir=output_dir)
    rewards = [grader.graded, *ledger.columns()]
    trainer = quiet_trainer(start.model(), start.tokenizer, config, PROMPTS, rewards, callbacks, kind=Resampling)
    assert isinstance(trainer, Resampling)
    trainer.draws, trainer.grader, trainer.ledger = int(arm.task.get("draws", 1)), grader, ledger
    return trainer
