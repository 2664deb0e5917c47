"""Lints on groups, baselines and deviations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlwatch.audit.advantages import advantages
from rlwatch.audit.config import AuditConfig
from rlwatch.audit.example import GROUP, Example
from rlwatch.audit.lints.lint import Lint
from rlwatch.runs.records import Severity

NEAR_TIE = 1e-3


def group_size_one(config: AuditConfig, shown: Example) -> Lint | None:
    """Nobody to be held against."""
    if not config.is_policy or config.num_generations > 1:
        return None
    if config.baseline == "batch" or config.scale_rewards == "whiten":  # a critic, or REINFORCE: no groups are meant
        return None
    return Lint(
        "group-size-one",
        Severity.CRITICAL,
        "1 completion a prompt: there are no siblings, so the advantage is the reward itself, or nothing",
        "every answer that earns anything is pushed up, the bad ones too",
        "verl 0.5 source (mean 0 and std 1 for a group of one); GRPO 2402.03300",
        config.setting("num_generations"),
        "8 or more, or an estimator that needs no group",
    )


def near_ties(config: AuditConfig, shown: Example) -> Lint | None:
    """A group's deviation makes a hair's breadth as large as right and wrong."""
    if not config.is_policy or config.scale_rewards != "group" or config.num_generations < 2:
        return None
    rewards = np.zeros(config.num_generations)
    rewards[0] = NEAR_TIE
    tie = advantages(rewards, config.scaling)[0]
    rewards[0] = 1.0
    real = advantages(rewards, config.scaling)[0]
    return Lint(
        "near-ties",
        Severity.INFO,
        f"one reward {NEAR_TIE:g} above its siblings gets an advantage of {tie:.2f}; one that is 1 above gets "
        f"{real:.2f}",
        "a group's std blows up whatever differs: a length bonus, a rounding error, a judge's last digit",
        "measured, TRL 1.16; Dr.GRPO 2503.20783",
        config.setting("scale_rewards"),
        "none or batch, if rewards are finer than right and wrong" if config.framework == "trl" else "off",
    )


def truncated_in_baseline(config: AuditConfig, shown: Example) -> Lint | None:
    """Masked answers still are siblings."""
    if not config.is_policy or not config.mask_truncated_completions or config.baseline == "none":
        return None
    hard = shown.rows("hard", "")
    rewards, cut = shown.rewards[hard], shown.truncated[hard]
    group = replace(config.scaling, group_size=GROUP)
    if group.scale in ("whiten", "batch"):
        group = replace(group, scale="none")
    right = rewards == 1
    before = advantages(rewards, group)[right][0]
    after = advantages(rewards[~cut], replace(group, group_size=GROUP - int(cut.sum())))[right[~cut]][0]
    return Lint(
        "truncated-in-baseline",
        Severity.INFO,
        f"truncated answers are out of the loss but in their group's mean: one truncated of {GROUP} moves the right "
        f"answer's advantage from {after:.3f} to {before:.3f}",
        "their reward, mostly that of a wrong answer, makes all others look better than they are",
        "measured, TRL 1.16",
        config.setting("mask_truncated_completions"),
        "return None as the reward of a truncated answer: TRL leaves it out of mean and std",
    )


def kl_dead_groups(config: AuditConfig, shown: Example) -> Lint | None:
    """Where rewards are equal, the KL term is all that moves the policy."""
    if not config.is_policy or not config.beta or config.kl_in != "loss":
        return None
    dead = np.isclose(shown.advantages, 0, atol=1e-9)
    tokens = float(shown.batch.lengths[dead].sum() / shown.batch.lengths.sum())
    return Lint(
        "kl-with-dead-groups",
        Severity.INFO,
        f"beta = {config.beta:g}: in groups without reward variance ({100 * dead.mean():.0f} % of the example's "
        f"answers, {100 * tokens:.0f} % of its tokens) the KL term is the whole gradient",
        "grad_norm then stays up while nothing is learned, and the policy is pulled back to its reference",
        "2604.06268; measured with TRL 1.16",
        config.setting("beta"),
        "watch grad/effective_norm and groups/zero_std, drop dead prompts, or lower beta",
    )
