"""The page of an alert without a browser: what it shows of which stretch, what it says where there is nothing."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from components import text_of
from rlwatch.detect.rules import RULES
from rlwatch.runs import acks
from rlwatch.runs.acks import ACKNOWLEDGE, SILENCE, Answer, read_answers, standing_of
from rlwatch.runs.metrics import METRICS
from rlwatch.runs.records import AlertState, Forecast, Severity
from rlwatch_dashboard import addresses, alert_answers, alert_figures, alert_story, create_app, feed
from rlwatch_dashboard.app import page_at
from rlwatch_dashboard.columns import Columns
from rlwatch_dashboard.feed import episodes_of
from rlwatch_dashboard.figures import charts_for
from rlwatch_dashboard.pages.runs_look import Looks
from rlwatch_dashboard.roots import Roots
from test_dashboard import alert, ask, new_run, record

EVIL = "<img src=x onerror='window.hacked=1'>/../a b?c#d"
SAME = {"Origin": "http://localhost"}


def story(root: Path, steps: int = 300) -> Any:
    """A run with an alert that began at 100, was told at 110, was critical at 150 and over at 200; others beside it."""
    writer = new_run(root, steps=0)
    for step in range(1, steps + 1):
        writer.append(record(step, **{"entropy/mean": math.nan if step == 90 else 2.0 - step / 200, "odd": 1.0}))
    told = alert("firing", 110, since=100, severity="warning", evidence={"entropy/mean": 1.4, "nowhere": 1.0})
    writer.alert(replace(told, state=AlertState.PENDING, step=101))
    writer.alert(told)
    writer.alert(replace(told, step=150, severity=Severity.CRITICAL, message="Entropy is at 0.2."))
    writer.alert(replace(told, step=203, state=AlertState.RESOLVED, resolved_step=200))
    writer.alert(alert("firing", 30, since=20, rule="before"))
    writer.alert(alert("resolved", 42, since=20, rule="before", resolved_step=40))
    writer.alert(alert("firing", 195, since=190, rule="beside"))
    writer.alert(alert("firing", 280, since=270, rule="after", severity="warning"))
    return writer


def episode_in(root: Path, rule: str = "entropy-collapse", since: str = "100") -> feed.Episode:
    found = alert_story.find(feed.load(root / "run").episodes, rule, since)
    assert found is not None
    return found


def figure_of(page: Any, title: str) -> dict[str, Any]:
    """The figure of the chart with this title."""
    return next(graph.figure for graph in parts_of(page, "Graph") if title in figure_titles(page, graph))


def parts_of(component: Any, kind: str) -> list[Any]:
    if isinstance(component, (list, tuple)):
        return [found for part in component for found in parts_of(part, kind)]
    if not hasattr(component, "to_plotly_json"):
        return []
    own = [component] if type(component).__name__ == kind else []
    return own + parts_of(getattr(component, "children", None), kind)


def figure_titles(page: Any, graph: Any) -> str:
    card = next(card for card in parts_of(page, "Article") if graph in parts_of(card, "Graph"))
    return text_of(parts_of(card, "H3"))


# Which stretch, which metrics


def test_the_stretch_is_so_much_on_both_sides_as_far_as_the_run_goes(tmp_path: Path) -> None:
    story(tmp_path)
    episode = episode_in(tmp_path)
    assert alert_story.window(episode, 1, 300) == alert_story.Window(60, 240)  # max(40, 3 * 10) on both sides of it
    assert alert_story.window(episode, 80, 210) == alert_story.Window(80, 210)
    slow = replace(episode, stages=[(160, Severity.WARNING)])
    assert alert_story.window(slow, -1000, 1000) == alert_story.Window(100 - 180, 200 + 180)
    long = replace(episode, alert=replace(episode.alert, resolved_step=90_000))
    assert alert_story.window(long, 1, 100_000) == alert_story.Window(60, 60 + alert_story.WIDEST, cut=True)
    at_once = replace(episode, stages=[(100, Severity.CRITICAL)], alert=replace(episode.alert, resolved_step=100))
    assert alert_story.window(at_once, 1, 300) == alert_story.Window(60, 140)


def test_what_falls_on_one_step_is_one_mark(tmp_path: Path) -> None:
    story(tmp_path)
    episode = episode_in(tmp_path)
    assert alert_story.events(episode) == [
        (100, "began", ""),
        (110, "warning", "warning"),
        (150, "critical", "critical"),
        (200, "over", ""),
    ]
    at_once = replace(episode, stages=[(100, Severity.CRITICAL)])
    assert alert_story.events(at_once)[0] == (100, "began, critical", "critical")


def test_the_points_are_those_of_the_stretch(tmp_path: Path) -> None:
    story(tmp_path)
    columns: Columns = feed.load(tmp_path / "run").columns
    points = alert_figures.points_in(columns, "entropy/mean", alert_story.Window(88, 92))
    assert points["x"] == [88, 89, 90, 91, 92]
    assert points["y"] == [1.56, 1.555, None, 1.545, 1.54]
    assert alert_figures.points_in(columns, "nowhere", alert_story.Window(88, 92)) == {"x": [], "y": []}
    assert alert_figures.points_in(columns, "loss", alert_story.Window(299, 5000))["x"] == [299, 300]


def test_the_charts_are_of_the_metrics_that_the_alert_and_its_causes_name() -> None:
    from rlwatch.runs.records import Cause

    told = alert("firing", 5, evidence={"groups/stuck": 0.5, "groups/failed": 0.1, "nowhere": 1.0})
    told = replace(told, causes=(Cause("x", {"kl/ref": 0.5, "groups/stuck": 0.5}), Cause("y", {"loss": 1.0})))
    there = ["loss", "kl/ref", "groups/stuck", "entropy/mean", "odd"]
    charts, left = alert_story.charts([told], there)
    # that of the reference's metric first, then in the order of their names in the alert
    assert [chart.key for chart in charts] == ["entropy", "groups", "metric:kl/ref", "loss"]
    assert left == []
    many = replace(told, evidence={f"m{i}": 1.0 for i in range(20)}, causes=())
    charts, left = alert_story.charts([many], [f"m{i}" for i in range(20)])
    assert (len(charts), left) == (alert_story.MOST_CHARTS, [f"m{i}" for i in range(alert_story.MOST_CHARTS, 20)])
    assert alert_story.charts([told], []) == ([], [])


def test_the_reference_is_drawn_where_it_is_of_that_metric_and_nowhere_else(tmp_path: Path) -> None:
    story(tmp_path)
    page = page_at(tmp_path, "/run/run/alert/entropy-collapse/100")[0]
    lines = [s for s in figure_of(page, "Entropy")["layout"]["shapes"] if s.get("yref") == "y"]
    assert [(line["y0"], line["y1"]) for line in lines] == [(1.5, 1.5)]
    words = [a["text"] for a in figure_of(page, "Entropy")["layout"]["annotations"]]
    assert words == ["began 100", "warning 110", "critical 150", "over 200", "reference 1.5"]
    told = alert("firing", 5, rule="mine", evidence={"loss": 0.2, "kl/ref": 3.0})
    assert alert_story.metric_of_reference(told) == "loss"  # whose value was judged
    assert alert_story.metric_of_reference(replace(told, evidence={"loss": 9.0})) == "loss"  # there is no other
    assert alert_story.metric_of_reference(replace(told, evidence={"loss": 9.0, "lr": 1.0})) is None
    assert alert_story.metric_of_reference(replace(told, evidence={"loss": 0.2, "lr": 0.2})) is None
    assert alert_story.metric_of_reference(replace(told, reference=None)) is None
    assert alert_story.metric_of_reference(replace(told, reference=math.nan)) is None
    assert alert_story.metric_of_reference(replace(told, rule="dead-groups")) is None


def test_the_table_of_references_knows_our_rules_and_our_metrics() -> None:
    ours = {rule.name for rule in RULES}
    assert set(alert_story.REFERENCES) <= ours
    assert ours - set(alert_story.REFERENCES) == {"reward-hacking"}  # its reward has a name of the user's
    assert {name for name in alert_story.REFERENCES.values() if name} <= set(METRICS) | {"advantage/mean"}


def test_what_held_at_the_same_time_is_beside_it(tmp_path: Path) -> None:
    story(tmp_path)
    episodes = feed.load(tmp_path / "run").episodes
    found = alert_story.beside(episodes, episode_in(tmp_path))
    assert [episode.alert.rule for episode in found] == ["beside"]
    open_one = episode_in(tmp_path, "beside", "190")
    assert {e.alert.rule for e in alert_story.beside(episodes, open_one)} == {"entropy-collapse", "after"}


@pytest.mark.parametrize("since", ["", "x", "1e3", "100.0", "٣", "-", "--100", "100 ", "9" * 40, "0x64", "101", "-100"])
def test_a_since_that_is_none_finds_nothing(tmp_path: Path, since: str) -> None:
    story(tmp_path)
    assert alert_story.find(feed.load(tmp_path / "run").episodes, "entropy-collapse", since) is None


# The page


def test_the_page_tells_the_story(tmp_path: Path) -> None:
    writer = story(tmp_path)
    forecast = Forecast("entropy/mean", 0.1, 400, 350, 450)
    writer.alert(replace(alert("firing", 290, since=285, rule="ahead"), forecast=forecast))
    page, title = page_at(tmp_path, "/run/run/alert/entropy-collapse/100")
    text = " ".join(text_of(page).split())
    assert title == "entropy-collapse in run · rlwatch"
    assert "Steps 60 to 240." in text
    history = [text_of(row).split() for row in parts_of(parts_of(page, "Table"), "Tr")][1:]
    assert [row[:2] for row in history] == [
        ["began", "100"], ["pending", "101"], ["warning", "110"], ["critical", "150"], ["resolved", "200"],
    ]  # fmt: skip
    links = {link.href for link in parts_of(page, "Link")}
    assert {"/run/run", addresses.alert("run", "beside", 190), "/run/run/completions?step=110"} <= links
    assert len(parts_of(page, "H1")) == 1
    assert "at this rate entropy/mean is at 0.1" in text_of(page_at(tmp_path, "/run/run/alert/ahead/285")[0])


def test_from_the_runs_page_a_link_leads_to_each_alert(tmp_path: Path) -> None:
    story(tmp_path)
    links = {link.href for link in parts_of(page_at(tmp_path, "/run/run")[0], "Link")}
    assert {f"/run/run/alert/{rule}/{since}" for rule, since in [("entropy-collapse", 100), ("after", 270)]} <= links


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("alert/entropy-collapse/101", "since step 101"),
        ("alert/entropy-collapse/abc", "since step abc"),
        ("alert/nope/100", "nope"),
        ("alert/%3Cimg%20src%3Dx%3E/100", "<img src=x>"),
        ("alert/entropy-collapse", "no such page"),
        ("alert", "no such page"),
        ("alert/a/1/more", "no such page"),
        ("alert//100", "no such page"),
    ],
)
def test_an_alert_that_there_is_not_has_a_clear_page(tmp_path: Path, address: str, words: str) -> None:
    story(tmp_path)
    page, title = page_at(tmp_path, f"/run/run/{address}")
    assert title == "Not found · rlwatch"
    assert words in " ".join(text_of(page).split())
    assert len(parts_of(page, "H1")) == 1


def test_of_a_run_that_there_is_not_there_is_no_alert(tmp_path: Path) -> None:
    assert page_at(tmp_path, "/run/nope/alert/a/1")[1] == "Not found · rlwatch"
    (tmp_path / "empty").mkdir()
    assert "no run.json" in text_of(page_at(tmp_path, "/run/empty/alert/a/1")[0])


def test_an_odd_rule_has_a_page_and_is_text(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=10)
    writer.alert(alert("firing", 7, rule=EVIL, message=EVIL, evidence={EVIL: 1.0}))
    link = addresses.alert("run", EVIL, 5)
    assert link.count("/") == 5
    page, title = page_at(tmp_path, link)
    assert title == f"{EVIL} in run · rlwatch"
    assert EVIL in text_of(page)
    assert link in {found.href for found in parts_of(page_at(tmp_path, "/run/run")[0], "Link")}


def test_an_alert_of_a_run_without_a_step_or_without_its_metrics_is_shown(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=0)
    writer.alert(alert("firing", 7, evidence={"entropy/mean": 1.0}, value=None, reference=None, rule="stalled"))
    text = text_of(page_at(tmp_path, "/run/run/alert/stalled/5")[0])
    assert "were not recorded" in text


# What people have said


def test_what_people_have_said_is_on_both_pages(tmp_path: Path) -> None:
    writer = story(tmp_path)
    acks.append(writer.path, Answer("beside", ACKNOWLEDGE, 1.0, 190, who="<b>Ada</b>", severity=Severity.CRITICAL))
    acks.append(writer.path, Answer("beside", SILENCE, 1.0, until_step=400))
    for address in ("/run/run", "/run/run/alert/beside/190"):
        text = text_of(page_at(tmp_path, address)[0])
        assert "acknowledged" in text
        assert "silenced until step 400" in text
    assert "<b>Ada</b>" in text
    assert "silenced" not in text_of(page_at(tmp_path, "/run/run/alert/after/270")[0]).replace("Silenced, nobody", "")
    for step in range(301, 401):
        writer.append(record(step))
    assert "until step 400" not in text_of(page_at(tmp_path, "/run/run")[0])  # its end has come


def test_the_row_of_a_run_says_what_was_said_of_its_worst_alert(tmp_path: Path) -> None:
    writer = story(tmp_path)
    looks = Looks(Roots.of(tmp_path))

    def words() -> str:
        return str(looks.look().rows["run"][1]["answered"])

    assert words() == ""
    acks.append(writer.path, Answer("after", ACKNOWLEDGE, 1.0, 270, severity=Severity.WARNING))
    assert words() == ""  # it is not the worst one
    acks.append(writer.path, Answer("beside", ACKNOWLEDGE, 1.0, 190, severity=Severity.CRITICAL))
    assert words() == "acknowledged"
    acks.append(writer.path, Answer("beside", SILENCE, 1.0, until_step=301))
    assert words() == "silenced until step 301"
    writer.append(record(301))
    assert words() == "acknowledged"


def test_the_row_of_a_run_says_when_a_silence_of_hours_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = story(tmp_path)
    now = time.time()
    acks.append(writer.path, Answer("beside", SILENCE, now, until_time=now + 3600))
    looks = Looks(Roots.of(tmp_path))
    assert str(looks.look().rows["run"][1]["answered"]).startswith("silenced")
    monkeypatch.setattr("rlwatch_dashboard.alert_answers.time.time", lambda: now + 3601)
    number, row = looks.look().rows["run"]
    assert (row["answered"], number) == ("", looks.look().number)


def test_a_read_only_run_directory_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story(tmp_path)
    page = page_at(tmp_path, "/run/run/alert/beside/190")[0]
    assert "read-only" not in text_of(page)
    assert next(button.children for button in parts_of(page, "Button")) == "Acknowledge"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    page = page_at(tmp_path, "/run/run/alert/beside/190")[0]
    assert "read-only" in text_of(page)
    assert "rlwatch alerts ack run beside" in text_of(page)
    assert parts_of(page, "Button") == []


def test_what_is_over_can_be_silenced_and_not_acknowledged(tmp_path: Path) -> None:
    story(tmp_path)
    buttons = parts_of(page_at(tmp_path, "/run/run/alert/entropy-collapse/100")[0], "Button")
    answers = [getattr(button, "data-answer") for button in buttons if hasattr(button, "data-answer")]
    assert {json.loads(answer)["kind"] for answer in answers} == {"silence"}


def test_ten_thousand_answers_and_strange_ones_do_no_harm(tmp_path: Path) -> None:
    writer = story(tmp_path)
    line = '{"rule":"beside","kind":"silence","time":1.0,"until_step":%d}\n'
    text = "".join(line % step for step in range(1, 10_001)) + '{"rule":\n[]\n\x00\n{"kind":"nod"}\n'
    (writer.path / acks.FILE).write_text(text)
    page = text_of(page_at(tmp_path, "/run/run/alert/beside/190")[0])
    assert "silenced until step 10,000" in page
    assert "Skipped 4 things" in page


# Staying up to date


def refreshed(app: Any, root: Path, shown: str, rule: str = "beside", since: str = "190") -> Any:
    where = {"run": "run", "rule": rule, "since": since}
    return ask(app, "alert-now.children", **{"alert-where": where, "alert-shown": shown})


def test_the_page_is_sent_again_only_where_it_shows_something_else(tmp_path: Path) -> None:
    writer = story(tmp_path)
    app = create_app(tmp_path)
    first = refreshed(app, tmp_path, "")
    shown = json.loads(first.data)["response"]["alert-shown"]["data"]
    assert refreshed(app, tmp_path, shown).status_code == 204
    acks.append(writer.path, Answer("beside", SILENCE, 1.0))
    second = json.loads(refreshed(app, tmp_path, shown).data)["response"]
    assert "silenced for the rest of the run" in json.dumps(second["alert-said"])
    shown = second["alert-shown"]["data"]
    assert refreshed(app, tmp_path, shown).status_code == 204
    writer.alert(alert("resolved", 300, since=190, rule="beside", resolved_step=299))
    answer = refreshed(app, tmp_path, shown)
    assert "299" in answer.get_data(as_text=True)


def test_steps_far_beyond_what_is_shown_send_nothing(tmp_path: Path) -> None:
    writer = story(tmp_path, steps=300)
    app = create_app(tmp_path)
    shown = json.loads(refreshed(app, tmp_path, "", "entropy-collapse", "100").data)["response"]["alert-shown"]["data"]
    for step in range(301, 320):
        writer.append(record(step))
    assert refreshed(app, tmp_path, shown, "entropy-collapse", "100").status_code == 204


def test_an_alert_that_a_resumed_training_takes_back_is_said_to_be_gone(tmp_path: Path) -> None:
    from rlwatch.runs.writer import RunWriter

    writer = story(tmp_path)
    app = create_app(tmp_path)
    shown = json.loads(refreshed(app, tmp_path, "").data)["response"]["alert-shown"]["data"]
    RunWriter(writer.path, {}, back_to=50)
    answer = json.loads(refreshed(app, tmp_path, shown).data)["response"]
    assert "gone" in json.dumps(answer["alert-now"])
    assert refreshed(app, tmp_path, answer["alert-shown"]["data"]).status_code == 204
    assert refreshed(app, tmp_path, shown, "nope", "x").status_code == 200


def test_an_open_runs_page_hears_of_answers(tmp_path: Path) -> None:
    writer = story(tmp_path)
    app = create_app(tmp_path)
    answered = alert_answers.said_of(writer.path).fingerprint
    assert ask(app, "alerts.children", run="run", answered=answered).status_code == 204
    acks.append(writer.path, Answer("beside", SILENCE, 1.0, until_step=301))
    answer = json.loads(ask(app, "alerts.children", run="run", answered=answered).data)["response"]
    assert "silenced until step 301" in json.dumps(answer)
    (answered,) = (part["data"] for name, part in answer.items() if name.startswith("answered"))
    writer.append(record(301))  # it ends, though nobody has written anything
    answer = json.loads(ask(app, "alerts.children", run="run", answered=answered).data)["response"]
    assert "silenced" not in json.dumps(answer)
    assert ask(app, "alerts.children", run="../run", answered="").status_code == 204


# Answering


def post(app: Any, body: Any, key: str = "run", **headers: str) -> tuple[int, str]:
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    answer = app.server.test_client().post(
        f"/run/{key}/answer", data=data, content_type="application/json", headers=headers or SAME
    )
    given = answer.get_json(silent=True)
    return answer.status_code, given["said"] if isinstance(given, dict) else answer.get_data(as_text=True)


def test_what_a_page_sends_is_written_down(tmp_path: Path) -> None:
    run = story(tmp_path).path
    app = create_app(tmp_path)
    about = {"rule": "beside", "since": 190}
    assert post(app, {**about, "kind": "acknowledge", "who": "Ada"}) == (200, "acknowledged")
    assert post(app, {**about, "kind": "silence", "until_step": 400}) == (200, "silenced until step 400")
    standing = standing_of(read_answers(run)[0])
    assert standing.acknowledged["beside", 190].severity is Severity.CRITICAL
    assert standing.acknowledged["beside", 190].who == "Ada"
    assert standing.silenced["beside"].until_step == 400
    assert post(app, {**about, "kind": "silence", "hours": 0.5})[0] == 200
    until = standing_of(read_answers(run)[0]).silenced["beside"]
    assert until.until_time is not None
    assert round(until.until_time - until.time) == 1800
    assert post(app, {**about, "kind": "silence", "undo": True})[0] == 200
    assert post(app, {**about, "kind": "acknowledge", "undo": True})[0] == 200
    standing = standing_of(read_answers(run)[0])
    assert (dict(standing.acknowledged), dict(standing.silenced)) == ({}, {})


ABOUT = {"rule": "beside", "since": 190, "kind": "silence"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 400),
        ("not json", 400),
        ([], 400),
        ({}, 400),
        ({**ABOUT, "kind": "delete"}, 400),
        ({**ABOUT, "rule": "nope"}, 400),
        ({**ABOUT, "rule": ["beside"]}, 400),
        ({**ABOUT, "since": "190"}, 400),
        ({**ABOUT, "since": True}, 400),
        ({**ABOUT, "until_step": 1.5}, 400),
        ({**ABOUT, "until_step": -3}, 400),
        ({**ABOUT, "hours": "8"}, 400),
        ({**ABOUT, "hours": -1}, 400),
        ('{"rule":"beside","since":190,"kind":"silence","hours":NaN}', 400),
        ('{"rule":"beside","since":190,"kind":"silence","hours":1e999}', 400),
        ({**ABOUT, "hours": 1, "until_step": 400}, 400),
        ({**ABOUT, "who": {"a": 1}}, 400),
        ({**ABOUT, "undo": "yes"}, 400),
        ({**ABOUT, "undo": True}, 400),
        ({**ABOUT, "kind": "acknowledge", "since": 191}, 400),
        ({**ABOUT, "who": "x" * 5000}, 413),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(tmp_path: Path, body: Any, status: int) -> None:
    run = story(tmp_path).path
    assert post(create_app(tmp_path), body)[0] == status
    assert not (run / acks.FILE).exists()


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Nothing": "1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"},
    ],
)
def test_an_answer_that_is_not_from_our_own_page_is_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    run = story(tmp_path).path
    assert post(create_app(tmp_path), ABOUT, **headers)[0] == 403
    assert not (run / acks.FILE).exists()


def test_an_answer_is_for_a_run_that_there_is_and_only_posted(tmp_path: Path) -> None:
    run = story(tmp_path).path
    app = create_app(tmp_path)
    assert post(app, ABOUT, key="nope")[0] == 404
    assert post(app, ABOUT, key="..%2Frun")[0] in (404, 405)
    for method in ("get", "put", "delete", "patch"):
        getattr(app.server.test_client(), method)("/run/run/answer", json=ABOUT, headers=SAME)
    assert not (run / acks.FILE).exists()


def test_a_disk_that_takes_nothing_is_said(tmp_path: Path) -> None:
    run = story(tmp_path).path
    (run / acks.FILE).mkdir()
    status, said = post(create_app(tmp_path), ABOUT)
    assert (status, "could not be written down" in said) == (507, True)


def test_every_episode_of_a_run_has_an_address_that_finds_it(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=3)
    rules = ["a/b", "a%2Fb", "a b", "ü", "?", "#", "a+b", "..", "&amp;", "'\"", "\\", "\ud83d"]
    for place, rule in enumerate(rules):
        writer.alert(alert("firing", 7, rule=rule, since=place))
    found = episodes_of(feed.load(writer.path).episodes and [e.alert for e in feed.load(writer.path).episodes])
    assert len(found) == len(rules)
    for episode in found:
        page = page_at(tmp_path, addresses.alert("run", episode.alert.rule, episode.alert.since))[0]
        expected = (
            "No such alert" if episode.alert.rule == "\ud83d" else "What happened"
        )  # half a letter has no address
        assert expected in text_of(page), episode.alert.rule
    assert charts_for([])  # the fixed ones
