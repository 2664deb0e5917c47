"""The names that other frameworks give to their metrics, table by table, and what only looks like one of ours.

Where two names of one row are the same metric, the one that stands first in its table is it, and the other is kept raw.
A `*` stands for one reward function's name, on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping

TRL: Mapping[str, str] = {
    "loss": "loss",
    "Training Loss": "loss",
    "Validation Loss": "eval/loss",
    "learning_rate": "lr",
    "grad_norm": "grad/norm",
    "reward": "reward/mean",
    "rewards/*/mean": "reward/*",
    "rewards/*": "reward/*",
    # means over micro-batches and steps that weigh each the same, however many tokens it has
    "entropy": "entropy/mean",
    "kl": "kl/ref",
    "completions/mean_length": "length/mean",
    "completion_length": "length/mean",
    "completions/clipped_ratio": "length/truncated",
    # of the batch, and not of the groups, where scale_rewards is "batch": see readers/spread.py
    "frac_reward_zero_std": "groups/zero_std",
    "clip_ratio/low_mean": "clip/low",
    "clip_ratio/high_mean": "clip/high",
    "cispo_clip_ratio": "clip/high",
    "ratio": "ratio/mean",
    "sampling/sampling_logp_difference/mean": "sampler/logp_gap_mean",
    "sampling/sampling_logp_difference/max": "sampler/logp_gap_max",
    "step_time": "step_seconds",
    # its old PPOTrainer and RLOOTrainer
    "objective/scores": "reward/mean",
    "policy/entropy_avg": "entropy/mean",
    "val/ratio": "ratio/mean",
    "lr": "lr",
}
"""TRL since 0.14, and what stands in Unsloth's notebooks, which is the same with spaces around the slashes."""

VERL: Mapping[str, str] = {
    "actor/entropy": "entropy/mean",
    # both without the entropy and KL terms
    "actor/loss": "loss",
    "actor/pg_loss": "loss",
    "actor/grad_norm": "grad/norm",
    "actor/lr": "lr",
    # the mean of log p_old - log p: the same on average, noisier, and at times below 0
    "actor/ppo_kl": "kl/old",
    # k3 unless kl_loss_type says otherwise
    "actor/kl_loss": "kl/ref",
    "critic/score/mean": "reward/mean",
    "critic/advantages/mean": "advantage/mean",
    "response_length/mean": "length/mean",
    "response_length/clip_ratio": "length/truncated",
    "perf/time_per_step": "step_seconds",
    "timing_s/step": "step_seconds",
}

TINKER: Mapping[str, str] = {
    "env/all/reward/total": "reward/mean",
    "reward/mean": "reward/mean",
    "reward/*": "reward/*",
    "policy/entropy": "entropy/mean",
    # the mean of -log p of the tokens that were sampled
    "optim/entropy": "surprisal/mean",
    "optim/lr": "lr",
    "time/total": "step_seconds",
}

OPENRLHF: Mapping[str, str] = {
    # without the KL term
    "policy_loss": "loss",
    "actor_grad_norm": "grad/norm",
    "actor_lr": "lr",
    # over the rollouts; the names without `rollout/` are means over micro-batches
    "rollout/reward_mean": "reward/mean",
    "reward_mean": "reward/mean",
    "reward": "reward/mean",
    "rollout/reward_std": "reward/std",
    "rollout/response_length_mean": "length/mean",
    "response_length": "length/mean",
    "rollout/truncated_rate": "length/truncated",
    "truncated_rate": "length/truncated",
    "group_reward_std": "groups/reward_std",
    "timing/step_total": "step_seconds",
}

SKYRL: Mapping[str, str] = {
    "policy/policy_entropy": "entropy/mean",
    "policy/grad_norm": "grad/norm",
    "policy/raw_grad_norm": "grad/norm",
    "policy/final_loss": "loss",
    "policy/policy_loss": "loss",
    "policy/policy_lr": "lr",
    "policy/lr": "lr",
    "policy/rollout_train_logprobs_abs_diff_mean": "sampler/logp_gap_mean",
    "policy/rollout_train_logprobs_abs_diff_max": "sampler/logp_gap_max",
    "reward/avg_raw_reward": "reward/mean",
    "generate/avg_num_tokens": "length/mean",
    "timing/step": "step_seconds",
}

NEMO_RL: Mapping[str, str] = {
    "loss": "loss",
    "grad_norm": "grad/norm",
    "lr": "lr",
    "reward": "reward/mean",
    "mean_gen_tokens_per_sample": "length/mean",
    "truncation_rate": "length/truncated",
    "probs_ratio": "ratio/mean",
    "probs_ratio_max": "ratio/max",
    # p / p_sampler; truncation, where it is on, pulls it down and never up
    "sampling_importance_ratio": "sampler/ratio_mean",
}

PRIME_RL: Mapping[str, str] = {
    "loss/mean": "loss",
    "entropy/mean": "entropy/mean",
    "optim/grad_norm": "grad/norm",
    "optim/lr": "lr",
    "reward/mean": "reward/mean",
    "reward/all/mean": "reward/mean",
    "is_truncated/mean": "length/truncated",
    "is_truncated/all/mean": "length/truncated",
    "completion_len/mean": "length/mean",
    "completion_len/all/mean": "length/mean",
    "decode_len/mean": "length/mean",
    "decode_len/all/mean": "length/mean",
    "time/step": "step_seconds",
}

PLAIN: Mapping[str, str] = {
    "loss": "loss",
    "grad_norm": "grad/norm",
    "lr": "lr",
    "learning_rate": "lr",
    "reward": "reward/mean",
    "reward_mean": "reward/mean",
    "mean_reward": "reward/mean",
    "mean_length": "length/mean",
    "clipped_ratio": "length/truncated",
}
"""What a name means whoever wrote it. An `entropy` of unknown origin may be a sum over a sequence: it is not here."""

