"""kl-runaway: what it says, what it leaves unsaid, and the numbers it judges by."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from played import Row, kl_run, play, rows, severities, told
from rlwatch.detect.rule import NO_DATA
from rlwatch.detect.rules.kl_runaway import KLRunaway
from rlwatch.runs.records import AlertState, Severity, StepRecord


@pytest.mark.parametrize(("every", "scale"), [(1, 1), (10, 5), (50, 20)])
def test_a_kl_that_doubles_and_doubles_without_a_gain_is_a_warning(every: int, scale: int) -> None:
    records = rows(kl_run(doubles=20 * scale, onset=150 * scale), steps=500 * scale, every=every)
    [alert] = [a for a in play(KLRunaway({"beta": 0.0, "num_iterations": 4}), records) if a.state is AlertState.FIRING]
    assert alert.severity is Severity.WARNING
    assert 185 * scale <= alert.step <= 300 * scale, "a quarter of a nat is at 196 times the scale"
    assert "nats per token and doubles every" in alert.message
    assert "does not gain" in alert.message
    assert "4 updates a rollout" in alert.causes[0].text
    assert [cause.text for cause in alert.causes][-1] == "no KL penalty holds it (beta=0)"
    assert {advice.source for advice in alert.advice} >= {"GRPO 2402.03300", "RAGEN 2504.20073"}


def test_it_is_critical_once_the_reward_falls_with_it() -> None:
    changes = play(KLRunaway(), rows(kl_run(reward="falling")))
    assert changes[-1].severity is Severity.CRITICAL
    assert "and the reward falls" in changes[-1].message


def test_a_forecast_says_when_it_is_at_the_next_mark() -> None:
    [alert] = play(KLRunaway(None, {"matters": 0.3}), rows(kl_run(noise=0.05)))
    assert alert.forecast is not None
    assert (alert.forecast.metric, alert.forecast.mark) == ("kl/ref", 1.0)
    assert alert.forecast.low <= 150 + 20 * math.log2(20) <= alert.forecast.high + 10
    [alert] = play(KLRunaway(), rows(kl_run(noise=0.05, onset=100, doubles=8), steps=160))
    assert alert.forecast is None or alert.forecast.mark in (1.0, 10.0)


@pytest.mark.parametrize("every", [1, 10, 50])
def test_a_kl_that_runs_with_a_rising_reward_is_none(every: int) -> None:
    scale = {1: 1, 10: 5, 50: 20}[every]
    row = kl_run(doubles=20 * scale, onset=150 * scale, reward="rising")
    rising: Row = lambda step: {**row(step), "reward/mean": 0.2 + 2 * step / (500 * scale)}  # noqa: E731
    assert told(KLRunaway(), rows(rising, steps=500 * scale, every=every)) == []


@pytest.mark.parametrize("every", [1, 10, 50])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("top", [0.3, 3.0])
def test_a_steady_drift_is_no_runaway_however_far_it_gets(every: int, power: float, top: float) -> None:
    draw = random.Random(1)
    steps = 60 * max(every, 10)
    row: Row = lambda step: {  # noqa: E731
        "kl/ref": top * (step / steps) ** power * math.exp(0.2 * draw.gauss(0, 1)), "reward/mean": 0.5,
    }  # fmt: skip
    assert told(KLRunaway(), rows(row, steps=steps, every=every)) == []


@pytest.mark.parametrize("seed", range(5))
def test_spikes_are_no_runaway(seed: int) -> None:
    draw = random.Random(seed)
    row: Row = lambda step: {  # noqa: E731
        "kl/ref": (0.1 + step / 4000) * math.exp(0.3 * draw.gauss(0, 1)) * (100 if draw.random() < 0.02 else 1),
        "reward/mean": 0.5 + 0.1 * draw.gauss(0, 1),
    }  # fmt: skip
    assert told(KLRunaway(), rows(row, steps=1000)) == []


def test_growth_from_nothing_and_small_growth_are_no_runaway() -> None:
    tiny: Row = lambda step: {"kl/ref": 1e-7 * 2 ** (min(step, 350) / 20), "reward/mean": 0.5}  # noqa: E731
    assert told(KLRunaway(), rows(tiny)) == []
    saturates: Row = lambda step: {"kl/ref": 0.8 * (1 - math.exp(-step / 20)), "reward/mean": 0.5}  # noqa: E731
    assert told(KLRunaway(), rows(saturates)) == []


@pytest.mark.parametrize("change", ["reward", "solved"])
def test_without_a_reward_or_once_solved_it_is_worth_knowing(change: str) -> None:
    row = kl_run()
    if change == "reward":
        other: Row = lambda step: {"kl/ref": row(step)["kl/ref"]}  # noqa: E731
    else:
        other = lambda step: {**row(step), "groups/solved": 0.95}  # noqa: E731
    assert severities(KLRunaway(), rows(other)) == {"info"}


def test_missing_and_broken_kls_say_nothing_and_do_not_end_it() -> None:
    for value in (None, math.nan, math.inf, 0.0, -0.1):
        assert KLRunaway().update(StepRecord(1, 1.0, {"kl/ref": value, "reward/mean": 0.5})) is NO_DATA
    row = kl_run()
    holes: Row = lambda step: {**row(step), "kl/ref": math.nan} if step % 4 == 0 else row(step)  # noqa: E731
    assert severities(KLRunaway(), rows(holes)) == {"warning"}
    stops: Row = lambda step: row(step) if step < 260 else {"reward/mean": 0.5}  # noqa: E731
    assert told(KLRunaway(), rows(stops)) == [("firing", "warning")]


def test_what_ran_away_is_not_over_where_it_stays_and_is_where_it_comes_back() -> None:
    stays = rows(kl_run(), steps=1500)
    assert [state for state, _ in told(KLRunaway(), stays)] == ["firing"]
    row, again = kl_run(), kl_run(onset=700, seed=1)
    back: Row = lambda step: row(step) if step < 330 else again(step)  # noqa: E731
    states = [state for state, _ in told(KLRunaway(), rows(back, steps=1200))]
    assert states == ["firing", "resolved", "firing"]


def test_the_line_it_judges_by_is_weighted_least_squares_of_the_logarithm() -> None:
    records = rows(kl_run(noise=0.05))
    alert = play(KLRunaway(), records)[0]
    begins = next(r.step for r in records if (r.metrics["kl/ref"] or 0.0) >= 0.25 / 64)  # less is not followed yet
    past = [r for r in records if begins <= r.step <= alert.step]
    t = np.array([r.step - alert.step for r in past], dtype=float)
    y = np.log([r.metrics["kl/ref"] for r in past])  # type: ignore[arg-type]
    w = 0.5 ** (-t / 30)
    slope, level = np.polyfit(t, y, 1, w=np.sqrt(w))
    assert alert.value == pytest.approx(math.exp(level), rel=1e-6)
    assert alert.evidence["steps to double"] == pytest.approx(math.log(2) / slope, rel=1e-6)


@pytest.mark.parametrize(
    ("setting", "value", "reward", "severity"),
    [
        ("matters", 1000.0, "flat", set()),
        ("doubling", 0.001, "flat", set()),
        ("reward_lost", 1.0, "falling", {"warning"}),
        ("gaining", 1e9, "rising", {"warning"}),
        ("solved", 0.0, "flat", {"info"}),
    ],
)
def test_a_setting_of_the_kls_rule_changes_what_it_says(
    setting: str, value: float, reward: str, severity: set[str]
) -> None:
    row = kl_run(reward=reward, noise=0.05)
    records = rows(lambda step: {**row(step), "groups/solved": 0.1}, steps=400)
    assert severities(KLRunaway(), records) != severity
    assert severities(KLRunaway(None, {setting: value}), records) == severity


@pytest.mark.parametrize(
    ("setting", "value", "every", "changes"),
    [
        ("half_life", 200.0, 1, {}),
        ("reward_half_life", 300.0, 1, {"reward": "turning"}),
        ("fold", 100.0, 1, {"spikes": 0.05}),
        ("new_ground", 1e9, 5, {"doubles": 8, "onset": 80, "noise": 0.1}),
        ("least_rows", 30.0, 10, {"doubles": 100, "onset": 750}),
        ("nearly", 1.0, 1, {"reward": "turning"}),
    ],
)
def test_a_finer_setting_of_the_kls_rule_changes_when(
    setting: str, value: float, every: int, changes: dict[str, object]
) -> None:
    steps = 2000 if every == 10 else 400
    ways = [
        [a.to_dict() for a in play(KLRunaway(None, settings), rows(kl_run(**changes), steps=steps, every=every))]  # type: ignore[arg-type]
        for settings in ({}, {setting: value})
    ]
    assert ways[0] != ways[1]


@pytest.mark.parametrize(("setting", "matters"), [("far", 0.3), ("gone", 1.5)])
def test_a_mark_of_the_forecast_is_a_setting(setting: str, matters: float) -> None:
    settings = {"matters": matters, setting: 12.0}
    alert = play(KLRunaway(None, settings), rows(kl_run(noise=0.05)))[0]
    assert alert.forecast is not None
    assert alert.forecast.mark == 12.0
