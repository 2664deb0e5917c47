"""The dashboard without a browser: what it reads, what it draws, what it answers, how it is served."""

from __future__ import annotations

import doctest
import json
import math
import socket
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from components import text_of
from rlwatch.runs.records import Advice, Alert, AlertState, Cause, Severity, StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import PortTakenError, create_app, feed, figures, numbers, run_in_background, theme
from rlwatch_dashboard.app import page_at
from rlwatch_dashboard.pages.run_answers import chunk as run_page_chunk

METRICS = {
    "entropy/mean": 1.5,
    "groups/zero_std": 0.25,
    "groups/solved": 0.125,
    "groups/failed": 0.125,
    "groups/stuck": 0.0,
    "length/mean": 210.0,
    "length/correct": 180.0,
    "length/incorrect": 240.0,
    "grad/norm": 0.3,
    "grad/applied_norm": 0.3,
    "grad/effective_norm": 0.3,
    "reward/mean": 0.5,
    "groups/reward_std": 0.4,
    "loss": -0.0123456789,
    "lr": 1e-5,
    "step_seconds": 3.2,
}


def record(step: int, **changes: float | None) -> StepRecord:
    return StepRecord(step, time.time(), {**METRICS, **changes})


def alert(state: str, step: int, *, rule: str = "entropy-collapse", severity: str = "critical", **more: Any) -> Alert:
    values: dict[str, Any] = {
        "since": 5,
        "time": time.time(),
        "value": 0.2,
        "reference": 1.5,
        "message": "Entropy is at 0.2.",
        **more,
    }
    return Alert(rule=rule, severity=Severity(severity), state=AlertState(state), step=step, **values)


def new_run(root: Path, name: str = "run", steps: int = 0, **info: Any) -> RunWriter:
    (root / name).mkdir(parents=True)
    writer = RunWriter(root / name, info)
    for step in range(1, steps + 1):
        writer.append(record(step))
    return writer


def update_of(run: Path, cursor: feed.Cursor) -> feed.Update:
    update = feed.poll(run, cursor)
    assert update is not None
    return update


# What is new since a cursor


def test_an_unchanged_run_has_nothing_new(tmp_path: Path) -> None:
    run = new_run(tmp_path, steps=3).path
    assert feed.poll(run, feed.load(run).cursor) is None


def test_only_what_came_after_the_cursor_is_sent(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=3)
    start = feed.load(writer.path)
    writer.append(record(4, **{"entropy/mean": 1.25}))
    update = update_of(writer.path, start.cursor)
    assert update.series["entropy/mean"] == {"x": [4], "y": [1.25]}
    assert update.latest["entropy/mean"] == "1.25"
    assert update.cursor["step"] == 4
    assert update.episodes is None
    assert feed.poll(writer.path, update.cursor) is None


def test_a_half_written_last_line_is_left_for_the_next_time(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=2)
    metrics = writer.path / "metrics.rank0.jsonl"
    with metrics.open("a") as file:
        file.write('{"step":3,"time":1.0,"metr')
    start = feed.load(writer.path)
    assert start.series["loss"]["x"] == [1, 2]
    assert feed.poll(writer.path, start.cursor) is None
    with metrics.open("a") as file:
        file.write('ics":{"loss":0.5}}\n')
    assert update_of(writer.path, start.cursor).series == {"loss": {"x": [3], "y": [0.5]}}


