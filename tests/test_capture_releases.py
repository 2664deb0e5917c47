"""A TRL that rlwatch does not know: one warning, the training as it would be, and what can be had from outside."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import trl

from rlwatch import RLWatchCallback
from rlwatch.capture import releases
from rlwatch.runs.reader import read_info, read_records
from rlwatch.runs.records import StepRecord
from rlwatch.signals.losses import LossConfig, TokenBatch, aggregate
from tiny import brevity, odd_digit

ROOT = Path(__file__).parent.parent
Make = Callable[..., Any]


def renamed(*names: str) -> type:
    """TRL's GRPOTrainer with some of its own names changed, wherever they stand in it: the next release, perhaps."""
    from trl.trainer import grpo_trainer as module

    source = inspect.getsource(module.GRPOTrainer)
    for name in names:
        source, count = re.subn(rf"(?<=\bself\.){name}\b|(?<=\bdef ){name}\b", f"{name}_renamed", source)
        assert count > 1, f"{name} is nothing that this TRL uses"
    namespace = dict(vars(module))
    exec(compile(source, module.__file__, "exec"), namespace)
    made: type = namespace["GRPOTrainer"]
    return made


def train(make_trainer: Make, folder: Path, **config: Any) -> tuple[Any, list[StepRecord], dict[str, Any]]:
    """The trainer, the records and what run.json says."""
    watcher = RLWatchCallback(folder, split_every=1, correct="odd_digit")
    trainer = make_trainer(reward_funcs=(odd_digit, brevity), callbacks=[watcher], **config)
    trainer.train()
    assert watcher.run_dir is not None
    info = read_info(watcher.run_dir)
    assert "faults" not in info, info["faults"]
    records = read_records(watcher.run_dir).items
    assert [record.step for record in records] == [1, 2, 3]
    return trainer, records, info


def logged(trainer: Any, name: str) -> list[float]:
    return [row[name] for row in trainer.state.log_history if "loss" in row]


@pytest.fixture(scope="module")
def plain(make_trainer: Make, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[StepRecord], dict[str, Any]]:
    """What there is where nothing is missing."""
    return train(make_trainer, tmp_path_factory.mktemp("plain"))


def assert_same_training(one: Any, other: Any) -> None:
    assert logged(one, "loss") == logged(other, "loss")
    for name, tensor in one.model.state_dict().items():
        assert torch.equal(tensor, other.model.state_dict()[name]), name


