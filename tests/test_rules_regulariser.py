"""regulariser-dominates and kl-runaway: what they say, what they leave unsaid, and the numbers they judge by."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from rlwatch.detect.config import number_of, updates_of
from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import NO_DATA, Quiet, Rule, Untold
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.kl_runaway import KLRunaway
from rlwatch.detect.rules.no_gradient import NoGradient
from rlwatch.detect.rules.regulariser_dominates import RegulariserDominates
from rlwatch.detect.setting import settings_of
from rlwatch.detect.state import dump, restore
from rlwatch.detect.unbroken import Unbroken
from rlwatch.detect.undivided import Undivided, dead_share
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord

Row = Callable[[int], Mapping[str, float | None]]


def rows(row: Row, *, steps: int = 400, every: int = 1) -> list[StepRecord]:
    return [StepRecord(step, float(step), dict(row(step))) for step in range(every, steps + 1, every)]


def play(rule: Rule, records: Sequence[StepRecord]) -> list[Alert]:
    def fault(name: str, error: Exception) -> None:
        raise error

    engine = Engine([rule], run="run", on_fault=fault)
    return [change for record in records for change in engine.feed(record)]


def told(rule: Rule, records: Sequence[StepRecord]) -> list[tuple[str, str]]:
    return [(a.state.value, a.severity.value) for a in play(rule, records)]


def severities(rule: Rule, records: Sequence[StepRecord]) -> set[str]:
    return {severity for state, severity in told(rule, records) if state == "firing"}


def test_a_norm_below_0_is_none_and_breaks_nothing() -> None:
    records = rows(lambda step: {"grad/policy_norm": 0.3, "grad/regulariser_norm": -0.3, "groups/zero_std": 0.1})
    assert play(RegulariserDominates(), records) == []


# --- regulariser-dominates -------------------------------------------------------------------------------------------

ONSET = 150


def blind(
    *, seed: int = 0, split: int = 20, onset: int = ONSET, end: int = 10**9, part: float = 0.0,
    regulariser: float = 0.3, kind: str = "failed",
) -> Row:  # fmt: skip
    """rlwatch's own rows of a run whose verifier says one and the same from `onset` to `end`."""
    noise = random.Random(seed)

    def row(step: int) -> dict[str, float | None]:
        dead = onset <= step < end
        policy = (part if dead else 1.0) * math.exp(0.3 * noise.gauss(0, 1))
        other = regulariser if dead else 0.1
        kl = 0.1 * math.exp(-max(0, step - onset) / 100 + 0.1 * noise.gauss(0, 1))
        metrics: dict[str, float | None] = {
            "grad/norm": math.hypot(policy, other),
            "grad/clip_coef": 0.5,
            "kl/ref": kl,
            "groups/zero_std": 1.0 if dead else 0.3,
            "groups/solved": 1.0 if dead and kind == "solved" else 0.0 if dead else 0.2,
            "groups/failed": 1.0 if dead and kind == "failed" else 0.0 if dead else 0.1,
            "groups/stuck": 1.0 if dead and kind == "stuck" else 0.0,
            "reward/mean": {"solved": 1.0, "failed": 0.0, "stuck": 0.5}[kind] if dead else 0.6,
            "reward/std": 0.0 if dead else 0.4,
            "rollouts/age": 0.0,
        }
        if step % split == 0:
            metrics |= {"grad/policy_norm": policy, "grad/regulariser_norm": other}
        else:
            metrics["grad/effective_estimate"] = 0.5 * policy
        return metrics

    return row


def unsplit(row: Row, *names: str) -> Row:
    """The same as a framework logs it: without the parts of the gradient, and without these."""
    gone = (
        "grad/policy_norm", "grad/regulariser_norm", "grad/effective_estimate", "grad/clip_coef", "rollouts/age",
        "groups/solved", "groups/failed", "groups/stuck", *names,
    )  # fmt: skip
    return lambda step: {name: value for name, value in row(step).items() if name not in gone}


