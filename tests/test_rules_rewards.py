"""reward-hacking, reward-stall, and the numbers of reward-collapse and group-size-one."""

from __future__ import annotations

import json
import math
import random
import statistics
from typing import Any

import pytest

from rlwatch.detect.level import Level
from rlwatch.detect.peak import Peak
from rlwatch.detect.rule import NO_DATA, Quiet, Rule, Untold
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.group_size_one import GroupSizeOne
from rlwatch.detect.rules.reward_collapse import RewardCollapse
from rlwatch.detect.rules.reward_hacking import RewardHacking
from rlwatch.detect.rules.reward_stall import RewardStall
from rlwatch.detect.setting import settings_of
from rlwatch.detect.state import dump, restore
from rlwatch.runs.records import AlertState, Severity, StepRecord
from rule_stories import both, flat, found, judge, ramp, story, worst


def hacked(**changes: Any) -> list[StepRecord]:
    """The format is paid for and the facts go; the reward rises."""
    curves: dict[str, Any] = {
        "reward__format": ramp(0.2, 1.0, 0.3, 0.7), "reward__facts": ramp(0.6, 0.35, 0.4, 0.7),
        "reward__mean": ramp(0.8, 1.35, 0.3, 0.7), "reward__std": flat(0.4), **changes,
    }  # fmt: skip
    return story(**curves)


def overfit(**changes: Any) -> list[StepRecord]:
    """The evaluation falls while the reward rises on."""
    curves: dict[str, Any] = {
        "reward__mean": ramp(0.3, 0.9, 0.0, 1.0), "reward__std": flat(0.4),
        "eval__reward": both(ramp(0.3, 0.6, 0.0, 0.5), ramp(0.6, 0.15, 0.5, 0.8), 0.5), "evaluated": 20, **changes,
    }  # fmt: skip
    return story(**curves)


def stalled(**changes: Any) -> list[StepRecord]:
    """Half of the groups fail, and the reward stays where it was."""
    curves: dict[str, Any] = {
        "reward__mean": ramp(0.3, 0.5, 0.0, 0.3), "reward__std": flat(0.4), "groups__solved": flat(0.05),
        "groups__failed": ramp(0.1, 0.65, 0.3, 0.5), "groups__stuck": flat(0.05), **changes,
    }  # fmt: skip
    return story(**curves)


# --- reward-hacking


@pytest.mark.parametrize("every", [1, 10, 50])
def test_a_part_that_is_traded_for_another_is_a_warning(every: int) -> None:
    alerts = judge(RewardHacking, hacked(every=every))
    assert worst(alerts) == "warning"
    assert "reward/facts is down to" in alerts[0].message
    assert "while reward/format has risen to" in alerts[0].message
    assert "reward/format rose to" in alerts[0].causes[0].text
    assert all(advice.source for advice in alerts[0].advice)


@pytest.mark.parametrize("every", [1, 10, 20])
def test_an_evaluation_that_loses_half_while_the_reward_rises_is_critical(every: int) -> None:
    alerts = judge(RewardHacking, overfit(every=every), beta=0.04)
    critical = next(a for a in alerts if a.severity is Severity.CRITICAL)
    assert critical.message.startswith("eval/reward is down to")
    assert "2210.10760" in " ".join(advice.source for advice in critical.advice)


@pytest.mark.parametrize("name", ["length__share_correct", "reward__correctness_func", "eval__val-core/x/acc/mean@1"])
def test_what_is_true_by_its_name_counts_as_that(name: str) -> None:
    records = overfit(eval__reward=lambda t: None, **{name: both(flat(0.6), ramp(0.6, 0.15, 0.5, 0.8), 0.5)})
    assert worst(judge(RewardHacking, records)) == "critical"


def test_few_evaluations_are_never_critical_and_say_so() -> None:
    alerts = judge(RewardHacking, overfit(evaluated=75))
    assert worst(alerts) == "warning"
    assert any("low evidence" in a.message for a in alerts)


@pytest.mark.parametrize(
    "changes",
    [
        {"reward__facts": lambda t: None, "reward__tags": ramp(0.6, 0.3, 0.4, 0.7)},  # a form for a form
        {"reward__format": lambda t: None, "reward__poems": ramp(0.2, 1.0, 0.3, 0.7)},  # one meaning for another
        {"reward__format": lambda t: None, "reward__accuracy": ramp(0.2, 1.0, 0.3, 0.7)},
    ],
)
def test_a_part_that_is_given_up_for_another_is_worth_knowing(changes: dict[str, Any]) -> None:
    assert worst(judge(RewardHacking, hacked(**changes))) == "info"


