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


def updates_of(config: Mapping[str, Any]) -> float:
    """Optimizer steps that train on one rollout, as far as the configuration says: 1 where it does not."""
    again, steps = number_of(config, "num_iterations") or 1, number_of(config, "steps_per_generation") or 1
    return max(1.0, again) * max(1.0, steps / (number_of(config, "gradient_accumulation_steps") or 1))
