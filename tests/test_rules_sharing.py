"""Parts that several rules have: one object for all of them, and what they say stays what each would say alone."""

from __future__ import annotations

import json
import random

import pytest

from rlwatch.detect.deadness import Deadness
from rlwatch.detect.engine import Engine
from rlwatch.detect.progress import Progress
from rlwatch.detect.rules import RULES, default_rules
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.entropy_collapse import EntropyCollapse
from rlwatch.detect.rules.length_collapse import LengthCollapse
from rlwatch.detect.rules.length_explosion import LengthExplosion
from rlwatch.detect.rules.reward_stall import RewardStall
from rlwatch.detect.sharing import share
from rlwatch.runs.records import StepRecord

NAMES = (
    "entropy/mean", "reward/mean", "reward/std", "groups/solved", "groups/failed", "groups/stuck", "groups/zero_std",
    "groups/unique", "length/mean", "length/truncated", "length/share_correct", "kl/ref", "grad/norm",
    "reward/correct", "reward/format", "signal/active_tokens",
)  # fmt: skip


def wild(seed: int, steps: int = 500) -> list[StepRecord]:
    """Levels that jump, values that are missing, steps that are left out."""
    draw, step, rows = random.Random(seed), 0, []
    level = {name: draw.random() for name in NAMES}
    for _ in range(steps):
        step += draw.choice((1, 1, 1, 5))
        for name in NAMES:
            if draw.random() < 0.02:
                level[name] = draw.choice((0.0, 1.0, draw.random(), -draw.random()))
        metrics = {name: value * draw.uniform(0.9, 1.1) for name, value in level.items() if draw.random() < 0.95}
        rows.append(StepRecord(step, 30.0 * step, metrics))
    return rows


@pytest.mark.parametrize("seed", range(6))
def test_rules_that_share_say_what_each_says_alone(seed: int) -> None:
    alone, together = [rule() for rule in RULES], default_rules()
    rows = wild(seed)
    one, two = Engine(alone, run="run"), Engine(together, run="run")
    said = [[repr(change) for row in rows for change in engine.feed(row)] for engine in (one, two)]
    assert said[0] == said[1]
    assert said[0]


def test_parts_are_one_object_where_they_were_made_alike_and_only_there() -> None:
    dead, entropy, stall = DeadGroups(), EntropyCollapse(), RewardStall(settings={"half_life": 30.0})
    longer, shorter = LengthExplosion(), LengthCollapse()
    share([dead, entropy, stall, longer, shorter])
    assert dead._progress is entropy._progress
    assert dead._progress is not stall._progress, "another half-life"
    assert dead._groups is not entropy._dead
    assert longer._lengths is shorter._lengths
    assert longer._lengths.progress is dead._progress, "parts of parts, too"
    assert DeadGroups()._progress is not dead._progress, "another run's"


def test_a_part_takes_each_record_once() -> None:
    once, often = (Progress(), Deadness(10)), (Progress(), Deadness(10))
    for row in wild(1, 100):
        for part in once:
            part.update(row)
        for part in often:
            for _ in range(3):
                part.update(row)
    assert once == often


@pytest.mark.parametrize("cut", [3, 120, 300])
def test_what_was_saved_alone_can_be_restored_to_rules_that_share_and_back(cut: int) -> None:
    rows = wild(7)
    for make, remake in ((default_rules, lambda: [r() for r in RULES]), (lambda: [r() for r in RULES], default_rules)):
        first, second = Engine(make(), run="run"), Engine(remake(), run="run")
        for row in rows[:cut]:
            first.feed(row)
        second.restore(json.loads(json.dumps(first.state())))
        after = [[repr(change) for row in rows[cut:] for change in engine.feed(row)] for engine in (first, second)]
        assert after[0] == after[1]
        assert after[0]
