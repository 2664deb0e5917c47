"""The training of the mismatch: TRL's own GRPOTrainer, and a sampler that is not the policy that is trained.

TRL weighs each token's loss by w = min(p / q, C), where q is what the sampler reports and C a cap
(vllm_importance_sampling_correction, mode token_truncate). It does so only where vLLM samples; here a stand-in does,
and the correction is switched on beside it, see [`build`][rlwatch.lab.mismatch.build]. Two things can be wrong:

- The sampler samples from q and says so, but q is not p: here p to the power 1/2, a temperature of 2. Then the mean
  weight is Σ q · p / q = 1, whatever the two are, and only the gap |log p − log q| shows it. Without a correction the
  expected push on a letter's logit is q · (r − mean) in place of p · (r − mean): it stays where q still makes mistakes
  that p has long given up. And the reward that is logged is what q earns.
- What it reports is not what it samples by: here it is off by normal noise of σ = 2 nats a token. Then the mean weight
  is e^(σ²/2) = 7.4, whatever the policy does, and without a cap the update rests on e^(−σ²) = 2 % of the tokens.

The task is that of [`own_letter_task`][rlwatch.lab.own_letter_task], all prompts at p = .3; `reward/policy_accuracy` is
what the policy that is trained would earn, worked out and not sampled.

Forty steps of 144 answers, means of the last ten, mean ± standard deviation over five seeds:

    arm               mean weight   gap, nats    the policy's accuracy   beyond what was sampled   gradient      entropy
    same              1.00 ± .00    .00 ± .00    .988 ± .001             .001 ± .003               0.53 ± .14    .046
    same-corrected    1.00 ± .00    .00 ± .00    .988 ± .001             .001 ± .003               0.53 ± .14    .046
    noise             7.53 ± .43    1.59 ± .03   .986 ± .002             .002 ± .006               5.7 ± 5.8     .053
    noise-truncated   7.53 ± .43    1.59 ± .03   .988 ± .001             .001 ± .004               0.78 ± .13    .049
    hot               1.00 ± .01    .49 ± .07    .997 ± .001             .151 ± .024               2.0 ± .6      .014
    hot-corrected     1.00 ± .01    1.00 ± .04   .984 ± .001             .352 ± .019               0.43 ± .10    .071

- sampler-mismatch was critical at step 10 or 11 in all of the runs with noise, and silent under the hot sampler, whose
  weight is 1 on average: the gap of log-probabilities is what shows it.
- What noise costs is small here, .002 in accuracy: the gradient is cut to norm 1, which hides weights of a thousand,
  and the task is easy.
- The hot sampler does not harm the policy on this task. It hides it: the log shows .85 where the policy earns .997. Nor
  does a correction mend that; the policy is then less sharp, and its sampler even worse (.63).
- Without noise the corrected run is the plain one, to the last digit that is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from trl import GRPOConfig, GRPOTrainer

from rlwatch.lab.experiment import Arm
from rlwatch.lab.first_policy import FirstPolicy
from rlwatch.lab.own_letter_task import PROMPTS, accuracy_reward, first_policy, right_letter
from rlwatch.lab.trainer import quiet_trainer
from rlwatch.lab.watched import QUIET

CHANCES: Mapping[str, float] = {"easy": 0.3, "even": 0.3, "hard": 0.3}
"""The first policy's probability of the right letter: the same for all prompts."""

GENERATIONS = 16
"""G, the completions a prompt gets in a rollout: the size of a group."""

TOKENS = 2
"""Tokens of an answer: a letter and the end token."""


def prepare(seed: int, cache: Path | None = None) -> FirstPolicy:
    """The policy that every arm of a seed starts from; kept in a folder, if one is given."""
    return first_policy(seed, CHANCES, cache)


