"""OpenRLHF's arguments, nested (`actor.eps_clip`, since 0.10) or flat (`eps_clip`, before).

Source: OpenRLHF 0.11, `models/loss.py`, `utils/loss_utils.py` and `trainer/ppo_utils/experience_maker.py`, read and not
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.audit.config import AuditConfig, ConfigError
from rlwatch.audit.values import Values

MODES = {"token-mean": "step-tokens", "seq-mean-token-mean": "step-sequences"}

ESTIMATORS = {
    "gae": ("none", "whiten"),
    "reinforce": ("none", "whiten"),
    "rloo": ("leave-one-out", "none"),
    "reinforce_baseline": ("group", "whiten"),
    "group_norm": ("group", "group"),
    "dr_grpo": ("group", "none"),
    "flash_reinforce": ("batch", "none"),
}
"""`advantage.estimator` → what is taken off a reward, and what the difference is divided by."""


def openrlhf(data: Mapping[str, Any], source: str) -> AuditConfig:
    """The configuration of OpenRLHF's `train_ppo_ray`.

    Raises:
        ConfigError: A setting makes no sense, or the batches do not divide.
    """
    values = Values(data, source)
    estimator = values.word("baseline", "gae", list(ESTIMATORS), "algo.advantage.estimator", "advantage_estimator")
    baseline, scale = ESTIMATORS[estimator]
    notes = ["OpenRLHF is audited as of version 0.11, from its source."]
    if scale == "whiten":
        notes.append("It whitens advantages over all tokens; the example does it over completions.")
        if values.flag("no_std", False, "algo.advantage.no_std_norm", "no_advantage_std_norm"):
            notes.append("With no_std_norm only their mean is taken off.")
            scale = "none"
    kind = values.word("loss_type", "ppo", ["ppo", "gspo"], "actor.policy_loss_type", "policy_loss_type")
    mode = values.word("aggregation", "token-mean", list(MODES), "actor.loss_agg_mode", "loss_agg_mode")
    if kind == "gspo":
        mode = "seq-mean-token-mean"
    epsilon = values.number("epsilon", 0.2, "actor.eps_clip", "eps_clip")
    pair = values.raw("epsilon_high", "actor.eps_clip_low_high", "eps_clip_low_high")
    if pair is None:
        pair = (epsilon, epsilon)
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not all(isinstance(x, (int, float)) for x in pair):
        raise values.wrong(values.found["epsilon_high"], pair, "two numbers")
    in_loss = values.flag("kl_in", False, "algo.kl.use_loss", "use_kl_loss")
    size = values.count("num_generations", 1, "rollout.n_samples_per_prompt", "n_samples_per_prompt")
    return AuditConfig(
        source=source,
        framework="openrlhf",
        trainer="OpenRLHF PPO trainer",
        objective="policy",
        loss_type=kind,
        aggregation=MODES[mode],
        baseline=baseline,
        scale_rewards=scale,
        std_epsilon=1e-9,
        num_generations=size,
        num_iterations=values.count("num_iterations", 1, "train.max_epochs", "max_epochs"),
        max_completion_length=values.count(
            "max_completion_length", 1024, "rollout.max_new_tokens", "generate_max_len", "data.max_len"
        ),
        epsilon=float(pair[0]),
        epsilon_high=float(pair[1]),
        importance_sampling_level="sequence" if kind == "gspo" else "token",
        beta=values.number("beta", 0.01, "algo.kl.init_coef", "init_kl_coef"),
        kl_in="loss" if in_loss else "reward",
        entropy_coef=values.number("entropy_coef", 0.0, "actor.entropy_coef", "entropy_loss_coef"),
        **_batches(values, size),
        own={
            "aggregation": mode,
            "baseline": estimator,
            "scale_rewards": estimator,
            "gradient_accumulation_steps": str(values.raw("batch", "train.batch_size", "train_batch_size") or 128),
        },
        names={
            "aggregation": "actor.loss_agg_mode",
            "loss_type": "actor.policy_loss_type",
            "scale_rewards": "algo.advantage.estimator",
            "baseline": "algo.advantage.estimator",
            "epsilon": "actor.eps_clip_low_high",
            "epsilon_high": "actor.eps_clip_low_high",
            "beta": "algo.kl.init_coef",
            "num_generations": "rollout.n_samples_per_prompt",
            "num_iterations": "train.max_epochs",
            "max_completion_length": "rollout.max_new_tokens",
            "per_device_train_batch_size": "train.micro_batch_size",
            "gradient_accumulation_steps": "train.batch_size",
            "steps_per_generation": "rollout.batch_size",
            "importance_sampling_level": "actor.policy_loss_type",
            "ranks": "actor.num_gpus_per_node",
        }
        | values.found,
        given=frozenset(values.found),
        notes=(*notes, *values.notes),
    )


def _batches(values: Values, size: int) -> dict[str, Any]:
    ranks = values.count("ranks", 1, "actor.num_gpus_per_node", "actor_num_gpus_per_node")
    micro = values.count("per_device_train_batch_size", 1, "train.micro_batch_size", "micro_train_batch_size")
    batch = values.count("gradient_accumulation_steps", 128, "train.batch_size", "train_batch_size")
    prompts = values.count("steps_per_generation", max(1, batch // size), "rollout.batch_size", "rollout_batch_size")
    if micro < 1 or ranks < 1 or batch % (micro * ranks):
        raise ConfigError(
            f"{values.source}: a batch of {batch} (train.batch_size) does not divide into micro-batches of {micro} "
            f"(train.micro_batch_size) on {ranks} ranks"
        )
    accumulation = batch // (micro * ranks)
    return {
        "ranks": ranks,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": max(1, prompts * size // batch) * accumulation,
    }
