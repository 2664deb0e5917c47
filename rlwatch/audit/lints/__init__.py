"""What is unwise or worth knowing about a configuration: a function a lint, each silenced by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rlwatch.audit.config import AuditConfig
from rlwatch.audit.example import Example
from rlwatch.audit.lints import batches, clip, groups, metrics
from rlwatch.audit.lints.lint import Lint
from rlwatch.audit.values import nearest

LINTS: Mapping[str, Callable[[AuditConfig, Example], Lint | None]] = {
    "group-size-one": groups.group_size_one,
    "delta-too-low": clip.delta_too_low,
    "cispo-epsilon": clip.cispo_epsilon,
    "symmetric-clip": clip.symmetric_clip,
    "sequence-epsilon": clip.sequence_epsilon,
    "luspo-token-ratio": clip.luspo_token_ratio,
    "length-bias": batches.length_bias,
    "micro-batch-chance": batches.micro_batch_chance,
    "weights-sum": batches.window_weights,
    "overlong-unmasked": batches.overlong,
    "truncated-in-baseline": groups.truncated_in_baseline,
    "near-ties": groups.near_ties,
    "kl-with-dead-groups": groups.kl_dead_groups,
    "clip-inert": clip.clip_inert,
    "zero-std-metric": metrics.zero_std_metric,
    "entropy-metric": metrics.entropy_metric,
}
"""By name."""


def check(config: AuditConfig, shown: Example, *, silence: Sequence[str] = ()) -> list[Lint]:
    """All lints that a configuration trips, silenced ones included, the worst first.

    Raises:
        ValueError: `silence` holds a name that is no lint's.
    """
    for name in silence:
        if name not in LINTS:
            raise ValueError(f"silence: there is no lint {name!r}{nearest(name, list(LINTS))}")
    found = [lint for look in LINTS.values() if (lint := look(config, shown)) is not None]
    return sorted(found, key=lambda lint: -lint.severity.rank)


__all__ = ["LINTS", "Lint", "check"]