def grpo_config(arm: Arm, *, seed: int, steps: int, output_dir: Path) -> GRPOConfig:
    """The whole configuration of an arm: all 9 prompts with 16 completions each a rollout, one update on them."""
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
        max_completion_length=TOKENS,
        temperature=1.0,
        reward_weights=[1.0, 0.0],
        vllm_importance_sampling_mode="token_truncate",
        # the batch: a rollout a step, in one micro-batch
        per_device_train_batch_size=len(PROMPTS) * GENERATIONS,
        gradient_accumulation_steps=1,
        # the optimizer
        optim="sgd",
        learning_rate=0.05,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        **arm.settings,
        **QUIET,
    )


def sampler(temperature: float, noise: float) -> Callable[[list[str], Any], dict[str, Any]]:
    """TRL's `rollout_func` of a sampler that is not the trainer.

    Args:
        temperature: What its logits are divided by. The log-probabilities that it reports are those that it samples by.
        noise: The standard deviation of what is added to each of them, in nats.
    """

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        prompt_ids, end = trainer.processing_class(prompts)["input_ids"], trainer.processing_class.eos_token_id
        ids, picked = torch.tensor(prompt_ids), []
        with torch.no_grad():
            for _ in range(TOKENS):
                log_p = (trainer.model(input_ids=ids).logits[:, -1] / temperature).log_softmax(-1)
                chosen = torch.multinomial(log_p.exp(), 1)
                picked.append(log_p.gather(1, chosen))
                ids = torch.cat([ids, chosen], dim=1)
        reported = torch.cat(picked, dim=1)
        reported = reported + noise * torch.randn(reported.shape)  # drawn in every arm: all see the same random numbers
        answers = [row[: row.index(end) + 1] if end in row else row for row in ids[:, len(prompt_ids[0]) :].tolist()]
        logps = [row[: len(answer)] for row, answer in zip(reported.tolist(), answers, strict=True)]
        return {"prompt_ids": prompt_ids, "completion_ids": answers, "logprobs": logps}

    return rollout


class PolicyAccuracy:
    """TRL reward function of weight 0: what the policy that is trained would earn, exactly, whoever samples.

    The accuracy of an answer is p(the prompt's own letter) · p(the end token after it).
    """

    __name__ = "policy_accuracy"

    def __init__(self) -> None:
        self.trainer: Any = None

    def __call__(self, prompts: Sequence[str], **_: object) -> list[float]:
        """One number a prompt, given to each of its completions."""
        tokenizer = self.trainer.processing_class
        ids = torch.tensor(tokenizer([prompt + right_letter(prompt) for prompt in PROMPTS])["input_ids"])
        with torch.no_grad():
            p = self.trainer.model(input_ids=ids).logits.softmax(-1)
        earned = p[range(len(ids)), -2, ids[:, -1]] * p[:, -1, tokenizer.eos_token_id]
        return [float(earned[PROMPTS.index(prompt)]) for prompt in prompts]


def build(
    arm: Arm, start: FirstPolicy, *, seed: int, steps: int, output_dir: Path, callbacks: Sequence[Any] = ()
) -> GRPOTrainer:
    """An arm's trainer, ready to `.train()`; the same start and seed give the same weights to the bit.

    TRL corrects for the sampler only where it believes that vLLM samples. It asks for that in two places: where it
    hands the new weights to vLLM, for which there is something here that takes them and does nothing, and in the loss.

    Args:
        arm: Which one; its task has the sampler's `temperature` and `noise`, and whether it is to be `corrected`.
        start: The policy to start from; it is left as it is.
        seed: For the sampling of completions.
        steps: Optimizer steps, each with a rollout of its own.
        output_dir: TRL's, made by it.
        callbacks: transformers callbacks to run along, for example an `RLWatchCallback`.
    """
    config, own = grpo_config(arm, seed=seed, steps=steps, output_dir=output_dir), PolicyAccuracy()
    rollout = sampler(arm.task.get("temperature", 1.0), arm.task.get("noise", 0.0))
    trainer = quiet_trainer(start.model(), start.tokenizer, config, PROMPTS, [accuracy_reward, own], callbacks, rollout)
    own.trainer = trainer
    if arm.task.get("corrected"):
        trainer.use_vllm, trainer._last_loaded_step = True, -1
        trainer.vllm_generation = SimpleNamespace(sync_weights=lambda: None)
    return trainer
