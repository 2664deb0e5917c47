"""regulariser-dominates: what it says, what it leaves unsaid, and the numbers it judges by."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from played import ONSET, Row, blind, play, rows, severities, told, unsplit
from rlwatch.detect.rule import NO_DATA
from rlwatch.detect.rules.regulariser_dominates import RegulariserDominates
from rlwatch.detect.unbroken import Unbroken
from rlwatch.runs.records import AlertState, Severity, StepRecord


def test_a_norm_below_0_is_none_and_breaks_nothing() -> None:
    records = rows(lambda step: {"grad/policy_norm": 0.3, "grad/regulariser_norm": -0.3, "groups/zero_std": 0.1})
    assert play(RegulariserDominates(), records) == []


def test_a_gradient_that_has_gone_with_the_regularisers_is_not_dominated_by_it() -> None:
    """Both parts are small, and the policy's is the larger: that is a run that comes to an end."""
    assert told(RegulariserDominates(), rows(blind(kind="stuck", part=0.005, split=1))) != []
    assert told(RegulariserDominates(), rows(blind(kind="stuck", part=0.005, regulariser=0.0005, split=1))) == []


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
