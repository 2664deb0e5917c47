"""One rule a file. A new one is a file here, a line in this list and a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.rule import Rule
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.entropy_collapse import EntropyCollapse
from rlwatch.detect.rules.group_size_one import GroupSizeOne
from rlwatch.detect.rules.no_gradient import NoGradient
from rlwatch.detect.rules.non_finite import NonFinite
from rlwatch.detect.rules.reward_collapse import RewardCollapse
from rlwatch.detect.rules.sampler_mismatch import SamplerMismatch
from rlwatch.detect.rules.truncation import Truncation

RULES: tuple[type[Rule], ...] = (
    NonFinite, RewardCollapse, DeadGroups, EntropyCollapse, NoGradient, SamplerMismatch, GroupSizeOne, Truncation,
)  # fmt: skip


def default_rules(config: Mapping[str, Any] | None = None) -> list[Rule]:
    """A fresh set of all rules, for one run."""
    return [rule(config) for rule in RULES]
