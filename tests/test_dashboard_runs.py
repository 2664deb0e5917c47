"""The page of runs without a browser: rows, runs folded by seed, what is sent, and what is read again."""

from __future__ import annotations

import doctest
import json
import math
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from components import text_of
from rlwatch.runs.records import StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import create_app
from rlwatch_dashboard.app import page_at
from rlwatch_dashboard.pages import runs as runs_page
from rlwatch_dashboard.pages import runs_groups, runs_look, runs_rows
from rlwatch_dashboard.pages.runs_look import Looks
from rlwatch_dashboard.roots import Roots
from test_dashboard import alert, new_run, record, resume

CONFIG = {"loss_type": "dapo", "learning_rate": 1e-5, "max_steps": 100}


def seeded(root: Path, name: str, seed: int, steps: int = 3, **changes: Any) -> RunWriter:
    return new_run(root, name, steps, config={**CONFIG, "seed": seed, "output_dir": f"/tmp/{name}", **changes})


def rows_of(*roots: Path) -> dict[str, dict[str, Any]]:
    """All rows, once every curve has been read."""
    looks = Looks(Roots.of(roots))
    while (look := looks.look()).pending:
        pass
    return {key: row for key, (_, row) in look.rows.items()}


def sent(page: list[Any]) -> dict[str, Any]:
    """What the page is given to show in its grid."""
    return next(part.data for part in page if getattr(part, "id", "") == "runs-news")


def ask(app: Any, cursor: Any) -> dict[str, Any] | None:
    """What the timer's question is answered with."""
    key = next(key for key in app.callback_map if key.startswith("..runs-news.data"))
    outputs = [dict(zip(("id", "property"), part.rsplit(".", 1), strict=True)) for part in key.strip(".").split("...")]
    inputs = [{**item, "value": 1} for item in app.callback_map[key]["inputs"]]
    state = [{"id": "runs-cursor", "property": "data", "value": cursor}]
    body = {
        "output": key,
        "outputs": outputs,
        "inputs": inputs,
        "state": state,
        "changedPropIds": ["runs-timer.n_intervals"],
    }
    answer = app.server.test_client().post("/_dash-update-component", json=body)
    if answer.status_code == 204:
        return None
    assert answer.status_code == 200
    found: dict[str, Any] = json.loads(answer.data)["response"]
    return found


