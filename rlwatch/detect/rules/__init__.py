"""One rule a file. A new one is a file here, a line in this list and a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.detect.rule import Rule
from rlwatch.detect.rules.clip_saturated import ClipSaturated
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.entropy_collapse import EntropyCollapse
from rlwatch.detect.rules.entropy_explosion import EntropyExplosion
from rlwatch.detect.rules.grad_spike import GradSpike
from rlwatch.detect.rules.group_size_one import GroupSizeOne
from rlwatch.detect.rules.kl_runaway import KLRunaway
from rlwatch.detect.rules.length_bias import LengthBias
from rlwatch.detect.rules.length_collapse import LengthCollapse
from rlwatch.detect.rules.length_explosion import LengthExplosion
from rlwatch.detect.rules.low_diversity import LowDiversity
from rlwatch.detect.rules.no_gradient import NoGradient
from rlwatch.detect.rules.non_finite import NonFinite
from rlwatch.detect.rules.regulariser_dominates import RegulariserDominates
from rlwatch.detect.rules.reward_collapse import RewardCollapse
from rlwatch.detect.rules.reward_hacking import RewardHacking
from rlwatch.detect.rules.reward_stall import RewardStall
from rlwatch.detect.rules.sampler_mismatch import SamplerMismatch
from rlwatch.detect.rules.stalled import Stalled
from rlwatch.detect.rules.truncation import Truncation

RULES: tuple[type[Rule], ...] = (
    NonFinite, Stalled, GroupSizeOne, SamplerMismatch, NoGradient, Truncation,  # what is set up, or has broken
    ClipSaturated, GradSpike, KLRunaway, RegulariserDominates,  # the update
    EntropyCollapse, DeadGroups, LowDiversity, RewardCollapse, EntropyExplosion,  # the policy
    LengthBias, LengthExplosion, LengthCollapse, RewardHacking,  # what it writes, and is paid for
    RewardStall,  # a symptom of most of them
)  # fmt: skip
"""Causes before their symptoms: within a record, a cause is then told first and silences what follows from it."""


def default_rules(config: Mapping[str, Any] | None = None) -> list[Rule]:
    """A fresh set of all rules, for one run."""
    return [rule(config) for rule in RULES]
