"""length-bias, length-explosion, length-collapse: what they must say, and what they must not."""

from __future__ import annotations

import json
import math
import random
import statistics
from typing import Any

import pytest

from rlwatch.detect.rule import NO_DATA, Quiet, Rule, Untold
from rlwatch.detect.rules.length_bias import LengthBias
from rlwatch.detect.rules.length_collapse import LengthCollapse
from rlwatch.detect.rules.length_explosion import LengthExplosion
from rlwatch.detect.setting import settings_of
from rlwatch.detect.state import dump, restore
from rlwatch.runs.records import AlertState, Severity, StepRecord
from rule_stories import Curve, flat, found, judge, ramp, story, worst

RULES = (LengthBias, LengthExplosion, LengthCollapse)


def twice(value: float, else_: float) -> Curve:
    return lambda t: value if 0.2 < t < 0.4 or 0.6 < t < 0.8 else else_


def biased(**changes: Any) -> list[StepRecord]:
    curves: dict[str, Any] = {
        "length__gap": ramp(2.0, 60.0), "length__mean": ramp(100.0, 120.0), "length__incorrect": ramp(101.0, 150.0),
        "length__correct": ramp(99.0, 90.0), "reward__mean": flat(0.4), **changes,
    }  # fmt: skip
    return story(**curves)


def exploding(**changes: Any) -> list[StepRecord]:
    curves: dict[str, Any] = {
        "length__mean": ramp(200.0, 900.0), "length__truncated": ramp(0.02, 0.8), "reward__mean": flat(0.5),
        "reward__std": flat(0.5), **changes,
    }  # fmt: skip
    return story(**curves)


def collapsing(**changes: Any) -> list[StepRecord]:
    curves: dict[str, Any] = {
        "length__mean": ramp(300.0, 20.0), "reward__mean": flat(0.5), "reward__std": flat(0.5), **changes,
    }  # fmt: skip
    return story(**curves)


FAILING = ((LengthBias, biased), (LengthExplosion, exploding), (LengthCollapse, collapsing))


# --- length-bias


@pytest.mark.parametrize("every", [1, 10, 50])
def test_wrong_answers_that_grow_under_a_loss_that_divides_by_length_are_a_warning(every: int) -> None:
    alerts = judge(LengthBias, biased(every=every), loss_type="grpo", max_completion_length=512)
    [alert] = [a for a in alerts if a.state is AlertState.FIRING]
    assert alert.severity is Severity.WARNING
    assert "tokens longer than correct ones to the same prompt" in alert.message
    assert "1/|o|" in alert.causes[0].text
    assert "dapo or dr_grpo" in alert.advice[0].text
    assert "Dr.GRPO" in alert.advice[0].source
    assert alert.reference == pytest.approx(2.0, abs=0.5)


@pytest.mark.parametrize("config", [{}, {"loss_type": "dapo"}, {"loss_type": "dr_grpo"}])
def test_without_a_loss_that_divides_by_length_it_is_worth_knowing(config: dict[str, Any]) -> None:
    assert worst(judge(LengthBias, biased(), **config)) == "info"


