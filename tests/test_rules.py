"""Each rule on runs whose story is known: what it must say, and what it must not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

import pytest

from rlwatch.detect.engine import Engine
from rlwatch.detect.progress import PATIENCE, Progress
from rlwatch.detect.rules import RULES, default_rules
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord

STEPS = 400


def story(
    *,
    every: int = 1,
    steps: int = STEPS,
    seed: int = 0,
    **curves: Callable[[float], float | None],
) -> list[StepRecord]:
    """Records of metrics that follow curves of the share of the run that is over, 0 to 1.

    A name's double underscore is a slash: `reward__mean`.
    """
    records = []
    for step in range(every, steps + 1, every):
        metrics = {name.replace("__", "/"): curve(step / steps) for name, curve in curves.items()}
        records.append(StepRecord(step, float(step), metrics))
    return records


def noisy(curve: Callable[[float], float], amount: float, seed: int) -> Callable[[float], float]:
    generator = random.Random(seed)
    return lambda t: curve(t) + generator.gauss(0, amount)


def ramp(start: float, end: float, begin: float = 0.2, over: float = 0.6) -> Callable[[float], float]:
    """From one level to another between two shares of the run."""
    return lambda t: start + (end - start) * min(1.0, max(0.0, (t - begin) / (over - begin)))


def judge(records: Iterable[StepRecord], **config: object) -> list[Alert]:
    engine = Engine(default_rules(config), run="run")
    return [change for record in records for change in engine.feed(record)]


def told(alerts: Iterable[Alert], *, at_least: Severity = Severity.WARNING) -> set[tuple[str, str]]:
    return {
        (a.rule, a.severity.value) for a in alerts if a.state is AlertState.FIRING and a.severity.rank >= at_least.rank
    }


def collapsing(**changes: object) -> list[StepRecord]:
    """Entropy falls, groups get stuck, the reward stays where it was, the loss looks fine."""
    curves: dict[str, object] = {
        "entropy__mean": noisy(ramp(1.0, 0.05), 0.02, 1),
        "groups__solved": lambda t: 0.0,
        "groups__failed": lambda t: 0.0,
        "groups__stuck": ramp(0.1, 0.95),
        "reward__mean": noisy(lambda t: 0.5, 0.02, 2),
        "reward__std": ramp(0.25, 0.02),
        "loss": noisy(lambda t: 0.0, 0.003, 3),
        **changes,
    }
    return story(**curves)  # type: ignore[arg-type]


def learning(**changes: object) -> list[StepRecord]:
    """Entropy falls as far, because the task is being solved."""
    curves: dict[str, object] = {
        "entropy__mean": noisy(ramp(1.0, 0.05), 0.01, 1),
        "groups__solved": ramp(0.0, 0.95),
        "groups__failed": ramp(0.3, 0.0),
        "groups__stuck": lambda t: 0.05,
        "reward__mean": noisy(ramp(0.3, 0.97), 0.03, 2),
        "reward__std": ramp(0.45, 0.1),
        "loss": noisy(lambda t: 0.0, 0.003, 3),
        **changes,
    }
    return story(**curves)  # type: ignore[arg-type]


def test_a_collapse_is_critical_by_both_rules_before_the_last_third() -> None:
    alerts = judge(collapsing(), num_iterations=8, epsilon_high=0.05)
    assert {("dead-groups", "critical"), ("entropy-collapse", "critical")} <= told(alerts)
    first = min(a.step for a in alerts if a.severity is Severity.CRITICAL)
    assert first <= STEPS * 2 / 3
    assert not {rule for rule, _ in told(alerts)} - {"dead-groups", "entropy-collapse"}


def test_sharpening_while_the_task_is_solved_is_no_failure() -> None:
    assert told(judge(learning())) == set()
    assert ("dead-groups", "info") in told(judge(learning()), at_least=Severity.INFO), "it is done, and that is said"


def test_rows_every_tenth_step_come_to_the_same_verdicts() -> None:
    sparse, dense = judge(collapsing(every=10)), judge(collapsing())
    assert told(sparse, at_least=Severity.CRITICAL) == told(dense, at_least=Severity.CRITICAL)
    assert told(judge(learning(every=10))) == set()


def test_an_alert_says_what_since_when_why_and_what_to_try() -> None:
    alerts = judge(collapsing(), num_iterations=8, epsilon_high=0.05)
    alert = next(a for a in alerts if a.rule == "dead-groups" and a.severity is Severity.CRITICAL)
    assert "of the groups are dead and not solved (stuck" in alert.message
    assert "\n" not in alert.message
    assert not alert.message.endswith(".")
    assert alert.since < alert.step
    assert alert.value is not None
    assert alert.value >= 0.75
    assert alert.reference == pytest.approx(0.1, abs=0.01)
    assert any("8 updates a rollout under epsilon_high=0.05" in cause.text for cause in alert.causes)
    assert alert.advice
    assert all(advice.source for advice in alert.advice)


def test_failed_groups_are_worth_knowing_and_not_a_failure_while_the_run_learns() -> None:
    hard = learning(
        groups__solved=ramp(0.0, 0.15), groups__failed=ramp(0.85, 0.55), groups__stuck=lambda t: 0.0,
        reward__mean=noisy(ramp(0.05, 0.3), 0.02, 2), entropy__mean=lambda t: 1.0,
    )  # fmt: skip
    assert ("dead-groups", "critical") not in told(judge(hard))


def test_a_run_that_is_dead_from_its_start_is_critical_soon() -> None:
    dead = story(
        groups__solved=lambda t: 0.0, groups__failed=lambda t: 1.0, groups__stuck=lambda t: 0.0,
        reward__mean=lambda t: 0.0, reward__std=lambda t: 0.0,
    )  # fmt: skip
    critical = [a for a in judge(dead) if a.severity is Severity.CRITICAL]
    assert [a.rule for a in critical] == ["dead-groups"]
    assert critical[0].step <= PATIENCE + 25


def test_stuck_groups_that_come_loose_again_are_over() -> None:
    records = collapsing(groups__stuck=lambda t: 0.5 if 0.2 < t < 0.5 else 0.05, entropy__mean=lambda t: 1.0)
    states = [(a.state, a.severity) for a in judge(records) if a.rule == "dead-groups"]
    assert states == [(AlertState.FIRING, Severity.WARNING), (AlertState.RESOLVED, Severity.WARNING)]


def test_entropy_alone_is_at_most_worth_knowing() -> None:
    """Without the groups nobody can tell a collapse from a plateau."""
    records = story(entropy__mean=ramp(1.0, 0.05), reward__mean=noisy(lambda t: 0.9, 0.01, 1))
    assert told(judge(records)) == set()
    plateau = {("entropy-collapse", "info"), ("reward-stall", "info")}
    assert told(judge(records), at_least=Severity.INFO) == plateau, "it may be done, and nobody can tell"


def test_entropy_that_falls_with_the_reward_is_a_warning() -> None:
    records = story(entropy__mean=ramp(1.0, 0.05), reward__mean=noisy(ramp(0.9, 0.65), 0.01, 1))
    assert told(judge(records)) == {("entropy-collapse", "warning")}


def test_entropy_that_rises_is_not_this_rules_business() -> None:
    records = story(entropy__mean=ramp(1.0, 3.0), reward__mean=lambda t: 0.5)
    assert "entropy-collapse" not in {rule for rule, _ in told(judge(records), at_least=Severity.INFO)}


def test_a_reward_that_is_lost_is_critical_when_half_is_gone() -> None:
    alerts = judge(story(reward__mean=noisy(ramp(0.9, 0.0, 0.5, 0.55), 0.05, 1)))
    critical = [a for a in alerts if a.severity is Severity.CRITICAL]
    assert [a.rule for a in critical] == ["reward-collapse"]
    assert STEPS * 0.5 < critical[0].step < STEPS * 0.62
    assert critical[0].reference == pytest.approx(0.9, abs=0.05)


def test_a_cause_of_a_lost_reward_is_what_entropy_did() -> None:
    for end, words in ((5.0, "came apart"), (0.1, "narrowed"), (1.0, "moved rather than broke")):
        records = story(reward__mean=ramp(0.9, 0.0, 0.5, 0.6), entropy__mean=ramp(1.0, end, 0.5, 0.51))
        alert = next(a for a in judge(records) if a.rule == "reward-collapse" and a.severity is Severity.CRITICAL)
        assert words in alert.causes[0].text


@pytest.mark.parametrize("seed", range(20))
def test_a_noisy_plateau_never_alarms(seed: int) -> None:
    """Batches of 8 completions at a success rate of 0.5: the mean of each is off by 0.18."""
    plateau = story(reward__mean=noisy(lambda t: 0.5, 0.18, seed), entropy__mean=lambda t: 1.0)
    assert told(judge(plateau)) == set()


def test_negative_rewards_fall_by_what_they_had_gained() -> None:
    lost = story(reward__mean=lambda t: ramp(-5.0, -1.0, 0.1, 0.4)(t) if t < 0.6 else -4.5)
    assert ("reward-collapse", "critical") in told(judge(lost))
    held = story(reward__mean=ramp(-5.0, -1.0, 0.1, 0.4))
    assert told(judge(held)) == set()


def test_a_nan_loss_is_critical_at_once() -> None:
    records = story(loss=lambda t: math.nan if t > 0.5 else 0.1, steps=100)
    [alert] = judge(records)
    assert (alert.rule, alert.severity, alert.step, alert.since) == ("non-finite", Severity.CRITICAL, 51, 51)
    assert alert.message == "loss is nan"


def test_one_infinite_gradient_norm_is_a_warning_and_is_over() -> None:
    records = story(grad__norm=lambda t: math.inf if t == 0.5 else 1.0, loss=lambda t: 0.1, steps=100)
    states = [(a.state.value, a.severity.value, a.step) for a in judge(records)]
    assert states == [("firing", "warning", 50), ("resolved", "warning", 53)]


def test_three_infinite_gradient_norms_in_a_row_are_critical() -> None:
    records = story(grad__norm=lambda t: math.inf if 0.5 <= t < 0.53 else 1.0, loss=lambda t: 0.1, steps=100)
    assert ("non-finite", "critical") in told(judge(records))


def test_none_is_not_nan() -> None:
    assert judge(story(kl__ref=lambda t: None, loss=lambda t: 0.1, steps=100)) == []


def test_a_metric_that_stops_being_logged_silences_its_rule_and_no_more() -> None:
    records = collapsing()
    half = [r if r.step < 100 else StepRecord(r.step, r.time, {"loss": 0.0}) for r in records]
    assert told(judge(half)) == set()
    assert judge([StepRecord(step, 0.0, {}) for step in range(1, 300)]) == []


def test_no_rule_chokes_on_values_that_are_not_finite_or_not_there() -> None:
    names = ["entropy/mean", "groups/solved", "groups/failed", "groups/stuck", "reward/mean", "reward/std", "loss"]
    generator = random.Random(0)
    engine = Engine(default_rules(), run="run")
    for step in range(1, 2000):
        metrics = {
            name: generator.choice([0.0, 1.0, 0.5, -3.0, 1e300, math.nan, math.inf, -math.inf, None])
            for name in names
            if generator.random() < 0.8
        }
        engine.feed(StepRecord(step, 0.0, metrics))


def test_memory_does_not_grow_with_the_run() -> None:
    import pickle

    engine = Engine(default_rules(), run="run")
    sizes = []
    for step, record in enumerate(collapsing(steps=4000), 1):
        engine.feed(record)
        if step in (3400, 4000):  # every alert has fired by then
            sizes.append(len(pickle.dumps(engine)))
    assert sizes[1] <= sizes[0] * 1.02


def test_rules_have_names_of_their_own_and_say_what_they_do() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.__doc__ for rule in RULES)


def test_progress_is_a_gain_against_the_rewards_spread() -> None:
    flat, rising = Progress(), Progress()
    for step in range(1, 201):
        flat.update(StepRecord(step, 0.0, {"reward/mean": 0.5, "reward/std": 0.3}))
        rising.update(StepRecord(step, 0.0, {"reward/mean": 0.5 + step / 1000, "reward/std": 0.3}))
    assert flat.stalled(200)
    assert not rising.stalled(200)
    assert not Progress().stalled(10_000), "without a reward there is nothing to stall"


# Logs that do not tell solved, failed and stuck groups apart.


@pytest.mark.parametrize("signal", [{"groups__zero_std": 1.0}, {"groups__reward_std": 0.0}])
def test_a_run_that_is_dead_from_its_first_step_is_critical_as_soon_as_that_has_held(signal: dict[str, float]) -> None:
    curves = {name: (lambda t, value=value: value) for name, value in signal.items()}
    alerts = judge(story(steps=50, reward__mean=lambda t: 0.0, length__truncated=lambda t: 1.0, **curves))
    [alert] = [a for a in alerts if a.severity is Severity.CRITICAL]
    assert (alert.rule, alert.since, alert.step) == ("truncation", 1, 20), "the cause, and not what follows from it"
    alerts = judge(story(steps=50, reward__mean=lambda t: 0.0, **curves))
    [alert] = [a for a in alerts if a.severity is Severity.CRITICAL]
    assert (alert.rule, alert.since, alert.step) == ("dead-groups", 1, 20)
    assert alert.message.startswith("in every group all completions earn the same, and the reward is 0")


@pytest.mark.parametrize(
    "reward",
    [
        lambda t: 1.0,  # solved from the beginning
        lambda t: min(1.0, 3 * t),  # solved on the way
        lambda t: min(0.0, 3 * t - 1),  # the same where the best reward is 0
    ],
)
def test_all_groups_dead_at_the_best_reward_is_no_failure(reward: Callable[[float], float]) -> None:
    dead = story(reward__mean=reward, groups__zero_std=lambda t: 1.0 if reward(t) == reward(1.0) else 0.3)
    assert told(judge(dead)) == set()


def test_a_share_of_dead_groups_that_may_be_solved_ones_is_no_alarm() -> None:
    assert told(judge(story(reward__mean=lambda t: 0.3, groups__zero_std=lambda t: 0.9))) == set()


def test_a_batch_that_now_and_then_has_no_spread_is_no_alarm() -> None:
    """Groups of two: half of the steps have a within-group deviation of exactly 0."""
    coin = random.Random(0)
    alerts = judge(story(reward__mean=lambda t: 0.4, groups__reward_std=lambda t: coin.choice([0.0, 0.35])))
    assert told(alerts) == set()


# A reward that is gone at once.


def rewards(*values: float, every: int = 5) -> list[StepRecord]:
    return [StepRecord(every * (i + 1), 0.0, {"reward/mean": value}) for i, value in enumerate(values)]


def test_a_reward_that_is_gone_is_told_at_the_second_row_that_shows_it() -> None:
    alerts = judge(rewards(0.9, 0.8, 0.95, 0.17, 0.03, 0.0, 0.02))
    [alert] = [a for a in alerts if a.severity is Severity.CRITICAL]
    assert (alert.rule, alert.since, alert.step) == ("reward-collapse", 20, 25)
    assert alert.message.startswith("the reward is down to 0.03, from 0.8")


def test_two_bad_rows_that_are_not_the_end_are_no_alarm() -> None:
    assert told(judge(rewards(0.85, 0.9, 0.17, 0.33, 0.97, 0.8, 0.85, 0.9, 0.88)), at_least=Severity.CRITICAL) == set()


def test_small_batches_that_earn_nothing_now_and_then_are_no_alarm() -> None:
    """Groups of two, a prompt a step: the reward of a step is 0, a half or 1."""
    coin = random.Random(1)
    values = [coin.choice([0.0, 0.5, 1.0]) for _ in range(400)]
    assert told(judge(rewards(*values, every=1)), at_least=Severity.CRITICAL) == set()


# A part of the reward that takes something off.


def test_all_groups_dead_at_one_reward_that_loses_somewhere_is_a_failure() -> None:
    parts = {"reward__form": lambda t: 2.0, "reward__rewrite": lambda t: -1.0}
    dead = story(steps=50, reward__mean=lambda t: 1.0, groups__zero_std=lambda t: 1.0, **parts)
    assert ("dead-groups", "critical") in told(judge(dead))


# truncation, no-gradient, sampler-mismatch, group-size-one.


def test_everything_cut_off_and_never_a_reward_is_critical() -> None:
    dead = story(steps=60, length__truncated=lambda t: 1.0, reward__mean=lambda t: 0.0)
    assert told(judge(dead)) == {("truncation", "critical")}


def test_everything_cut_off_in_a_log_without_rewards_is_info() -> None:
    cut = judge(story(steps=60, length__truncated=lambda t: 1.0))
    assert told(cut, at_least=Severity.INFO) == {("truncation", "info")}


def test_everything_cut_off_in_a_run_that_learns_is_info() -> None:
    learns = story(length__truncated=lambda t: 1.0, reward__mean=noisy(ramp(0.2, 0.9), 0.02, 1))
    assert told(judge(learns), at_least=Severity.INFO) == {("truncation", "info")}


def test_no_gradient_although_groups_differ_is_critical() -> None:
    curves = {"grad__norm": lambda t: 0.0, "groups__zero_std": lambda t: 0.5, "reward__mean": lambda t: 0.4}
    [alert] = [a for a in judge(story(steps=60, **curves)) if a.rule == "no-gradient"]
    assert (alert.severity, alert.since, alert.step) == (Severity.CRITICAL, 1, 10)


def test_no_gradient_where_all_groups_are_dead_is_another_rules_matter() -> None:
    curves = {"grad__norm": lambda t: 0.0, "groups__zero_std": lambda t: 1.0, "reward__mean": lambda t: 0.4}
    assert "no-gradient" not in {a.rule for a in judge(story(**curves))}


def test_a_gradient_of_the_last_of_five_steps_shows_nothing_unless_the_policy_has_not_moved_either() -> None:
    curves = {"grad__norm": lambda t: 0.0, "groups__zero_std": lambda t: 0.6, "reward__mean": lambda t: 0.4}
    assert told(judge(story(every=5, **curves))) == set()
    assert told(judge(story(every=5, kl__ref=lambda t: 0.01, **curves))) == set()
    assert ("no-gradient", "critical") in told(judge(story(every=5, kl__ref=lambda t: 0.0, **curves)))


@pytest.mark.parametrize(
    ("ratio", "severity"),
    [(1.0, None), (0.8, None), (1.6, None), (0.4, "warning"), (2.5, "warning"), (0.06, "critical"), (8.0, "critical")],
)
def test_the_weight_that_corrects_for_the_sampler_should_be_one(ratio: float, severity: str | None) -> None:
    alerts = told(judge(story(steps=60, sampler__ratio_mean=noisy(lambda t: ratio, 0.02 * ratio, 3))))
    assert alerts == ({("sampler-mismatch", severity)} if severity else set())


def test_an_advantage_that_is_the_reward_is_critical() -> None:
    score = noisy(ramp(-0.5, 0.3), 0.05, 4)
    rows = story(reward__mean=score)
    same = [StepRecord(r.step, r.time, {**r.metrics, "advantage/mean": r.metrics["reward/mean"]}) for r in rows]
    [alert] = [a for a in judge(same) if a.rule == "group-size-one"]
    assert (alert.severity, alert.since, alert.step) == (Severity.CRITICAL, 1, 10)


def test_an_advantage_around_nothing_is_none() -> None:
    curves = {"reward__mean": noisy(ramp(-0.5, 0.3), 0.05, 4), "advantage__mean": noisy(lambda t: 0.0, 0.02, 5)}
    assert "group-size-one" not in {a.rule for a in judge(story(**curves))}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_what_it_needs_and_where_its_numbers_come_from(rule: type) -> None:
    assert rule.__doc__
    assert rule.name
    records = story(steps=60, **{name.replace("/", "__"): (lambda t: math.nan) for name in rule.needs})
    assert not [a for a in judge(records) if a.rule == rule.name and a.rule != "non-finite"], "NaN says nothing to it"


def test_negative_rewards_that_only_scatter_are_no_collapse() -> None:
    """Any new low is below everything that was gained; the floor is what was lowest before the best."""
    for seed in range(20):
        generator, level, values = random.Random(seed), 0.0, []
        for _ in range(120):
            level = 0.7 * level + generator.gauss(0, 0.05)
            values.append(-0.5 + level)
        records = [StepRecord(5 * (i + 1), 0.0, {"reward/mean": v, "reward/std": 0.3}) for i, v in enumerate(values)]
        assert told(judge(records), at_least=Severity.CRITICAL) == set(), seed


def test_a_gradient_that_goes_to_nothing_is_seen_though_the_kl_is_not_zero() -> None:
    """Every step has its own gradient; only a row that stands for several needs the KL as a witness."""
    norm = lambda t: 0.5 if t < 0.5 else 0.0  # noqa: E731
    alerts = judge(
        story(grad__norm=norm, groups__zero_std=lambda t: 0.5, reward__mean=lambda t: 0.4, kl__ref=lambda t: 0.01)
    )
    [alert] = [a for a in alerts if a.rule == "no-gradient"]
    assert STEPS // 2 <= alert.since <= alert.step <= STEPS // 2 + 25


def test_all_groups_failed_is_critical_as_early_in_a_rich_log_as_in_a_poor_one() -> None:
    kinds = {"groups__solved": lambda t: 0.0, "groups__failed": lambda t: 1.0, "groups__stuck": lambda t: 0.0}
    [alert] = [
        a for a in judge(story(steps=60, reward__mean=lambda t: 0.0, **kinds)) if a.severity is Severity.CRITICAL
    ]
    assert (alert.rule, alert.step) == ("dead-groups", 20)


def test_a_policy_that_was_already_coming_apart_at_its_best_reward_came_apart() -> None:
    records = story(
        every=5,
        entropy__mean=ramp(0.2, 1.5, 0.1, 0.9),
        reward__mean=lambda t: 0.9 - 0.02 * abs(t - 0.3) if t < 0.6 else max(0.0, 0.9 - 3 * (t - 0.6)),
    )
    alert = next(a for a in judge(records) if a.rule == "reward-collapse" and a.severity is Severity.CRITICAL)
    assert "the policy came apart" in alert.causes[0].text
