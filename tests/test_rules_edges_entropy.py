"""The rules on entropy at their marks, by the answer to a single record after a calm beginning."""

from __future__ import annotations

import math

import pytest

from rlwatch.detect.rule import CLEAR, NO_DATA, Quiet, Rule, Untold
from rlwatch.detect.rules.entropy_collapse import EntropyCollapse
from rlwatch.detect.rules.entropy_explosion import EntropyExplosion
from rlwatch.runs.records import Severity, StepRecord

LONG = 400
"""Steps after which a smoothed level is the last value, to the last digit that matters here."""


def after(rule: Rule, first: dict[str, float], then: dict[str, float]) -> Severity | Quiet:
    """Ten records of one kind, and after a while as many of another: what is said of the last."""
    for step in range(1, 11):
        rule.update(StepRecord(step, 0.0, dict(first)))
    for step in range(LONG, LONG + 300):
        found = rule.update(StepRecord(step, 0.0, dict(then)))
    return found.severity if isinstance(found, Untold) else found


def groups(solved: float, failed: float, stuck: float = 0.0) -> dict[str, float]:
    return {"groups/solved": solved, "groups/failed": failed, "groups/stuck": stuck, "groups/zero_std": 0.5}


CALM = {"entropy/mean": 1.0, "reward/mean": 0.5, **groups(0.0, 0.0)}


@pytest.mark.parametrize(
    ("solved", "failed", "stuck", "expected"),
    [
        (0.5001, 0.4999, 0.0, CLEAR),  # half of the groups are solved: a policy may be sure
        (0.4999, 0.5001, 0.0, Severity.CRITICAL),  # as many teach nothing, and nothing has been gained
        (0.0, 0.4999, 0.0, Severity.WARNING),
        (0.0, 0.3001, 0.0, Severity.WARNING),
        (0.0, 0.2999, 0.0, Severity.INFO),  # only the reward stands still
        (0.0, 0.0, 0.5001, Severity.CRITICAL),  # narrowed
    ],
)
def test_entropy_collapse_by_its_groups(solved: float, failed: float, stuck: float, expected: object) -> None:
    now = {"entropy/mean": 0.2, "reward/mean": 0.5, **groups(solved, failed, stuck)}
    assert after(EntropyCollapse(), CALM, now) is expected


@pytest.mark.parametrize(("entropy", "expected"), [(0.2999, Severity.WARNING), (0.3001, CLEAR)])
def test_entropy_collapse_by_how_far_it_fell(entropy: float, expected: object) -> None:
    now = {"entropy/mean": entropy, "reward/mean": 0.5, **groups(0.0, 0.4)}
    assert after(EntropyCollapse(), CALM, now) is expected


@pytest.mark.parametrize(("reward", "expected"), [(0.39, Severity.WARNING), (0.41, Severity.INFO)])
def test_entropy_collapse_by_what_the_reward_lost(reward: float, expected: object) -> None:
    now = {"entropy/mean": 0.2, "reward/mean": reward, **groups(0.0, 0.0)}
    assert after(EntropyCollapse(), CALM, now) is expected


def test_entropy_that_is_not_there_tells_nothing() -> None:
    for rule in (EntropyCollapse(), EntropyExplosion()):
        assert after(rule, CALM, {"reward/mean": 0.5}) is NO_DATA
        assert after(rule, CALM, {"entropy/mean": math.nan, "reward/mean": 0.5}) is NO_DATA
    early = EntropyCollapse()
    assert {early.update(StepRecord(step, 0.0, dict(CALM))) for step in range(1, 10)} == {NO_DATA}
    assert early.update(StepRecord(10, 0.0, dict(CALM))) is CLEAR


def test_an_explosion_needs_a_reward_and_a_level_to_be_told_of() -> None:
    assert after(EntropyExplosion(), {"entropy/mean": 1.0}, {"entropy/mean": 9.0}) is NO_DATA
    rule = EntropyExplosion()
    said = [rule.update(StepRecord(step, 0.0, {"entropy/mean": 1.0, "reward/mean": 0.5})) for step in range(1, 8)]
    assert said == [NO_DATA] * 5 + [CLEAR] * 2, "a mean of a few values is as noisy as they are"


@pytest.mark.parametrize(
    ("entropy", "reward", "expected"),
    [
        (2.01, 0.37, Severity.CRITICAL),  # a quarter of the reward is gone
        (2.01, 0.38, Severity.WARNING),
        (2.01, 0.47, Severity.WARNING),  # a twentieth
        (1.99, 0.1, CLEAR),  # not twice its lowest
    ],
)
def test_entropy_explosion_at_its_marks(entropy: float, reward: float, expected: object) -> None:
    assert after(EntropyExplosion(), CALM, {"entropy/mean": entropy, "reward/mean": reward}) is expected


def test_small_entropies_count_as_a_tenth_of_a_nat() -> None:
    tiny = {"entropy/mean": 0.001, "reward/mean": 0.5}
    assert after(EntropyExplosion(), tiny, {"entropy/mean": 0.19, "reward/mean": 0.1}) is CLEAR
    assert after(EntropyExplosion(), tiny, {"entropy/mean": 0.21, "reward/mean": 0.1}) is Severity.CRITICAL