HARMLESS_GAPS: dict[str, dict[str, Any]] = {
    "there from the start": {"length__gap": flat(70.0)},
    "wrong ones shrink": {"length__incorrect": ramp(150.0, 80.0), "length__correct": ramp(100.0, 20.0)},
    "all get longer alike": {
        "length__gap": ramp(50.0, 150.0), "length__mean": ramp(200.0, 600.0), "length__incorrect": ramp(220.0, 680.0),
    },
    "right ones grow": {"length__gap": ramp(2.0, -60.0)},
    "too small to matter": {"length__gap": ramp(2.0, 15.0)},
    "noise": {"length__gap": flat(10.0), "noise": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS_GAPS)
@pytest.mark.parametrize("every", [1, 10, 50])
def test_gaps_that_are_no_bias_stay_silent(name: str, every: int) -> None:
    assert worst(judge(LengthBias, biased(every=every, **HARMLESS_GAPS[name]), loss_type="grpo")) is None


def test_a_gap_that_walks_at_random_as_under_dr_grpo_is_no_bias() -> None:
    """science.md: the mean length of 17 tokens walks at random, wrong minus right ends at -1.1 ± 2.5."""
    for seed in range(20):
        draw, level, walk = random.Random(seed), 0.0, []
        for _ in range(100):
            level = 0.9 * level + draw.gauss(0, 1.0)
            walk.append(level)
        records = [
            StepRecord(i + 1, 0.0, {"length/gap": gap, "length/mean": 17.0 + gap / 5, "length/incorrect": 20.0 + gap})
            for i, gap in enumerate(walk)
        ]
        assert worst(judge(LengthBias, records, loss_type="grpo")) is None, seed


def test_between_prompts_it_says_so_and_is_info() -> None:
    alerts = judge(LengthBias, biased(length__gap=lambda t: None), loss_type="grpo")
    assert worst(alerts) == "info"
    assert "between prompts" in alerts[0].message


def test_once_there_is_a_gap_within_prompts_the_difference_between_them_is_not_mixed_in() -> None:
    records = biased(length__gap=lambda t: 2.0 if t > 0.1 else None)
    assert worst(judge(LengthBias, records, loss_type="grpo")) is None


@pytest.mark.parametrize(
    ("loss_type", "every", "half_life", "matters"), [("dapo", 1, 10, 0.3), ("dapo", 2, 5, 0.3), ("grpo", 2, 5, 0.125)]
)
def test_bias_is_judged_by_the_numbers_that_it_says(
    loss_type: str, every: int, half_life: float, matters: float
) -> None:
    records = biased(every=every)
    findings = found(LengthBias({"loss_type": loss_type}), records)
    first = next(i for i, finding in enumerate(findings) if finding)
    gaps = [float(r.metrics["length/gap"]) for r in records]
    lengths = [float(r.metrics["length/mean"]) for r in records]

    def smoothed(values: list[float], at: int, halves: float) -> float:
        weights = [0.5 ** (every * (at - i) / halves) for i in range(at + 1)]
        return sum(w * x for w, x in zip(weights, values, strict=False)) / sum(weights)

    def grown(at: int) -> float:
        length = smoothed(lengths, at, 10)
        usual = statistics.median(gaps[:10]) * max(1.0, length / statistics.median(lengths[:10]))
        return (smoothed(gaps, at, half_life) - usual) / length

    assert findings[first].value == pytest.approx(smoothed(gaps, first, half_life))
    assert findings[first].reference == pytest.approx(statistics.median(gaps[:10]))
    assert grown(first) > matters
    assert grown(first - 1) <= matters, "one row earlier, it was not so much"


def test_bias_forecasts_when_wrong_answers_are_at_the_limit() -> None:
    records = biased(noise=0.01, length__incorrect=ramp(101.0, 300.0, 0.2, 1.0), length__gap=ramp(2.0, 200.0, 0.2, 1.0))
    told = [
        f for f in found(LengthBias({"loss_type": "grpo", "max_completion_length": 320}), records) if f and f.forecast
    ]
    assert told
    assert all(f.forecast.metric == "length/incorrect" and f.forecast.mark == 320 for f in told)
    true = 600 * (0.2 + 0.8 * 219 / 199)
    assert told[-1].forecast.low <= true * 1.05
    assert told[-1].forecast.high >= true * 0.95
    assert not any(f.forecast for f in found(LengthBias({"loss_type": "grpo"}), records) if f), "no limit, no forecast"


# --- length-explosion


@pytest.mark.parametrize("every", [1, 10, 50])
def test_lengths_that_explode_for_nothing_are_a_warning(every: int) -> None:
    fast: tuple[dict[str, object], str, str] = ({}, " tokens, ", " when the reward last gained, at step ")
    long: tuple[dict[str, object], str, str] = ({"rushed": 9.0}, "tokens on average, ", "has not gained since step ")
    for settings, tokens, reward in (long if every == 50 else fast, long):
        alerts = judge(LengthExplosion, exploding(every=every), settings, max_completion_length=1024)
        first = next(a for a in alerts if a.state is AlertState.FIRING)
        assert worst(alerts) == "warning"
        assert tokens in first.message
        assert reward in first.message
        assert any("cut off" in cause.text for cause in first.causes)
        assert all(advice.source for advice in first.advice)


@pytest.mark.parametrize("every", [1, 10, 50])
def test_with_the_reward_falling_clearly_it_is_critical(every: int) -> None:
    alerts = judge(LengthExplosion, exploding(every=every, reward__mean=ramp(0.6, 0.1, 0.4, 0.8)))
    assert worst(alerts) == "critical"
    assert "the reward is down to" in next(a for a in alerts if a.severity is Severity.CRITICAL).message


HARMLESS_GROWTH: dict[str, dict[str, Any]] = {
    "the reward gains": {"reward__mean": ramp(0.2, 0.9, 0.0, 1.0), "length__mean": ramp(200.0, 800.0, 0.0, 1.0)},
    "it gained, and then both stay": {
        "reward__mean": ramp(0.2, 0.9, 0.0, 0.6), "length__mean": ramp(200.0, 800.0, 0.0, 0.6),
    },
    "less than twice": {"length__mean": ramp(200.0, 330.0)},
    "long from the start": {"length__mean": flat(900.0), "length__truncated": flat(0.9)},
    "noise": {"length__mean": flat(200.0), "length__truncated": flat(0.1), "noise": 0.4},
}  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS_GROWTH)
@pytest.mark.parametrize("every", [1, 10, 50])
def test_growth_that_is_no_explosion_stays_silent(name: str, every: int) -> None:
    assert worst(judge(LengthExplosion, exploding(every=every, **HARMLESS_GROWTH[name]))) is None


