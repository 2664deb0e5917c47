"""Runs side by side: the statistics against brute force and textbooks, the grouping, and what is said and not said."""

from __future__ import annotations

import itertools
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from rlwatch.report import statistics as st
from rlwatch.report.analysis import Analysis, analyze_run
from rlwatch.report.compare import Comparison, compare
from rlwatch.report.compare_command import run_compare
from rlwatch.report.compare_html import comparison_html
from rlwatch.report.compare_json import comparison_json
from rlwatch.report.compare_sentences import sentences
from rlwatch.report.compare_text import comparison_report
from rlwatch.report.grouping import base_name, seed_of
from rlwatch.report.survival import kaplan_meier, log_rank, median_time
from rlwatch.runs.records import Run, StepRecord

# Remission in weeks, 6-mercaptopurine against placebo, of Freireich et al. (1963); a minus is a censored time.
MERCAPTOPURINE = [6, 6, 6, -6, 7, -9, 10, -10, -11, 13, 16, -17, -19, -20, 22, 23, -25, -32, -32, -34, -35]
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]


def censored(times: Sequence[int]) -> tuple[list[int], list[bool]]:
    return [abs(t) for t in times], [t > 0 for t in times]


# --- statistics


def test_the_interquartile_mean_cuts_a_quarter_at_each_end() -> None:
    rng = np.random.default_rng(1)
    for n in range(1, 20):
        values = rng.normal(size=n)
        kept = sorted(values)[n // 4 : n - n // 4]
        assert float(st.interquartile_mean(values)) == pytest.approx(sum(kept) / len(kept))
    assert st.interquartile_mean(np.zeros((3, 8))).shape == (3,)


def test_the_bootstrap_is_that_of_all_resamples_and_the_same_for_the_same_seed() -> None:
    a, b = [0.0, 1.0, 5.3, 2.2], [2.0, 2.5, 2.1, 0.7]
    every = [np.mean(x) - np.mean(y) for x in itertools.product(a, repeat=4) for y in itertools.product(b, repeat=4)]
    found = st.stratified_bootstrap([a, b], lambda d: d[0].mean(axis=1) - d[1].mean(axis=1), samples=40_000)
    assert found.value == pytest.approx(2.125 - 1.825)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(every, [0.025, 0.975])), abs=0.05)
    assert st.iqm_difference(a, b) == st.iqm_difference(a, b)
    assert st.iqm_interval([3.0] * 5) == st.Interval(3.0, 3.0, 3.0)


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.7062), (2, 4.3027), (4, 2.7764), (10, 2.2281), (30, 2.0423), (1e5, 1.9600)]
)
def test_students_t_is_that_of_the_tables(degrees: float, expected: float) -> None:
    assert st.t_quantile(0.975, degrees) == pytest.approx(expected, abs=2e-4)


def test_welchs_interval_is_that_of_a_worked_example() -> None:
    # Equal sizes and variances: it is Student's, 3 ± t(8)·√(2.5·2/5) with t(8) = 2.3060.
    found = st.mean_difference([4, 5, 6, 7, 8], [1, 2, 3, 4, 5])
    assert (found.value, found.high) == (3.0, pytest.approx(3 + 2.3060, abs=1e-3))
    assert st.mean_difference([1.0], [2.0, 3.0]) == st.Interval(-1.5)
    assert st.mean_difference([1.0, 1.0], [2.0, 2.0]) == st.Interval(-1.0, -1.0, -1.0)


def test_the_effect_is_in_standard_deviations() -> None:
    assert st.cohens_d([4, 5, 6, 7, 8], [1, 2, 3, 4, 5]) == pytest.approx(3 / math.sqrt(2.5))
    assert st.cohens_d([2, 2], [1, 1]) == math.inf
    assert st.cohens_d([0.1 + 0.2, 0.3], [0.2, 0.2]) == math.inf  # a spread of rounding is none
    assert st.cohens_d([1, 1], [1, 1]) is None
    assert st.cohens_d([1], [2]) is None