def test_no_number_is_a_gap_and_absent_is_no_point(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    writer.append(record(1))
    writer.append(record(2, loss=math.nan, lr=None, **{"grad/norm": math.inf}))
    writer.append(StepRecord(3, time.time(), {"loss": 0.1}))
    start = feed.load(writer.path)
    assert start.series["loss"] == {"x": [1, 2, 3], "y": [-0.0123457, None, 0.1]}
    assert start.series["lr"] == {"x": [1, 2], "y": [1e-5, None]}
    assert start.series["entropy/mean"]["x"] == [1, 2]
    assert (start.latest["lr"], start.latest["grad/norm"]) == ("none", "∞")


def test_a_file_that_began_anew_is_said_to_have(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=30)
    start = feed.load(writer.path)
    metrics = writer.path / "metrics.rank0.jsonl"
    metrics.write_text(metrics.read_text().splitlines(keepends=True)[0])
    assert update_of(writer.path, start.cursor).restarted


def test_a_broken_line_is_skipped_and_named(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=2)
    start = feed.load(writer.path)
    with (writer.path / "metrics.rank0.jsonl").open("a") as file:
        file.write("not ours\n")
    writer.append(record(3))
    update = update_of(writer.path, start.cursor)
    assert update.series["loss"]["x"] == [3]
    assert [item.path.name for item in update.skipped] == ["metrics.rank0.jsonl"]


def test_the_header_learns_of_the_end_and_of_new_facts(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=2)
    start = feed.load(writer.path)
    writer.update_info(correct="accuracy is 1")
    update = update_of(writer.path, start.cursor)
    assert update.facts_changed
    writer.close()
    assert update_of(writer.path, update.cursor).cursor["state"] == "ended"


@pytest.mark.parametrize("cursor", [{}, {"metrics": "1", "alerts": None}, {"metrics": -5, "alerts": 1.5}])
def test_a_cursor_that_makes_no_sense_starts_from_the_start(tmp_path: Path, cursor: dict[str, Any]) -> None:
    run = new_run(tmp_path, steps=2).path
    update = feed.poll(run, cursor)
    assert update is not None
    assert update.series["loss"]["x"] == [1, 2]


# A run that was resumed


def resume(run: Path, step: int) -> RunWriter:
    """Another process goes on with a run from a checkpoint."""
    info = {key: value for key, value in json.loads((run / "run.json").read_text()).items() if key != "ended"}
    return RunWriter(run, {**info, "resumed": [{"step": step, "time": time.time()}]}, back_to=step)


def test_a_page_that_shows_steps_that_were_taken_back_loads_anew(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=20)
    writer.alert(alert("firing", 9))
    writer.alert(alert("firing", 18, rule="dead-groups", since=16))
    writer.close()
    shown = feed.load(writer.path)
    assert [episode.alert.rule for episode in shown.episodes] == ["entropy-collapse", "dead-groups"]

    writer = resume(writer.path, 15)
    update = update_of(writer.path, shown.cursor)
    assert update.restarted
    assert update.summary.state == "live"
    assert update.summary.last is not None
    assert update.summary.last.step == 15
    assert json.loads(json.dumps(run_page_chunk(shown.cursor, update)))["restarted"]

    now = feed.load(writer.path)
    assert now.series["loss"]["x"] == list(range(1, 16))
    assert [episode.alert.rule for episode in now.episodes] == ["entropy-collapse"], "the other one never happened"
    assert not now.episodes[0].over
    assert (now.cursor["step"], now.skipped) == (15, [])
    assert feed.poll(writer.path, now.cursor) is None, "and it is told once"

    writer.append(record(16, loss=0.5))
    update = update_of(writer.path, now.cursor)
    assert not update.restarted
    assert update.series["loss"] == {"x": [16], "y": [0.5]}
    assert update.episodes is None
    text = text_of(page_at(tmp_path, "/run/run")[0])
    assert "dead-groups" not in text
    assert "Not learning since step 5" in text


def test_a_page_that_shows_nothing_that_was_taken_back_goes_on(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=20)
    writer.close()
    shown = feed.load(writer.path)
    writer = resume(writer.path, 20)
    update = update_of(writer.path, shown.cursor)
    assert (update.restarted, update.series, update.cursor["state"]) == (False, {}, "live")
    writer.append(record(21))
    assert update_of(writer.path, update.cursor).series["loss"]["x"] == [21]


# Alerts


def test_spans_reach_from_since_to_the_end_and_know_where_the_alert_fired(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=20)
    writer.alert(alert("pending", 6))
    writer.alert(alert("firing", 8))
    start = feed.load(writer.path)
    band = {"from": 5, "to": None, "severity": "critical"}
    span = {"rule": "entropy-collapse", "severity": "critical", "fired": 8, "over": False, "bands": [band]}
    assert [episode.span() for episode in start.episodes] == [span]

    writer.alert(alert("resolved", 18, resolved_step=18))
    episodes = update_of(writer.path, start.cursor).episodes
    assert episodes is not None
    assert [episode.span() for episode in episodes] == [{**span, "over": True, "bands": [{**band, "to": 18}]}]


def test_a_span_has_a_band_for_each_severity() -> None:
    changes = [alert("firing", 8, severity="warning"), alert("firing", 9, severity="warning"), alert("firing", 12)]
    span = feed.episodes_of(changes)[0].span()
    assert span["bands"] == [
        {"from": 5, "to": 12, "severity": "warning"},
        {"from": 12, "to": None, "severity": "critical"},
    ]
    assert (span["fired"], span["severity"]) == (8, "critical")


def test_an_alert_that_never_fired_is_not_shown() -> None:
    assert feed.episodes_of([alert("pending", 6), alert("resolved", 7, resolved_step=7)]) == []


def test_open_alerts_come_first_and_the_first_is_that_of_the_headline() -> None:
    changes = [
        alert("firing", 6, rule="a", severity="warning"),
        alert("firing", 7, rule="b"),
        alert("firing", 9, rule="c"),
        alert("firing", 3, rule="d", since=2),
        alert("resolved", 4, rule="d", since=2, resolved_step=4),
    ]
    assert [episode.alert.rule for episode in feed.episodes_of(changes)] == ["b", "c", "a", "d"]


# Charts


def test_a_metric_that_is_not_recorded_has_no_points_and_its_chart_says_so(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    writer.append(StepRecord(1, time.time(), {"length/mean": 10.0}))
    (page, _) = page_at(tmp_path, "/run/run")
    text = text_of(page)
    assert "Entropy" in text
    assert numbers.NOT_RECORDED in text
    entropy = figures.figure(figures.SIGNALS[0], feed.load(writer.path).series)
    assert [(trace["meta"], trace["x"], trace["y"]) for trace in entropy["data"]] == [("entropy/mean", [], [])]


def test_why_a_metric_is_absent_is_said_where_it_is_known(tmp_path: Path) -> None:
    names = ("grad/norm", "grad/applied_norm", "grad/effective_norm")
    new_run(tmp_path, absent=dict.fromkeys(names, "the trainer has no _get_grad_norm"))
    assert "not recorded the trainer has no _get_grad_norm" in text_of(page_at(tmp_path, "/run/run")[0])


def test_the_zero_variance_split_is_stacked_under_its_sum(tmp_path: Path) -> None:
    start = feed.load(new_run(tmp_path, steps=2).path)
    groups = next(chart for chart in figures.SIGNALS if chart.key == "groups")
    traces = {trace["meta"]: trace for trace in figures.figure(groups, start.series)["data"]}
    stacked = [name for name, trace in traces.items() if trace.get("stackgroup")]
    assert stacked == ["groups/solved", "groups/failed", "groups/stuck"]
    assert traces["groups/zero_std"]["y"] == [0.25, 0.25]


def test_every_recorded_metric_is_in_exactly_one_chart() -> None:
    recorded = [*METRICS, "reward/accuracy", "eval/x", "kl/<b>"]
    charts = figures.charts_for(recorded)
    drawn = [name for chart in charts for name in chart.labels]
    assert sorted(drawn) == sorted({*recorded})
    assert [chart.key for chart in charts[:4]] == ["entropy", "groups", "length", "gradient"]


def test_names_are_not_markup_in_a_chart() -> None:
    chart = figures.charts_for(["reward/<b>x</b>"])[-1]
    assert "<" not in figures.figure(chart, {})["data"][0]["name"]


def test_a_lone_point_gets_a_dot() -> None:
    chart = figures.SIGNALS[0]
    long = list(range(1, 200))
    smooth: list[float | None] = [1.0] * len(long)
    torn = [None if step % 2 else 1.0 for step in long]

    def mode(x: list[int], y: list[float | None]) -> str:
        return str(figures.figure(chart, {"entropy/mean": {"x": x, "y": y}})["data"][0]["mode"])

    assert mode([1], [1.0]) == "lines+markers"
    assert mode(long, smooth) == "lines"
    assert mode(long, torn) == "lines+markers"


@pytest.mark.parametrize(
    "colour", [*theme.METRIC_COLOURS.values(), *theme.SEVERITIES.values(), theme.colour_of("anything")]
)
@pytest.mark.parametrize("panel", ["#ffffff", "#161a21"])
def test_curves_are_readable_on_both_panels(colour: str, panel: str) -> None:
    assert panel in (Path(figures.__file__).parent / "assets" / "base.css").read_text()
    assert contrast(colour, panel) >= 3


@pytest.mark.parametrize("fill", theme.SEVERITY_FILLS.values())
def test_white_letters_are_readable_on_severities(fill: str) -> None:
    assert contrast(fill, "#ffffff") >= 4.5


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("loss", 0.0, "0"),
        ("loss", None, "none"),
        ("loss", math.nan, "NaN"),
        ("loss", "NaN", "NaN"),
        ("loss", -1234.5, "−1,234"),
        ("lr", 1e-5, "1e-5"),
        ("groups/zero_std", 0.6375, "63.7 %"),
        ("groups/zero_std", 1.0, "100 %"),
        ("groups/zero_std", math.nan, "NaN"),
        ("loss", 10**400, "out of range"),
    ],
)
def test_numbers_are_said_as_they_are(name: str, value: Any, words: str) -> None:
    assert numbers.of_metric(name, value) == words


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(numbers).failed == 0


