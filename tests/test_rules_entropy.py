"""entropy-collapse beyond the basics: what bears witness with and without the split, and when it says where it goes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlwatch.detect.deadness import Deadness
from rlwatch.detect.engine import Engine
from rlwatch.detect.rules.entropy_collapse import EntropyCollapse
from rlwatch.runs.records import Alert, Severity, StepRecord

Curves = Callable[[int], dict[str, float]]


def judge(curves: Curves, steps: int = 300, every: int = 1, **settings: float) -> list[Alert]:
    engine = Engine([EntropyCollapse(settings=settings)])
    return [a for step in range(every, steps + 1, every) for a in engine.feed(StepRecord(step, 0.0, curves(step)))]


def worst(alerts: list[Alert]) -> Severity | None:
    return max((a.severity for a in alerts), key=lambda s: s.rank, default=None)


def ramp(step: int, begin: int, end: int, low: float, high: float) -> float:
    return low + (high - low) * min(1.0, max(0.0, (step - begin) / (end - begin)))


def narrowing(step: int) -> dict[str, float]:
    """Onto a safe answer worth 0.5, and the mean reward rises all the while."""
    stuck = ramp(step, 100, 200, 0.05, 0.95)
    return {
        "entropy/mean": ramp(step, 60, 160, 1.0, 0.05),
        "reward/mean": ramp(step, 0, 300, 0.35, 0.5),
        "reward/std": 0.4,
        "groups/stuck": stuck,
        "groups/failed": 0.02,
        "groups/solved": 0.01,
    }


def without_split(curves: Curves) -> Curves:
    def undivided(step: int) -> dict[str, float]:
        metrics = curves(step)
        parts = ("groups/stuck", "groups/failed", "groups/solved")
        return {k: v for k, v in metrics.items() if k not in parts} | {
            "groups/zero_std": sum(metrics[p] for p in parts)
        }

    return undivided


@pytest.mark.parametrize("every", [1, 5])
def test_groups_that_become_stuck_need_no_reward_that_stalls(every: int) -> None:
    critical = [a for a in judge(narrowing, every=every) if a.severity is Severity.CRITICAL]
    assert critical[0].step < 200, "before nine groups in ten are stuck"


def test_groups_that_were_stuck_from_the_start_are_no_collapse_while_the_reward_gains() -> None:
    def half_of_the_prompts_give_partial_credit(step: int) -> dict[str, float]:
        return {**narrowing(step), "groups/stuck": 0.6, "reward/mean": ramp(step, 0, 300, 0.2, 0.8)}

    assert worst(judge(half_of_the_prompts_give_partial_credit)) is not Severity.CRITICAL


def test_without_the_split_a_stalled_reward_and_few_groups_left_are_critical() -> None:
    def stuck_at_half(step: int) -> dict[str, float]:
        return {**narrowing(step), "reward/mean": ramp(step, 0, 100, 0.35, 0.5), "reward/std": 0.5}

    alerts = judge(without_split(stuck_at_half), steps=400)
    assert worst(alerts) is Severity.CRITICAL
    assert "at least" in alerts[-1].causes[0].text


def test_without_the_split_solved_groups_are_not_taken_for_dead_ones() -> None:
    def solving(step: int) -> dict[str, float]:
        p = ramp(step, 0, 200, 0.3, 0.97)
        return {
            "entropy/mean": ramp(step, 0, 150, 1.0, 0.05),
            "reward/mean": p,
            "reward/std": math.sqrt(p * (1 - p)),
            "groups/zero_std": ramp(step, 0, 200, 0.2, 0.95),
        }

    assert worst(judge(solving, steps=500)) in (None, Severity.INFO)


def test_a_real_trend_says_when_it_gets_there() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.05, 400)

    def decaying(step: int) -> dict[str, float]:
        stuck = ramp(step, 20, 120, 0.05, 0.45)
        return {**narrowing(step), "entropy/mean": math.exp(-0.008 * step + noise[step]), "groups/stuck": stuck}

    first = judge(decaying)[0]
    assert first.severity is Severity.WARNING
    assert first.forecast is not None
    true = -math.log(0.3 * 0.96) / 0.008  # the baseline is of the first ten steps
    assert first.forecast.low <= true <= first.forecast.high
    assert first.step < true
    assert f"by about step {first.forecast.step} (" in first.forecast.text


def test_a_fall_with_healthy_groups_has_no_forecast_and_no_alert() -> None:
    def sharpening(step: int) -> dict[str, float]:
        return {
            **narrowing(step), "groups/stuck": 0.05, "entropy/mean": math.exp(-0.005 * step),
            "reward/mean": ramp(step, 0, 300, 0.2, 0.9),
        }  # fmt: skip

    assert judge(sharpening) == []


def test_settings_change_what_they_say() -> None:
    assert worst(judge(narrowing, fallen=0.01)) is not Severity.CRITICAL, "it never falls to a hundredth"
    late = judge(narrowing, stuck_critical=0.9)
    early = judge(narrowing, stuck_critical=0.35)
    when = [next(a.step for a in alerts if a.severity is Severity.CRITICAL) for alerts in (early, late)]
    assert when[0] < when[1]


@given(st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=4, max_size=4), min_size=2, max_size=30))
def test_the_bound_holds_for_any_groups_of_rewards_from_zero(groups: list[list[float]]) -> None:
    """Against the truth, which a log without the split does not have."""
    rewards = np.array(groups)
    best = rewards.max()
    dead = (rewards == rewards[:, :1]).all(axis=1)
    solved = (dead & (rewards[:, 0] == best) & (best > 0)).mean()
    record = StepRecord(1, 0.0, {
        "groups/zero_std": float(dead.mean()), "reward/mean": float(rewards.mean()), "reward/std": float(rewards.std()),
    })  # fmt: skip
    deadness = Deadness(10)
    deadness.update(record)
    assert deadness.known
    assert not deadness.split
    assert deadness.unsolved <= dead.mean() - solved + 1e-9
    assert deadness.solved >= solved - 1e-9 or best == 0
    assert deadness.of_the_rest <= 1


def test_negative_rewards_bound_nothing() -> None:
    deadness = Deadness(10)
    deadness.update(StepRecord(1, 0.0, {"groups/zero_std": 0.9, "reward/mean": -0.5, "reward/std": 0.2}))
    assert (deadness.unsolved, deadness.solved) == (0.0, 1.0)


def test_where_it_goes_and_why_are_read_aloud_everywhere() -> None:
    """The forecast, and the numbers of a cause that do not stand among the alert's own."""
    from rlwatch.alerts import words
    from rlwatch.alerts.channel import Message
    from rlwatch.alerts.stdout import render
    from rlwatch.runs.records import AlertState, Cause, Forecast

    alert = Alert(
        "entropy-collapse", Severity.WARNING, AlertState.FIRING, since=80, step=100, time=0.0, value=0.4, reference=1.0,
        message="entropy falls", evidence={"entropy/mean": 0.4},
        causes=(Cause("8 updates a rollout", {"clip/high_rare": 0.75, "entropy/mean": 0.4, "kl/old": None}),),
        forecast=Forecast("entropy/mean", 0.3, 150, 130, 190),
    )  # fmt: skip
    ahead = "at this rate entropy/mean is at 0.3 by about step 150 (130 to 190)"
    told = [render(alert), "\n".join(words.lines(Message((alert,)), now=0.0))]
    for text in told:
        assert ahead in text
        assert "8 updates a rollout (clip/high_rare 0.75)" in text
    assert Alert.from_dict(alert.to_dict()) == alert
