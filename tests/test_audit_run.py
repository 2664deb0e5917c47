"""The audit of a real run: lints as it begins, what its updates were made of, what else would have come of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlwatch import RLWatchCallback
from rlwatch.cli import app
from rlwatch.readers import load
from rlwatch.report.audit_measured import Otherwise, measured
from rlwatch.runs.reader import read_info
from tiny import brevity, odd_digit

Make = Callable[..., Any]


@pytest.fixture(scope="module")
def run_dir(make_trainer: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four steps under loss_type grpo, two of them with a look at the alternatives."""
    watcher = RLWatchCallback(
        tmp_path_factory.mktemp("runs"),
        name="run",
        correct="odd_digit",
        counterfactual_every=2,
        sample_completions="all",
    )
    make_trainer(reward_funcs=(odd_digit, brevity), callbacks=[watcher], max_steps=4, loss_type="grpo").train()
    assert watcher.run_dir is not None
    return watcher.run_dir


def audit(path: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["audit", str(path), *options], env={"COLUMNS": "140"})
    assert result.exit_code == 0, result.output
    return result.output


def test_it_says_what_the_updates_were_made_of_and_what_else_would_have_come_of_them(run_dir: Path) -> None:
    text = audit(run_dir)
    (run,) = load(run_dir)
    seen = measured(run)
    assert [w.family for w in seen.weighed] == ["weight"]
    assert seen.weighed[0].steps == 4
    assert seen.weighed[0].sentence in " ".join(text.split())
    assert "What another decision would have made of the same batches" in text
    rows = {other.name: other for other in seen.otherwise}
    assert rows["denominator-grpo"].verdict == "nearly the same"
    assert rows["denominator-dapo"].steps == 2
    assert "all trainable weights" in text


def test_the_numbers_are_means_of_what_was_recorded(run_dir: Path) -> None:
    (run,) = load(run_dir)
    weighed = measured(run).weighed[0]
    for words, name in (("wrong answers", "weight/incorrect"), ("the longest quarter", "weight/length_q4")):
        values = [r.metrics[name] for r in run.records if name in r.metrics]
        assert weighed.shares[words][0] == pytest.approx(sum(values) / len(values))  # type: ignore[arg-type]
    correct = [r.metrics["length/share_correct"] for r in run.records]
    assert weighed.shares["wrong answers"][1] == pytest.approx(1 - sum(correct) / len(correct))  # type: ignore[arg-type]


def test_json_and_html_hold_the_same(run_dir: Path, tmp_path: Path) -> None:
    data = json.loads(audit(run_dir, "--format", "json"))
    assert data["schema"] == 1
    assert {o["name"] for o in data["measured"]["otherwise"]} >= {"denominator-dapo", "scaling-none", "clip-higher"}
    page = tmp_path / "audit.html"
    audit(run_dir, "--format", "html", "-o", str(page))
    text = page.read_text()
    assert "What the updates were made of" in text
    assert "http" not in text.replace("http-equiv", "")


def test_completions_alone_say_what_either_denominator_would_have_weighed(run_dir: Path) -> None:
    text = audit(run_dir / "rollouts")
    assert "as loss_type grpo would have weighed these completions, from rollouts alone" in text
    assert "as loss_type dapo or dr_grpo would have weighed them, from rollouts alone" in text
    assert "Where it divides" not in text, "completions have no configuration"


def test_what_rollouts_alone_say_is_what_was_captured(run_dir: Path) -> None:
    """On policy, with one update a rollout, the formula's weights are the captured ones."""
    (live,), (dump,) = load(run_dir), load(run_dir / "rollouts")
    for one, other in zip(live.records, dump.records, strict=True):
        for name in ("length_q1", "length_q4", "incorrect", "truncated", "half", "largest_group"):
            assert other.metrics[f"weight_grpo/{name}"] == pytest.approx(one.metrics[f"weight/{name}"], abs=2e-3), name


def test_what_is_unwise_is_said_as_the_training_begins_and_kept(
    make_trainer: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"lints": {"near-ties": False}}
    watcher = RLWatchCallback(tmp_path, settings=settings)
    trainer = make_trainer(callbacks=[watcher], max_steps=1, loss_type="cispo")
    trainer.train()
    assert watcher.run_dir is not None
    out = capsys.readouterr().out
    info = read_info(watcher.run_dir)
    names = {lint["name"] for lint in info["lints"]}
    assert "cispo-epsilon" in names
    assert "near-ties" not in names
    assert "rlwatch: warning, cispo-epsilon:" in out
    assert f"see rlwatch audit {watcher.run_dir}" in out


def test_a_lint_that_there_is_not_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"lints\.near-tie: there is no such key.*near-ties"):
        RLWatchCallback(settings={"lints": {"near-tie": False}})


@pytest.mark.parametrize(
    ("cosine", "ratio", "verdict"),
    [
        (0.99, 1.1, "nearly the same"),
        (0.99, 3.0, "the same direction, another size"),
        (0.5, 1.0, "another direction"),
        (None, 0.0, "no update at all"),
    ],
)
def test_what_an_alternative_would_have_changed(cosine: float | None, ratio: float, verdict: str) -> None:
    assert Otherwise("clip-higher", 3, cosine, ratio).verdict == verdict


def test_the_report_of_a_run_says_it_too(run_dir: Path) -> None:
    """As text, JSON and HTML; and a lint that was silenced is in none of them."""
    runner = CliRunner()
    text = runner.invoke(app, ["analyze", str(run_dir)], env={"COLUMNS": "140"}).output
    assert "About its configuration" in text
    assert "near-ties" in text
    html = runner.invoke(app, ["analyze", str(run_dir), "--format", "html"]).output
    assert "About its configuration" in html
    data = json.loads(runner.invoke(app, ["analyze", str(run_dir), "--format", "json"]).output)
    names = {lint["name"] for lint in data["runs"][0]["lints"]}
    assert "near-ties" in names
    (run_dir / "rlwatch.toml").write_text("[lints]\nnear-ties = false\n")
    try:
        silent = runner.invoke(app, ["analyze", str(run_dir), "--format", "json"]).output
    finally:
        (run_dir / "rlwatch.toml").unlink()
    assert {lint["name"] for lint in json.loads(silent)["runs"][0]["lints"]} == names - {"near-ties"}