@pytest.mark.parametrize("kind", ["failed", "stuck"])
@pytest.mark.parametrize(("every", "due"), [(1, 25), (10, 110), (50, 750)])
def test_a_gradient_that_is_the_regularisers_alone_is_critical(kind: str, every: int, due: int) -> None:
    records = rows(blind(kind=kind, onset=1001), steps=2000, every=every)
    alert = play(RegulariserDominates({"beta": 0.1}), records)[-1]
    assert alert.severity is Severity.CRITICAL
    assert 1001 <= alert.since <= alert.step <= 1001 + due
    assert alert.message.startswith("0% of the gradient comes from the rewards, from 9")
    assert not alert.message.endswith(".")
    assert "100% of the groups are dead" in alert.causes[0].text
    assert f"{kind} 100%" in alert.causes[0].text
    assert alert.causes[1].text == "the KL penalty (beta=0.1) pulls the policy to its reference"
    assert alert.advice[0].source == "2604.06268"


def test_a_solved_run_that_is_only_regularised_is_worth_knowing() -> None:
    assert severities(RegulariserDominates(), rows(blind(kind="solved"))) == {"info"}


def test_a_small_share_that_has_fallen_is_a_warning_and_one_from_the_first_is_a_choice() -> None:
    fallen = rows(blind(part=0.02, kind="stuck"))
    assert severities(RegulariserDominates(), fallen) == {"warning"}
    chosen = rows(blind(part=0.02, onset=1, kind="stuck"))
    assert severities(RegulariserDominates(), chosen) == {"info"}


@pytest.mark.parametrize("share", [0.2, 0.3, 0.4, 0.5, 0.7])
@pytest.mark.parametrize("every", [1, 10, 50])
def test_a_regulariser_that_is_a_good_part_of_the_gradient_is_healthy(share: float, every: int) -> None:
    noise = random.Random(3)

    def row(step: int) -> dict[str, float | None]:
        policy = math.exp(0.4 * noise.gauss(0, 1))
        return {
            **blind(onset=10**9)(step),
            "grad/policy_norm": policy, "grad/regulariser_norm": policy * share / (1 - share) * min(1.0, step / 100),
        }  # fmt: skip

    assert told(RegulariserDominates(), rows(row, steps=1000, every=every)) == []


@pytest.mark.parametrize("seed", range(10))
def test_small_batches_whose_groups_are_all_dead_nine_times_in_ten_are_healthy(seed: int) -> None:
    """One or two groups a step: that the policy's part is 0 is what such a run looks like."""
    coin = random.Random(seed)

    def row(step: int) -> dict[str, float | None]:
        dead = coin.random() < 0.9
        reward = float(coin.random() < 0.6) if dead else 0.5
        policy = 0.0 if dead else 1.0
        metrics: dict[str, float | None] = {
            "grad/norm": policy + 0.02, "grad/clip_coef": 1.0, "groups/zero_std": float(dead), "reward/mean": reward,
            "groups/solved": float(dead and reward == 1), "groups/failed": float(dead and reward == 0),
            "groups/stuck": 0.0, "kl/ref": 1e-3 * step, "rollouts/age": 0.0,
        }  # fmt: skip
        if step % 20 == 1:
            return {**metrics, "grad/policy_norm": policy, "grad/regulariser_norm": 0.02}
        return {**metrics, "grad/effective_estimate": policy}

    assert "critical" not in severities(RegulariserDominates(), rows(row, steps=1500))
    assert severities(RegulariserDominates(), rows(unsplit(row), steps=1500)) == set()


def test_a_run_without_a_regulariser_is_another_rules_matter() -> None:
    row: Row = lambda step: {**blind()(step), "grad/regulariser_norm": 0.0, "grad/policy_norm": 0.0}  # noqa: E731
    assert told(RegulariserDominates(), rows(row)) == []