def test_the_permutation_test_counts_every_way() -> None:
    rng = np.random.default_rng(0)
    for n, m in [(1, 1), (2, 3), (4, 4), (5, 3), (8, 8)]:
        a, b = rng.normal(size=n).round(1), rng.normal(0.8, size=m).round(1)
        pool, size = np.concatenate([a, b]), n + m
        differences = [
            abs(pool[list(c)].mean() - np.delete(pool, list(c)).mean()) for c in itertools.combinations(range(size), n)
        ]
        expected = np.mean([d >= abs(a.mean() - b.mean()) - 1e-12 for d in differences])
        assert st.permutation_test(a, b) == pytest.approx(expected)
    assert st.permutation_test([1.0] * 4, [1.0] * 4) == 1.0
    assert st.permutation_test([1, 2, 3], [4, 5, 6]) == st.least_p(3, 3) == 0.1
    assert st.permutation_test([1, 2, 3], [14, 15, 16, 17]) == st.least_p(3, 4)


def test_the_drawn_permutation_test_agrees_with_the_normal_one() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=40), rng.normal(0.5, size=40)
    z = (a.mean() - b.mean()) / math.sqrt(a.var(ddof=1) / 40 + b.var(ddof=1) / 40)
    assert st.permutation_test(a, b) == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), abs=0.01)
    assert st.permutation_test(a, b + 100) == 1 / 20_001


def test_the_permutation_test_is_wrong_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    shown = np.mean([st.permutation_test(rng.normal(size=5), rng.normal(size=5)) < 0.05 for _ in range(600)])
    assert 0.02 < shown < 0.075


def test_the_seeds_needed_are_those_of_the_tables_and_do_show_it() -> None:
    # Cohen (1988), two-sided 5 %, 80 %: d = .2 .5 .8 1.0 need 394 (393.4), 64, 26, 17 a side.
    assert [st.seeds_needed(d) for d in (0.2, 0.5, 0.8, -1.0)] == [394, 64, 26, 17]
    assert st.seeds_needed(0) is None
    assert st.seeds_needed(math.inf) == st.seeds_needed(50) == 4
    rng = np.random.default_rng(7)
    for effect in (1.5,):
        n = st.seeds_needed(effect)
        assert n is not None
        shown = np.mean(
            [st.permutation_test(rng.normal(effect, size=n), rng.normal(size=n)) < 0.05 for _ in range(300)]
        )
        assert 0.72 < shown < 0.9


def test_holm() -> None:
    assert st.holm([0.01, 0.02, 0.03, 0.5]) == pytest.approx([0.04, 0.06, 0.06, 0.5])
    assert st.holm([]) == []
    assert st.holm([0.9, 0.8]) == [1.0, 1.0]


def test_kaplan_meier_is_that_of_the_textbook() -> None:
    curve = kaplan_meier(*censored(MERCAPTOPURINE))
    assert [p.time for p in curve] == [6, 7, 10, 13, 16, 22, 23]
    assert [p.at_risk for p in curve] == [21, 17, 15, 12, 11, 7, 6]
    assert [round(p.share, 3) for p in curve] == [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448]
    assert median_time(curve) == 23
    assert median_time(kaplan_meier(*censored(PLACEBO))) == 8
    assert kaplan_meier([5, 5], [False, False]) == []
    assert median_time([]) is None


def test_log_rank_is_that_of_the_textbook() -> None:
    found = log_rank(censored(MERCAPTOPURINE), censored(PLACEBO))
    assert found is not None
    assert found.observed == 9
    assert found.expected == pytest.approx(19.25, abs=0.005)
    assert found.chi_square == pytest.approx(16.79, abs=0.005)
    assert found.p == pytest.approx(4.17e-5, rel=0.01)
    assert found.p_permutation < 0.001
    assert log_rank(([9, 9], [False, False]), ([9], [False])) is None


def test_the_permuted_log_rank_is_that_of_all_relabelings() -> None:
    times, events = np.array([3, 5, 5, 9, 9, 7, 2, 9]), np.array([1, 1, 1, 0, 0, 1, 1, 0], dtype=bool)

    def distance(members: Sequence[int]) -> float:
        mine = np.isin(np.arange(8), members)
        found = log_rank((times[mine], events[mine]), (times[~mine], events[~mine]))
        assert found is not None
        return abs(found.observed - found.expected)

    mine = [0, 1, 2, 6]
    ways = [distance(w) for w in itertools.combinations(range(8), 4)]
    expected = np.mean([way >= distance(mine) - 1e-9 for way in ways])
    rest = [3, 4, 5, 7]
    found = log_rank((times[mine], events[mine]), (times[rest], events[rest]))
    assert found is not None
    assert found.p_permutation == pytest.approx(expected)