# Pages


@pytest.mark.parametrize("make", [True, False])
def test_without_runs_the_page_says_what_to_do(tmp_path: Path, make: bool) -> None:
    root = tmp_path / "runs"
    if make:
        root.mkdir()
    page, title = page_at(root, "/")
    text = text_of(page)
    assert title == "Runs · rlwatch"
    assert str(root) in text
    assert "RLWatchCallback()" in text
    assert "rlwatch lab failure-room" in text


def test_a_run_page_says_how_the_run_is(tmp_path: Path) -> None:
    config = {"loss_type": "dapo", "epsilon": 0.2, "max_steps": 700, "seed": 42}
    fault = {"where": "on_step_end", "error": "KeyError: 'x'", "count": 3}
    writer = new_run(
        tmp_path, steps=30, config=config, framework={"trl": "1.16.0"}, correct="accuracy is 1", faults=[fault]
    )
    writer.alert(
        alert(
            "firing",
            8,
            evidence={"groups/zero_std": 0.75},
            causes=(Cause("a peaked prior", {"entropy/mean": 0.25}),),
            advice=(Advice("raise epsilon_high", "DAPO, fig. 2"),),
        )
    )
    page, title = page_at(tmp_path, "/run/run")
    text = text_of(page)
    assert title == "⚠ run · rlwatch"
    for words in (
        *("Not learning since step 5: Entropy is at 0.2.", "step 30 of 700", "accuracy is 1", "1.16.0", "dapo"),
        *("KeyError: 'x' (3 times)", "75 %", "a peaked prior", "raise epsilon_high", "DAPO, fig. 2", "fired at 8"),
    ):
        assert words in text


