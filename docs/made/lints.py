"""The lints: each is tripped by a configuration, and what it then says is the page."""

from __future__ import annotations

import json
from typing import Any

from made.metrics import cell
from rlwatch import audit
from rlwatch.audit.lints import LINTS, Lint
from rlwatch.runs.records import Severity

GRPO = {
    "loss_type": "dapo", "num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1,
    "max_completion_length": 256,
}  # fmt: skip
"""What a user may have written; the rest is TRL's default."""

TRIPS: dict[str, dict[str, Any]] = {
    "group-size-one": {"algorithm.adv_estimator": "grpo", "actor_rollout_ref.rollout.n": 1},
    "delta-too-low": {"delta": 1.1},
    "cispo-epsilon": {"loss_type": "cispo"},
    "symmetric-clip": {"num_iterations": 4},
    "sequence-epsilon": {"importance_sampling_level": "sequence"},
    "luspo-token-ratio": {"loss_type": "luspo"},
    "length-bias": {"loss_type": "grpo"},
    "micro-batch-chance": {"loss_type": "bnpo", "gradient_accumulation_steps": 2},
    "weights-sum": {"steps_per_generation": 4, "gradient_accumulation_steps": 2},
    "overlong-unmasked": {},
    "truncated-in-baseline": {"mask_truncated_completions": True},
    "near-ties": {},
    "kl-with-dead-groups": {"beta": 0.04},
    "clip-inert": {},
    "zero-std-metric": {"scale_rewards": "batch"},
    "entropy-metric": {"gradient_accumulation_steps": 4},
}
"""Name → what trips it, on top of `GRPO`; keys with a dot are verl's, and stand alone."""

ALSO = {
    "delta-too-low": [{"delta": 0.9}],
    "sequence-epsilon": [{"importance_sampling_level": "sequence", "num_iterations": 4}],
    "entropy-metric": [{"gradient_accumulation_steps": 4, "mask_truncated_completions": True}],
}
"""What trips it at another severity."""


def page() -> str:
    """Every lint; raises KeyError where one is not tripped by what is written here."""
    found = sorted((tripped(name) for name in LINTS), key=lambda lint: -lint.severity.rank)
    summary = ["| name | severity | setting |", "|---|---|---|"]
    summary += [f"| [{x.name}](#{x.name}) | {_severities(x)} | {cell(_code(x.setting))} |" for x in found]
    return "\n".join(summary) + "\n\n" + "\n\n".join(_section(lint) for lint in found)


def tripped(name: str, changed: dict[str, Any] | None = None) -> Lint:
    """The lint as it is said of the configuration that trips it."""
    lints = {lint.name: lint for lint in audit(_config(TRIPS[name] if changed is None else changed)).lints}
    return lints[name]


def _config(changed: dict[str, Any]) -> dict[str, Any]:
    return changed if any("." in key for key in changed) else {**GRPO, **changed}


def _severities(lint: Lint) -> str:
    found: dict[Severity, dict[str, Any] | None] = {lint.severity: None}
    for changed in ALSO.get(lint.name, ()):
        found.setdefault(tripped(lint.name, changed).severity, changed)
    others = [f"{severity.value} with {_said(changed or {})}" for severity, changed in found.items() if changed]
    return "; ".join([lint.severity.value, *others])


def _section(lint: Lint) -> str:
    changed = TRIPS[lint.name]
    return "\n".join(
        [
            f"### {lint.name}",
            "",
            f"*{lint.severity.value}*: {lint.message}.",
            "",
            f"- Why it matters: {lint.why}.",
            f"- Known from: {lint.source}.",
            f"- To change: {_code(lint.setting)}: {lint.advice}.",
            f"- Said here of {_said(changed)}." if changed else "- Said here of TRL's defaults with a group of 8.",
        ]
    )


def _said(changed: dict[str, Any]) -> str:
    return ", ".join(f"`{key}: {json.dumps(value)}`" for key, value in changed.items())


def _code(settings: str) -> str:
    return ", ".join(f"`{name}`" for name in settings.split(", "))
