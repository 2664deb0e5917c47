"""Which metric of another framework is which of ours. What only looks the same is named here too, with the reason.

Keys are compared after [`normal`][rlwatch.runs.aliases.normal]: no spaces around slashes. A `*` stands for one reward
function's (or data source's) name, and stands on both sides. What is in neither table is kept as `raw/<its name>`:
nothing is lost, and no rule takes it for what it may not be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

RAW = "raw/"
"""Before the name of a metric that is none of ours."""

TRL: Mapping[str, str] = {
    "loss": "loss",
    "Training Loss": "loss",
    "learning_rate": "lr",
    "grad_norm": "grad/norm",
    "reward": "reward/mean",
    "rewards/*/mean": "reward/*",
    "rewards/*": "reward/*",
    "entropy": "entropy/mean",
    "kl": "kl/ref",
    "completion_length": "length/mean",
    "completions/mean_length": "length/mean",
    "completions/clipped_ratio": "length/truncated",
    "frac_reward_zero_std": "groups/zero_std",
    "clip_ratio/low_mean": "clip/low",
    "clip_ratio/high_mean": "clip/high",
    "sampling/sampling_logp_difference/mean": "sampler/logp_gap_mean",
    "sampling/sampling_logp_difference/max": "sampler/logp_gap_max",
    "step_time": "step_seconds",
    # its old PPOTrainer
    "policy/entropy_avg": "entropy/mean",
    "val/ratio": "ratio/mean",
}

VERL: Mapping[str, str] = {
    "actor/entropy": "entropy/mean",
    "actor/pg_loss": "loss",
    "actor/grad_norm": "grad/norm",
    "actor/lr": "lr",
    "actor/ppo_kl": "kl/old",
    "actor/kl_loss": "kl/ref",
    "critic/score/mean": "reward/mean",
    "response_length/mean": "length/mean",
    "response_length/clip_ratio": "length/truncated",
    "perf/time_per_step": "step_seconds",
}

TINKER: Mapping[str, str] = {
    "reward/mean": "reward/mean",
    "reward/*": "reward/*",
    "policy/entropy": "entropy/mean",
    "optim/lr": "lr",
}

OPENRLHF: Mapping[str, str] = {
    "policy_loss": "loss",
    "kl": "kl/ref",
    "actor_grad_norm": "grad/norm",
    "reward_mean": "reward/mean",
    "truncated_rate": "length/truncated",
    "response_length": "length/mean",
    "actor_lr": "lr",
}

SKYRL: Mapping[str, str] = {
    "policy/policy_entropy": "entropy/mean",
    "policy/grad_norm": "grad/norm",
    "policy/policy_loss": "loss",
    "policy/policy_lr": "lr",
    "reward/avg_raw_reward": "reward/mean",
}

TABLES: Mapping[str, Mapping[str, str]] = {
    "trl": TRL,
    "verl": VERL,
    "tinker": TINKER,
    "openrlhf": OPENRLHF,
    "skyrl": SKYRL,
}
"""By framework. ms-swift is TRL's trainer and has TRL's names."""

NOT_THE_SAME: Mapping[str, Mapping[str, str]] = {
    "trl": {
        "reward_std": "over the whole batch in newer versions, the mean within groups in older ones",
        "rewards/*/std": "over the whole batch, not within groups",
        "objective/entropy": "a sum over the sequence, not nats per token",
        "sampling/importance_sampling_ratio/mean": "after clipping or masking",
    },
    "verl": {
        "actor/entropy_loss": "up to verl 0.4 the entropy was computed wrongly",
        "actor/pg_clipfrac": "clipped on either side, not above or below",
        "critic/rewards/mean": "the score with a KL penalty taken off",
    },
}
"""What looks like one of ours and is another thing, and why: kept as `raw/...`."""


def normal(name: str) -> str:
    """A foreign name as it is looked up: `rewards / f / mean` of a notebook's table is `rewards/f/mean`."""
    return re.sub(r"\s*/\s*", "/", name.strip())


class Translator:
    """Foreign names to ours, for one framework; each name is worked out once.

    Args:
        framework: One of [`TABLES`][rlwatch.runs.aliases.TABLES], or anything else: then every name is raw.
        more: Further names, which come first: what a reader knows of this very file.
    """

    def __init__(self, framework: str | None, more: Mapping[str, str] | None = None) -> None:
        table = {**TABLES.get(framework or "", {}), **(more or {})}
        apart = NOT_THE_SAME.get(framework or "", {})
        self._exact = {key: value for key, value in table.items() if "*" not in key}
        self._patterns = [(_pattern(key), value) for key, value in table.items() if "*" in key]
        self._apart = [_pattern(key) for key in apart if key not in (more or {})]
        self._known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """Our name for it, or `raw/<name>`."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._translate(normal(name))
        return found

    def _translate(self, name: str) -> str:
        if name in self._exact:
            return self._exact[name]
        if any(pattern.fullmatch(name) for pattern in self._apart):
            return RAW + name
        for pattern, ours in self._patterns:
            match = pattern.fullmatch(name)
            if match:
                return ours.replace("*", match[1])
        return RAW + name


def _pattern(key: str) -> re.Pattern[str]:
    return re.compile(re.escape(key).replace(r"\*", "([^/]+)"))