TABLES: Mapping[str, Mapping[str, str]] = {
    "trl": TRL,
    "ms-swift": TRL,
    "verl": VERL,
    "tinker": TINKER,
    "openrlhf": OPENRLHF,
    "skyrl": SKYRL,
    "nemo-rl": NEMO_RL,
    "prime-rl": PRIME_RL,
}
"""By framework. ms-swift's trainer has TRL's names."""

_TRL_APART: Mapping[str, str] = {
    "reward_std": "over the whole batch in newer versions, the mean within groups in older ones",
    "rewards/*/std": "over the whole batch, not within groups",
    "rewards/chosen": "DPO's implicit reward, no function's",
    "rewards/rejected": "DPO's implicit reward, no function's",
    "rewards/margins": "DPO's implicit reward, no function's",
    "rewards/accuracies": "how often DPO's implicit reward has the chosen one above",
    "clip_ratio": "clipped on either side, not above or below",
    "clip_ratio/region_mean": "clipped on either side, not above or below",
    "completions/mean_terminated_length": "only those that ended by themselves, and 0 where none did",
    "policy_loss": "with the KL term, without the others",
    "objective/entropy": "a sum over the sequence, not nats per token",
    "objective/kl": "a sum over the sequence, not nats per token",
    "policy/approxkl_avg": "half the mean squared log-ratio",
    "policy/clipfrac_avg": "clipped on either side, not above or below",
    "loss/policy_avg": "without the value loss",
    "sampling/importance_sampling_ratio/*": "after clipping or masking",
}

NOT_THE_SAME: Mapping[str, Mapping[str, str]] = {
    "trl": _TRL_APART,
    "ms-swift": {
        **_TRL_APART,
        "entropy/mean": "the mean over completions of each one's mean: a short one weighs as much as a long one",
    },
    "verl": {
        "actor/entropy_loss": "up to verl 0.4 the entropy was computed wrongly",
        "actor/pg_clipfrac": "clipped on either side, not above or below",
        "actor/pg_clipfrac_lower": "the third clip, of tokens with a negative advantage whose ratio is large",
        "actor/lr(1e-4)": "in units of 1e-4",
        "critic/rewards/mean": "the score with a KL penalty taken off",
        "critic/kl": "the penalty's estimator, by kl_penalty",
        "training/rollout_probs_diff_mean": "of probabilities, not of their logarithms",
        "training/rollout_probs_diff_max": "of probabilities, not of their logarithms",
        "rollout_corr/kl": "with its sign, not the size of the gap",
    },
    "tinker": {
        "env/all/ac_tokens_per_turn": "per turn, not per completion",
        "env/all/by_group/frac_all_good": "all alike and at least 0.5, whatever the best reward is",
        "env/all/by_group/frac_all_bad": "all alike and below 0.5, whatever the worst reward is",
        "optim/kl_sample_train_v1": "with its sign, not the size of the gap",
    },
    "openrlhf": {
        "kl": "0 where there is no reference, and k1, k2 or k3 by an option",
        "ppo_kl": "with the sampler's log-probabilities in it where they correct the loss",
        "ppo_clip_ratio": "clipped on either side, not above or below",
        "entropy_loss": "summed as the loss is, which need not be a mean over tokens",
    },
    "skyrl": {
        "policy/policy_kl": "by whatever estimator is configured",
        "policy/ppo_clip_ratio": "clipped on either side, not above or below",
        "loss/avg_final_rewards": "after the KL penalty",
    },
    "nemo-rl": {
        "approx_entropy": "weighted by p / p_sampler",
        "kl_penalty": "times its coefficient",
        "gen_kl_error": "an estimate of a divergence, not the mean gap",
        "token_mult_prob_error": "exp of the gap",
    },
    "prime-rl": {
        "mismatch_kl/mean": "an estimate of a divergence, not the mean gap",
        "batch/solve_all": "all of them 1, whatever the best reward is",
        "batch/solve_none": "all of them 0, whatever the worst reward is",
    },
}
"""What looks like one of ours and is another thing, and why: kept as `raw/...`."""

MARKS: Mapping[str, tuple[str, ...]] = {
    "rlwatch": ("groups/stuck", "groups/zero_std", "grad/effective_norm", "signal/active_tokens", "length/gap"),
    "verl": ("actor/pg_loss", "actor/ppo_kl", "critic/score/mean", "actor/entropy_loss", "critic/rewards/mean"),
    "tinker": ("progress/done_frac", "progress/epoch", "policy/entropy", "env/all/reward/total", "optim/entropy"),
    "skyrl": ("policy/policy_entropy", "policy/final_loss", "policy/policy_loss", "reward/avg_raw_reward"),
    "openrlhf": ("actor_grad_norm", "actor_lr", "ppo_clip_ratio", "rollout/reward_mean", "rollout/reward_std"),
    "nemo-rl": (
        "token_mult_prob_error",
        "gen_kl_error",
        "sampling_importance_ratio",
        "probs_ratio",
        "global_valid_toks",
    ),
    "prime-rl": (
        "mismatch_kl/mean",
        "optim/grad_norm",
        "batch/solve_all",
        "is_truncated/mean",
        "is_truncated/all/mean",
    ),
    "trl": (
        "reward_std",
        "completion_length",
        "completions/mean_length",
        "frac_reward_zero_std",
        "learning_rate",
        "Training Loss",
        "policy/approxkl_avg",
    ),
}
"""Names that tell a framework: the one with the most of them has written a log."""

SWIFT_MARKS = ("memory(GiB)", "train_speed(iter/s)", "train_speed(s/it)")
"""Names that ms-swift adds to TRL's."""
