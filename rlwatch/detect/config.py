"""What a rule may take from a configuration, which can hold anything: it comes from a log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def number_of(config: Mapping[str, Any], name: str) -> float | None:
    """A number of the configuration; None where it is not there, or is no finite number."""
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def config_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """What a run's rules are given: its trainer's configuration, and what each reward function weighs.

    Args:
        info: What is known of the run, as run.json has it.
    """
    config, functions = info.get("config"), info.get("reward_functions")
    found = dict(config) if isinstance(config, Mapping) else {}
    return found | {"reward_functions": functions} if isinstance(functions, Mapping) else found


def is_unpaid(config: Mapping[str, Any], metric: str) -> bool:
    """Whether a metric is a reward function's that weighs nothing: it is written down, and nobody is paid for it.

    >>> is_unpaid({"reward_functions": {"answer": 1.0, "seconds": 0.0}}, "reward/seconds")
    True
    """
    functions = config.get("reward_functions")
    return isinstance(functions, Mapping) and functions.get(metric.removeprefix("reward/")) == 0


def updates_of(config: Mapping[str, Any]) -> float:
    """Optimizer steps that train on one rollout, as far as the configuration says: 1 where it does not."""
    again, steps = number_of(config, "num_iterations") or 1, number_of(config, "steps_per_generation") or 1
    return max(1.0, again) * max(1.0, steps / (number_of(config, "gradient_accumulation_steps") or 1))