@pytest.mark.parametrize("every", [1, 10])
def test_a_log_without_the_split_shows_it_where_all_groups_are_dead_and_the_kl_moves(every: int) -> None:
    records = rows(unsplit(blind()), steps=800, every=every)
    [alert] = play(RegulariserDominates(), records)
    assert alert.severity is Severity.CRITICAL
    assert ONSET <= alert.since <= ONSET + every
    assert alert.step <= ONSET + 150
    assert "a KL penalty or an entropy bonus" in alert.causes[1].text
    only_std: Row = lambda step: {  # noqa: E731
        **unsplit(blind(), "groups/zero_std")(step), "groups/reward_std": 0.0 if step >= ONSET else 0.3,
    }  # fmt: skip
    assert severities(RegulariserDominates(), rows(only_std, steps=800, every=every)) == {"warning"}, (
        "without the share of dead groups nobody knows how many may be solved"
    )


def test_without_the_split_it_says_nothing_where_nothing_proves_that_the_policy_moves() -> None:
    still: Row = lambda step: {**unsplit(blind())(step), "kl/ref": 0.1}  # noqa: E731
    assert told(RegulariserDominates(), rows(still)) == []
    no_kl = unsplit(blind(), "kl/ref")
    assert told(RegulariserDominates(), rows(no_kl)) == []
    no_norm: Row = lambda step: {  # noqa: E731
        **unsplit(blind())(step), "grad/norm": 0.0 if step >= ONSET else 1.0,
    }  # fmt: skip
    assert told(RegulariserDominates(), rows(no_norm)) == []
    rounding: Row = lambda step: {  # noqa: E731
        **unsplit(blind())(step), "grad/norm": 0.003 if step >= ONSET else 1.0,
    }  # fmt: skip
    assert told(RegulariserDominates(), rows(rounding)) == [], "advantages of a rounding error give such a gradient"


def test_all_groups_dead_at_the_best_reward_without_the_split_is_at_most_info() -> None:
    records = rows(unsplit(blind(kind="solved")), steps=800)
    assert severities(RegulariserDominates(), records) <= {"info"}


def test_rows_with_rollouts_of_before_do_not_lengthen_a_streak() -> None:
    reused: Row = lambda step: {**blind()(step), "rollouts/age": float((step - 1) % 8)}  # noqa: E731
    [alert] = play(RegulariserDominates(), rows(reused, steps=800))
    assert ONSET + 9 * 8 <= alert.step <= ONSET + 12 * 8, "ten generations of eight steps"
    unknown: Row = lambda step: {k: v for k, v in blind()(step).items() if k != "rollouts/age"}  # noqa: E731
    [alert] = play(RegulariserDominates({"num_iterations": 8}), rows(unknown, steps=800))
    assert ONSET + 79 <= alert.step <= ONSET + 100


def test_recovery_ends_it_and_it_can_be_told_again() -> None:
    first, second = blind(onset=150, end=250), blind(onset=450)
    changes = play(RegulariserDominates(), rows(lambda s: (first if s < 400 else second)(s), steps=800))
    states = [(a.state, a.severity) for a in changes if a.severity is Severity.CRITICAL]
    assert states == [
        (AlertState.FIRING, Severity.CRITICAL), (AlertState.RESOLVED, Severity.CRITICAL),
        (AlertState.FIRING, Severity.CRITICAL),
    ]  # fmt: skip


def test_missing_and_broken_values_say_nothing() -> None:
    rule = RegulariserDominates()
    for value in (math.nan, math.inf, None, 1e300):
        names = ("grad/policy_norm", "grad/regulariser_norm", "groups/zero_std", "grad/norm", "kl/ref")
        assert rule.update(StepRecord(1, 1.0, dict.fromkeys(names, value))) is NO_DATA
    assert rule.update(StepRecord(2, 1.0, {})) is NO_DATA
    holes: Row = lambda step: dict.fromkeys(blind()(step), math.nan) if step % 3 == 0 else blind()(step)  # noqa: E731
    assert severities(RegulariserDominates(), rows(holes)) == {"critical"}