@pytest.mark.parametrize(
    "info", [{}, {"config": None, "framework": 3, "faults": "x", "correct": []}, {"created": "yesterday"}]
)
def test_facts_that_are_missing_or_strange_do_no_harm(tmp_path: Path, info: dict[str, Any]) -> None:
    new_run(tmp_path, steps=1, **info)
    assert "Too early to say" in text_of(page_at(tmp_path, "/run/run")[0])


@pytest.mark.parametrize(
    "name",
    [
        "nope",
        "",
        ".",
        "..",
        "..%2f..",
        "..%2Fsecret",
        "%2e%2e%2fsecret",
        "run%2f..%2frun",
        "%2Fetc",
        "..%5c..",
        "a%00b",
    ],
)
def test_a_name_never_leads_out_of_the_root(tmp_path: Path, name: str) -> None:
    root = tmp_path / "runs"
    new_run(root, steps=1)
    new_run(tmp_path, "secret", steps=1)
    page, title = page_at(root, f"/run/{name}")
    assert title == "Not found · rlwatch"
    assert "All runs" in text_of(page)


def test_a_folder_that_is_no_run_is_not_found_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    page, title = page_at(tmp_path, "/run/other")
    assert title == "Not found · rlwatch"
    assert "no run.json" in text_of(page)


