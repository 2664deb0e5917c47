"""The training of the regulariser: the failure room's task, a KL penalty, and a verifier that breaks under way.

A policy learns the task. From one rollout on its verifier returns 0 for everything: every group is dead, every
advantage is 0, and the policy gradient is gone. What is left of the gradient is the penalty's,

    g = g_policy + beta · g_KL,    g_policy = 0    →    ‖g‖ = beta · ‖g_KL‖,

which pulls the policy back to its reference (the warm start) and so undoes what was learnt, while the gradient's norm
looks like that of a run that is alive. Without a penalty (beta 0) the norm is exactly 0 and the policy stays as it is.
The same is known of larger models (RAGEN, arXiv:2504.20073, and arXiv:2604.06268).

What is true goes on being measured: `true_accuracy` is a reward function of weight 0, which no gradient hears of.

Five seeds, 480 steps, the verifier breaks after step 320; mean ± standard deviation:

    arm        ‖g‖ in the 40 steps after   of it the policy's   true accuracy, 320 → 480   told
    kl         .105 ± .083                 0.0 %                .69 ± .24 lost             reward-collapse at 325
    no-kl      0                           -                    .00 ± .04 lost             reward-collapse at 325
    kl-sound   .638 ± .414                 99.4 % ± 1.5 %       .10 ± .12 gained           nothing critical

Beta is 0.02, so that the policy learns the task first (a true accuracy of .94 in 320 steps); with 0.1 it is held so
near to the warm start that it learns little (.19 in 200 steps) and has little to lose, by the same mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers.utils import logging
from trl import GRPOTrainer

from rlwatch.lab import failure_room
from rlwatch.lab.experiment import Arm
from rlwatch.lab.first_policy import FirstPolicy
from rlwatch.lab.task import PROMPTS, accuracy_reward, safe_answer_reward
from rlwatch.lab.trainer import quiet_trainer

prepare = failure_room.prepare

RewardFunction = Callable[..., list[float]]


def breaking(reward: RewardFunction, name: str, sound: int) -> RewardFunction:
    """A reward function that returns 0 for everything once it has been asked for so many rollouts; 0 is never."""
    asked = 0

    def verifier(prompts: Sequence[str], completions: Sequence[str], **more: Any) -> list[float]:
        nonlocal asked
        asked += 1
        found = reward(prompts, completions, **more)
        return found if not sound or asked <= sound else [0.0] * len(found)

    verifier.__name__ = name
    return verifier


def true_accuracy(prompts: Sequence[str], completions: Sequence[str], **_: object) -> list[float]:
    """What the verifier would say if it were sound: it has no weight in the reward."""
    return accuracy_reward(prompts, completions)


def build(
    arm: Arm, start: FirstPolicy, *, seed: int, steps: int, output_dir: Path, callbacks: Sequence[Any] = ()
) -> GRPOTrainer:
    """An arm's trainer; arguments as in [`failure_room.build`][rlwatch.lab.failure_room.build].

    The arm's task says for how many rollouts the verifier is `sound`.
    """
    args = failure_room.grpo_config(arm, seed=seed, steps=steps, output_dir=output_dir)
    args.reward_weights = [1.0, 1.0, 0.0]
    # TRL loads the reference of a KL penalty from the model's path once more: it has to be one.
    path = output_dir / "start"
    start.model().save_pretrained(path)
    logging.disable_progress_bar()  # of loading it, which takes no time
    sound = int(arm.task.get("sound", 0))
    rewards = [
        breaking(accuracy_reward, "accuracy", sound),
        breaking(safe_answer_reward, "safe_answer", sound),
        true_accuracy,
    ]
    return quiet_trainer(str(path), start.tokenizer, args, PROMPTS, rewards, callbacks)