def test_who_is_paid_nothing_is_no_part_of_the_reward() -> None:
    """TRL writes a function of weight 0 down like any other: what falls there is no trade, what rises no motive."""

    def told(**weights: float) -> str | None:
        return worst(judge(RewardHacking, hacked(), reward_functions=weights))

    assert told(facts=0.5, format=0.5) == "warning"
    assert told(facts=0, format=1) is None
    assert told(seconds=0) == "warning"


def test_what_is_paid_nothing_and_true_by_its_name_still_tells_of_hacking() -> None:
    records = overfit(eval__reward=lambda t: None, reward__accuracy=both(flat(0.6), ramp(0.6, 0.15, 0.5, 0.8), 0.5))
    assert worst(judge(RewardHacking, records, reward_functions={"accuracy": 0.0})) == "critical"


def test_what_rises_and_is_paid_nothing_is_no_motive() -> None:
    records = hacked(reward__mean=lambda t: 0.5)
    assert worst(judge(RewardHacking, records, reward_functions={"facts": 1, "format": 1})) == "warning"
    assert worst(judge(RewardHacking, records, reward_functions={"facts": 1, "format": 0})) is None


def test_a_safe_answer_that_is_given_up_for_a_right_one_is_no_hacking() -> None:
    """What the failure room's healthy runs do: parts of a sum compete, and the sum hardly moves at first."""
    right, safe = ramp(0.05, 0.95, 0.1, 0.6), ramp(0.45, 0.0, 0.1, 0.3)
    records = story(
        reward__accuracy_reward=right, length__share_correct=right, reward__safe_answer_reward=safe,
        reward__mean=lambda t: right(t) + safe(t), reward__std=ramp(0.2, 0.4),
    )  # fmt: skip
    assert worst(judge(RewardHacking, records)) in (None, "info")


def test_what_is_true_and_falls_under_a_reward_that_does_not_rise_is_no_more_than_a_warning() -> None:
    """What its collapsing runs do: the safe answer takes over, for as much as both gave."""
    safe, right = ramp(0.44, 0.49, 0.1, 0.4), ramp(0.06, 0.005, 0.1, 0.4)
    records = story(
        reward__accuracy_reward=right, reward__safe_answer_reward=safe, reward__mean=lambda t: safe(t) + right(t),
        reward__std=ramp(0.17, 0.05), noise=0.01,
    )  # fmt: skip
    assert worst(judge(RewardHacking, records)) == "warning"
    alone = [StepRecord(r.step, r.time, {k: v for k, v in r.metrics.items() if "safe" not in k}) for r in records]
    assert worst(judge(RewardHacking, alone)) is None, "nothing has risen"


def test_an_alert_never_says_that_something_rose_which_did_not() -> None:
    for records in (hacked(), overfit()):
        for finding in filter(None, found(RewardHacking(), records)):
            now, first = finding.message.split("has risen to ")[1].split(" at first")[0].split(", from ")
            assert float(now) > float(first)


@pytest.mark.parametrize("name", ["reward__incorrect_penalty", "reward__answer", "reward__success", "reward__solve"])
def test_what_is_not_true_by_its_name_is_never_critical(name: str) -> None:
    records = overfit(eval__reward=lambda t: None, **{name: both(flat(0.6), ramp(0.6, 0.05, 0.5, 0.8), 0.5)})
    assert worst(judge(RewardHacking, records)) == "info"