def test_an_alert_stays_open_where_the_metrics_stop() -> None:
    stops: Row = lambda step: blind()(step) if step < 250 else {"loss": 0.0}  # noqa: E731
    assert told(RegulariserDominates(), rows(stops)) == [("firing", "critical")]


def test_a_split_that_is_given_up_is_followed_by_what_the_groups_show() -> None:
    row: Row = lambda step: (blind() if step < 100 else unsplit(blind(onset=400)))(step)  # noqa: E731
    records = rows(row, steps=900)
    [alert] = play(RegulariserDominates(), records)
    assert alert.since >= 400


@pytest.mark.parametrize("config", [{"beta": "x"}, {"beta": None, "num_iterations": "8"}, {"entropy_coef": 0.01}])
def test_a_configuration_may_hold_anything(config: dict[str, object]) -> None:
    [alert] = play(RegulariserDominates(config), rows(blind()))
    assert any("entropy bonus" in cause.text for cause in alert.causes) or "beta" in config


def test_the_share_it_judges_by_is_that_of_smoothed_norms() -> None:
    """Brute force: all rows with weights that halve every 20 steps."""
    records = rows(blind(part=0.02, kind="stuck"))
    [alert] = play(RegulariserDominates(), records)
    now = alert.step

    def mean(name: str) -> float:
        pairs = []
        for r in records:
            value = r.metrics.get(name)
            if name == "grad/policy_norm" and value is None:
                value = 2 * (r.metrics["grad/effective_estimate"] or 0.0)
            known = name == "grad/regulariser_norm" or r.step >= 20
            if value is not None and r.step <= now and known:
                pairs.append((0.5 ** ((now - r.step) / 20), value))
        return float(sum(w * v for w, v in pairs) / sum(w for w, _ in pairs))

    policy, regulariser = mean("grad/policy_norm"), mean("grad/regulariser_norm")
    assert alert.value == pytest.approx(policy / (policy + regulariser), rel=1e-9)
    shares = [
        r.metrics["grad/policy_norm"] / (r.metrics["grad/policy_norm"] + r.metrics["grad/regulariser_norm"])  # type: ignore[operator]
        for r in records if r.step in (20, 40, 60)
    ]  # fmt: skip
    assert alert.reference == pytest.approx(np.median(shares))


@pytest.mark.parametrize(
    ("setting", "value", "records", "severity"),
    [
        ("least_share", 0.01, rows(blind(part=0.02, kind="stuck")), set()),
        ("fallen", 0.01, rows(blind(part=0.02, kind="stuck")), {"info"}),
        ("nothing", 0.5, rows(blind(part=0.02, kind="stuck")), {"critical"}),
        ("least_rows", 1000, rows(blind()), {"warning"}),
        ("chance", 0.0, rows(blind(), steps=280), {"warning"}),
        ("done", 0.0, rows(blind()), {"info"}),
        ("mostly", 0.0, rows(blind(part=0.02, kind="stuck")), {"info"}),
        ("half_life", 1000, rows(blind(part=0.02, kind="stuck")), set()),
        ("kl_half_life", 1.0, rows(unsplit(blind())), set()),
        ("patience", 5, rows(lambda s: (blind() if s < 149 else unsplit(blind(), "kl/ref"))(s), steps=200), set()),
    ],
)
def test_a_setting_of_the_regularisers_rule_changes_what_it_says(
    setting: str, value: float, records: list[StepRecord], severity: set[str]
) -> None:
    assert severities(RegulariserDominates(), records) != severity
    assert severities(RegulariserDominates(None, {setting: value}), records) == severity


