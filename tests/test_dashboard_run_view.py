"""How a run's page shows its curves: views in the address, axes, what is beside a run, what is sent of it."""

from __future__ import annotations

import doctest
import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from components import text_of
from rlwatch.runs.records import StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import axes, companions, create_app, feed, figures, followed, run_view, smoothing
from rlwatch_dashboard.axes import Axis, zone_of
from rlwatch_dashboard.columns import Columns
from rlwatch_dashboard.families import families, shown
from rlwatch_dashboard.lines import LIMITS, Lines
from rlwatch_dashboard.pages import run as run_page
from rlwatch_dashboard.pages import run_answers, run_tools
from rlwatch_dashboard.roots import Roots
from rlwatch_dashboard.run_view import MOST_OTHERS, RunView

ENTROPY, GROUPS = figures.SIGNALS[0], figures.SIGNALS[1]
AREAS = ("groups/solved", "groups/failed", "groups/stuck")


def new_run(root: Path, name: str = "run", **info: Any) -> RunWriter:
    (root / name).mkdir(parents=True)
    return RunWriter(root / name, info)


def links_of(component: Any) -> list[tuple[str, str]]:
    """All links in a component: what they are called, and where they lead."""
    if isinstance(component, (list, tuple)):
        return [link for part in component for link in links_of(part)]
    if not hasattr(component, "to_plotly_json"):
        return []
    own = [(" ".join(text_of(component).split()), component.href)] if getattr(component, "href", None) else []
    return own + links_of(getattr(component, "children", None))


def columns_of(values: dict[str, list[float]], times: list[float] | None = None) -> Columns:
    """A run in which each metric is there at each step."""
    n = len(next(iter(values.values())))
    given = {name: (None, np.array(column, float)) for name, column in values.items()}
    clock = np.array(times if times is not None else range(n), float)
    return Columns(np.arange(1, n + 1), clock, np.arange(1, n + 1), given)


# The address


@settings(deadline=None)
@given(
    view=st.builds(
        RunView,
        x=st.sampled_from(sorted(run_view.X)),
        log=st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=3).map(tuple),
        smooth=st.sampled_from([0.0, 0.5, 0.9, 0.999]),
        others=st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=MOST_OTHERS).map(tuple),
        band=st.booleans(),
    ).filter(lambda view: all(_is_sound(text) for text in (*view.log, *view.others)))
)
def test_an_address_gives_the_view_that_it_was_made_of(view: RunView) -> None:
    assert RunView.of(view.search()) == view


def _is_sound(text: str) -> bool:
    return text.encode(errors="replace").decode() == text


@pytest.mark.parametrize("search", [None, "", "?", "?smooth=-1", "?smooth=inf&x=", "?seeds=all", 7, "?=&&&%%%"])
def test_an_address_that_says_nothing_sensible_gives_the_plain_view(search: Any) -> None:
    assert RunView.of(search) == RunView()


def test_smoothing_of_an_address_is_bounded() -> None:
    assert RunView.of("?smooth=1").smooth == smoothing.MOST < 1


@pytest.mark.parametrize("module", [run_view, run_tools, run_answers])
def test_the_examples_in_the_docstrings_hold(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


# Over what


@settings(deadline=None, max_examples=60)
@given(
    times=st.lists(st.integers(1_700_000_000, 1_830_000_000), min_size=1, max_size=30),
    name=st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]),
)
def test_times_are_the_viewers_clock(times: list[int], name: str) -> None:
    x = Axis("time", ZoneInfo(name)).of(columns_of({"a": [0.0] * len(times)}, [float(time) for time in times]))
    for time, at in zip(times, x.tolist(), strict=True):
        here = datetime.fromtimestamp(time, ZoneInfo(name)).replace(tzinfo=ZoneInfo("UTC"))
        assert at == 1000 * here.timestamp()


def test_a_time_that_is_not_known_has_no_place() -> None:
    columns = columns_of({"entropy/mean": [1.0, 2.0, 3.0]}, [1.7e9, math.nan, 1.7e9 + 5])
    curve = Lines(columns, Axis("time")).whole(ENTROPY)["entropy/mean"]
    assert curve == {"x": [1.7e12, 1.7e12 + 5000], "y": [1.0, 3.0]}


