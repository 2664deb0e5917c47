"""verl's Hydra configuration: the actor's section, the algorithm's, and what makes the batches.

Source: verl 0.5, `trainer/ppo/core_algos.py` and `workers/actor/dp_actor.py`, read and not run. Later versions may
count the tokens of the whole mini-batch, over all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.audit.config import AuditConfig, ConfigError
from rlwatch.audit.values import Values

MODES = {
    "token-mean": "micro-batch-tokens",
    "seq-mean-token-sum": "sequence-sum",
    "seq-mean-token-mean": "sequence-mean",
    "seq-mean-token-sum-norm": "padded-length",
}
"""`loss_agg_mode` → how it averages."""

BASELINES = {
    "grpo": "group", "grpo_passk": "group", "rloo": "leave-one-out", "opo": "group", "gpg": "group",
    "reinforce_plus_plus_baseline": "group", "reinforce_plus_plus": "none", "remax": "none", "gae": "none",
}  # fmt: skip
"""`algorithm.adv_estimator` → what is taken off a reward."""

WHITENED = ("reinforce_plus_plus", "reinforce_plus_plus_baseline", "gae")

ACTOR = ("actor_rollout_ref.actor.", "actor.", "")


def verl(data: Mapping[str, Any], source: str) -> AuditConfig:
    """The configuration of a verl training, whole or the actor's file alone.

    Raises:
        ConfigError: A setting makes no sense, or the batches do not divide.
    """
    values = Values(data, source)
    mode = values.word("loss_agg_mode", "token-mean", list(MODES), *_actor("loss_agg_mode"))
    clip = values.number("clip_ratio", 0.2, *_actor("clip_ratio"))
    low = values.number("epsilon", 0.2, *_actor("clip_ratio_low"))  # which verl's own files set, whatever clip_ratio is
    high = values.number("epsilon_high", 0.2, *_actor("clip_ratio_high"))
    estimator = values.word("baseline", "gae", list(BASELINES), "algorithm.adv_estimator", "adv_estimator")
    by_std = values.flag("scale_rewards", True, "algorithm.norm_adv_by_std_in_grpo", "norm_adv_by_std_in_grpo")
    kind = values.word("loss_type", "vanilla", (), *_actor("policy_loss.loss_mode"))
    size = values.count("num_generations", 1, "actor_rollout_ref.rollout.n", "rollout.n")
    in_loss = values.flag("kl_in", False, *_actor("use_kl_loss"))
    in_reward = values.flag("kl_in_reward", False, "algorithm.use_kl_in_reward")
    beta = values.number("beta", 0.001, *_actor("kl_loss_coef")) if in_loss else 0.0
    if in_reward and not in_loss:
        beta = values.number("beta", 0.001, "algorithm.kl_ctrl.kl_coef")
    notes = ["verl is audited as of version 0.5, from its source."]
    if not values.has("actor_rollout_ref.rollout.n", "rollout.n"):
        notes.append("It does not set rollout.n: verl's default, 1 answer a prompt, is assumed.")
    if clip not in (low, high):
        notes.append(
            f"clip_ratio is {clip:g}, but verl clips by clip_ratio_low ({low:g}) and clip_ratio_high ({high:g})."
        )
    if estimator == "gae":
        notes.append("Its advantages come from a critic, and not from groups: the example shows rewards, whitened.")
    grouped = estimator in ("grpo", "grpo_passk")
    alone = grouped and size == 1  # verl then takes 0 for the mean and 1 for the std
    scale = "whiten" if estimator in WHITENED else "group" if grouped and by_std and not alone else "none"
    return AuditConfig(
        source=source,
        framework="verl",
        trainer="verl PPO trainer",
        objective="policy",
        loss_type=kind,
        aggregation=MODES[mode],
        baseline="none" if alone else BASELINES[estimator],
        scale_rewards=scale,
        std_epsilon=1e-6,
        num_generations=size,
        max_completion_length=values.count("max_completion_length", 512, "data.max_response_length"),
        epsilon=low,
        epsilon_high=high,
        importance_sampling_level="sequence" if kind == "gspo" else "token",
        beta=beta,
        kl_in="reward" if in_reward and not in_loss else "loss",
        entropy_coef=values.number("entropy_coef", 0.0, *_actor("entropy_coeff")),
        **_batches(values, size),
        names=_names(values),
        own={
            "aggregation": mode,
            "baseline": estimator,
            "scale_rewards": str(by_std),
            "gradient_accumulation_steps": str(values.raw("mini", *_actor("ppo_mini_batch_size")) or 256),
            "ranks": str(values.raw("gpus", "trainer.n_gpus_per_node") or 1),
        },
        given=frozenset(values.found),
        notes=(*notes, *values.notes),
    )


def _actor(key: str) -> list[str]:
    return [prefix + key for prefix in ACTOR]


def _batches(values: Values, size: int) -> dict[str, Any]:
    """Micro-batches and updates a rollout, in TRL's terms."""
    ranks = values.count("gpus", 1, "trainer.n_gpus_per_node") * values.count("nodes", 1, "trainer.nnodes")
    mini = values.count("mini", 256, *_actor("ppo_mini_batch_size"))
    prompts = values.count("prompts", mini, "data.train_batch_size")
    rows = mini * size // ranks
    micro = values.count("per_device_train_batch_size", rows, *_actor("ppo_micro_batch_size_per_gpu"))
    if values.flag("dynamic", False, *_actor("use_dynamic_bsz")):
        values.notes.append("use_dynamic_bsz makes micro-batches of uneven size, each weighed by its sequences.")
    if rows < 1 or micro < 1 or rows % micro:
        raise ConfigError(
            f"{values.source}: {rows} sequences of a mini-batch on each of {ranks} ranks (ppo_mini_batch_size {mini} · "
            f"rollout.n {size}) do not divide into micro-batches of {micro} (ppo_micro_batch_size_per_gpu)"
        )
    return {
        "ranks": ranks,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": rows // micro,
        "steps_per_generation": max(1, prompts // mini) * (rows // micro),
        "num_iterations": values.count("num_iterations", 1, *_actor("ppo_epochs")),
    }


def _names(values: Values) -> dict[str, str]:
    """What each is called; the actor's as they stand in the file, or with their whole path."""
    prefix = "actor_rollout_ref.actor."
    return {
        "loss_type": prefix + "policy_loss.loss_mode",
        "aggregation": prefix + "loss_agg_mode",
        "epsilon": prefix + "clip_ratio_low",
        "epsilon_high": prefix + "clip_ratio_high",
        "beta": prefix + "kl_loss_coef",
        "entropy_coef": prefix + "entropy_coeff",
        "per_device_train_batch_size": prefix + "ppo_micro_batch_size_per_gpu",
        "gradient_accumulation_steps": prefix + "ppo_mini_batch_size",
        "steps_per_generation": "data.train_batch_size",
        "num_iterations": prefix + "ppo_epochs",
        "num_generations": "actor_rollout_ref.rollout.n",
        "max_completion_length": "data.max_response_length",
        "scale_rewards": "algorithm.norm_adv_by_std_in_grpo",
        "baseline": "algorithm.adv_estimator",
        "ranks": "trainer.n_gpus_per_node",
        "importance_sampling_level": prefix + "policy_loss.loss_mode",
    } | {name: key for name, key in values.found.items() if name not in ("scale_rewards",)}
