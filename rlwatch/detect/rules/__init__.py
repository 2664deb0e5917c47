"""One rule a file. A new one is a file here, a line in this list and a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.rule import Rule
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.entropy_collapse import EntropyCollapse
from rlwatch.detect.rules.non_finite import NonFinite
from rlwatch.detect.rules.reward_collapse import RewardCollapse

RULES: tuple[type[Rule], ...] = (NonFinite, RewardCollapse, DeadGroups, EntropyCollapse)


def default_rules(config: Mapping[str, Any] | None = None) -> list[Rule]:
    """A fresh set of all rules, for one run."""
    return [rule(config) for rule in RULES]