def test_a_streak_is_compared_with_how_the_run_was_before() -> None:
    """By hand: of 8 rows before, 4 held, in streaks of 3 and 1; q = 5/13, a = 2 + 5q, b = 2 + 5(1 - q)."""
    streak = Unbroken()
    for step, holds in enumerate([True, True, True, False, False, True, False, False, True, True], 1):
        streak.update(step, holds)
    a, b = 2 + 25 / 13, 2 + 40 / 13
    assert (streak.length, streak.since) == (2, 9)
    assert streak.chance() == pytest.approx(a / (a + b) * (a + 1) / (a + b + 1))
    assert streak.chance(2.0) == pytest.approx(a / (a + b))
    assert Unbroken().chance() == 1.0


def test_a_streak_that_was_no_chance_is_not_how_the_run_is() -> None:
    streak = Unbroken()
    for step in range(200):
        streak.update(step, step >= 100)
    rare = streak.chance()
    streak.odd = True
    streak.update(200, False)
    for step in range(201, 301):
        streak.update(step, True)
    assert streak.chance() == pytest.approx(rare, rel=0.1)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8, 0.9])
def test_a_streak_of_chance_is_as_rare_as_it_says(share: float) -> None:
    """Runs of 1000 rows in which it holds by itself now and then."""
    found = 0
    for seed in range(200):
        coin, streak = random.Random(seed), Unbroken()
        worst = 1.0
        for step in range(1000):
            streak.update(step, coin.random() < share)
            worst = min(worst, streak.chance())
        found += worst < 1e-5
    assert found <= 2 + 6 * (share == 0.9), "only at the start, while nothing is known of the run"


# --- kl-runaway ------------------------------------------------------------------------------------------------------


def kl_run(
    *, doubles: float = 20.0, onset: int = 150, seed: int = 0, noise: float = 0.2, reward: str = "flat",
    spikes: float = 0.0,
) -> Row:  # fmt: skip
    """A KL that grows to 0.05 and then exponentially, with a reward that rises, stays or turns down at 1 nat."""
    draw = random.Random(seed)

    def row(step: int) -> dict[str, float | None]:
        kl = 0.05 * min(1.0, step / 100)
        kl *= 2 ** (min(max(0, step - onset), 8 * doubles) / doubles)
        shown = kl * math.exp(noise * draw.gauss(0, 1)) * (30 if draw.random() < spikes else 1)
        earned = {
            "flat": 0.5, "rising": 0.2 + step / 1000, "falling": 0.6 / (1 + kl / 4),
            "turning": 0.2 + 0.003 * min(step, 200),
        }[reward]  # fmt: skip
        return {
            "kl/ref": 0.0 if step == 1 else shown, "reward/mean": earned + 0.02 * draw.gauss(0, 1), "reward/std": 0.3,
            "lr": 1e-5,
        }  # fmt: skip

    return row


@pytest.mark.parametrize(("every", "scale"), [(1, 1), (10, 5), (50, 20)])
def test_a_kl_that_doubles_and_doubles_without_a_gain_is_a_warning(every: int, scale: int) -> None:
    records = rows(kl_run(doubles=20 * scale, onset=150 * scale), steps=500 * scale, every=every)
    [alert] = [a for a in play(KLRunaway({"beta": 0.0, "num_iterations": 4}), records) if a.state is AlertState.FIRING]
    assert alert.severity is Severity.WARNING
    assert 205 * scale <= alert.step <= 320 * scale, "half a nat is at 216 times the scale"
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
    begins = next(r.step for r in records if (r.metrics["kl/ref"] or 0.0) >= 0.5 / 64)  # less is not followed yet
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


# --- both, and those that moved to settings ---------------------------------------------------------------------------


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
        ("dead_warning", 0.2), ("solved_info", 0.05), ("failed_info", 0.01),
    ],
)  # fmt: skip
def test_a_setting_of_dead_groups_changes_what_it_says(setting: str, value: float) -> None:
    def row(step: int) -> dict[str, float | None]:
        failed, stuck = (0.55, 0.05) if step < 200 else (0.02, 0.05) if step < 400 else (0.05, 0.8)
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