# --- runs that are made up


def made(
    name: str,
    reward: float | Sequence[float] | None = 0.5,
    *,
    config: Mapping[str, Any] | None = None,
    steps: int = 60,
    spread: float = 0.01,
    path: str | None = None,
    **info: Any,
) -> Analysis:
    """A run whose reward rises to its last value over the first half; or is what is given, a value a step."""
    rng = np.random.default_rng(zlib.crc32(f"{name} {reward}".encode()))
    records = []
    for step in range(1, steps + 1):
        metrics: dict[str, float | None] = {"length/mean": 10.0, "groups/zero_std": 0.25, "groups/stuck": 0.0}
        metrics |= {"entropy/mean": 1.0, "grad/norm": 1.0, "loss": 0.1}
        if isinstance(reward, (int, float)):
            metrics["reward/mean"] = reward * min(1.0, 0.2 + step / steps * 1.6) + rng.normal(0, spread)
        elif reward is not None:
            metrics["reward/mean"] = reward[step - 1]
        records.append(StepRecord(step, float(step), metrics))
    where = path or f"runs/{name}"
    form = "rlwatch" if config is not None else "json-rows"
    return analyze_run(Run(name, where, form, "trl", records, {**info, **({"config": config} if config else {})}))


def arms(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Two groups by their ε_high, a run a value."""
    runs = [made(f"a-s{i}", r, config={"epsilon_high": 0.2, "seed": i}) for i, r in enumerate(first)]
    runs += [made(f"b-s{i}", r, config={"epsilon_high": 0.05, "seed": i}) for i, r in enumerate(second)]
    return compare(runs)


def shown(comparison: Comparison, width: int) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(comparison_report(comparison))
    return console.export_text()


# --- grouping


@pytest.mark.parametrize(
    ("name", "path", "base", "seed"),
    [
        ("gsm8k9b-rho1.00-seed42", "x.json", "gsm8k9b-rho1.00", 42),
        ("grpo_s1", "x", "grpo", 1),
        ("baseline_seed3_lr1e-5", "x", "baseline-lr1e-5", 3),
        ("seed=7", "out/dr_grpo/seed=7/trainer_state.json", "dr_grpo", 7),
        ("out-20261130-151813", "x", "out", None),
        ("llama3-s", "x", "llama3-s", None),
        ("gpt-oss__20b", "x", "gpt-oss__20b", None),
        ("dr_grpo", "out/s4/dr_grpo.json", "dr_grpo", 4),
    ],
)
def test_a_name_without_its_seed(name: str, path: str, base: str, seed: int | None) -> None:
    run = Run(name, path, "json-rows", None, [])
    assert (base_name(run), seed_of(run)) == (base, seed)


def groups(comparison: Comparison) -> dict[str, list[str]]:
    return {group.name: [o.run for o in group.outcomes] for group in comparison.groups}


def test_runs_are_grouped_by_the_settings_that_differ_but_for_seeds_and_places() -> None:
    settings = {"learning_rate": 1e-5, "output_dir": "x", "logging_steps": 1}
    runs = [
        made("one", config={**settings, "seed": 1, "loss_type": "grpo"}),
        made("two", config={**settings, "seed": 2, "loss_type": "dapo", "output_dir": "y"}),
        made("three", config={**settings, "seed": 3, "loss_type": "grpo", "logging_steps": 5}),
    ]
    found = compare(runs)
    assert found.by == ["loss_type"]
    assert groups(found) == {"loss_type=grpo": ["one", "three"], "loss_type=dapo": ["two"]}
    assert any("different names" in note for note in found.notes)


def test_runs_without_settings_are_grouped_by_name() -> None:
    found = compare([made("a-seed1"), made("b-seed1"), made("a-seed2")])
    assert (found.by, groups(found)) == (["name"], {"a": ["a-seed1", "a-seed2"], "b": ["b-seed1"]})


def test_runs_with_the_same_settings_are_grouped_by_name_and_that_is_said() -> None:
    found = compare([made("a-s1", config={"beta": 0.0}), made("b-s1", config={"beta": 0.0})])
    assert list(groups(found)) == ["a", "b"]
    assert any("no known setting differs" in note for note in found.notes)


def test_a_setting_that_a_run_lacks_sets_it_apart_and_none_is_a_value() -> None:
    found = compare([made("a", config={"k": 1, "top_k": None}), made("b", config={"k": 1}), made("c", config={"k": 1})])
    assert groups(found) == {"top_k=None": ["a"], "all runs": ["b", "c"]}


def test_a_person_groups_by_a_setting_or_by_patterns() -> None:
    runs = [
        made(f"{n}-s{s}", config={"beta": b, "lr": s / 10, "seed": s}) for n, b in (("x", 0), ("y", 1)) for s in (1, 2)
    ]
    assert list(groups(compare(runs))) != ["beta=0", "beta=1"]
    assert groups(compare(runs, ["beta"])) == {"beta=0": ["x-s1", "x-s2"], "beta=1": ["y-s1", "y-s2"]}
    found = compare(runs, ["mine=x-*", "theirs=y-s1"])
    assert groups(found) == {"mine": ["x-s1", "x-s2"], "theirs": ["y-s1"]}
    assert "no pattern matches y-s2: left out" in found.notes
    with pytest.raises(ValueError, match=r"no run has the setting 'nope'; those that differ are: beta, lr"):
        compare(runs, ["nope"])
    with pytest.raises(ValueError, match="not by both"):
        compare(runs, ["beta", "mine=x-*"])


def test_a_run_that_is_given_twice_is_one_seed() -> None:
    run = made("a-s1")
    found = compare([run, run, made("a-s2")])
    assert len(found.groups[0].outcomes) == 2
    assert any("it is counted once" in note for note in found.notes)


# --- what is said


def test_five_clearly_different_seeds_show_it() -> None:
    found = arms([0.80, 0.82, 0.79, 0.81, 0.83], [0.50, 0.52, 0.49, 0.51, 0.47])
    (sentence,) = sentences(found)
    assert sentence.startswith("With 5 seeds a side, a difference of 0.31")
    assert "is shown (p = 0.0079, by exact permutation): epsilon_high=0.2 ends above epsilon_high=0.05." in sentence
    pair = found.pairs[0]
    assert pair.shown
    assert pair.effect is not None
    assert pair.effect > 5
    interval = found.groups[0].final
    assert interval is not None
    assert interval.low is not None
    assert interval.low < 0.81 < (interval.high or 0)


def test_seeds_of_one_distribution_show_nothing_and_it_is_said_how_many_would() -> None:
    found = arms([0.60, 0.75, 0.52, 0.70, 0.66], [0.62, 0.58, 0.71, 0.49, 0.68])
    (sentence,) = sentences(found)
    assert sentence.startswith("With 5 seeds a side, a difference of 0.0")
    assert " is not shown (p = " in sentence
    assert "a side would show one of this size." in sentence
    assert found.pairs[0].needed is not None
    assert found.pairs[0].needed > 20


def test_three_seeds_a_side_can_show_nothing_however_large() -> None:
    (sentence,) = sentences(arms([0.9, 0.91, 0.92], [0.1, 0.11, 0.12]))
    assert "is not shown, nor could any be (p is at least 0.1); about 4 a side would show one of this size." in sentence


def test_one_run_a_side_shows_nothing_about_the_method() -> None:
    found = arms([0.9], [0.1])
    (sentence,) = sentences(found)
    assert sentence.startswith("One run a side shows nothing about the method")
    assert not found.pairs
    assert found.groups[0].final == st.Interval(pytest.approx(0.9, abs=0.02))
    (one,) = sentences(compare([made("a")]))
    assert one == "There is one group: nothing to compare it with."


def test_many_comparisons_make_each_harder_to_show() -> None:
    values = [0.50, 0.52, 0.49, 0.51, 0.47]
    runs = [made(f"{k}-s{i}", value + 0.1 * k, config={"k": k}) for k in range(3) for i, value in enumerate(values)]
    found = compare(runs)
    assert len(found.pairs) == 3
    assert all(pair.p_adjusted > pair.p for pair in found.pairs[:1])
    assert found.pairs[0].alpha == pytest.approx(0.05 / 3)
    assert "between k=1 and k=0 is shown (p = 0.024 after 3 comparisons" in sentences(found)[0]


def test_collapses_are_counted_timed_and_tested() -> None:
    good = [made(f"good-s{i}", 0.8, steps=120) for i in range(5)]
    rise = list(np.linspace(0.2, 0.8, 50))
    bad = []
    for i in range(5):
        fall = list(np.linspace(0.8, 0.02, 20 + i)) + [0.02] * (50 - i)
        bad.append(made(f"bad-s{i}", rise + fall, steps=120))
    found = compare(good + bad)
    first, second = found.groups
    assert (first.collapsed, first.watched, first.median_collapse) == (0, 5, None)
    assert (second.collapsed, second.watched) == (5, 5)
    assert second.median_collapse is not None
    assert 50 < second.median_collapse < 120
    assert "0 of 5 runs and 5 of 5 collapsed: a difference in time to collapse is shown" in sentences(found)[1]
    assert second.verdicts == {"failed": 5}


def test_what_it_took_to_reach_what_the_worse_group_reaches() -> None:
    fast, slow = list(np.linspace(0, 1, 30)) + [1.0] * 70, list(np.linspace(0, 0.6, 100))
    batch = {"generation_batch_size": 8, "steps_per_generation": 4, "gradient_accumulation_steps": 4}
    found = compare(
        [made("f", fast, config={"k": 1, **batch}, steps=100), made("s", slow, config={"k": 2, **batch}, steps=100)]
    )
    assert found.unit == "tokens"
    assert found.level == pytest.approx(0.6 - 0.6 / 99 * 13.9, abs=0.01)  # the mean of a half-life of 10 lags by 13.9
    costs = [group.cost for group in found.groups]
    assert costs[1] == 100 * 10 * 8  # steps, tokens a completion, completions a step
    assert costs[0] is not None
    assert costs[0] < 2500
    assert compare([made("f", fast, steps=100), made("s", slow, steps=100)]).unit == "steps"
    flat = compare([made("f", fast, steps=100), made("flat", [0.0] * 100, steps=100)])
    assert flat.level is None  # it is where it began
    assert flat.groups[0].reached is None


def test_what_is_missing_is_absent_and_said() -> None:
    found = compare([made("a-s1"), made("a-s2", None), made("b-s1", None), made("b-s2", [math.nan] * 60)])
    a, b = found.groups
    assert a.final is not None
    assert b.final is None
    assert not found.pairs
    assert any("a: 1 of 2 runs without a final reward" in note for note in found.notes)
    data = comparison_json(found, {})
    assert data["groups"][1]["final_reward"] is None
    assert data["groups"][0]["runs"][1]["final_reward"] is None
    assert "–" in shown(found, 80)


def test_a_run_in_which_no_collapse_could_be_seen_has_not_held() -> None:
    bare = Run("a", "a", "csv", None, [StepRecord(s, 0.0, {"loss": 0.1}) for s in range(1, 50)])
    found = compare([analyze_run(bare)])
    assert (found.groups[0].collapsed, found.groups[0].watched) == (0, 0)
    assert any("no collapse could be seen" in note for note in found.notes)


def test_notes_of_unequal_ends_shared_seeds_and_unlike_rewards() -> None:
    runs = [made(f"a{i}", 0.5 + i / 100, config={"seed": 42}, reward_functions={"f": 1.0}) for i in range(2)]
    runs.append(made("b", steps=90, config={"seed": 1}, reward_functions={"g": 1.0}))
    notes = " | ".join(compare(runs).notes)
    assert "all runs have the seed 42" in notes
    assert "the runs end between steps 60 and 90" in notes
    assert "different reward functions" in notes


def test_runs_without_steps_or_with_odd_settings_are_compared_too() -> None:
    odd = [
        Run("", "", "rlwatch", None, [], {"config": ["a"], "model": None, "reward_functions": 3}),
        Run("seed1", "seed1", "rlwatch", None, [], {"config": {"a": {"b": [1, {"c": 2}]}, "x": math.nan}}),
        Run("z", "z", "csv", None, [StepRecord(7, 0.0, {"reward/mean": math.inf, "length/mean": None})]),
    ]
    found = compare([analyze_run(run) for run in odd])
    assert sum(len(group.outcomes) for group in found.groups) == 3
    assert all(group.final is None for group in found.groups)
    assert shown(found, 80)
    json.dumps(comparison_json(found, {}), allow_nan=False)


def test_no_run_is_no_comparison() -> None:
    found = compare([])
    assert (found.groups, found.pairs, sentences(found)) == ([], [], [])


# --- text, JSON, command


def test_the_text_fits_and_loses_no_word() -> None:
    found = arms([0.80, 0.82, 0.79, 0.81, 0.83], [0.50, 0.52, 0.49, 0.51, 0.47])
    for width in (80, 140):
        text = shown(found, width)
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        assert "epsilon_high=0.05" in text
        assert text.count("healthy") == 2 + 10  # of the groups, of the runs
    assert max(map(len, shown(found, 40).splitlines())) <= 40


def test_markup_in_names_is_text() -> None:
    assert "[bold]x[/]" in shown(compare([made("[bold]x[/]"), made("y")]), 140)


def test_json_goes_there_and_back() -> None:
    found = arms([0.9, 0.9, 0.9, 0.9], [0.1, 0.12, 0.11, 0.1])
    data = comparison_json(found, {"x": "empty"})
    again = json.loads(json.dumps(data, allow_nan=False))
    assert again == data
    assert again["schema"] == 1
    assert again["pairs"][0]["seeds"] == [4, 4]
    assert again["pairs"][0]["shown"] is True
    assert again["pairs"][0]["iqm_difference"]["value"] == pytest.approx(0.79, abs=0.03)
    assert again["unreadable"] == [{"path": "x", "why": "empty"}]
    assert [run["seed"] for run in again["groups"][0]["runs"]] == [0, 1, 2, 3]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, top in (("a-seed1", 0.5), ("a-seed2", 0.6), ("b-seed1", 0.7)):
        rows = [{"step": s, "reward": top * s / 40, "entropy": 1.0, "loss": 0.1} for s in range(1, 41)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_compare([str(tmp_path)], [], "text", None) == 0
    out = capsys.readouterr()
    assert "One run of b shows nothing about the method" in out.out
    assert out.err == ""

    target = tmp_path / "out" / "c.json"
    target.parent.mkdir()
    assert run_compare([str(tmp_path / "*.jsonl"), str(tmp_path / "gone")], [], "json", target) == 2
    assert "could not read" in capsys.readouterr().err
    data = json.loads(target.read_text())
    assert [group["group"] for group in data["groups"]] == ["a", "b"]
    assert len(data["unreadable"]) == 1

    assert run_compare([str(tmp_path / "*.jsonl")], ["nope"], "text", None) == 2
    assert "no run has the setting 'nope'" in capsys.readouterr().err
    assert run_compare([str(tmp_path / "gone")], [], "text", None) == 2
    assert run_compare([str(tmp_path)], [], "pdf", None) == 2


def test_the_page_holds_the_same_and_names_are_no_markup() -> None:
    pytest.importorskip("plotly")
    found = compare([made("<b>x</b>-s1"), made("<b>x</b>-s2"), made("y-s1", 0.7), made("y-s2", 0.8)])
    html = comparison_html(found, {"<i>": "empty"})
    assert "<h1>4 runs in 2 groups</h1>" in html
    assert "With 2 seeds a side, a difference of 0.2" in html
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    assert "<b>x</b>" not in html
    assert "&lt;i&gt;: empty" in html


def test_many_pairs_are_a_table_and_only_what_is_shown_has_a_sentence() -> None:
    values = [0.50, 0.52, 0.49, 0.51, 0.47, 0.505]
    tops = [0.0, 0.0, 0.01, 0.3]
    runs = [made(f"k{k}-s{i}", value + top) for k, top in enumerate(tops) for i, value in enumerate(values)]
    found = compare(runs)
    said = sentences(found)
    assert said[0] == "Of the 6 differences in final reward between two groups, 3 are shown."
    assert len(said) == 4
    text = shown(found, 80)
    assert "Needed: seeds a side" in text
    few = compare([a for a in runs if a.run.name.endswith(("s1", "s2"))])
    assert sentences(few) == [
        "Of the 6 differences in final reward between two groups, none is shown; with so few seeds, none could be."
    ]
