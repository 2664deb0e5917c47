"""What each way to log has: everything, dead groups undivided, no groups at all."""

from __future__ import annotations

from collections.abc import Mapping

_COMMON = ("entropy/mean", "reward/mean", "grad/norm", "loss", "lr", "length/mean", "length/truncated")

FULL = (
    *_COMMON, "reward/std", "groups/solved", "groups/failed", "groups/stuck", "groups/zero_std", "groups/reward_std",
    "groups/unique", "advantage/mean", "kl/ref", "sampler/ratio_mean", "entropy/p90", "length/correct",
    "length/incorrect", "length/gap", "length/share_correct", "clip/high", "clip/low", "kl/old", "ratio/mean",
    "grad/clip_coef", "grad/applied_norm", "grad/effective_norm", "grad/effective_estimate", "grad/policy_norm",
    "grad/regulariser_norm", "signal/active_tokens", "signal/abs_advantage", "reward/correctness", "reward/format",
    "eval/reward", "step_seconds",
)  # fmt: skip
"""rlwatch's own."""

TRL = (
    *_COMMON, "reward/std", "groups/zero_std", "kl/ref", "sampler/ratio_mean", "clip/high", "clip/low",
    "reward/correctness", "reward/format", "eval/reward", "step_seconds",
)  # fmt: skip

VERL = (
    *_COMMON, "advantage/mean", "kl/ref", "kl/old", "raw/actor/pg_clipfrac", "eval/val-core/task/acc/mean@1",
    "step_seconds",
)  # fmt: skip

LOGGERS: Mapping[str, tuple[str, ...]] = {"full": FULL, "trl": TRL, "verl": VERL}

OPTIONAL = frozenset({
    "kl/ref", "length/correct", "length/incorrect", "length/gap", "grad/effective_norm", "grad/effective_estimate",
    "grad/policy_norm", "grad/regulariser_norm", "eval/reward", "eval/val-core/task/acc/mean@1",
})  # fmt: skip
"""What a row may lack: no KL is logged, nothing is correct, the step is not split, nothing was evaluated."""

ALIASES: Mapping[str, Mapping[str, str]] = {
    "full": {},
    "trl": {},
    "verl": {
        # the mean of log p_old - log p, which is noisier, and at times below 0
        "kl/old": "kl/old of k1",
        "raw/actor/pg_clipfrac": "clip/either",
        "eval/val-core/task/acc/mean@1": "eval/reward",
        "step_seconds": "step_seconds with pauses",
    },
}
"""Which series stands behind a name, where it is not the one of that name."""