def test_truncation_bears_witness_before_a_stall_can() -> None:
    """A fast explosion: the reward cannot have stalled for 50 steps yet."""
    fast = {"rows": 90, "reward__mean": ramp(0.3, 0.6, 0.0, 0.3), "length__mean": ramp(200.0, 900.0, 0.6, 0.75)}
    with_it = judge(LengthExplosion, exploding(length__truncated=ramp(0.0, 0.8, 0.6, 0.75), **fast))
    without = judge(LengthExplosion, exploding(length__truncated=flat(0.0), **fast))
    assert with_it[0].step < 90
    assert not without, "50 steps without a gain are not over yet"


def test_explosion_is_judged_by_the_numbers_that_it_says() -> None:
    records = exploding(every=5)
    findings = found(LengthExplosion(), records)
    first = next(i for i, finding in enumerate(findings) if finding)
    lengths = [float(r.metrics["length/mean"]) for r in records[: first + 1]]
    start = statistics.median(lengths[:10])
    assert findings[first].value == lengths[-1], "fast: a row as it is"
    assert findings[first].reference == pytest.approx(start)
    assert lengths[-1] >= 1.75 * start
    assert max(lengths[:-1]) < 1.75 * start
    lengths = [float(r.metrics["length/mean"]) for r in records[: first + 20]]
    weights = [0.5 ** (5 * (len(lengths) - 1 - i) / 5) for i in range(len(lengths))]
    level = sum(w * x for w, x in zip(weights, lengths, strict=True)) / sum(weights)
    assert findings[first + 19].value == pytest.approx(level), "long: smoothed"
    assert level > 2 * start


def test_explosion_forecasts_when_the_limit_is_reached() -> None:
    growing = exploding(
        noise=0.01, length__mean=lambda t: 200.0 * 2 ** (2.5 * max(0.0, t - 0.2)), length__truncated=flat(0.0)
    )
    told = [f for f in found(LengthExplosion({"max_completion_length": 1000}), growing) if f and f.forecast]
    assert told
    true = 600 * (0.2 + math.log2(5) / 2.5)
    assert told[-1].forecast.mark == 1000
    assert told[-1].forecast.low <= true * 1.05
    assert told[-1].forecast.high >= true * 0.95


def test_causes_of_an_explosion_come_with_their_numbers() -> None:
    records = exploding(
        entropy__mean=ramp(0.5, 2.5), reward__length_bonus=ramp(0.1, 0.5), length__incorrect=ramp(210.0, 950.0),
        length__correct=ramp(190.0, 700.0),
    )  # fmt: skip
    [alert, *_] = judge(LengthExplosion, records, loss_type="grpo")
    text = " | ".join(cause.text for cause in alert.causes)
    for words in ("reward/length_bonus", "entropy rises with it", "loss_type grpo", "cut off by the length limit"):
        assert words in text
    assert all(cause.evidence for cause in alert.causes)
    advice = " | ".join(a.text for a in alert.advice)
    assert "epsilon_high" in advice
    assert "loss_type dapo" in advice


# --- length-collapse


@pytest.mark.parametrize("every", [1, 10, 50])
def test_lengths_that_collapse_for_nothing_are_a_warning(every: int) -> None:
    alerts = judge(LengthCollapse, collapsing(every=every, reward__length_penalty=ramp(-0.5, -0.1)))
    assert worst(alerts) == "warning"
    assert "reward/length_penalty" in alerts[0].causes[0].text
    assert "short answers earn" in alerts[0].causes[-1].text
    assert alerts[0].advice
    assert "1/|o|" in judge(LengthCollapse, collapsing(every=every), loss_type="grpo")[0].causes[0].text


