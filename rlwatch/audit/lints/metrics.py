"""Lints on TRL's own numbers, where a configuration makes them mislead."""

from __future__ import annotations

from rlwatch.audit.config import AuditConfig
from rlwatch.audit.example import Example
from rlwatch.audit.lints.lint import Lint
from rlwatch.runs.records import Severity


def zero_std_metric(config: AuditConfig, shown: Example) -> Lint | None:
    """frac_reward_zero_std tests something else than the groups' rewards."""
    if config.framework != "trl" or not config.is_policy:
        return None
    if config.multi_objective_aggregation == "normalize_then_sum":
        what, setting = "the batch's std of normalised sums", "multi_objective_aggregation"
    elif config.scale_rewards == "batch":
        what, setting = "the batch's std", "scale_rewards"
    elif config.loss_type == "rloo" and config.beta:
        what, setting = f"rewards with the KL penalty in them (beta {config.beta:g})", "beta"
    else:
        return None
    dead = shown.share("solved")
    return Lint(
        "zero-std-metric",
        Severity.INFO,
        f"frac_reward_zero_std tests {what}: it reads 0 while groups are dead (the example's solved one, 1 of 4, "
        f"weighs {100 * dead:.0f} %)",
        "0.0 was logged where 75 % of the groups were dead",
        "measured, TRL 1.16",
        config.setting(setting),
        "read groups/zero_std, which rlwatch computes from the rewards",
    )


def entropy_metric(config: AuditConfig, shown: Example) -> Lint | None:
    """The logged entropy is a mean of micro-batches' means."""
    if config.framework != "trl" or not config.is_policy:
        return None
    masked = config.mask_truncated_completions
    parts = config.gradient_accumulation_steps
    if parts == 1 and not masked:
        return None
    return Lint(
        "entropy-metric",
        Severity.WARNING if masked else Severity.INFO,
        "the logged entropy counts a micro-batch whose answers are all masked as 0: 0.317 was logged where 2.532 "
        "was true"
        if masked
        else f"the logged entropy is an unweighted mean over {parts} micro-batches, whatever tokens each holds: "
        "2.540 was logged where 2.495 was true",
        "micro-batches of short answers count as much as those of long ones",
        "measured, TRL 1.16",
        config.setting("mask_truncated_completions" if masked else "gradient_accumulation_steps"),
        "read entropy/mean, which rlwatch takes over all tokens",
    )
