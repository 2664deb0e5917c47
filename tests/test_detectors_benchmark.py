"""The benchmark of the rules: its made-up runs are what they say, and its scores count what they should."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rlwatch.runs.records import Run, StepRecord

FOLDER = Path(__file__).parents[1] / "benchmarks"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


simulate = module("simulate")
detectors = module("detectors")
Alarm, Case, score = detectors.Alarm, detectors.Case, detectors.score

SEEDS = range(2)
EACH = [(kind, layout) for kind in simulate.KINDS for layout in range(3)]


def same(a: Any, b: Any) -> bool:
    """As json writes them, where NaN equals itself."""
    return [repr(record) for record in a.records] == [repr(record) for record in b.records]


def column(run: Any, name: str) -> list[float]:
    return [record.metrics[name] for record in run.records]


# --- made-up runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", simulate.KINDS)
def test_a_run_is_the_same_each_time_and_another_with_another_seed(kind: str) -> None:
    assert same(simulate.simulate(kind, 3, 1), simulate.simulate(kind, 3, 1))
    assert not same(simulate.simulate(kind, 3, 1), simulate.simulate(kind, 5, 1))


@pytest.mark.parametrize(("kind", "layout"), EACH)
def test_rows_are_sane(kind: str, layout: int) -> None:
    steps, every = simulate.KINDS[kind].layouts[layout]
    for seed in SEEDS:
        run = simulate.simulate(kind, seed, layout)
        assert [record.step for record in run.records] == list(range(every, steps + 1, every))
        assert run.logger in simulate.KINDS[kind].loggers
        for record in run.records:
            assert set(simulate.LOGGERS[run.logger]) - set(record.metrics) <= {"kl/ref"}
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
        run = simulate.simulate(kind, seed, layout)
        assert run.fails == (kind in simulate.FAILURES)
        if run.fails:
            assert 1 <= run.onset <= run.event < run.due
            assert run.event <= 0.85 * run.records[-1].step, "something is left to see of it"
        else:
            assert run.onset is run.event is run.due is run.cause is None


@pytest.mark.parametrize("layout", range(3))
@pytest.mark.parametrize("kind", [kind for kind in simulate.FAILURES if kind.startswith("reward-")])
def test_a_collapsed_reward_is_gone_from_its_event_on_and_not_before(kind: str, layout: int) -> None:
    for seed in range(5):
        run = simulate.simulate(kind, seed, layout)
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
        run = simulate.simulate("entropy-collapse", seed, layout)
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
            run = simulate.simulate(kind, seed, 1)
            for record in run.records:
                assert shown(record.metrics) or record.step < run.event
                assert not shown(record.metrics) or record.step >= run.onset


def test_harmless_runs_do_what_would_alarm_someone() -> None:
    def each(kind: str) -> list[Any]:
        return [simulate.simulate(kind, seed, 1) for seed in range(6)]

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
        runs = [simulate.simulate(k, seed, layout) for k, layout in EACH for seed in range(half, 6, 2)]
        for kind, chosen in simulate.KINDS.items():
            assert {run.logger for run in runs if run.kind == kind} == set(chosen.loggers)
    assert len(simulate.KINDS) * 3 * 20 >= 200


def test_noise_is_of_one_size_and_real_residuals_come_in_blocks() -> None:
    rng = np.random.default_rng(0)
    drawn = [simulate.Noise().draw(rng, 400, 1) for _ in range(40)]
    assert np.std(np.concatenate(drawn)) == pytest.approx(1, abs=0.1)
    assert 0.3 <= np.mean([np.corrcoef(d[:-1], d[1:])[0, 1] for d in drawn]) <= 0.8
    series = np.arange(100.0)
    real = simulate.Noise([series]).draw(rng, 200, 5)
    assert len(real) == 200
    assert (np.diff(real.reshape(-1, 5), axis=1) == 0).all(), "the steps of a row share its residual"
    assert (np.diff(real[::5].reshape(-1, 10), axis=1) == 1).all(), "ten rows in their order"
    assert len(simulate.residual([3.0] * 50)) == 0
    assert simulate.residual(list(rng.normal(size=50))).std() == pytest.approx(1)


# --- scores ----------------------------------------------------------------------------------------------------------

FAILS = Case("x", "x", ("dead-groups", "entropy-collapse"), 400, onset=50, event=100, due=105, cause="alike")


def test_the_first_critical_alarm_of_a_right_rule_counts() -> None:
    alarms = [
        Alarm("entropy-collapse", 60, critical=False),
        Alarm("reward-collapse", 70),
        Alarm("dead-groups", 90, cause="siblings are alike"),
        Alarm("entropy-collapse", 95, cause="other"),
    ]
    judged = score(FAILS, reversed(alarms))
    assert (judged.in_time, judged.found, judged.warned, judged.lead, judged.named) == (True, True, True, 10, True)
    assert judged.false == 0


@pytest.mark.parametrize(("step", "in_time", "lead"), [(100, True, 0), (105, True, -5), (106, False, -6)])
def test_it_is_in_time_up_to_the_step_at_which_it_is_due(step: int, in_time: bool, lead: int) -> None:
    judged = score(FAILS, [Alarm("dead-groups", step)])
    assert (judged.in_time, judged.found, judged.lead, judged.named) == (in_time, True, lead, None)


def test_an_alarm_before_anything_was_wrong_finds_nothing_and_is_false() -> None:
    judged = score(FAILS, [Alarm("dead-groups", 49), Alarm("reward-collapse", 120)])
    assert (judged.in_time, judged.found, judged.lead, judged.false) == (False, False, None, 1)
    assert judged.false_rules == ("dead-groups",)


def test_a_warning_or_another_rule_finds_nothing_and_a_wrong_cause_is_one() -> None:
    judged = score(FAILS, [Alarm("dead-groups", 80, critical=False), Alarm("non-finite", 80)])
    assert (judged.found, judged.warned) == (False, True)
    assert score(FAILS, [Alarm("dead-groups", 80, cause="too hard")]).named is False


def test_every_critical_alarm_on_a_good_run_is_false() -> None:
    good = Case("x", "x", (), 500)
    judged = score(good, [Alarm("a", 5), Alarm("a", 90), Alarm("b", 90, critical=False)])
    assert (judged.false, judged.found, judged.false_rules) == (2, False, ("a", "a"))
    numbers = detectors.of_good([judged, score(good, [])])
    assert numbers["per_run"][0] == 1
    assert numbers["per_1000_steps"][0] == 2
    assert numbers["runs_with_one"][0] == 0.5
    assert numbers["rules"] == {"a": 2}


def test_intervals_hold_the_mean_and_narrow_with_more_runs() -> None:
    mean, low, high = detectors.interval([0, 1] * 10)
    assert (mean, low < mean < high) == (0.5, True)
    _, lower, higher = detectors.interval([0, 1] * 100)
    assert higher - lower < high - low
    assert detectors.interval([1, 1]) == (1, 1, 1)
    assert math.isnan(detectors.interval([])[0])


def test_naive_detectors_alarm_once_each_time_that_they_begin_to() -> None:
    def run(name: str, values: list[float]) -> Run:
        records = [StepRecord(i + 1, 0.0, {name: value}) for i, value in enumerate(values)]
        return Run("r", "r", "made", None, records)

    assert [a.step for a in detectors.low_entropy(run("entropy/mean", [0.5, 0.05, 0.01, 0.2, 0.09]))] == [2, 5]
    assert [a.step for a in detectors.zero_std_share(run("groups/zero_std", [0.5, 0.4, 0.41]))] == [1, 3]
    wave = [0.5 + 0.1 * (-1) ** i for i in range(20)]
    assert [a.step for a in detectors.reward_z(run("reward/mean", [*wave, 0.0, 0.5]))] == [21]
    assert detectors.low_entropy(run("loss", [0.0])) == []


def test_the_program_prints_tables_and_writes_all_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    rows = [{"step": 5 * i, "reward": 0.8 + 0.05 * (-1) ** i, "entropy": 0.4, "loss": 0.0} for i in range(1, 41)]
    gone = [{**row, "reward": row["reward"] if row["step"] < 100 else 0.0} for row in rows]
    for name, lines in (("good", rows), ("gone", gone)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "labels.tsv").write_text(
        "path\tlabel\tfailure\tevent_step\tevery\tnote\n"
        "good.jsonl\tsurvived\t\t\t5\t\n"
        "gone.jsonl\tcollapsed\treward-collapse\t100\t5\t\n"
    )
    out = tmp_path / "numbers.json"
    arguments = ["--seeds", "2", "--jobs", "1", "--runs", str(folder), "--json", str(out)]
    detectors.main(arguments)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 140
    numbers = json.loads(out.read_text())["summary"]
    assert set(numbers["labelled"]) == set(detectors.DETECTORS)
    ours = numbers["labelled"]["rlwatch"]
    assert ours["failures"]["collapsed"]["in_time"][0] == 1
    assert ours["good"]["all"]["alarms"] == 0
    made = next(summary for title, summary in numbers.items() if title.startswith("made-up, testing half"))
    assert made["rlwatch"]["failures"]["all"]["runs"] == 3 * len(simulate.FAILURES)
