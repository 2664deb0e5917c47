"""The page of a run's denominators without a browser: what it says, and what it says where nothing is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from components import text_of
from rlwatch.audit import audit
from rlwatch.report.audit_sentences import headline, how_to_read, setup, size_sentence
from rlwatch.runs.records import StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import create_app, feed
from rlwatch_dashboard.app import page_at

CONFIG = {
    "loss_type": "grpo",
    "scale_rewards": "group",
    "num_generations": 8,
    "max_completion_length": 64,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 4,
    "steps_per_generation": 4,
}
WEIGHTS = {
    "weight/incorrect": 0.5,
    "weight/length_q1": 0.4,
    "weight/length_q2": 0.3,
    "weight/length_q3": 0.2,
    "weight/length_q4": 0.1,
    "weight/hard": 0.27,
    "weight/easy": 0.04,
    "weight/half": 0.34,
    "weight/top_tenth": 0.19,
    "signal/ess": 0.8,
    "length/share_correct": 0.39,
}
OTHERWISE = {
    "counterfactual/denominator-grpo/norm_ratio": 1.0,
    "counterfactual/denominator-grpo/cosine": 1.0,
    "counterfactual/denominator-dapo/norm_ratio": 0.545,
    "counterfactual/denominator-dapo/cosine": 0.476,
    "counterfactual/scaling-none/norm_ratio": 0.25,
    "counterfactual/scaling-none/cosine": 0.999,
}


def new_run(root: Path, metrics: dict[str, float], steps: int = 3, **info: Any) -> RunWriter:
    (root / "run").mkdir(parents=True)
    writer = RunWriter(root / "run", {"trainer": "GRPOTrainer", "config": CONFIG, **info})
    for step in range(1, steps + 1):
        writer.append(StepRecord(step, 1e9 + step, {"reward/mean": 0.5, **metrics}))
    return writer


def parts_of(component: Any) -> list[Any]:
    """Every component in it."""
    if isinstance(component, (list, tuple)):
        return [part for child in component for part in parts_of(child)]
    if not hasattr(component, "to_plotly_json"):
        return []
    return [component, *parts_of(getattr(component, "children", None))]


def page(root: Path) -> list[Any]:
    shown, title = page_at(root, "/run/run/denominators")
    assert title == "Denominators of run · rlwatch"
    return shown


def figures_of(shown: Any) -> dict[str, Any]:
    graphs = [part for part in parts_of(shown) if type(part).__name__ == "Graph"]
    return {graph.id["key"]: graph.figure for graph in graphs}


def test_it_says_all_that_the_audit_says(tmp_path: Path) -> None:
    run = new_run(tmp_path, {**WEIGHTS, **OTHERWISE}).path
    text = text_of(page(tmp_path))
    found = audit(run)
    assert found.lints
    for words in (
        *(headline(found), setup(found), how_to_read(found), size_sentence(found), *found.example.contrasts.values()),
        *(x for lint in found.lints for x in (lint.name, lint.message, lint.why, lint.source, lint.setting)),
        *(lint.advice for lint in found.lints),
        *(x for place in found.places for x in (place.name, place.code, place.maths, place.sentence)),
        *(f"{place.setting} = {place.value}" for place in found.places),
        *(paper for place in found.places for paper in place.against),
        *(kind.answer for kind in found.example.kinds),
    ):
        assert words in text


def test_it_says_what_the_updates_were_made_of(tmp_path: Path) -> None:
    new_run(tmp_path, {**WEIGHTS, **OTHERWISE}, counterfactual="gradients of all trainable weights")
    shown = page(tmp_path)
    text = text_of(shown)
    assert "34% of the completions carried half of the update, and the heaviest tenth 19% of it." in text
    assert "as captured while it trained, over 3 steps" in text
    rows = [text_of(part.children).split() for part in parts_of(shown) if type(part).__name__ == "Tr"]
    assert ["wrong", "answers", "61%", "50%"] in rows
    assert ["the", "shortest", "quarter", "–", "40%"] in rows
    charts = figures_of(shown)
    assert list(charts) == ["made-wrong", "made-hard", "made-length", "made-few"]
    assert [trace["y"] for trace in charts["made-wrong"]["data"]] == [[0.61] * 3, [0.5] * 3]
    assert [trace["meta"] for trace in charts["made-length"]["data"]] == [f"weight/length_q{q}" for q in (1, 2, 3, 4)]


def test_it_says_what_another_decision_would_have_made(tmp_path: Path) -> None:
    new_run(tmp_path, OTHERWISE, counterfactual="gradients of all trainable weights")
    shown = page(tmp_path)
    text = text_of(shown)
    assert "gradients of all trainable weights; the cosine is to the update that was" in text
    assert "Of 3 decisions, 1 would have gone another way; 1 would have gone the same way at another size" in text
    rows = [text_of(part.children) for part in parts_of(shown) if type(part).__name__ == "Tr"]
    dapo = next(row for row in rows if "loss_type dapo" in row)
    assert [words in dapo for words in ("0.476", "×0.545", "another direction", "as it is")] == [True] * 3 + [False]
    assert "as it is" in next(row for row in rows if "loss_type grpo" in row)


def test_quarters_of_completions_of_one_length_are_not_drawn(tmp_path: Path) -> None:
    new_run(tmp_path, {**WEIGHTS, "weight/length_q1": 1.0, "weight/length_q2": 0.0, "weight/length_q3": 0.0})
    shown = page(tmp_path)
    assert "the shortest quarter" not in text_of(shown)
    assert "made-length" not in figures_of(shown)


def test_a_run_without_weights_says_how_to_get_them(tmp_path: Path) -> None:
    new_run(tmp_path, {}, absent={"weight/*": "the loss is its own", "counterfactual/*": "the weights are sharded"})
    shown = page(tmp_path)
    text = text_of(shown)
    assert "No step of this run says which completions its update came from. the loss is its own" in text
    assert "Not measured in this run: the weights are sharded" in text
    assert "RLWatchCallback(counterfactual_every=20)" in text
    assert figures_of(shown) == {}


def test_a_run_before_its_first_step_has_its_audit(tmp_path: Path) -> None:
    new_run(tmp_path, {}, steps=0)
    text = text_of(page(tmp_path))
    assert "No step yet." in text
    assert "Where it divides" in text


@pytest.mark.parametrize(
    "info",
    [
        {"trainer": "own loop", "config": {"lr": 1e-3}},
        {"config": None},
        {"config": {"loss_type": "<img src=x>", "num_generations": 8}},
        {"config": {**CONFIG, "scale_rewards": []}},
        {"config": {**CONFIG, "num_generations": -1}},
    ],
)
def test_a_config_that_tells_no_loss_is_said_and_the_rest_is_shown(tmp_path: Path, info: dict[str, Any]) -> None:
    new_run(tmp_path, WEIGHTS, **info)
    text = text_of(page(tmp_path))
    assert "This run's configuration does not tell its loss." in text
    assert "run.json" in text
    assert 'Monitor("runs", config={"loss_type"' in text
    assert "34% of the completions carried half of the update" in text
    assert "on the configuration" not in text_of(page_at(tmp_path, "/run/run")[0])


def test_the_runs_page_hints_at_grave_lints_only_and_links(tmp_path: Path) -> None:
    writer = new_run(tmp_path, {})
    shown = page_at(tmp_path, "/run/run")[0]
    assert "warning 1 remark on the configuration" in text_of(shown)
    links = [part.href for part in parts_of(shown) if type(part).__name__ == "Link"]
    assert links.count("/run/run/denominators") == 2  # the tab and the hint

    writer.update_info(settings={"lints": {"length-bias": False}})
    assert "on the configuration" not in text_of(page_at(tmp_path, "/run/run")[0])
    assert "silenced: length-bias" in text_of(page(tmp_path))


def test_a_page_of_a_run_that_there_is_not_is_not_found(tmp_path: Path) -> None:
    new_run(tmp_path, {})
    for address in ("/run/run/nothing", "/run/run/denominators/more", "/run/nope/denominators"):
        assert page_at(tmp_path, address)[1] == "Not found · rlwatch"


def test_it_is_sent_again_only_where_the_run_has_changed(tmp_path: Path) -> None:
    writer = new_run(tmp_path, WEIGHTS)
    client = create_app(tmp_path).server.test_client()
    cursor = feed.load(writer.path).cursor

    def ask(run: str) -> Any:
        body = {
            "output": "..denominators.children...denominators-cursor.data..",
            "outputs": [
                {"id": "denominators", "property": "children"},
                {"id": "denominators-cursor", "property": "data"},
            ],
            "inputs": [{"id": "denominators-timer", "property": "n_intervals", "value": 1}],
            "changedPropIds": ["denominators-timer.n_intervals"],
            "state": [
                {"id": "denominators-run", "property": "data", "value": run},
                {"id": "denominators-cursor", "property": "data", "value": cursor},
            ],
        }
        return client.post("/_dash-update-component", json=body)

    assert [ask(run).status_code for run in ("run", "../run", "gone")] == [204] * 3
    writer.append(StepRecord(4, 1e9, WEIGHTS))
    answer = json.loads(ask("run").data)["response"]
    assert "over 4 steps" in json.dumps(answer["denominators"])
    assert answer["denominators-cursor"]["data"] == feed.load(writer.path).cursor
