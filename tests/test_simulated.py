"""The benchmark's made-up runs are what they say: labels, events, and metrics that agree with each other."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from simulated import FAILURES, HARMLESS, KINDS, LOGGERS, Noise, residual, simulate
from simulated.loggers import OPTIONAL

SEEDS = range(2)
EACH = [(kind, layout) for kind in KINDS for layout in range(3)]


def same(a: Any, b: Any) -> bool:
    """As json writes them, where NaN equals itself."""
    return [repr(record) for record in a.records] == [repr(record) for record in b.records]


def column(run: Any, name: str) -> list[float]:
    return [record.metrics[name] for record in run.records]


def full(kind: str, layout: int = 1) -> Any:
    """A run of this class that rlwatch itself has logged."""
    return next(run for seed in range(6) if (run := simulate(kind, seed, layout)).logger == "full")


def values(run: Any, name: str) -> np.ndarray:
    """One a row; NaN where it has none."""
    return np.array([record.metrics.get(name, math.nan) for record in run.records])


def four(run: Any, name: str, step: int) -> float:
    """The mean of the row that shows a step and the three after it."""
    at = next(i for i, record in enumerate(run.records) if record.step >= step)
    return float(np.mean(values(run, name)[at : at + 4]))


def before(run: Any, name: str) -> float:
    """The mean of the ten rows before the onset's."""
    at = next(i for i, record in enumerate(run.records) if record.step >= run.onset)
    return float(np.nanmean(values(run, name)[max(0, at - 10) : at]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_the_same_each_time_and_another_with_another_seed(kind: str) -> None:
    assert same(simulate(kind, 3, 1), simulate(kind, 3, 1))
    assert not same(simulate(kind, 3, 1), simulate(kind, 5, 1))


@pytest.mark.parametrize(("kind", "layout"), EACH)
def test_rows_are_sane(kind: str, layout: int) -> None:
    steps, every = KINDS[kind].layouts[layout]
    for seed in SEEDS:
        run = simulate(kind, seed, layout)
        assert [record.step for record in run.records] == list(range(every, steps + 1, every))
        assert run.logger in KINDS[kind].loggers
        for record in run.records:
            assert set(LOGGERS[run.logger]) - set(record.metrics) <= OPTIONAL
            broken = {name for name, value in record.metrics.items() if not math.isfinite(value)}
            assert not broken or (kind == "non-finite" and run.event is not None and record.step >= run.event)
            shares = [v for name, v in record.metrics.items() if name in ("groups/zero_std", "length/truncated")]
            assert all(0 <= share <= 1 for share in shares)
            if run.logger == "full" and kind != "group-size-one":
                m = record.metrics
                split = m["groups/solved"] + m["groups/failed"] + m["groups/stuck"]
                assert m["groups/zero_std"] == pytest.approx(split), "dead groups are of three kinds"


@pytest.mark.parametrize(("kind", "layout"), EACH)
def test_a_failure_has_its_steps_in_order_and_a_good_run_has_none(kind: str, layout: int) -> None:
    for seed in SEEDS:
        run = simulate(kind, seed, layout)
        assert run.fails == (kind in FAILURES)
        if run.fails:
            assert 1 <= run.onset <= run.event <= run.due
            assert run.severity in ("critical", "warning")
            assert run.event <= 0.85 * run.records[-1].step, "something is left to see of it"
        else:
            assert run.onset is run.event is run.due is run.cause is None


@pytest.mark.parametrize("layout", range(3))
@pytest.mark.parametrize("kind", [kind for kind in FAILURES if kind.startswith(("reward-sudden", "reward-slow"))])
def test_a_collapsed_reward_is_gone_from_its_event_on_and_not_before(kind: str, layout: int) -> None:
    for seed in range(5):
        run = simulate(kind, seed, layout)
        rewards = column(run, "reward/mean")
        at = [record.step for record in run.records].index(run.event)
        means = [np.mean(rewards[i : i + 4]) for i in range(len(rewards) - 3)]
        assert means[at] < 0.1
        assert min(means[:at]) >= 0.1
        assert np.mean(rewards[at + 4 :]) < 0.1, "it does not come back"
        entropy = column(run, "entropy/mean")
        start = sum(record.step < run.onset for record in run.records)
        rise = np.mean(entropy[at:]) / np.mean(entropy[start - 4 : start])
        assert rise > 2 if kind.endswith("up") else 0.7 < rise < 1.4


@pytest.mark.parametrize("layout", range(3))
def test_a_collapsed_entropy_leaves_groups_stuck_and_the_reward_where_it_was(layout: int) -> None:
    for seed in range(6):
        run = simulate("entropy-collapse", seed, layout)
        after = [record.metrics for record in run.records if record.step >= run.event]
        before = [record.metrics for record in run.records if record.step <= run.onset]
        assert np.mean([m["groups/zero_std"] for m in after]) > 0.9
        assert np.mean([m["groups/zero_std"] for m in before]) < 0.6
        assert np.mean([m["entropy/mean"] for m in after]) < 0.3 * np.mean([m["entropy/mean"] for m in before])
        assert abs(np.mean([m["reward/mean"] for m in after]) - np.mean([m["reward/mean"] for m in before])) < 0.25


def test_other_failures_are_there_from_their_event_on() -> None:
    shows = {
        "failed-from-start": lambda m: m["groups/zero_std"] == 1 and m["reward/mean"] == 0,
        "failed-later": lambda m: m["reward/mean"] == 0,
        "all-truncated": lambda m: m["length/truncated"] == 1 and m["reward/mean"] == 0,
        "no-gradient": lambda m: m["grad/norm"] == 0 and m["kl/ref"] == 0 and m["groups/zero_std"] < 1,
        "no-gradient-later": lambda m: m["grad/norm"] == 0,
        "sampler-mismatch": lambda m: not 0.2 < m["sampler/ratio_mean"] < 5,
        "group-size-one": lambda m: m["advantage/mean"] == m["reward/mean"],
        "non-finite": lambda m: not all(map(math.isfinite, m.values())),
    }
    for kind, shown in shows.items():
        for seed in SEEDS:
            run = simulate(kind, seed, 1)
            for record in run.records:
                assert shown(record.metrics) or record.step < run.event
                assert not shown(record.metrics) or record.step >= run.onset


def test_harmless_runs_do_what_would_alarm_someone() -> None:
    def each(kind: str) -> list[Any]:
        return [simulate(kind, seed, 1) for seed in range(6)]

    for run in each("sharpening"):
        assert column(run, "entropy/mean")[-1] < 0.35 * column(run, "entropy/mean")[0]
        assert np.mean(column(run, "reward/mean")[-50:]) > 0.8
    for run in each("curriculum-jump"):
        rewards = np.convolve(column(run, "reward/mean"), np.ones(10) / 10, "valid")
        top = int(np.argmax(rewards[:160]))
        assert rewards[top:].min() < 0.8 * rewards[top]
        assert np.mean(rewards[-40:]) > rewards[top:].min() * 1.15
    for run in each("late-start"):
        assert np.mean(column(run, "reward/mean")[:30]) < 0.05
        assert np.mean(column(run, "reward/mean")[-50:]) > 0.4
    for run in each("entropy-wave"):
        entropy = np.convolve(column(run, "entropy/mean"), np.ones(10) / 10, "valid")
        assert entropy.max() > 1.2 * entropy[:20].mean()
        assert entropy[-1] < entropy.max() / 2
    for run in each("pinned-length"):
        assert set(column(run, "length/truncated")) == {1.0}
        assert np.mean(column(run, "reward/mean")[-50:]) > np.mean(column(run, "reward/mean")[:50])


def test_both_halves_have_every_class_with_every_logger() -> None:
    for half in (0, 1):
        runs = [simulate(k, seed, layout) for k, layout in EACH for seed in range(half, 6, 2)]
        for kind, chosen in KINDS.items():
            assert {run.logger for run in runs if run.kind == kind} == set(chosen.loggers)
    assert len(KINDS) * 3 * 20 >= 200


def test_noise_is_of_one_size_and_real_residuals_come_in_blocks() -> None:
    rng = np.random.default_rng(0)
    drawn = [Noise().draw(rng, 400, 1) for _ in range(40)]
    assert np.std(np.concatenate(drawn)) == pytest.approx(1, abs=0.1)
    assert 0.3 <= np.mean([np.corrcoef(d[:-1], d[1:])[0, 1] for d in drawn]) <= 0.8
    series = np.arange(100.0)
    real = Noise([series]).draw(rng, 200, 5)
    assert len(real) == 200
    assert (np.diff(real.reshape(-1, 5), axis=1) == 0).all(), "the steps of a row share its residual"
    assert (np.diff(real[::5].reshape(-1, 10), axis=1) == 1).all(), "ten rows in their order"
    assert len(residual([3.0] * 50)) == 0
    assert residual(list(rng.normal(size=50))).std() == pytest.approx(1)


# --- what goes with what ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "group-size-one" and "full" in KINDS[kind].loggers])
def test_the_metrics_of_a_row_agree_with_each_other(kind: str) -> None:
    run = full(kind)
    weights = [run.weights["reward/correctness"], run.weights["reward/format"]]
    assert sum(weights) == pytest.approx(1)
    times = [record.time for record in run.records]
    assert all(a < b for a, b in pairwise(times))
    splits = 0
    for record in run.records:
        m = record.metrics
        assert m["reward/mean"] == pytest.approx(np.dot(weights, [m["reward/correctness"], m["reward/format"]]))
        assert m["grad/applied_norm"] == pytest.approx(m["grad/clip_coef"] * m["grad/norm"])
        assert 0 <= m["clip/high"] + m["clip/low"] <= 1
        assert 0 <= m["signal/active_tokens"] <= 1
        assert 1 / 8 <= m["groups/unique"] <= 1
        assert m["kl/old"] >= 0
        assert m["step_seconds"] > 0
        share = m["length/share_correct"]
        parts = {"length/correct": share, "length/incorrect": 1 - share}
        assert m["length/mean"] == pytest.approx(
            sum(part * m.get(name, 0.0) for name, part in parts.items()), rel=1e-6 if run.every == 1 else 0.01
        ), "but for the mean over a row's steps"
        assert ("length/correct" in m) == (share > 0)
        if m["groups/zero_std"] == 1:
            assert m["signal/active_tokens"] == m["signal/abs_advantage"] == 0
            assert "length/gap" not in m
        if "grad/policy_norm" in m:
            splits += 1
            assert m["grad/norm"] == pytest.approx(math.hypot(m["grad/policy_norm"], m["grad/regulariser_norm"]))
            assert m["grad/effective_norm"] == pytest.approx(m["grad/clip_coef"] * m["grad/policy_norm"])
        assert ("grad/policy_norm" in m) != ("grad/effective_estimate" in m)
    assert splits == (len(run.records) if not run.config["beta"] else math.ceil(run.records[-1].step / 20))


def test_each_logger_has_what_it_is_known_to_have() -> None:
    for kind in ("curriculum-jump", "steady-kl"):
        for seed in range(6):
            run = simulate(kind, seed, 1)
            names = {name for record in run.records for name in record.metrics}
            assert ("groups/stuck" in names) == ("grad/clip_coef" in names) == (run.logger == "full")
            assert ("reward/format" in names) == (run.logger != "verl")
            evaluated = [r.step for r in run.records if any(name.startswith("eval/") for name in r.metrics)]
            assert evaluated
            assert len(evaluated) <= len(run.records) / 20
            if kind == "steady-kl":
                assert "kl/ref" in names


def test_every_class_says_what_it_is_and_every_failure_what_its_event_is() -> None:
    for kind, chosen in KINDS.items():
        words = inspect.getdoc(chosen.make)
        if words is None:  # one of several that one function makes
            name = chosen.make.__qualname__.split(".")[0]
            words = inspect.getdoc(vars(sys.modules[chosen.make.__module__])[name])
        assert words, kind
        assert kind in HARMLESS or "Event: " in words, kind


# --- events -----------------------------------------------------------------------------------------------------------

EVENTS: dict[str, Callable[[Any], bool]] = {
    "entropy-explosion": lambda r: (
        four(r, "reward/mean", r.event) < 0.1 and values(r, "entropy/mean")[-1] > 1.5 * before(r, "entropy/mean")
    ),
    "kl-runaway": lambda r: four(r, "kl/ref", r.event) >= 1 and values(r, "kl/ref")[-5:].min() > 2,
    "clip-saturated": lambda r: four(r, "clip/high", r.event) + four(r, "clip/low", r.event) >= 0.3,
    "low-diversity": lambda r: (
        four(r, "groups/unique", r.event) <= 0.25 and np.mean(values(r, "groups/solved")[-10:]) < 0.3
    ),
    "length-bias": lambda r: values(r, "length/gap")[-20:].mean() > 0.25 * values(r, "length/mean")[-20:].mean(),
    "length-explosion": lambda r: four(r, "length/mean", r.event) >= 2 * before(r, "length/mean"),
    "length-collapse": lambda r: four(r, "length/mean", r.event) <= 0.35 * before(r, "length/mean"),
    "reward-stall-inactive": lambda r: four(r, "signal/active_tokens", r.event) <= 0.02,
    "reward-hacking-part": lambda r: (
        four(r, "reward/correctness", r.event) <= 0.7 * before(r, "reward/correctness")
        and np.mean(values(r, "reward/mean")[-10:]) > before(r, "reward/mean")
    ),
    "reward-stall": lambda r: (
        r.logger != "full" or four(r, "groups/failed", r.event) + four(r, "groups/stuck", r.event) >= 0.5
    ),
}


@pytest.mark.parametrize("layout", range(3))
@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_is_a_fact_of_the_rows(kind: str, layout: int) -> None:
    for seed in range(4):
        assert EVENTS[kind](simulate(kind, seed, layout)), seed


@pytest.mark.parametrize("layout", range(3))
def test_a_regulariser_dominates_where_groups_are_dead_and_the_gradient_is_not(layout: int) -> None:
    run = full("regulariser-dominates", layout)
    # the row of the event may hold steps from before it
    rows = [record.metrics for record in run.records if record.step >= run.event + run.every]
    assert all(m["groups/zero_std"] == 1 and m["groups/solved"] == 0 and m["grad/norm"] > 0 for m in rows)
    parts = [(m["grad/policy_norm"], m["grad/regulariser_norm"]) for m in rows if "grad/policy_norm" in m]
    assert parts
    assert all(policy == 0 < regulariser for policy, regulariser in parts)
    assert sum("grad/policy_norm" in r.metrics for r in run.records if run.event < r.step <= run.due) >= 3


@pytest.mark.parametrize("layout", range(3))
def test_spikes_come_in_clusters_and_hurt(layout: int) -> None:
    for seed in SEEDS:
        run = simulate("grad-spike", seed, layout)
        norms, steps = values(run, "grad/norm"), np.array([record.step for record in run.records])
        usual = np.median(norms[steps < run.onset][-50:])
        assert ((norms >= 10 * usual) & (steps >= run.onset) & (steps <= run.event)).sum() == 3
        rewards = values(run, "reward/mean")
        assert rewards[steps > run.onset + 40].mean() < rewards[steps < run.onset][-40:].mean()


@pytest.mark.parametrize("layout", range(3))
def test_evaluations_fall_while_the_reward_rises(layout: int) -> None:
    for seed in range(6):
        run = simulate("reward-hacking-evaluation", seed, layout)
        name = "eval/val-core/task/acc/mean@1" if run.logger == "verl" else "eval/reward"
        seen = [(record.step, record.metrics[name]) for record in run.records if name in record.metrics]
        early, late = [v for s, v in seen if s < run.onset], [v for s, v in seen if s >= run.event]
        assert np.mean(late[:2]) <= 0.8 * np.mean(early[-3:])
        assert np.mean(values(run, "reward/mean")[-5:]) > before(run, "reward/mean")


@pytest.mark.parametrize("layout", range(3))
def test_a_stalled_run_has_one_gap_of_thirty_rows_or_more(layout: int) -> None:
    for seed in range(6):
        run = simulate("stalled", seed, layout)
        gaps = np.diff([record.time for record in run.records])
        late = [record.step for record in run.records[1:]][int(np.argmax(gaps))]
        assert late - run.every < run.event <= late
        assert 25 < gaps.max() / np.median(gaps) < 400
        slow = [max(np.diff([r.time for r in simulate("slow-steps", seed, layout).records])) for seed in SEEDS]
        assert min(slow) > 0


def test_new_lookalikes_do_what_would_alarm_someone() -> None:
    def ends(run: Any, name: str) -> tuple[float, float]:
        shown = values(run, name)
        return float(np.nanmean(shown[:20])), float(np.nanmean(shown[-20:]))

    for kind, low, high in (("reasoning-grows", 1.8, 4.5), ("concise", 0.15, 0.5)):
        for seed in SEEDS:
            run = simulate(kind, seed, 1)
            first, last = ends(run, "length/mean")
            assert low < last / first < high
            assert ends(run, "reward/mean")[1] > ends(run, "reward/mean")[0] + 0.15
    for seed in SEEDS:
        first, last = ends(simulate("entropy-doubles", seed, 1), "entropy/mean")
        assert 1.5 < last / first < 3
        spiky = values(simulate("lone-spikes", seed, 1), "grad/norm")
        assert (spiky > 5 * np.median(spiky)).sum() >= 1
    assert 0.08 < np.mean(values(full("steady-clip"), "clip/high") + values(full("steady-clip"), "clip/low")) < 0.22
    run = full("wide-gap")
    assert all(0.3 < share < 1.0 for share in (np.array(ends(run, "length/gap")) / ends(run, "length/mean")))
    run = full("part-gives-a-little")
    top = np.convolve(values(run, "reward/format"), np.ones(20) / 20, "valid").max()
    assert 0.85 < ends(run, "reward/format")[1] / top < 0.99
    assert ends(run, "reward/mean")[1] > ends(run, "reward/mean")[0]
    run = full("large-regulariser")
    part, rest = ends(run, "grad/regulariser_norm")[1], ends(run, "grad/policy_norm")[1]
    assert 0.15 < part / (part + rest) < 0.45
    run = full("alike-since-solved")
    assert ends(run, "groups/unique")[1] < 0.5
    assert ends(run, "groups/solved")[1] > 0.6
    run = full("warm-up")
    assert ends(run, "lr")[0] < 0.5 * ends(run, "lr")[1]
