"""Rules that are saved midway, given anything, or set otherwise; and what several of them read a record with."""

from __future__ import annotations

import json
import math
import random

import pytest

from played import Row, blind, kl_run, play, rows, unsplit
from rlwatch.detect.config import number_of, updates_of
from rlwatch.detect.rule import Quiet, Rule, Untold
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.kl_runaway import KLRunaway
from rlwatch.detect.rules.no_gradient import NoGradient
from rlwatch.detect.rules.regulariser_dominates import RegulariserDominates
from rlwatch.detect.setting import settings_of
from rlwatch.detect.state import dump, restore
from rlwatch.detect.undivided import Undivided, dead_share
from rlwatch.runs.records import StepRecord


@pytest.mark.parametrize(
    ("make", "row"),
    [
        (RegulariserDominates, blind()),
        (RegulariserDominates, unsplit(blind())),
        (KLRunaway, kl_run(reward="falling")),
        (DeadGroups, blind(kind="stuck")),
        (DeadGroups, unsplit(blind())),
        (NoGradient, lambda step: {"grad/norm": 0.0 if step > 150 else 1.0, "groups/zero_std": 0.5, "kl/ref": 0.0}),
    ],
)
@pytest.mark.parametrize("at", [3, 120, 160, 300])
def test_a_rule_that_is_saved_midway_goes_on_as_if_it_had_not_been(make: type[Rule], row: Row, at: int) -> None:
    records = rows(row)
    whole, first, second = (make({"beta": 0.1}) for _ in range(3))
    for record in records[:at]:
        whole.update(record)
        first.update(record)
    restore(second, json.loads(json.dumps(dump(first))))
    for record in records[at:]:
        one, other = whole.update(record), second.update(record)
        if isinstance(one, Quiet):
            assert one is other
        else:
            assert isinstance(one, Untold)
            assert isinstance(other, Untold)
            assert (one.severity, one.since, one.tell()) == (other.severity, other.since, other.tell())


@pytest.mark.parametrize("rule", [RegulariserDominates, KLRunaway, DeadGroups, NoGradient])
def test_every_number_says_where_it_is_from(rule: type[Rule]) -> None:
    assert settings_of(rule)
    assert all(s.unit and s.source for s in settings_of(rule).values())
    with pytest.raises(ValueError, match="there is no setting"):
        rule(None, {"nonsense": 1})


@pytest.mark.parametrize("rule", [RegulariserDominates, KLRunaway, DeadGroups, NoGradient])
def test_no_rule_raises_whatever_it_is_given(rule: type[Rule]) -> None:
    draw = random.Random(0)
    names = [
        "grad/norm", "grad/policy_norm", "grad/regulariser_norm", "grad/effective_estimate", "grad/clip_coef", "kl/ref",
        "groups/zero_std", "groups/reward_std", "groups/solved", "groups/failed", "groups/stuck", "reward/mean",
        "reward/std", "rollouts/age",
    ]  # fmt: skip
    engine, step = [rule({"beta": "?", "num_iterations": None})], 0
    for _ in range(3000):
        step += draw.choice([0, 1, 1, 7])
        values = [0.0, 1.0, 0.5, -3.0, 1e-300, 1e90, 1e300, math.nan, math.inf, -math.inf, None]
        found = engine[0].update(
            StepRecord(step, 0.0, {name: draw.choice(values) for name in names if draw.random() < 0.8})
        )
        if isinstance(found, Untold):
            found.tell()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("half_life", 200.0), ("all_dead", 0.5), ("dead_critical", 0.4), ("hopeless", 0.4), ("stuck_warning", 0.95),
        ("dead_warning", 0.2), ("solved_info", 0.05), ("failed_info", 0.01), ("stuck_soon", 0.9), ("stuck_risen", 0.9),
        ("soon_half_life", 100.0),
    ],
)  # fmt: skip
def test_a_setting_of_dead_groups_changes_what_it_says(setting: str, value: float) -> None:
    def row(step: int) -> dict[str, float | None]:
        failed, stuck = (0.55, 0.05) if step < 200 else (0.02, 0.05) if step < 400 else (0.05, 0.8)
        if setting == "stuck_warning":  # from the start: none that come up
            failed, stuck = 0.1, 0.4
        return {
            "groups/solved": 0.1, "groups/failed": failed if setting != "hopeless" else 0.6 + 0.1 * (step > 200),
            "groups/stuck": stuck if setting != "hopeless" else 0.1, "reward/mean": 0.5, "reward/std": 0.3,
        }  # fmt: skip

    records = rows(row, steps=700)
    plain = [a.to_dict() for a in play(DeadGroups(), records)]
    assert [a.to_dict() for a in play(DeadGroups(None, {setting: value}), records)] != plain


@pytest.mark.parametrize(("setting", "value"), [("half_life", 50.0), ("nearly_always", 0.5), ("alive", 0.3)])
def test_a_setting_of_no_gradient_changes_what_it_says(setting: str, value: float) -> None:
    records = rows(lambda s: {"grad/norm": 0.0 if s > 50 else 1.0, "groups/zero_std": 0.5}, steps=100)
    plain = [a.to_dict() for a in play(NoGradient(), records)]
    assert [a.to_dict() for a in play(NoGradient(None, {setting: value}), records)] != plain


def test_undivided_groups_are_all_dead_unless_the_reward_is_the_best_that_was_seen() -> None:
    seen = Undivided(half_life=1.0, nearly_all=0.995)
    rewards = [(0.5, 0.3), (1.0, 0.0), (1.0, 0.5), (1.0, 0.6), (1.0, None)]
    found = [
        seen.update(StepRecord(10 * i, 0.0, {"groups/zero_std": dead, "reward/mean": reward}))
        for i, (dead, reward) in enumerate(rewards)
    ]
    assert found == [False, True, False, False, True]
    assert seen.update(StepRecord(100, 0.0, {})) is None
    assert dead_share(StepRecord(1, 0.0, {"groups/reward_std": 0.0})) == 1.0


def test_a_number_of_a_configuration_is_one_that_can_be_used() -> None:
    config = {"a": 2, "b": True, "c": "3", "d": math.nan, "e": None, "num_iterations": 2, "steps_per_generation": 8,
              "gradient_accumulation_steps": 4}  # fmt: skip
    assert [number_of(config, name) for name in "abcdef"] == [2.0, None, None, None, None, None]
    assert updates_of(config) == 4.0
    assert updates_of({}) == 1.0
