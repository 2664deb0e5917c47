"""Lints on the ratio and its clipping."""

from __future__ import annotations

from rlwatch.audit.config import AuditConfig
from rlwatch.audit.example import Example
from rlwatch.audit.lints.lint import Lint
from rlwatch.runs.records import Severity


def cispo_epsilon(config: AuditConfig, shown: Example) -> Lint | None:
    """cispo cuts every weight at epsilon_high, whose default is a clip range and not a weight."""
    if config.loss_type != "cispo" or config.epsilon_high >= 1:
        return None
    return Lint(
        "cispo-epsilon",
        Severity.WARNING,
        f"cispo cuts every ratio at epsilon_high = {config.epsilon_high:g}: gradients are "
        f"{100 * config.epsilon_high:.0f} % of what is meant",
        "for cispo epsilon_high is the largest weight itself, not a distance from 1; the default is epsilon's",
        "TRL 1.16 source and measured; ScaleRL 2510.13786 uses 5",
        config.setting("epsilon_high"),
        "about 5",
    )


def clip_inert(config: AuditConfig, shown: Example) -> Lint | None:
    """One update a rollout: the ratio is 1, and nothing is ever clipped."""
    if not config.clips or config.off_policy:
        return None
    return Lint(
        "clip-inert",
        Severity.INFO,
        f"the clip does nothing: the policy that is trained is the one that sampled ({config.updates:g} updates a "
        f"rollout), so every ratio is 1, whatever {config.setting('epsilon')} ({config.epsilon:g}) is",
        "clip_ratio will read 0 all along; that says nothing about the run",
        "measured, TRL 1.16",
        f"{config.setting('num_iterations')}, {config.setting('steps_per_generation')}",
        "nothing, if one update a rollout is what you want",
    )


def symmetric_clip(config: AuditConfig, shown: Example) -> Lint | None:
    """Several updates a rollout with no room for rare tokens to rise."""
    if not config.clips or config.importance_sampling_level == "sequence" or config.updates < 2:
        return None
    if config.epsilon_high > max(config.epsilon, 0.2) + 1e-9:
        return None
    return Lint(
        "symmetric-clip",
        Severity.WARNING,
        f"{config.updates:g} updates a rollout with an upper clip of {config.epsilon_high:g}, no wider than the "
        "lower one",
        "rare, better tokens are clipped before they can rise: entropy falls and groups become stuck. Eight updates "
        "with .2 left 4 of 8 small runs stuck, with .28 none",
        "DAPO 2503.14476, Skywork-OR1 2505.22312; measured with TRL 1.16 on a small policy",
        f"{config.setting('epsilon_high')}, {config.setting('num_iterations')}",
        "raise it in small steps (.25, .265, .28) and watch that entropy does not shoot up; or fewer updates",
    )


def sequence_epsilon(config: AuditConfig, shown: Example) -> Lint | None:
    """A ratio of a whole sequence moves a hundred times less than a token's."""
    if not config.clips or config.loss_type == "rloo" or config.importance_sampling_level != "sequence":
        return None
    if max(config.epsilon, config.epsilon_high) < 0.02:
        return None
    return Lint(
        "sequence-epsilon",
        Severity.WARNING if config.off_policy else Severity.INFO,
        f"one ratio a sequence, clipped at -{config.epsilon:g}/+{config.epsilon_high:g}, which is a token's range",
        "the ratio is a mean over a sequence's tokens and stays within about 1e-3 of 1: that clip never binds",
        "GSPO 2507.18071 uses 3e-4 and 4e-4",
        f"{config.setting('epsilon')}, {config.setting('epsilon_high')}",
        "3e-4 and 4e-4 to begin with; look at how much is clipped",
    )


def delta_too_low(config: AuditConfig, shown: Example) -> Lint | None:
    """The second upper bound lies below the first."""
    if config.delta is None or not config.clips or config.delta > 1 + config.epsilon_high:
        return None
    dead = config.delta < 1
    return Lint(
        "delta-too-low",
        Severity.CRITICAL if dead else Severity.WARNING,
        f"delta = {config.delta:g} is below 1 + epsilon_high = {1 + config.epsilon_high:g}"
        + (": right answers have no gradient at all" if dead else ": it clips before epsilon_high does"),
        "delta cuts the ratio before it is clipped, and is meant for wrong answers with a huge ratio",
        "TRL 1.16 source; INTELLECT-2 2505.07291",
        config.setting("delta"),
        "above 1 + epsilon_high, such as 4, or None",
    )


def luspo_token_ratio(config: AuditConfig, shown: Example) -> Lint | None:
    """luspo is made for one ratio a sequence."""
    if config.loss_type != "luspo" or config.importance_sampling_level == "sequence":
        return None
    return Lint(
        "luspo-token-ratio",
        Severity.WARNING,
        f"luspo with a ratio for each of up to {config.max_completion_length} tokens; it is defined for 1 an answer",
        f"a sum over tokens, of which a long answer has up to {config.max_completion_length} and a short one a few, "
        "each clipped by itself",
        "LUSPO 2602.05261, TRL 1.16 documentation",
        config.setting("importance_sampling_level"),
        "sequence",
    )