@pytest.mark.parametrize("name", ["", "Nowhere/Else", "../../etc/passwd", "/etc/localtime", "a" * 500, "\0"])
def test_a_zone_that_is_none_is_utc(name: str) -> None:
    assert zone_of(name).utcoffset(None) == datetime.fromtimestamp(0, ZoneInfo("UTC")).utcoffset()


def test_tokens_are_those_of_the_run_and_missing_is_not_zero() -> None:
    columns = columns_of({"entropy/mean": [1.0, 2.0, 3.0, 4.0], "num_tokens": [math.nan, 100.0, math.nan, 250.0]})
    assert axes.tokens_metric(columns) == "num_tokens"
    curve = Lines(columns, Axis("tokens")).whole(ENTROPY)["entropy/mean"]
    assert curve == {"x": [100, 100, 250], "y": [2.0, 3.0, 4.0]}
    assert axes.tokens_metric(columns_of({"loss": [1.0]})) is None


def test_alerts_are_where_their_steps_are() -> None:
    columns = columns_of({"a": [0.0] * 3}, [1e9, 1e9 + 10, 1e9 + 20])
    assert Axis("time").places(columns, [1, 3, 99]) == [1e12, 1e12 + 20_000, 1e12 + 20_000]
    assert Axis().places(columns, [99]) == [99.0]
    assert Axis("time").places(columns_of({"a": []}), [1]) == [None]


# Curves


def test_a_spike_and_a_nan_in_a_hundred_thousand_steps_are_sent() -> None:
    values = np.random.default_rng(0).normal(1.0, 0.1, 100_000)
    values[70_000], values[40_000] = 500.0, math.nan
    lines = Lines(columns_of({"entropy/mean": values.tolist()}))
    found = lines.whole(ENTROPY)
    curve = found["entropy/mean"]
    assert len(curve["x"]) <= LIMITS[True]
    assert curve["y"][curve["x"].index(70_001)] == 500.0
    assert curve["y"][curve["x"].index(40_001)] is None
    assert found["gaps:entropy"] == {"x": [40_001], "y": [0.0], "text": ["entropy/mean NaN at step 40,001"]}
    near = lines.whole(ENTROPY, (69_990, 70_010))["entropy/mean"]["x"]
    assert set(range(69_990, 70_011)) <= set(near)


def test_stacked_metrics_share_their_steps() -> None:
    rng = np.random.default_rng(0)
    given = {name: rng.random(30_000) for name in AREAS}
    given["groups/failed"][12_345] = math.nan
    found = Lines(columns_of({name: column.tolist() for name, column in given.items()})).whole(GROUPS)
    steps = [found[name]["x"] for name in AREAS]
    assert steps[0] == steps[1] == steps[2]
    assert len(steps[0]) <= LIMITS[True]
    for name in AREAS:
        known = [value for value in found[name]["y"] if value is not None]
        assert max(known) == pytest.approx(np.nanmax(given[name]), rel=1e-5)
        assert min(known) == pytest.approx(np.nanmin(given[name]), rel=1e-4)


