"""The training of the ratios: four bounds on how far several updates may move on the same rollout.

With r = p/p_old, and A the advantage, what a token's log-probability gets as its gradient is −w·A times

    PPO, GRPO   r, and 0 where r > 1.2 and A > 0 or r < 0.8 and A < 0    (arXiv:1707.06347, 2402.03300)
    GSPO        s = (Π r)^(1/L) of the whole completion, and 0 where s > 1.0004 and A > 0 or s < 0.9997 and A < 0
                                                                         (arXiv:2507.18071)
    CISPO       min(r, 5), never 0                                       (arXiv:2506.13585)

On policy each is 1: with one update a rollout no bound acts, and GSPO is GRPO. With sixteen, GSPO's clip is passed
after an update or two and the rest of them move little; CISPO's weights grow with the ratio itself, and nothing holds
it. PPO is a loop of the lab's own, see [`ppo_loop`][rlwatch.lab.ppo_loop]; the rest is TRL's trainer.

What five seeds of 128 steps showed is in docs/lab/ratios.md: with sixteen updates a rollout GSPO cuts .39 of the
completions (GRPO .13 of the tokens), moves a twentieth as far and earns least; CISPO moves eight times as far as GRPO.
GSPO and GRPO take the same step from the same weights with one update a rollout, to rounding; but a rounding error may
turn one sampled token into another, from the tenth update on or so, and then the runs are two.

Another seed (0) was looked at before the claims were written: .33 to .54 of completions cut under GSPO, KL .001 to
.004; largest ratios of 2 to 23 under CISPO.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlwatch.lab import dynamic_sampling
from rlwatch.lab.dynamic_sampling import grpo_config
from rlwatch.lab.experiment import Arm
from rlwatch.lab.first_policy import FirstPolicy
from rlwatch.lab.ppo_loop import PPO
from rlwatch.lab.task import PROMPTS

prepare = dynamic_sampling.prepare


def build(
    arm: Arm, start: FirstPolicy, *, seed: int, steps: int, output_dir: Path, callbacks: Sequence[Any] = ()
) -> Any:
    """An arm's trainer, or for PPO its loop, ready to `.train()`.

    Args:
        arm: Which one; with `loop="ppo"` in its task it is trained without TRL, with the same settings.
        start: The policy to start from; it is left as it is.
        seed: For the sampling of completions.
        steps: Optimizer steps, `num_iterations` of which share a rollout.
        output_dir: TRL's, made by it.
        callbacks: transformers callbacks to run along. PPO's loop is watched by a Monitor of its own instead.
    """
    if arm.task.get("loop") != "ppo":
        return dynamic_sampling.build(arm, start, seed=seed, steps=steps, output_dir=output_dir, callbacks=callbacks)
    config = grpo_config(arm, seed=seed, steps=steps, output_dir=output_dir)
    return PPO(
        start.model(),
        start.tokenizer,
        seed=seed,
        steps=steps,
        updates=config.num_iterations,
        completions=len(PROMPTS) * config.num_generations,
        learning_rate=config.learning_rate,
        epsilon=config.epsilon,
        max_norm=config.max_grad_norm,
    )