@pytest.mark.parametrize("every", [1, 10, 50])
def test_with_a_third_of_the_reward_gone_it_is_critical(every: int) -> None:
    assert worst(judge(LengthCollapse, collapsing(every=every, reward__mean=ramp(0.6, 0.2)))) == "critical"


def test_with_a_fifth_of_the_reward_gone_it_is_a_warning_before_the_stall() -> None:
    short = {"rushed": 99.0}  # and not fast
    falls = judge(
        LengthCollapse,
        collapsing(reward__mean=ramp(0.6, 0.48, 0.3, 0.45), length__mean=ramp(300.0, 20.0, 0.3, 0.4)),
        short,
    )
    stalls = judge(
        LengthCollapse,
        collapsing(length__mean=ramp(300.0, 20.0, 0.3, 0.4), reward__mean=ramp(0.3, 0.6, 0, 0.35)),
        short,
    )
    assert worst(falls) == worst(stalls) == "warning"
    assert falls[0].step < stalls[0].step


HARMLESS_SHRINKING: dict[str, dict[str, Any]] = {
    "concise, and better": {"reward__mean": ramp(0.2, 0.8, 0.0, 1.0), "length__mean": ramp(300.0, 60.0, 0.0, 0.9)},
    "concise while it gained, then both stay": {
        "reward__mean": ramp(0.2, 0.8, 0.0, 0.6), "length__mean": ramp(300.0, 60.0, 0.0, 0.6),
    },
    "solved": {"groups__solved": flat(0.8), "reward__mean": flat(0.95)},
    "nothing better to earn": {"reward__mean": flat(0.95), "reward__std": flat(0.95**0.5 * 0.05**0.5), "noise": 0.0},
    "half as long": {"length__mean": ramp(300.0, 150.0)},
    "short from the start": {"length__mean": flat(3.0)},
    "noise": {"length__mean": flat(300.0), "noise": 0.4},
}  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS_SHRINKING)
@pytest.mark.parametrize("every", [1, 10, 50])
def test_shrinking_that_is_no_collapse_stays_silent(name: str, every: int) -> None:
    assert worst(judge(LengthCollapse, collapsing(every=every, **HARMLESS_SHRINKING[name]))) is None


def test_a_solved_run_that_loses_its_reward_is_not_done() -> None:
    records = collapsing(groups__solved=flat(0.6), reward__mean=ramp(0.9, 0.3))
    assert worst(judge(LengthCollapse, records)) == "critical"


# --- all three


@pytest.mark.parametrize(("rule", "make"), FAILING)
def test_a_metric_that_is_missing_or_stops_or_is_not_finite_says_nothing(rule: type[Rule], make: Any) -> None:
    needed = rule.needs
    for name in needed:
        lacks = [StepRecord(r.step, r.time, {k: v for k, v in r.metrics.items() if k != name}) for r in make()]
        if name == "length/gap":  # the other way to know it
            lacks = [
                StepRecord(r.step, r.time, {k: v for k, v in r.metrics.items() if "correct" not in k}) for r in lacks
            ]
        assert {rule({"loss_type": "grpo"}).update(r) for r in lacks} == {NO_DATA}
    for bad in (math.nan, math.inf, -math.inf, None, 1e300):
        records = [StepRecord(r.step, r.time, dict.fromkeys(r.metrics, bad)) for r in make()]
        assert {rule({"loss_type": "grpo"}).update(r) for r in records} == {NO_DATA}


@pytest.mark.parametrize(("rule", "make"), FAILING)
def test_what_stops_being_logged_leaves_an_alert_open_and_gaps_do_not_hide_a_failure(
    rule: type[Rule], make: Any
) -> None:
    records = make()
    stops = [r if r.step < 450 else StepRecord(r.step, r.time, {"loss": 0.0}) for r in records]
    states = [a.state for a in judge(rule, stops, loss_type="grpo")]
    assert AlertState.RESOLVED not in states
    assert AlertState.FIRING in states
    holes = [StepRecord(r.step, r.time, dict.fromkeys(r.metrics, math.nan)) if r.step % 3 == 0 else r for r in records]
    assert worst(judge(rule, holes, loss_type="grpo")) == "warning"