def settled(app: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows that a page has, and its cursor, once there is nothing new any more."""
    rows: dict[str, Any] = {}
    cursor: dict[str, Any] = {}
    while (answer := ask(app, cursor)) is not None:
        news = answer["runs-news"]["data"]
        assert news["from"] == cursor
        rows |= {row["id"]: row for row in news["rows"]}
        rows = {key: row for key, row in rows.items() if news["ids"] is None or key in news["ids"]}
        cursor = news["to"]
    return rows, cursor


@pytest.mark.parametrize("module", [runs_rows, runs_groups])
def test_the_examples_in_the_docstrings_hold(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


# A row


def test_a_row_says_what_is_known_and_nothing_else(tmp_path: Path) -> None:
    writer = seeded(tmp_path, "run", seed=7)
    writer.append(StepRecord(4, time.time(), {"reward/mean": 0.75, "groups/zero_std": math.nan}))
    writer.alert(alert("firing", 3))
    writer.alert(alert("firing", 3, rule="kl", severity="warning"))
    row = rows_of(tmp_path)["run"]
    assert (row["state"], row["tone"], row["step"], row["planned"], row["seed"]) == ("live", "critical", 4, 100, 7)
    assert row["how"].startswith("Not learning since step 5")
    assert (row["severity"], row["alerts"]) == ("critical", 2)
    assert row["reward"] == {"value": 0.75, "text": "0.75"}
    assert row["entropy"] is None, "absent at the newest step: neither zero nor the step before"
    assert row["zero"] == {"value": None, "text": "NaN"}
    assert row["lines"]["reward"][0]["y"] == [0.5, 0.5, 0.5, 0.75]
    assert row["lines"]["entropy"][0]["y"] == [1.5, 1.5, 1.5]


@pytest.mark.parametrize(
    "info",
    [{}, {"config": None}, {"config": [1], "created": "yesterday"}, {"config": {"seed": 10**30, "max_steps": "x"}}],
)
def test_a_strange_run_json_does_no_harm(tmp_path: Path, info: dict[str, Any]) -> None:
    new_run(tmp_path, "a", steps=1, **info)
    new_run(tmp_path, "b", steps=1, **info)
    rows = rows_of(tmp_path)
    assert set(rows) == {"a", "b"}
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows, "a browser can read it"
    assert rows["a"]["seed"] is None


def test_a_run_without_a_step_has_no_numbers(tmp_path: Path) -> None:
    new_run(tmp_path, "run")
    row = rows_of(tmp_path)["run"]
    assert (row["state"], row["step"], row["reward"], row["seen"], row["lines"]) == ("empty", None, None, None, {})


# Runs folded by their seed


def test_runs_that_differ_by_their_seed_alone_are_one_row(tmp_path: Path) -> None:
    for seed in range(3):
        seeded(tmp_path, f"arm-seed{seed}", seed)
    rows = rows_of(tmp_path)
    [group] = [row for row in rows.values() if row["kind"] == "group"]
    assert group["members"] == ["arm-seed0", "arm-seed1", "arm-seed2"]
    assert (group["name"], group["seeds"]) == ("arm", 3)
    assert {rows[key]["group"] for key in group["members"]} == {group["id"]}
    assert len(group["lines"]["reward"]) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {**CONFIG, "seed": 1, "learning_rate": 2e-5}},
        {"config": {**CONFIG, "seed": 1, "max_steps": 200}},
        {"config": {**CONFIG, "seed": 1, "beta": None}},
        {"config": {**CONFIG, "seed": 1}, "trainer": "RLOOTrainer"},
        {"config": {**CONFIG, "seed": 1}, "world_size": 2},
        {"config": {**CONFIG, "seed": 1}, "model": {"parameters": 1}},
        {"config": {**CONFIG, "seed": 1}, "reward_functions": {"accuracy": 2.0}},
        {"config": {**CONFIG, "seed": 0}},
        {"config": CONFIG},
        {"config": {}},
        {},
    ],
    ids=[
        "lr",
        "length",
        "one more",
        "trainer",
        "ranks",
        "model",
        "rewards",
        "same seed",
        "no seed",
        "no config",
        "nothing",
    ],
)
def test_runs_that_differ_by_more_or_by_nothing_stay_apart(tmp_path: Path, changes: dict[str, Any]) -> None:
    new_run(tmp_path, "one", steps=3, config={**CONFIG, "seed": 0})
    new_run(tmp_path, "other", steps=3, **changes)
    assert {row["kind"] for row in rows_of(tmp_path).values()} == {"run"}


def test_names_places_and_times_do_not_keep_seeds_apart(tmp_path: Path) -> None:
    seeded(tmp_path, "monday", 0, run_name="a", logging_steps=1, logging_dir="/x")
    time.sleep(0.01)  # another time of creation
    seeded(tmp_path, "tuesday", 1, run_name="b", logging_steps=10, logging_dir="/y", save_steps=5)
    [group] = [row for row in rows_of(tmp_path).values() if row["kind"] == "group"]
    assert group["name"] == "monday and others"


def test_runs_of_two_folders_are_not_folded_together(tmp_path: Path) -> None:
    seeded(tmp_path / "one", "run", 0)
    seeded(tmp_path / "two", "run", 1)
    rows = rows_of(tmp_path / "one", tmp_path / "two")
    assert {key: row["root"] for key, row in rows.items()} == {
        "run": str(tmp_path / "one"),
        "run@2": str(tmp_path / "two"),
    }


def test_a_group_has_the_worst_of_its_runs_and_the_middle_of_their_numbers(tmp_path: Path) -> None:
    rewards = [0.1, 0.9, 0.4, 0.35]
    for seed, reward in enumerate(rewards):
        writer = seeded(tmp_path, f"run-seed{seed}", seed, steps=seed + 20)
        metrics = {"reward/mean": reward, "entropy/mean": math.nan if seed == 1 else 1.0 + seed}
        writer.append(StepRecord(30 + seed, time.time(), metrics))
        if seed < 2:
            writer.alert(alert("firing", 10, severity=("warning", "critical")[seed]))
        if seed == 3:
            writer.close()
    [group] = [row for row in rows_of(tmp_path).values() if row["kind"] == "group"]
    assert (group["severity"], group["tone"], group["alerts"]) == ("critical", "critical", 2)
    assert group["how"] == "1 of 4 not learning, 1 at risk, 2 without an open alert."
    assert (group["state"], group["of_state"], group["states"]) == ("live", 3, ["ended", "live"])
    assert group["reward"] == {
        "value": statistics.median(rewards), "text": "0.375", "range": "0.1–0.9", "strange": 0,
    }  # fmt: skip
    assert (group["entropy"]["value"], group["entropy"]["range"], group["entropy"]["strange"]) == (3.0, "1–4", 1)
    assert group["zero"] is None, "no run has it"
    assert group["step"] == 31
    assert group["planned"] == 100


def test_a_negative_range_is_readable() -> None:
    cells = [{"value": value, "text": ""} for value in (-2.0, -0.5, 1.0)]
    found = runs_groups.middle("loss", cells)
    assert found is not None
    assert (found["value"], found["range"]) == (-0.5, "−2 to 1")


# What is sent


def test_the_page_has_the_runs_and_what_was_skipped(tmp_path: Path) -> None:
    new_run(tmp_path, "good run", steps=3)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "other").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    page, title = page_at(tmp_path, "/")
    assert title == "Runs · rlwatch"
    assert [(row["id"], row["href"]) for row in sent(page)["rows"]] == [("good run", "/run/good%20run")]
    text = text_of(page)
    for words in ("notes.txt", "other", "no run.json", "broken", "not JSON"):
        assert words in text


def test_a_step_is_answered_with_its_row_and_nothing_with_nothing(tmp_path: Path) -> None:
    writers = [new_run(tmp_path, f"run{i}", steps=3) for i in range(5)]
    app = create_app(tmp_path)
    rows, cursor = settled(app)
    assert set(rows) == {f"run{i}" for i in range(5)}
    assert ask(app, cursor) is None
    writers[3].append(record(4, **{"reward/mean": 0.875}))
    answer = ask(app, cursor)
    assert answer is not None
    assert set(answer) == {"runs-news"}
    [row] = answer["runs-news"]["data"]["rows"]
    assert (row["id"], row["step"], row["reward"]["value"]) == ("run3", 4, 0.875)
    assert answer["runs-news"]["data"]["ids"] is None


def test_two_pages_are_each_told_what_they_do_not_know(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=3)
    app = create_app(tmp_path)
    (_, first), (_, second) = settled(app), settled(app)
    writer.append(record(4))
    for cursor in (first, second):
        answer = ask(app, cursor)
        assert answer is not None
        assert [row["step"] for row in answer["runs-news"]["data"]["rows"]] == [4]


def test_a_run_that_comes_or_goes_is_said(tmp_path: Path) -> None:
    seeded(tmp_path, "run-seed0", 0)
    app = create_app(tmp_path)
    rows, cursor = settled(app)
    assert rows["run-seed0"]["group"] is None
    other = seeded(tmp_path, "run-seed1", 1).path
    answer = ask(app, cursor)
    assert answer is not None
    news = answer["runs-news"]["data"]
    group = next(row for row in news["rows"] if row["kind"] == "group")
    assert {row["id"]: row.get("group") for row in news["rows"]} == {
        "run-seed0": group["id"], "run-seed1": group["id"], group["id"]: None,
    }  # fmt: skip
    other.rename(tmp_path / ".hidden")
    answer = ask(app, news["to"])
    assert answer is not None
    assert answer["runs-news"]["data"]["ids"] == ["run-seed0"]


def test_the_last_run_that_goes_leaves_the_empty_page(tmp_path: Path) -> None:
    run = new_run(tmp_path, steps=1).path
    app = create_app(tmp_path)
    _, cursor = settled(app)
    run.rename(tmp_path / ".hidden")
    answer = ask(app, cursor)
    assert answer is not None
    assert answer["runs"]["className"] == "runs none"
    assert "rlwatch lab failure-room" in json.dumps(answer["runs-empty"]["children"])
    (tmp_path / ".hidden").rename(run)
    answer = ask(app, answer["runs-news"]["data"]["to"])
    assert answer is not None
    assert (answer["runs"]["className"], answer["runs-empty"]["children"]) == ("runs", None)


@pytest.mark.parametrize("cursor", [None, [], "x", {}, {"mark": "another", "number": 10**9}, {"number": "1"}])
def test_a_cursor_of_another_server_or_of_none_gets_everything(tmp_path: Path, cursor: Any) -> None:
    new_run(tmp_path, steps=2)
    answer = ask(create_app(tmp_path), cursor)
    assert answer is not None
    assert [row["id"] for row in answer["runs-news"]["data"]["rows"]] == ["run"]
    assert answer["runs-news"]["data"]["ids"] == ["run"]


def test_two_apps_in_one_process_do_not_meet(tmp_path: Path) -> None:
    for name in ("one", "two"):
        new_run(tmp_path / name, name, steps=1)
    assert [list(settled(create_app(tmp_path / name))[0]) for name in ("one", "two")] == [["one"], ["two"]]


def test_a_change_of_the_search_alone_leaves_the_page_of_runs_to_itself() -> None:
    assert runs_page.follows_by_itself("/", ["url.search"])
    assert not runs_page.follows_by_itself("/", ["url.search", "url.pathname"])
    assert not runs_page.follows_by_itself("/run/a", ["url.search"])
    assert not runs_page.follows_by_itself("/", [])


# What is read


def test_an_unchanged_run_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writers = [new_run(tmp_path, f"run{i}", steps=3) for i in range(3)]
    looks = Looks(Roots.of(tmp_path))
    while looks.look().pending:
        pass
    read: list[str] = []
    real_read, real_advance = runs_look.read_summary, runs_look.Curves.advance
    monkeypatch.setattr(runs_look, "read_summary", lambda run: read.append(run.name) or real_read(run))
    monkeypatch.setattr(
        runs_look.Curves,
        "advance",
        lambda curves: read.append(f"curves of {curves.path.parent.name}") or real_advance(curves),
    )
    number = looks.look().number
    assert (read, looks.look().number) == ([], number)
    writers[1].append(record(4))
    assert looks.look().number == number + 1
    assert read == ["run1", "curves of run1"]
    read.clear()
    writers[2].alert(alert("firing", 3))
    assert looks.look().rows["run2"][1]["severity"] == "critical"
    assert read == ["run2"], "the curves have not changed"


def test_a_run_that_only_grows_older_stalls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_run(tmp_path, steps=3)
    looks = Looks(Roots.of(tmp_path))
    first = looks.look()
    later = time.time() + 1000
    monkeypatch.setattr(runs_look.time, "time", lambda: later)
    second = looks.look()
    assert (first.rows["run"][1]["state"], second.rows["run"][1]["state"]) == ("live", "stalled")
    assert second.number > first.number


def test_curves_come_in_slices_and_all_of_them_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(4):
        new_run(tmp_path, f"run{i}", steps=3)
    monkeypatch.setattr(runs_look, "SLICE", -1.0)
    looks = Looks(Roots.of(tmp_path))
    look = looks.look()
    assert look.pending
    assert len(look.rows) == 4, "the runs are there at once"
    assert all(not row["lines"] for _, row in look.rows.values())
    monkeypatch.setattr(runs_look, "SLICE", 60.0)
    look = looks.look()
    assert not look.pending
    assert all(row["lines"]["reward"] for _, row in look.rows.values())


def test_what_is_kept_is_of_the_runs_that_are_there(tmp_path: Path) -> None:
    looks = Looks(Roots.of(tmp_path))
    for i in range(5):
        run = new_run(tmp_path, f"run{i}", steps=1).path
        assert set(looks.look().rows) == {run.name}
        run.rename(tmp_path / f".{i}")
    looks.look()
    assert looks._known == {}


def test_a_run_that_is_replaced_under_its_name_begins_anew(tmp_path: Path) -> None:
    first = new_run(tmp_path, steps=30).path
    looks = Looks(Roots.of(tmp_path))
    looks.look()
    first.rename(tmp_path / ".old")
    writer = new_run(tmp_path)
    for step in range(1, 41):
        writer.append(record(step, **{"reward/mean": 2.0}))
    row = looks.look().rows["run"][1]
    assert row["step"] == 40
    assert set(row["lines"]["reward"][0]["y"]) == {2.0}


def test_steps_that_were_taken_back_leave_the_curve(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=20)
    looks = Looks(Roots.of(tmp_path))
    assert len(looks.look().rows["run"][1]["lines"]["reward"][0]["y"]) == 20
    writer.close()
    resume(writer.path, 15).append(record(16, **{"reward/mean": 0.25}))
    row = looks.look().rows["run"][1]
    assert row["lines"]["reward"][0]["y"] == [0.5] * 15 + [0.25]


def test_many_askers_at_once_agree(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=3)
    looks = Looks(Roots.of(tmp_path))
    seen: list[int] = []

    def watch() -> None:
        for _ in range(30):
            seen.append(looks.look().rows["run"][1]["step"])

    threads = [threading.Thread(target=watch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(4, 12):
        writer.append(record(step))
    for thread in threads:
        thread.join()
    assert len(seen) == 120
    assert set(seen) <= set(range(3, 12))
    assert looks.look().rows["run"][1]["step"] == 11, "a look that begins after a step has it"