@pytest.mark.parametrize("name", ["_calculate_rewards", "_generate_and_score_completions", "num_generations"])
def test_without_what_shows_the_rollouts_the_loss_is_still_exact(
    name: str, make_trainer: Make, tmp_path: Path, plain: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(trl, "GRPOTrainer", renamed(name))
    trainer, records, info = train(make_trainer, tmp_path)
    assert_same_training(plain[0], trainer)
    [warning] = [line for line in capsys.readouterr().out.splitlines() if "Not measured" in line]
    assert f"GRPOTrainer has no {name}" in warning
    assert f"this is {releases.installed()}" in warning
    assert releases.RANGE in warning
    assert "reward/*, groups/*, length/*" in warning
    assert f"has no {name}" in info["absent"]["groups/*"]
    assert "clip/*" not in info["absent"]
    for i, (record, whole) in enumerate(zip(records, plain[1], strict=True)):
        for metric in ("entropy/mean", "surprisal/mean", "clip/high", "grad/effective_norm", "signal/ess", "loss"):
            assert record.metrics[metric] == whole.metrics[metric], metric
        assert record.metrics["reward/mean"] == logged(trainer, "reward")[i], "as it is logged"
        assert record.metrics["length/mean"] == logged(trainer, "completions/mean_length")[i]
        assert "groups/solved" not in record.metrics, "TRL does not log it"


@pytest.mark.parametrize("name", ["_get_per_token_logps_and_entropies", "compute_loss", "epsilon_low"])
def test_without_what_shows_the_loss_the_rollouts_are_still_exact(
    name: str, make_trainer: Make, tmp_path: Path, plain: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(trl, "GRPOTrainer", renamed(name))
    if name == "compute_loss":  # transformers calls it, so it is there, and cannot be hooked
        monkeypatch.setattr(releases, "lacking", lambda _, part: name if part is releases.LOSS else "")
        monkeypatch.setattr(trl, "GRPOTrainer", trl.trainer.grpo_trainer.GRPOTrainer)
    trainer, records, info = train(make_trainer, tmp_path)
    assert_same_training(plain[0], trainer)
    assert capsys.readouterr().out.count("Not measured") == 1
    assert f"has no {name}" in info["absent"]["clip/*"]
    assert f"has no {name}" in info["absent"]["grad/effective_norm"], "nobody has checked what the loss is made of"
    for i, (record, whole) in enumerate(zip(records, plain[1], strict=True)):
        mine = {k: v for k, v in record.metrics.items() if k.startswith(("groups/", "length/", "reward/"))}
        assert mine == {k: v for k, v in whole.metrics.items() if k.startswith(("groups/", "length/", "reward/"))}
        assert record.metrics["grad/norm"] == whole.metrics["grad/norm"]
        assert record.metrics["entropy/mean"] == pytest.approx(whole.metrics["entropy/mean"], rel=1e-6) or (
            record.metrics["entropy/mean"] == logged(trainer, "entropy")[i]
        )
        assert not {"grad/effective_norm", "weight/long", "signal/ess"} & set(record.metrics)


@pytest.mark.parametrize("version", ["0.22.2", "2.1.0"])
def test_a_release_out_of_the_range_is_watched_from_outside(
    version: str, make_trainer: Make, tmp_path: Path, plain: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(releases, "installed", lambda: version)
    trainer, records, info = train(make_trainer, tmp_path)
    assert_same_training(plain[0], trainer)
    out = capsys.readouterr().out
    [warning] = [line for line in out.splitlines() if "Not measured" in line]
    assert f"TRL {version} is outside of the range" in warning
    assert releases.RANGE in warning
    assert "groups/*" in warning
    assert "clip/*" in warning
    assert "will be absent" not in out, "told once"
    assert not [name for name in vars(trainer) if name in (*releases.ROLLOUTS.methods, *releases.LOSS.methods)]
    for i, (record, whole) in enumerate(zip(records, plain[1], strict=True)):
        for metric in ("loss", "grad/norm", "grad/applied_norm", "lr", "update/norm"):
            assert record.metrics[metric] == whole.metrics[metric], metric
        assert record.metrics["reward/mean"] == logged(trainer, "reward")[i]
        assert not {"groups/solved", "grad/effective_norm", "weight/long"} & set(record.metrics)
    assert info["framework"]["trl"] == trl.__version__, "run.json says what is installed"


def test_with_a_log_every_other_step_the_steps_between_have_what_was_measured(
    make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "installed", lambda: "2.1.0")
    evaluated = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4}
    _, records, _ = train(make_trainer, tmp_path, logging_steps=2, beta=0.1, **evaluated)
    assert ["reward/mean" in record.metrics for record in records] == [False, True, False]
    assert all("grad/norm" in record.metrics and "grad/effective_norm" not in record.metrics for record in records)


def test_a_trainer_that_makes_no_rollouts_does_not_depend_on_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "installed", lambda: "2.1.0")
    found = releases.reach(object())
    assert found.warning == ""
    assert found.absent["groups/*"] == "object has no _calculate_rewards"


def test_the_range_is_the_one_that_is_installed_with() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    [(oldest, below)] = re.findall(r'"trl>=([\d.]+),<([\d.]+)"', text)
    assert tuple(map(int, oldest.split("."))) == releases.OLDEST
    assert (int(below), 0) == releases.TOO_NEW


def test_a_version_that_is_no_number_leaves_it_to_what_the_trainer_has() -> None:
    assert releases.known("main")
    assert releases.known("1.17.0.dev0")
    assert not releases.known("0.28.9")
    assert not releases.known("2.0.0rc1")


def test_where_accelerate_divides_once_more_the_gradient_is_not_split(make_trainer: Make, tmp_path: Path) -> None:
    """As under transformers 5.3 to 5.5: what is in .grad is a third of what the loss says, its regulariser is not."""
    watcher = RLWatchCallback(tmp_path, split_every=1)
    trainer = make_trainer(callbacks=[watcher], beta=0.1)
    assert releases.divided_again(trainer) == 1
    trainer.accelerator.gradient_accumulation_steps = 3
    trainer.train()
    assert watcher.run_dir is not None
    assert "divides the gradient by 3 once more" in read_info(watcher.run_dir)["absent"]["grad/effective_norm"]
    for record in read_records(watcher.run_dir).items:
        assert not {"grad/effective_norm", "grad/policy_norm", "grad/regulariser_norm"} & set(record.metrics)
        assert "grad/norm" in record.metrics


@pytest.mark.parametrize(
    ("version", "expected"), [("0.29.1", False), ("1.9.0", False), ("1.9.1", True), ("1.16.0", True), ("main", True)]
)
def test_what_dapo_divides_by_changed_once(version: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "installed", lambda: version)
    assert releases.counts_a_window() is expected


def test_the_tokens_of_a_window_and_of_a_generation() -> None:
    batch = TokenBatch(
        logps=torch.zeros(2, 3),
        mask=torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]),
        advantages=torch.ones(2, 1),
        items=torch.tensor(40.0),
        accumulation=2,
    )
    losses = torch.full((2, 3), 2.0)
    window = LossConfig("dapo", ranks=2, steps_per_generation=8)
    assert aggregate(window, batch, losses).item() == pytest.approx(4 * 2.0 / (40 / 2 * 2 / 8))
    assert aggregate(replace(window, windowed=False), batch, losses).item() == pytest.approx(4 * 2.0 / (40 / 2))