def test_a_name_with_odd_characters_is_found(tmp_path: Path) -> None:
    new_run(tmp_path, "a b%c ü", steps=1)
    assert page_at(tmp_path, "/run/a%20b%25c%20%C3%BC")[1] == "a b%c ü · rlwatch"


# Answers to the browser


def ask(app: Any, first_output: str, **state: Any) -> Any:
    """What the browser sends when a timer fires, to the callback whose first output is given."""
    key = next(key for key in app.callback_map if key.startswith(f"..{first_output}"))
    callback = app.callback_map[key]
    outputs = [part.rsplit(".", 1) for part in key.strip(".").split("...")]
    body = {
        "output": key,
        "outputs": [{"id": name, "property": prop} for name, prop in outputs],
        "inputs": [{**item, "value": 1} for item in callback["inputs"]],
        "changedPropIds": [f"{callback['inputs'][0]['id']}.n_intervals"],
        "state": [{**item, "value": state.get(item["id"])} for item in callback["state"]],
    }
    return app.server.test_client().post("/_dash-update-component", json=body)


def test_an_unchanged_run_answers_with_nothing_and_a_step_with_little(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=200)
    app = create_app(tmp_path)
    cursor = feed.load(writer.path).cursor
    idle = ask(app, "chunk.data", run="run", cursor=cursor)
    assert (idle.status_code, idle.data) == (204, b"")

    writer.append(record(201))
    answer = ask(app, "chunk.data", run="run", cursor=cursor)
    assert len(answer.data) <= 5000
    response = json.loads(answer.data)["response"]
    assert response["chunk"]["data"]["from"] == cursor
    assert response["chunk"]["data"]["series"]["loss"]["x"] == [201]
    assert set(response) == {"chunk", "headline", "vitals"}


def test_a_run_that_vanished_is_said_once(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=2)
    cursor = feed.load(writer.path).cursor
    app = create_app(tmp_path)
    answer = ask(app, "chunk.data", run="../run", cursor=cursor)
    response = json.loads(answer.data)["response"]
    assert "no longer there" in response["headline"]["children"]
    assert ask(app, "chunk.data", run="../run", cursor=response["chunk"]["data"]["to"]).status_code == 204


# Serving


def test_it_serves_in_the_background_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with run_in_background(tmp_path) as url, urllib.request.urlopen(url, timeout=20) as response:
        page = response.read().decode()
        policy = response.headers["Content-Security-Policy"]
    assert 'lang="en"' in page
    assert "default-src 'self'" in policy
    assert url.startswith("http://127.0.0.1:")
    deadline = time.monotonic() + 10
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before
    with socket.create_server(("127.0.0.1", int(url.rstrip("/").rsplit(":", 1)[1]))):
        pass  # the port is free again


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=rf"port {port} .*--port"), run_in_background(tmp_path, port=port):
            pass


def test_a_run_with_hundreds_of_alerts_shows_some_and_counts_the_rest(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=1)
    for since in range(1, 301):
        writer.alert(alert("firing", since, since=since))
        writer.alert(alert("resolved", since + 1, since=since, resolved_step=since + 1))
    text = text_of(page_at(tmp_path, "/run/run")[0])
    assert "300 resolved" in text
    assert "260 more are in the run's alerts.jsonl" in text
