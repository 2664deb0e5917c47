"""The page of the comparison: what the address says, how curves of several seeds become one, what is drawn and said."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from components import text_of
from report_runs import made_run
from rlwatch.report.compare import Comparison, Group, compare
from rlwatch.report.compare_sentences import sentences
from rlwatch.runs.records import StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import addresses
from rlwatch_dashboard.app import page_at
from rlwatch_dashboard.pages import compare as page
from rlwatch_dashboard.pages import compare_figures as drawn
from rlwatch_dashboard.pages import compare_read
from rlwatch_dashboard.pages.compare_curves import band, points_of, width_of
from rlwatch_dashboard.pages.compare_read import Cache, read
from rlwatch_dashboard.pages.compare_view import MOST_RUNS, Chosen
from rlwatch_dashboard.roots import Roots


def write(root: Path, name: str, *, dies: int | None = None, seed: int = 0, steps: int = 120, **config: Any) -> Path:
    """A run directory with the steps of a made-up run."""
    run = made_run(name, steps, dies=dies, seed=seed)
    (root / name).mkdir(parents=True)
    writer = RunWriter(root / name, {"config": {"loss_type": "dapo", "seed": seed, **config}, "framework": {}})
    for record in run.records:
        writer.append(StepRecord(record.step, record.time, {**record.metrics}))
    writer.close()
    return root / name


def two_groups(root: Path, seeds: int = 4) -> list[str]:
    for seed in range(seeds):
        write(root, f"low-seed{seed}", dies=40, seed=seed, epsilon_high=0.05)
        write(root, f"high-seed{seed}", seed=seed, epsilon_high=0.28)
    return [f"{which}-seed{seed}" for which in ("low", "high") for seed in range(seeds)]


def parts(tree: Any) -> Iterator[Any]:
    """Every component of a page."""
    if isinstance(tree, (list, tuple)):
        for one in tree:
            yield from parts(one)
    elif hasattr(tree, "to_plotly_json"):
        yield tree
        yield from parts(getattr(tree, "children", None))


def figures(tree: Any) -> dict[str, Any]:
    return {part.id["key"]: part.figure for part in parts(tree) if type(part).__name__ == "Graph"}


# --- the address


def test_the_address_says_what_is_compared_and_comes_back_the_same() -> None:
    keys = ("a b", "ü&=c", "x@2", "100%")
    chosen = Chosen.of(addresses.compare(keys, ["optim.lr", "name"]).partition("/compare")[2])
    assert chosen == Chosen(keys, ("optim.lr", "name"))
    assert Chosen.of(chosen.address().partition("/compare")[2]) == chosen
    assert Chosen.of(None) == Chosen.of("") == Chosen.of("?what=1&run=") == Chosen()


def test_an_address_that_names_too_many_runs_is_cut_off() -> None:
    search = addresses.compare([f"run{i}" for i in range(MOST_RUNS + 7)]).partition("/compare")[2]
    chosen = Chosen.of(search)
    assert len(chosen.runs) == MOST_RUNS
    assert chosen.left_out == 7


# --- several seeds as one curve


def by_hand(curves: list[tuple[list[int], list[float]]], width: int) -> list[tuple[float, ...]]:
    found = []
    for first in range(1, max(max(steps) for steps, _ in curves if steps) + 1, width):
        means = []
        for steps, values in curves:
            inside = [v for s, v in zip(steps, values, strict=True) if first <= s < first + width]
            if inside:
                means.append(sum(inside) / len(inside))
        if means:
            means.sort()
            n = len(means)
            median = means[n // 2] if n % 2 else (means[n // 2 - 1] + means[n // 2]) / 2
            found.append((first + (width - 1) / 2, median, means[0], means[-1], n))
    return found


def test_a_band_is_median_and_extremes_of_the_runs_that_are_there() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        curves = []
        for _ in range(int(rng.integers(1, 6))):
            steps = sorted(rng.choice(np.arange(1, 90), size=int(rng.integers(0, 60)), replace=False).tolist())
            curves.append((steps, rng.normal(size=len(steps)).tolist()))
        if not any(steps for steps, _ in curves):
            continue
        width = int(rng.integers(1, 12))
        found = band(curves, width)
        rows = list(zip(found.steps, found.median, found.low, found.high, found.runs, strict=True))
        assert rows == [pytest.approx(row) for row in by_hand(curves, width)]


def test_runs_that_log_every_tenth_step_are_aligned_with_those_that_log_each() -> None:
    sparse = (list(range(10, 101, 10)), [2.0] * 10)
    dense = (list(range(1, 101)), [1.0] * 100)
    width = width_of(100, [sparse[0], dense[0]])
    found = band([sparse, dense], width)
    assert found.runs == [2] * 10
    assert found.median == [1.5] * 10
    assert found.low == [1.0] * 10
    assert found.high == [2.0] * 10


def test_what_is_missing_or_no_number_is_no_point_and_never_a_zero() -> None:
    run = made_run("nan", 40)
    for record in run.records[10:20]:
        record.metrics.update({"reward/mean": math.nan})  # type: ignore[attr-defined]
    for record in run.records[20:30]:
        del record.metrics["reward/mean"]  # type: ignore[attr-defined]
    run.records[30].metrics.update({"reward/mean": None})  # type: ignore[attr-defined]
    run.records[31].metrics.update({"reward/mean": math.inf})  # type: ignore[attr-defined]
    steps, values = points_of(run, "reward/mean")
    assert steps == [*range(1, 11), *range(33, 41)]
    assert all(math.isfinite(value) for value in values)
    found = band([(steps, values)], 1)
    figure = drawn.curves("reward/mean", [found], [group("A")], 1)
    (median,) = figure["data"]  # one run has no band
    assert median["x"].count(None) == 1
    assert median["y"][median["x"].index(None)] is None


def group(name: str, collapses: list[tuple[int | None, int]] | None = None, finals: list[float] | None = None) -> Group:
    """A group of runs, each with the step of its collapse, if any, and its last step."""
    from rlwatch.report.compare import _group
    from rlwatch.report.grouping import Grouped
    from rlwatch.report.outcomes import Outcome

    collapses = collapses or [(None, 100)]
    finals = finals or [0.5] * len(collapses)
    outcomes = [
        Outcome(f"{name}{i}", f"{name}{i}", i, "failed", 1, last, finals[i], finals[i], step, True, None)
        for i, (step, last) in enumerate(collapses)
    ]
    return _group(Grouped(name, {}), outcomes, None, False)


# --- the figures


def test_survival_is_drawn_as_the_product_limit_with_ticks_where_runs_were_censored() -> None:
    collapses = [(50, 200), (None, 80), (120, 200), (120, 200), (None, 200), (None, 120)]
    one = group("a", collapses)
    line, ticks = drawn.survival([one], 200)["data"]
    at = sorted({c for c, _ in collapses if c is not None})
    share, expected = 1.0, [(0.0, 1.0)]
    for time in at:
        risk = sum((c if c is not None else last) >= time for c, last in collapses)
        share *= 1 - sum(c == time for c, _ in collapses) / risk
        expected.append((time, share))
        assert drawn.at_risk(one, time) == risk
    assert list(zip(line["x"], line["y"], strict=True)) == [*map(pytest.approx, expected), pytest.approx((200, share))]
    assert line["line"]["shape"] == "hv"
    assert ticks["x"] == [80, 120, 200]
    assert ticks["y"] == pytest.approx([expected[1][1], share, share])
    assert drawn.at_risk(one, 0) == 6
    assert drawn.at_risk(one, 201) == 0


def test_every_seed_has_its_dot_and_the_interval_is_that_of_the_report() -> None:
    few, many = (
        group("few", [(None, 9)] * 3, [0.1, 0.2, 0.6]),
        group("many", [(None, 9)] * 5, [0.5, 0.6, 0.7, 0.8, 0.9]),
    )
    seeds_few, mean_few, seeds_many, mean_many = drawn.final_rewards([few, many])["data"]
    assert seeds_few["x"] == [0.1, 0.2, 0.6]
    assert mean_few["x"] == [pytest.approx(0.3)]
    assert "error_x" not in mean_few  # three seeds have no interval
    assert len(set(zip(seeds_many["x"], seeds_many["y"], strict=True))) == 5
    assert many.final is not None
    assert many.final.low is not None
    assert many.final.high is not None
    assert mean_many["x"][0] - mean_many["error_x"]["arrayminus"][0] == pytest.approx(many.final.low)
    assert mean_many["x"][0] + mean_many["error_x"]["array"][0] == pytest.approx(many.final.high)


def test_no_two_groups_look_alike() -> None:
    looks = [drawn.look(place) for place in range(MOST_RUNS)]
    assert len({look.letter for look in looks}) == MOST_RUNS
    for place in range(len(drawn.COLOURS) * 3):
        assert (looks[place].colour, looks[place].dash) not in {(x.colour, x.dash) for x in looks[:place]}


def test_names_of_groups_are_no_markup_in_a_figure() -> None:
    evil = group("<b>x</b><script>", [(50, 100), (None, 100)], [0.1, 0.2])
    for figure in (drawn.final_rewards([evil]), drawn.survival([evil], 100)):
        shown = [trace.get(part, "") for trace in figure["data"] for part in ("name", "hovertemplate")]
        assert not [text for text in shown if text and "<b>x" in text]


# --- the page


def test_it_says_first_what_the_command_line_says(tmp_path: Path) -> None:
    keys = two_groups(tmp_path)
    roots, cache = Roots.of(tmp_path), Cache()
    got = read(roots, keys, cache)
    expected: Comparison = compare(got.analyses)
    body = page.found(roots, Chosen(tuple(keys)), cache)
    said = [text_of(part) for part in parts(body) if type(part).__name__ == "Li"]
    start = next(i for i, text in enumerate(said) if text == sentences(expected)[0])
    assert said[start : start + len(sentences(expected))] == sentences(expected)
    assert set(figures(body)) == {"final", "survival", "reward/mean", "entropy/mean"}
    assert len(expected.groups) == 2
    first = figures(body)["reward/mean"]["data"][2]
    curves = [points_of(a.run, "reward/mean") for a in got.analyses if a.run.name.startswith("low")]
    assert first["y"] == pytest.approx(band([(list(x), list(y)) for x, y in curves], 1).median, rel=1e-5)
    order = [type(part).__name__ for part in parts(body)]
    assert order.index("Graph") > order.index("H2")
    links = [part.href for part in parts(body) if type(part).__name__ == "Link"]
    assert all(addresses.run(key) in links for key in keys)


def test_runs_can_be_grouped_otherwise(tmp_path: Path) -> None:
    keys = two_groups(tmp_path, seeds=2)
    roots = Roots.of(tmp_path)
    body = page.found(roots, Chosen(tuple(keys), ("loss_type",)), Cache())
    assert "There is one group" in text_of(body)
    ways = {text_of(part): part.href for part in parts(body) if "filter" in str(getattr(part, "className", ""))}
    assert ways["name"] == addresses.compare(keys, ["loss_type", "name"])
    assert ways["all that differ"] == addresses.compare(keys)
    assert "epsilon_high" in ways
    body = page.found(roots, Chosen(tuple(keys), ("nothing",)), Cache())
    assert "no run has the setting 'nothing'" in text_of(body)
    assert len(figures(body)) == 4


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path, "good", steps=30)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    (tmp_path / "empty").mkdir()
    RunWriter(tmp_path / "empty", {"config": {"loss_type": "grpo"}}).close()
    roots = Roots.of(tmp_path)
    said = text_of(page.found(roots, Chosen(("nope", "broken", "../etc", "good", "empty")), Cache()))
    assert "3 runs could not be read and are left out" in said
    assert "there is no such run here" in said
    assert "broken : it is a directory, and not the directory of one run" in said
    said = text_of(page.found(roots, Chosen(("nope",)), Cache()))
    assert "None of these runs can be compared" in said


def test_only_so_many_bytes_are_read(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path, name, steps=30)
    size = (tmp_path / "a" / "metrics.rank0.jsonl").stat().st_size
    got = read(Roots.of(tmp_path), ["a", "b", "c"], Cache(), most_bytes=int(size * 2.5))
    assert got.keys == ["a", "b"]
    assert "rlwatch compare reads them" in got.unreadable["c"]


def test_a_run_is_judged_again_only_when_its_files_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path, "a", steps=30)
    judged = []
    analyze = compare_read.analyze_run
    monkeypatch.setattr(compare_read, "analyze_run", lambda *given, **more: judged.append(1) or analyze(*given, **more))
    roots, cache = Roots.of(tmp_path), Cache()
    first = read(roots, ["a"], cache)
    assert read(roots, ["a"], cache).analyses[0] is first.analyses[0]
    assert len(judged) == 1
    line = json.dumps({"step": 31, "time": 1.7e9, "metrics": {"reward/mean": 0.5}})
    with (run / "metrics.rank0.jsonl").open("a") as file:
        file.write(line + "\n")
    assert read(roots, ["a"], cache).analyses[0].run.records[-1].step == 31
    assert len(judged) == 2
    (tmp_path / "rlwatch.toml").write_text("[rules.reward-stall]\nenabled = false\n")
    os.utime(tmp_path / "rlwatch.toml", ns=(1, 1))
    assert "reward-stall" in read(roots, ["a"], cache).analyses[0].unchecked
    assert len(judged) == 3


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path, name, steps=30)
    size = (tmp_path / "a" / "metrics.rank0.jsonl").stat().st_size
    cache = Cache(most_bytes=int(size * 2.5))
    roots = Roots.of(tmp_path)
    read(roots, ["a", "b", "c"], cache, most_bytes=10**9)
    assert list(cache._known) == [tmp_path / "b", tmp_path / "c"]


def test_without_runs_it_says_how_to_get_some_and_without_a_choice_how_to_choose(tmp_path: Path) -> None:
    body, title = page_at(tmp_path, "/compare", "")
    assert title == page.TITLE
    assert "rlwatch lab failure-room" in text_of(body)
    write(tmp_path, "b", steps=3)
    write(tmp_path, "a", steps=3)
    body, _ = page_at(tmp_path, "/compare", "?run=b")
    (boxes,) = [part for part in parts(body) if type(part).__name__ == "CheckboxGroup"]
    assert [box.value for box in boxes.children] == ["a", "b"]
    assert boxes.value == ["b"]
    assert page_at(tmp_path, "/compare/more", "")[1] == "Not found · rlwatch"


def test_a_run_that_has_not_ended_is_said_to_be_as_of_now(tmp_path: Path) -> None:
    write(tmp_path, "done", steps=30)
    (tmp_path / "going").mkdir()
    writer = RunWriter(tmp_path / "going", {"config": {"loss_type": "dapo"}})
    for record in made_run("going", 30, seed=3).records:
        writer.append(record)
    said = text_of(page.found(Roots.of(tmp_path), Chosen(("done", "going")), Cache()))
    assert "going: not ended." in said


def test_no_two_parts_of_the_page_have_one_id(tmp_path: Path) -> None:
    keys = two_groups(tmp_path, seeds=2)
    search = addresses.compare(keys).partition("/compare")[2]
    body = [*page_at(tmp_path, "/compare", search)[0], *page.found(Roots.of(tmp_path), Chosen(tuple(keys)), Cache())]
    ids = [json.dumps(part.id) for part in parts(body) if getattr(part, "id", None)]
    assert len(ids) == len(set(ids)) > 10