HARMLESS: dict[str, dict[str, Any]] = {
    "all rise": {"reward__facts": ramp(0.3, 0.6)},
    "a part at its ceiling": {
        "reward__format": flat(1.0), "reward__facts": ramp(0.2, 0.6), "reward__mean": ramp(1.2, 1.6),
    },
    "a small trade": {"reward__facts": ramp(0.6, 0.52)},
    "a part that hardly counts": {"reward__facts": ramp(0.02, 0.01)},
    "all fall": {"reward__format": ramp(0.8, 0.3), "reward__mean": ramp(1.4, 0.6)},
    "harder prompts": {"reward__format": ramp(0.2, 0.5), "reward__mean": ramp(0.8, 0.5)},
    "correct is at its ceiling": {"reward__facts": lambda t: None, "reward__correct": flat(0.97)},
    "correct does not move": {"reward__facts": lambda t: None, "reward__correct": flat(0.3)},
    "one part, which is the reward": {"reward__format": lambda t: None, "reward__facts": ramp(0.8, 1.35)},
    "spread and not parts": {
        "reward__facts": lambda t: None, "reward__max": ramp(2.0, 0.5), "reward__min": ramp(1.0, 0.1),
        "reward__std": ramp(0.5, 0.1), "eval__loss": ramp(1.0, 0.1), "eval__reward_std": ramp(0.5, 0.1),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("every", [1, 10, 50])
def test_what_is_no_hacking_stays_silent(name: str, every: int) -> None:
    assert worst(judge(RewardHacking, hacked(every=every, **HARMLESS[name]))) is None


def test_noisy_evaluations_are_hardly_ever_warned_of_and_never_critical() -> None:
    """Of 40 prompts at a success rate of one half: off by 0.08 each."""
    said = []
    for seed in range(20):
        draw = random.Random(seed)
        records = overfit(eval__reward=lambda t, draw=draw: 0.5 + draw.gauss(0, 0.08), noise=0.0, evaluated=20)
        said.append(worst(judge(RewardHacking, records)))
    assert "critical" not in said
    assert said.count("warning") <= 2


def test_at_most_sixteen_parts_are_followed_whatever_a_log_has() -> None:
    rule = RewardHacking()
    for step in range(200):
        metrics: dict[str, float | None] = {f"reward/f{i}": 0.5 for i in range(40)}
        metrics |= {f"raw/{step}/{i}": 1.0 for i in range(40)} | {"reward/mean": 0.5}
        rule.update(StepRecord(step, 0.0, metrics))
    state = dump(rule)
    assert sum(1 for name in state if name.startswith("_part")) == 16
    assert len(json.dumps(state)) < 60_000


def test_an_evaluation_that_is_not_done_any_more_drops_out() -> None:
    records = [
        StepRecord(r.step, r.time, {k: v for k, v in r.metrics.items() if k != "eval/reward" or r.step < 460})
        for r in overfit(reward__mean=ramp(0.3, 0.9, 0.0, 1.0))
    ]
    assert [a.state.value for a in judge(RewardHacking, records)][-1] == "resolved"


def test_hacking_is_judged_by_the_numbers_that_it_says() -> None:
    records = hacked()
    findings = found(RewardHacking(), records)
    first = next(i for i, finding in enumerate(findings) if finding)
    facts = [float(r.metrics["reward/facts"]) for r in records[: first + 1]]

    def level(n: int) -> float:
        weights = [0.5 ** ((n - 1 - i) / 10) for i in range(n)]
        return sum(w * x for w, x in zip(weights, facts[:n], strict=True)) / sum(weights)

    best = max(level(n) for n in range(10, len(facts) + 1))
    assert findings[first].value == pytest.approx(level(len(facts)))
    assert findings[first].reference == pytest.approx(best)
    assert level(len(facts)) <= 0.75 * best
    assert level(len(facts) - 2) > 0.75 * best, "two values in a row"


@pytest.mark.parametrize("phi", [0.0, 0.6])
def test_the_error_is_that_of_level_and_start(phi: float) -> None:
    errors, moved = [], []
    for seed in range(300):
        draw, series, level = random.Random(seed), Level(10.0, first=10), 0.0
        for step in range(150):
            level = phi * level + draw.gauss(0, math.sqrt(1 - phi * phi))
            series.update(step, level)
            series.keep()
        errors.append(series.error_of_move)
        moved.append(series.now - series.start)
    assert 0.9 < statistics.mean(errors) / statistics.stdev(moved) < 1.4


def test_a_series_that_falls_or_jumps_is_not_noisy() -> None:
    for fall in (ramp(1.0, 0.2, 0.5, 0.7), lambda t: 1.0 if t < 0.5 else 0.2):
        draw, series = random.Random(0), Peak(10.0, first=10)
        for step in range(200):
            series.follow(step, fall(step / 200) + draw.gauss(0, 0.02))
        assert series.lost > 0.7
        assert series.error < 0.15
        assert not series.is_at_best


def test_a_peak_is_the_best_of_its_levels_and_what_there_is_to_lose_is_that_or_what_was_gained() -> None:
    draw, level, peak = random.Random(2), Level(10.0), Peak(10.0, first=5, gain=0.1)
    values = [-2 + 0.05 * i + draw.gauss(0, 0.1) for i in range(40)] + [-1.0] * 20
    levels, gains = [], []
    for step, value in enumerate(values):
        levels.append(level.update(step, value))
        peak.follow(step, value)
        if step == 4:
            gains.append((levels[-1], step))
        elif step > 4 and max(levels[4:]) == levels[-1]:
            scale = max(levels[-1] - min(levels[4:]), abs(levels[-1]))
            if levels[-1] > gains[-1][0] + 0.1 * scale:
                gains.append((levels[-1], step))
    best = max(levels[4:])
    assert (peak.best, peak.best_step, peak.gain_step) == (best, levels.index(best), gains[-1][1])
    assert peak.start == sorted(values[:5])[2]
    assert peak.scale == pytest.approx(max(best - min(levels[4 : levels.index(best) + 1]), abs(best)))
    assert peak.lost == pytest.approx((best - levels[-1]) / peak.scale)


# --- reward-stall


@pytest.mark.parametrize("every", [1, 10, 50])
def test_no_progress_with_half_of_the_groups_dead_is_a_warning(every: int) -> None:
    [alert] = [a for a in judge(RewardStall, stalled(every=every)) if a.severity is Severity.WARNING]
    assert "gained nothing for" in alert.message
    assert "of the groups are dead and not solved" in alert.causes[0].text
    assert "easier prompts" in alert.advice[0].text


@pytest.mark.parametrize(
    "changes",
    [
        {"groups__failed": flat(0.1), "groups__stuck": ramp(0.05, 0.6, 0.3, 0.5)},
        {"groups__failed": ramp(0.1, 0.8, 0.1, 0.2), "groups__stuck": flat(0.05)},
    ],
)
def test_what_dead_groups_warns_of_is_not_said_twice(changes: dict[str, Any]) -> None:
    records = stalled(rows=600, **changes)
    assert worst(judge(DeadGroups, records)) in ("warning", "critical")
    assert worst(judge(RewardStall, records)) is None
    assert worst(judge(RewardStall, stalled(**changes, signal__active_tokens=ramp(0.8, 0.01, 0.3, 0.4)))) == "warning"


def test_dead_groups_that_a_log_only_bounds_are_told_here() -> None:
    dead = {"groups__stuck": lambda t: None, "groups__zero_std": ramp(0.1, 0.85, 0.3, 0.5), "reward__mean": flat(0.2)}
    records = stalled(**dead)
    assert worst(judge(DeadGroups, records)) is None
    assert "at least" in next(a for a in judge(RewardStall, records) if a.severity is Severity.WARNING).causes[0].text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"signal__active_tokens": ramp(0.8, 0.01, 0.3, 0.4)}, "of the tokens move the policy"),
        ({"grad__effective_norm": ramp(0.5, 0.01, 0.3, 0.4)}, "gradient from the rewards is down"),
        ({"grad__effective_estimate": ramp(0.5, 0.01, 0.3, 0.4)}, "gradient from the rewards is down"),
    ],
)
def test_no_progress_without_a_signal_is_a_warning(changes: dict[str, Any], words: str) -> None:
    records = stalled(groups__failed=flat(0.1), **changes)
    alert = next(a for a in judge(RewardStall, records) if a.severity is Severity.WARNING)
    assert words in alert.causes[0].text
    assert "requires_grad" in alert.advice[0].text


