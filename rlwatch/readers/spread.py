"""Which spread TRL's `reward_std` is: its name tells nothing, the other names and the numbers of a log often do.

Up to 0.16, when the length was `completion_length`, it is the mean of the groups' standard deviations. So it is up to
0.26 unless scale_rewards is "batch", and since 0.27 it is the standard deviation of the whole batch. No name tells
these apart, but two things do that hold for each step and so for means over steps:

- where every group is dead (`frac_reward_zero_std` is 1), the groups' spread is 0, and the batch's need not be;
- where the reward is the sum of its functions, the spread of the batch lies between what the functions' own spreads
  over the batch (`rewards/f/std`) allow: at most their sum, at least the largest less all others.

What is not certain stays raw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rlwatch.readers.rows import Row
from rlwatch.runs.aliases import RAW, normal

WITHIN, BATCH = "groups/reward_std", "reward/std"
LOOK = 500
CLOSE = 2e-3
"""Relative: means over steps, printed with few digits, are compared."""


def more_trl_names(
    rows: Sequence[Row], framework: str | None, info: Mapping[str, Any], notes: list[str]
) -> dict[str, str]:
    """What `reward_std` is in this very log, and `frac_reward_zero_std`; nothing where that is not certain.

    Args:
        rows: The log's.
        framework: Who wrote it.
        info: What is known of it; its configuration tells the scaling.
        notes: Gets a sentence about what was found.
    """
    if framework not in ("trl", "ms-swift"):
        return {}
    more = {}
    config = info.get("config")
    scaling = config.get("scale_rewards") if isinstance(config, Mapping) else None
    if scaling == "batch" and framework == "trl":
        more["frac_reward_zero_std"] = RAW + "frac_reward_zero_std"
        notes.append("frac_reward_zero_std is of the batch, and not of the groups, as scale_rewards is batch")
    found = reward_std(rows)
    if found is not None:
        more["reward_std"] = found
        notes.append(f"reward_std is {'within groups' if found == WITHIN else 'over the batch'} in this log")
    return more


def reward_std(rows: Sequence[Row]) -> str | None:
    """Our name for a log's `reward_std`, or None where nothing is certain."""
    found = {verdict for row in rows[:LOOK] if (verdict := _verdict(row)) is not None}
    if WITHIN in found and "dead" in found:
        return None
    if found & {WITHIN, "old"}:
        return WITHIN
    return BATCH if found else None


def _verdict(row: Row) -> str | None:
    """What one row says: `old` by its names, one of ours by its numbers, `dead` where dead groups say BATCH."""
    values = {normal(name).removeprefix("train/"): value for name, value in row.values.items()}
    std = values.get("reward_std")
    if "completion_length" in values and std is not None:
        return "old"
    if std is None or not math.isfinite(std):
        return None
    if values.get("frac_reward_zero_std") == 1 and std > 1e-6:
        return "dead"
    functions = [name[:-5] for name in values if name.startswith("rewards/") and name.endswith("/mean")]
    means = [values[f"{name}/mean"] for name in functions]
    stds = [values.get(f"{name}/std") for name in functions]
    reward = values.get("reward")
    if reward is None or not functions or any(v is None or not math.isfinite(v) for v in (*means, *stds)):
        return None
    spreads = [float(s) for s in stds if s is not None]
    total, size = sum(m for m in means if m is not None), sum(abs(m) for m in means if m is not None)
    if abs(total - reward) > CLOSE * max(size, 1e-3):
        return None  # its functions have weights
    high, low = sum(spreads), max(0.0, 2 * max(spreads) - sum(spreads))
    slack = CLOSE * high + 2e-5
    if std > high + slack or std < low - slack:
        return WITHIN
    return BATCH if high - low < 1e-6 and std > 0 and high > 1e-3 else None
