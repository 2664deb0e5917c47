"""What a log could not show, and what would have to be set so that it does."""

from __future__ import annotations

from collections.abc import Collection

from rlwatch.detect.rule import Rule
from rlwatch.runs.records import Run

_WATCH = "add rlwatch's callback to the trainer"

_HOW: dict[str, dict[str, str]] = {
    "groups/": {
        "trl": f"set log_completions=True and analyze the completions, or {_WATCH}",
        "verl": "set trainer.rollout_data_dir and analyze what it holds",
        "": "log each completion's reward beside its prompt, and analyze that file",
    },
    "entropy/": {
        "trl": f"TRL logs entropy from version 0.18 on; or {_WATCH}",
        "verl": "set actor_rollout_ref.actor.calculate_entropy=True",
        "": "log the mean entropy of the generated tokens",
    },
    "sampler/": {
        "trl": "rlwatch's callback records it where TRL samples with vLLM; TRL's own number is taken after clipping",
        "": "log the mean of p/p_sampler before any clipping",
    },
    "advantage/": {"": "log the mean advantage"},
    "reward/": {"": "log the mean reward of the generated completions"},
    "length/": {"": "log the length of each completion, and whether it was correct"},
    "clip/": {
        "trl": f"TRL logs clip_ratio; for both sides, token by token, {_WATCH}",
        "": "log the share of the tokens whose ratio is clipped, low and high apart",
    },
    "kl/": {"": "log the KL to the reference model, in nats per token; without a reference there is nothing to check"},
    "grad/regulariser_norm": {
        "trl": _WATCH,
        "": "log the norm of the gradient of the regulariser alone; without a regulariser there is nothing to check",
    },
    "grad/": {
        "trl": f"TRL logs grad_norm; for the policy's part of it {_WATCH}",
        "": "log the norm of the gradient before clipping",
    },
}
"""By how a metric's name begins, the first that fits, and by framework; an empty one is for all others."""


def how_to_log(name: str, framework: str | None) -> str:
    """What to set so that a metric is logged."""
    for begin, how in _HOW.items():
        if name.startswith(begin):
            return how.get(framework or "", how[""])
    return f"log {name}"


def why_unchecked(rule: Rule | type[Rule], names: Collection[str], run: Run) -> str | None:
    """Why a rule could not judge a run, and how it could have; None where it could.

    Args:
        rule: The rule; its `needs` are the metrics without which it says nothing.
        names: The metrics that have a value somewhere in the run.
        run: The run.
    """
    missing = [name for name in rule.needs if name not in names]
    if not missing:
        return None
    return f"this log has no {', '.join(missing)}: {how_to_log(missing[0], run.framework)}"