@pytest.mark.parametrize(
    ("rule", "records"),
    [
        (LengthBias, biased(rows=1200, length__gap=twice(60.0, 2.0))),
        (LengthExplosion, exploding(rows=1200, length__mean=twice(700.0, 200.0))),
        (LengthCollapse, collapsing(rows=1200, length__mean=twice(20.0, 300.0))),
    ],
)  # fmt: skip
def test_it_is_over_when_it_is_over_and_may_come_again(rule: type[Rule], records: list[StepRecord]) -> None:
    states = [a.state.value for a in judge(rule, records, loss_type="grpo")]
    assert states == ["firing", "resolved", "firing", "resolved"]


@pytest.mark.parametrize(("rule", "make"), FAILING)
@pytest.mark.parametrize("cut", [5, 150, 330])
def test_a_rule_goes_on_from_its_saved_state(rule: type[Rule], make: Any, cut: int) -> None:
    records, config = make(), {"loss_type": "grpo", "max_completion_length": 2000}
    whole, first = rule(config), rule(config)
    expected = found(whole, records)
    found(first, records[:cut])
    second = rule(config)
    restore(second, json.loads(json.dumps(dump(first))))
    assert found(second, records[cut:]) == expected[cut:]
    assert any(expected)


@pytest.mark.parametrize("rule", RULES)
def test_every_setting_has_a_source_and_is_read(rule: type[Rule]) -> None:
    for name, setting in settings_of(rule).items():
        assert setting.source.split(":")[0].split(" ")[0] in (
            "theory",
            "paper",
            "calibration",
            "convention",
            "measurement",
        )
        assert getattr(rule(settings={name: setting.default}), name) == setting.default


def nothing_to_earn() -> list[StepRecord]:
    return collapsing(reward__mean=flat(0.95), reward__std=flat(0.218), noise=0.0)


@pytest.mark.parametrize(
    ("rule", "make", "settings", "expected"),
    [
        (LengthBias, biased, {"matters": 0.9, "begun": 0.9}, None),
        (LengthBias, biased, {"noise": 1e9}, None),
        (LengthBias, biased, {"half_life": 1000, "begun": 0.3}, None),
        (LengthExplosion, exploding, {"grown": 6, "rushed": 6}, None),
        (LengthExplosion, exploding, {"grown": 6, "rushed_since_gain": 6}, None),
        (LengthExplosion, exploding, {"moved": 6}, None),
        (LengthExplosion, exploding, {"noise": 1e9, "scatter": 1e9}, None),
        (LengthCollapse, collapsing, {"fallen_to": 0.01}, None),
        (LengthCollapse, lambda: collapsing(reward__mean=ramp(0.6, 0.2)), {"lost": 0.9}, "warning"),
        (LengthCollapse, lambda: collapsing(reward__mean=ramp(0.6, 0.2)), {"noise": 1e9}, "warning"),
        (LengthCollapse, nothing_to_earn, {"near_best": 0.99}, "warning"),
        (LengthCollapse, lambda: collapsing(groups__solved=flat(0.4)), {"solved": 0.3}, None),
        (LengthExplosion, lambda: exploding(reward__mean=ramp(0.6, 0.45)), {"lost": 0.2}, "critical"),
    ],
)  # fmt: skip
def test_a_setting_changes_what_it_says_it_changes(rule: Any, make: Any, settings: Any, expected: str | None) -> None:
    assert worst(judge(rule, make(), loss_type="grpo")) != expected
    assert worst(judge(rule, make(), settings, loss_type="grpo")) == expected


@pytest.mark.parametrize("rule", RULES)
def test_nothing_makes_a_rule_raise(rule: type[Rule]) -> None:
    names = ["length/gap", "length/mean", "length/incorrect", "length/correct", "length/truncated", "reward/mean",
             "reward/std", "entropy/mean", "groups/solved", "groups/unique", "reward/length"]  # fmt: skip
    draw = random.Random(1)
    config = {"loss_type": "grpo", "max_completion_length": 100}
    whole = rule(config)
    for step in range(3000):
        values = [0.0, 1.0, -3.0, 1e-12, 1e99, -1e99, math.nan, math.inf, None, 500.0]
        metrics = {name: draw.choice(values) for name in names if draw.random() < 0.8}
        said = whole.update(StepRecord(step, 0.0, metrics))
        if isinstance(said, Untold):
            finding = said.tell()
            assert "\n" not in finding.message
            assert not finding.message.endswith(".")
        else:
            assert isinstance(said, Quiet)