def test_a_plateau_is_worth_knowing_after_long_and_says_if_the_learning_rate_is_gone() -> None:
    alerts = judge(
        RewardStall, stalled(groups__failed=flat(0.1), lr=ramp(1e-6, 1e-9, 0.1, 0.2), reward__mean=flat(0.5))
    )
    assert worst(alerts) == "info"
    assert alerts[0].step >= 200
    assert "learning rate is down" in alerts[0].causes[0].text


SOLID: dict[str, dict[str, Any]] = {
    "it gains": {"reward__mean": ramp(0.2, 0.9, 0.0, 1.0), "groups__failed": flat(0.65)},
    "solved": {"groups__solved": ramp(0.05, 0.6, 0.3, 0.5), "groups__failed": flat(0.1)},
    "nothing better to earn": {
        "reward__mean": flat(0.96), "reward__std": flat(0.2), "groups__stuck": lambda t: None,
        "groups__zero_std": flat(0.8), "signal__active_tokens": ramp(0.3, 0.01, 0.3, 0.4), "noise": 0.0,
    },
    "hard prompts from the first row on, and slow gains": {
        "groups__failed": flat(0.6), "groups__stuck": flat(0.0), "reward__mean": ramp(0.1, 0.3, 0.0, 1.0),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SOLID)
@pytest.mark.parametrize("every", [1, 10, 50])
def test_what_is_no_stall_stays_silent(name: str, every: int) -> None:
    assert worst(judge(RewardStall, stalled(every=every, rows=600 // every, **SOLID[name]))) is None


def test_a_stall_is_judged_by_the_numbers_that_it_says() -> None:
    records = stalled(every=5)
    rule = RewardStall()
    findings = found(rule, records)
    index = next(i for i, finding in enumerate(findings) if finding and finding.severity is Severity.WARNING)
    finding, step = findings[index], records[index].step
    rewards = [float(r.metrics["reward/mean"]) for r in records[: index + 1]]
    weights = [0.5 ** (5 * (index - i) / 20) for i in range(index + 1)]
    assert finding.value == pytest.approx(sum(w * x for w, x in zip(weights, rewards, strict=True)) / sum(weights))
    still = int(finding.message.split("for ")[1].split(" ")[0])
    assert still >= 50
    assert f"at step {step - still}" in finding.message
    dead = [float(r.metrics["groups/failed"]) + float(r.metrics["groups/stuck"]) for r in records[: index + 1]]
    level = sum(w * x for w, x in zip(weights, dead, strict=True)) / sum(weights)
    assert finding.causes[0].evidence["groups dead and not solved"] == pytest.approx(level)
    assert level >= 0.5


def test_a_stall_is_a_symptom_of_what_explains_it() -> None:
    assert {"non-finite", "dead-groups", "no-gradient", "entropy-collapse", "reward-collapse", "truncation",
            "group-size-one", "regulariser-dominates"} == set(RewardStall.symptom_of)  # fmt: skip


# --- both


FAILING = ((RewardHacking, overfit), (RewardHacking, hacked), (RewardStall, stalled))


@pytest.mark.parametrize(("rule", "make"), FAILING)
def test_what_is_missing_or_not_finite_says_nothing(rule: type[Rule], make: Any) -> None:
    lacks = [StepRecord(r.step, r.time, {k: v for k, v in r.metrics.items() if k != "reward/mean"}) for r in make()]
    assert {rule().update(r) for r in lacks} == {NO_DATA}
    for bad in (math.nan, math.inf, -math.inf, None, 1e300):
        records = [StepRecord(r.step, r.time, dict.fromkeys(r.metrics, bad)) for r in make()]
        assert {rule().update(r) for r in records} == {NO_DATA}


@pytest.mark.parametrize(("rule", "make"), FAILING)
def test_what_stops_leaves_an_alert_open_and_holes_do_not_hide_a_failure(rule: type[Rule], make: Any) -> None:
    records = make()
    stops = [r if r.step < 450 else StepRecord(r.step, r.time, {"loss": 0.0}) for r in records]
    states = [a.state for a in judge(rule, stops)]
    assert AlertState.FIRING in states
    assert AlertState.RESOLVED not in states
    holes = [StepRecord(r.step, r.time, dict.fromkeys(r.metrics, math.nan)) if r.step % 3 == 0 else r for r in records]
    assert worst(judge(rule, holes)) in ("warning", "critical")


@pytest.mark.parametrize(
    ("rule", "records"),
    [
        (RewardStall, stalled(
            rows=1200, groups__failed=lambda t: 0.65 if 0.2 < t < 0.4 or 0.6 < t < 0.8 else 0.05,
            reward__mean=ramp(0.3, 0.6, 0.4, 0.6),
        )),
        (RewardHacking, hacked(
            rows=1200, reward__facts=lambda t: 0.3 if 0.2 < t < 0.4 or 0.6 < t < 0.8 else 0.6,
            reward__format=lambda t: 0.2 + t, reward__mean=lambda t: 0.8 + t,
        )),
    ],
)  # fmt: skip
def test_it_is_over_when_it_is_over_and_may_come_again(rule: type[Rule], records: list[StepRecord]) -> None:
    states = [a.state.value for a in judge(rule, records) if a.severity is Severity.WARNING]
    assert states[:3] == ["firing", "resolved", "firing"]


@pytest.mark.parametrize(("rule", "make"), FAILING)
@pytest.mark.parametrize("cut", [5, 170, 400])
def test_a_rule_goes_on_from_its_saved_state(rule: type[Rule], make: Any, cut: int) -> None:
    records = make()
    first = rule()
    expected = found(rule(), records)
    found(first, records[:cut])
    second = rule()
    restore(second, json.loads(json.dumps(dump(first))))
    assert found(second, records[cut:]) == expected[cut:]
    assert any(expected)


@pytest.mark.parametrize("rule", [RewardHacking, RewardStall, RewardCollapse, GroupSizeOne])
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


def stuck() -> list[StepRecord]:
    return stalled(groups__failed=flat(0.1), groups__stuck=ramp(0.1, 0.6, 0.3, 0.5))


def silent(**changes: Any) -> list[StepRecord]:
    return stalled(groups__failed=flat(0.1), **changes)


@pytest.mark.parametrize(
    ("rule", "make", "settings", "expected"),
    [
        (RewardHacking, hacked, {"lost": 0.9}, None),
        (RewardHacking, hacked, {"noise": 1e9}, None),
        (RewardHacking, hacked, {"matters": 2.0}, None),
        (RewardHacking, hacked, {"unsure": 1e9}, None),
        (RewardHacking, hacked, {"gain": 1.0}, None),
        (RewardHacking, overfit, {"evaluations": 1000}, None),
        (RewardHacking, hacked, {"rows": 1000}, None),
        (RewardHacking, overfit, {"lost_critical": 0.95}, "warning"),
        (RewardHacking, overfit, {"few": 1000}, "warning"),
        (RewardStall, stalled, {"dead": 0.9}, "info"),
        (RewardStall, stalled, {"dead_risen": 0.9}, "info"),
        (RewardStall, lambda: stalled(groups__failed=ramp(0.1, 0.65, 0.05, 0.15)), {"told_dead": 0.6}, None),
        (RewardStall, lambda: stuck(), {"told_stuck": 0.9}, "warning"),
        (RewardStall, stalled, {"long": 1e6, "very_long": 1e6}, None),
        (RewardStall, lambda: stalled(groups__solved=flat(0.3)), {"solved": 0.2}, None),
        (RewardStall, lambda: silent(signal__active_tokens=flat(0.02)), {"active": 0.01}, "info"),
        (RewardStall, lambda: silent(grad__effective_norm=ramp(1, 0.03)), {"gradient": 0.01}, "info"),
        (RewardCollapse, lambda: story(reward__mean=ramp(0.9, 0.3)), {"lost": 0.9, "gone": 0.0}, "warning"),
        (RewardCollapse, lambda: story(reward__mean=ramp(0.9, 0.55)), {"slipping": 0.45}, None),
        (RewardCollapse, lambda: story(reward__mean=ramp(0.9, 0.3)), {"noise": 1e9}, None),
        (GroupSizeOne, lambda: story(reward__mean=flat(0.5), advantage__mean=flat(0.5)), {"same": 0.0}, None),
    ],
)  # fmt: skip
def test_a_setting_changes_what_it_says_it_changes(rule: Any, make: Any, settings: Any, expected: str | None) -> None:
    assert worst(judge(rule, make())) != expected
    assert worst(judge(rule, make(), settings)) == expected


@pytest.mark.parametrize("rule", [RewardHacking, RewardStall])
def test_nothing_makes_a_rule_raise(rule: type[Rule]) -> None:
    names = [
        "reward/mean", "reward/std", "reward/correct", "reward/format", "eval/reward", "lr", "length/share_correct",
        "kl/ref", "groups/solved", "groups/failed", "groups/stuck", "groups/zero_std", "signal/active_tokens",
        "grad/effective_norm",
    ]  # fmt: skip
    draw = random.Random(1)
    whole = rule({"beta": 0.1})
    for step in range(3000):
        values = [0.0, 1.0, -3.0, 1e-12, 1e99, -1e99, math.nan, math.inf, None, 0.5]
        metrics = {name: draw.choice(values) for name in names if draw.random() < 0.8}
        said = whole.update(StepRecord(step, 0.0, metrics))
        if isinstance(said, Untold):
            finding = said.tell()
            assert "\n" not in finding.message
            assert not finding.message.endswith(".")
        else:
            assert isinstance(said, Quiet)