def test_a_stacked_metric_that_is_absent_at_a_step_has_no_point_there(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    for step in range(1, 6):
        some = {"groups/solved": 0.1, **({"groups/stuck": 0.2} if step != 3 else {})}
        writer.append(StepRecord(step, 1.0, some))
    found = Lines(feed.load(writer.path).columns).whole(GROUPS)
    assert [found[name]["x"] for name in AREAS] == [[1, 2, 3, 4, 5], [], [1, 2, 4, 5]]


def test_none_is_a_gap_and_not_called_nan(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    for step, value in enumerate((1.0, None, math.nan, math.inf, 2.0), 1):
        writer.append(StepRecord(step, 1.0, {"entropy/mean": value}))
    found = Lines(feed.load(writer.path).columns).whole(ENTROPY)
    assert found["entropy/mean"]["y"] == [1.0, None, None, None, 2.0]
    assert found["gaps:entropy"]["text"] == ["entropy/mean NaN at step 3", "entropy/mean ∞ at step 4"]


@pytest.mark.parametrize("weight", [0.5, 0.9, 0.99])
def test_new_points_of_a_smoothed_curve_go_on_where_it_was(weight: float) -> None:
    values = np.random.default_rng(2).normal(1.0, 0.3, 1000)
    values[700] = math.nan
    lines = Lines(columns_of({"entropy/mean": values.tolist()}), weight=weight)
    whole, new = lines.whole(ENTROPY), lines.since(ENTROPY, 990)
    assert new["entropy/mean"]["x"] == list(range(991, 1001))
    assert new["smooth:entropy/mean"]["x"] == list(range(991, 1001))
    assert new["smooth:entropy/mean"]["y"] == pytest.approx(whole["smooth:entropy/mean"]["y"][-10:], rel=1e-4)
    assert whole["smooth:entropy/mean"]["y"][700] is None


def test_only_charts_that_are_drawn_get_points(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    metrics = {"loss": 1.0, "kl/ref": 0.5, "clip/low": 0.1, "eval/x": 2.0}
    writer.append(StepRecord(1, 1.0, metrics))
    start = feed.load(writer.path)
    writer.append(StepRecord(2, 2.0, metrics))
    update = feed.poll(writer.path, start.cursor)
    assert update is not None
    assert set(run_answers.chunk(start.cursor, update)["series"]) == {"loss"}
    said = run_answers.chunk(start.cursor, update, unfolded=["kl", "eval", "nothing"])
    assert set(said["series"]) == set(said["latest"]) == {"loss", "kl/ref", "eval/x"}


def test_every_chart_is_always_there_or_in_one_family() -> None:
    charts = figures.charts_for(["loss", "kl/ref", "kl/old", "eval/x", "raw/y", "step_seconds", "weight/long"])
    found = families(charts)
    assert [family.key for family in found] == ["weight", "kl", "step_seconds", "eval", "raw"]
    members = [chart.key for family in found for chart in family.charts]
    assert sorted(members + [chart.key for chart in shown(charts, [])]) == sorted(chart.key for chart in charts)
    assert {chart.key for chart in shown(charts, ["kl"])} >= {"metric:kl/ref", "metric:kl/old"}


# What the page is told


def test_after_a_long_absence_the_page_asks_for_fresh_points(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    for step in range(1, 11):
        writer.append(StepRecord(step, 1.0, {"loss": 1.0}))
    start = feed.load(writer.path)
    for step in range(11, 1011):
        writer.append(StepRecord(step, 1.0, {"loss": float(step)}))
    update = feed.poll(writer.path, start.cursor)
    assert update is not None
    said = run_answers.chunk(start.cursor, update)
    assert (said["many"], said["series"]) == (True, {})
    seed = run_answers.seed(Roots.of(tmp_path), "run", RunView(), [], {"n": 3, "window": [990, 1000]})
    assert seed["n"] == 3
    assert seed["at"] == {"metrics": update.cursor["metrics"], "step": 1010}
    assert set(range(990, 1001)) <= set(seed["series"]["loss"]["x"])
    assert seed["series"]["loss"]["x"][-1] == 1010
    moved: Any = {**start.cursor, **seed["at"]}
    assert feed.poll(writer.path, moved) is None, "nothing comes twice"


def test_a_first_point_of_a_metric_makes_the_page_anew(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    writer.append(StepRecord(1, 1.0, {"loss": 1.0}))
    start = feed.load(writer.path)
    writer.append(StepRecord(2, 2.0, {"loss": 1.0, "eval/x": 2.0}))
    update = feed.poll(writer.path, start.cursor)
    assert update is not None
    assert run_answers.chunk(start.cursor, update)["fresh"]


@pytest.mark.parametrize("asked", [None, 7, {}, {"window": "all"}, {"window": [1, math.nan]}, {"window": [True, {}]}])
def test_a_question_that_makes_no_sense_gets_all_of_the_run(tmp_path: Path, asked: Any) -> None:
    new_run(tmp_path).append(StepRecord(1, 1.0, {"loss": 1.0}))
    assert run_answers.seed(Roots.of(tmp_path), "run", RunView(), [], asked)["series"]["loss"]["x"] == [1]


def test_the_answer_for_a_very_long_run_is_bounded(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    rng = np.random.default_rng(0)
    lines = [
        json.dumps({"step": step, "time": 1.0, "metrics": {"loss": value, "entropy/mean": value}})
        for step, value in enumerate(rng.random(20_000).tolist(), 1)
    ]
    with (writer.path / "metrics.rank0.jsonl").open("a") as file:
        file.write("\n".join(lines) + "\n")
    seed = run_answers.seed(Roots.of(tmp_path), "run", RunView(), [], {})
    assert max(len(curve["x"]) for curve in seed["series"].values()) <= LIMITS[True]
    page = json.dumps(run_page.layout(feed.load(writer.path)), default=lambda part: part.to_plotly_json())
    assert len(page) < 250_000


# Beside a run


def make_seeds(root: Path) -> None:
    for seed, steps in ((0, 10), (1, 10), (2, 4)):
        writer = new_run(root, f"a-seed{seed}", config={"lr": 0.1, "seed": seed})
        for step in range(1, steps + 1):
            writer.append(StepRecord(step, 1.0, {"entropy/mean": float(step + seed)}))
    writer = new_run(root, "b-seed3", config={"lr": 0.2, "seed": 3})
    writer.append(StepRecord(1, 1.0, {"entropy/mean": 99.0}))


def test_a_band_is_of_the_runs_that_differ_by_their_seed(tmp_path: Path) -> None:
    make_seeds(tmp_path)
    roots, run = Roots.of(tmp_path), tmp_path / "a-seed0"
    assert [path.name for path in companions.seeds_of(run)] == ["a-seed0", "a-seed1", "a-seed2"]
    beside = companions.companions(roots, run, RunView(band=True), Axis())
    curves = beside.curves(ENTROPY)
    assert curves["band-low:entropy/mean"]["y"] == [float(step) for step in range(1, 11)]
    assert curves["band-high:entropy/mean"]["y"] == [3.0, 4.0, 5.0, 6.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]
    assert curves["band-median:entropy/mean"]["y"][:5] == [2.0, 3.0, 4.0, 5.0, 5.5]
    text = text_of(run_page.layout(feed.load(run), "?seeds=band", roots))
    assert "Median and range of 3 runs" in text
    assert "they reach to step 4 (1 run) and 10 (2 runs)" in text


@settings(deadline=None, max_examples=60)
@given(data=st.data(), count=st.integers(2, 5))
def test_a_band_is_the_range_at_each_step(data: st.DataObject, count: int) -> None:
    value = st.one_of(st.floats(-5, 5), st.just(math.nan))
    runs = [data.draw(st.dictionaries(st.integers(1, 12), value, min_size=1)) for _ in range(count)]
    series = [(np.array(sorted(run), float), np.array([run[step] for step in sorted(run)])) for run in runs]
    steps, low, middle, high = companions.band(series)
    assert steps.tolist() == sorted({step for run in runs for step in run})
    for place, step in enumerate(steps.tolist()):
        there = sorted(run[int(step)] for run in runs if step in run and math.isfinite(run[int(step)]))
        if not there:
            assert math.isnan(low[place])
            assert math.isnan(high[place])
            continue
        half = len(there) // 2
        expected = there[half] if len(there) % 2 else (there[half - 1] + there[half]) / 2
        assert (low[place], high[place]) == (there[0], there[-1])
        assert middle[place] == pytest.approx(expected)


def test_other_runs_are_drawn_by_name_and_a_missing_one_is_named(tmp_path: Path) -> None:
    make_seeds(tmp_path)
    roots, run = Roots.of(tmp_path), tmp_path / "a-seed0"
    search = "?with=b-seed3&with=nope"
    beside = companions.companions(roots, run, RunView.of(search), Axis())
    assert beside.curves(ENTROPY) == {"with:b-seed3:entropy/mean": {"x": [1], "y": [99.0]}}
    page = run_page.layout(feed.load(run), search, roots)
    assert "there is no such run" in text_of(page)
    links = dict(links_of(page))
    assert links["+ a-seed1"] == "/run/a-seed0?with=b-seed3&with=nope&with=a-seed1"
    assert links["✓ b-seed3"] == "/run/a-seed0?with=nope"
    assert links["Time"] == "/run/a-seed0?x=time&with=b-seed3&with=nope"
    assert "Tokens" not in links, "this run counts none"


def test_colours_of_other_runs_are_readable_on_both_panels() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert len(companions.COLOURS) == MOST_OTHERS
    for colour in companions.COLOURS:
        for panel in ("#ffffff", "#161a21"):
            dark, bright = sorted((luminance(colour), luminance(panel)))
            assert (bright + 0.05) / (dark + 0.05) >= 3, colour


# The cache


def test_the_cache_is_bounded_and_keeps_what_was_asked_for_last(tmp_path: Path) -> None:
    runs = []
    for number in range(6):
        writer = new_run(tmp_path, f"run{number}")
        for step in range(1, 301):
            writer.append(StepRecord(step, 1.0, {"loss": float(step)}))
        runs.append(writer.path)
    one = followed.Cache()
    one.look(runs[0])
    cache = followed.Cache(most_bytes=3 * one.nbytes)
    for run in runs:
        assert len(cache.look(run).columns.steps) == 300
    assert cache.nbytes <= 3 * one.nbytes
    small = followed.Cache(most_bytes=1)
    assert len(small.look(runs[0]).columns.steps) == 300
    assert small.look(runs[0]).columns is small.look(runs[0]).columns, "the last one stays"


def test_a_server_that_began_anew_answers_an_open_pages_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = new_run(tmp_path)
    writer.append(StepRecord(1, 1.0, {"loss": 1.0}))
    cursor = feed.load(writer.path).cursor
    writer.append(StepRecord(2, 1.0, {"loss": 2.0}))
    monkeypatch.setattr(followed, "_CACHE", followed.Cache())
    update = feed.poll(writer.path, cursor)
    assert update is not None
    assert update.series["loss"] == {"x": [2], "y": [2.0]}


def test_what_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = new_run(tmp_path)
    writer.append(StepRecord(1, 1.0, {"loss": 1.0}))
    cursor = feed.load(writer.path).cursor

    def refuse(*_: Any) -> Any:
        raise AssertionError("it was read again")

    for name in ("read_info", "read_alerts"):
        monkeypatch.setattr(followed, name, refuse)
    assert feed.poll(writer.path, cursor) is None
    writer.append(StepRecord(2, 1.0, {"loss": 2.0}))
    assert feed.poll(writer.path, cursor) is not None


def test_a_view_in_the_address_is_what_the_page_gets(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    for step in range(1, 4):
        writer.append(StepRecord(step, 1.7e9 + step, {"entropy/mean": 1.0, "loss": 1.0}))
    app = create_app(tmp_path)
    body = {
        "output": "..page.children...title.data..",
        "outputs": [{"id": "page", "property": "children"}, {"id": "title", "property": "data"}],
        "inputs": [
            {"id": "url", "property": "pathname", "value": "/run/run"},
            {"id": "url", "property": "search", "value": "?x=time&log=entropy&smooth=0.5"},
            {"id": "reload", "property": "data", "value": None},
        ],
        "changedPropIds": ["url.pathname"],
    }
    client = app.server.test_client()
    client.set_cookie("rlwatch-zone", "Asia%2FKolkata")
    answer = json.dumps(client.post("/_dash-update-component", json=body).get_json())
    assert '"type":"date"' in answer.replace(" ", "")
    assert '"type":"log"' in answer.replace(" ", "")
    assert '"smooth:entropy/mean"' in answer
    assert str(int((1.7e9 + 1 + 5.5 * 3600) * 1000)) in answer, "on the clock of the zone that the browser said"
