"""Training comes first: watched or not, with or without a fault of rlwatch, the weights are the same to the bit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from rlwatch import RLWatchCallback
from rlwatch.capture import session as session_module
from rlwatch.capture.trl import TRLListener
from rlwatch.capture.window import StepWindow
from rlwatch.runs.reader import read_info, read_records
from rlwatch.runs.writer import RunWriter

SETTINGS = {"num_iterations": 2, "max_steps": 4, "eval_strategy": "steps", "eval_steps": 2}


def fingerprint(trainer: Any) -> dict[str, Any]:
    weights = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return {"weights": weights, "losses": losses}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["losses"] == other["losses"]
    assert one["weights"].keys() == other["weights"].keys()
    for name, tensor in one["weights"].items():
        assert torch.equal(tensor, other["weights"][name]), name


@pytest.fixture(scope="module")
def unwatched(make_trainer: Any) -> dict[str, Any]:
    trainer = make_trainer(**SETTINGS)
    trainer.train()
    return fingerprint(trainer)


def test_watching_changes_nothing(make_trainer: Any, tmp_path: Path, unwatched: dict[str, Any]) -> None:
    watcher = RLWatchCallback(tmp_path / "runs")
    trainer = make_trainer(callbacks=[watcher], **SETTINGS)
    methods = set(vars(trainer))
    trainer.train()
    assert_same(fingerprint(trainer), unwatched)
    assert not {name for name in set(vars(trainer)) - methods if callable(getattr(trainer, name))}, "hooks left behind"


def broken(*_: Any, **__: Any) -> None:
    raise RuntimeError("broken on purpose")


PARTS = [
    (TRLListener, "_begin_generation"),
    (TRLListener, "_sampled"),
    (TRLListener, "_scored"),
    (TRLListener, "_end_generation"),
    (TRLListener, "_fill"),
    (TRLListener, "_begin_loss"),
    (TRLListener, "_saw_entropies"),
    (TRLListener, "_end_loss"),
    (TRLListener, "_saw_loss"),
    (TRLListener, "_saw_norm"),
    (TRLListener, "begin_step"),
    (TRLListener, "trained_on"),
    (TRLListener, "close"),
    (StepWindow, "totals"),
    (RLWatchCallback, "_begin"),
    (RLWatchCallback, "_record"),
    (RLWatchCallback, "_note_learning_rate"),
    (RunWriter, "append"),
    (RunWriter, "rollouts"),
    (RunWriter, "update_info"),
    (RunWriter, "close"),
    (session_module.Engine, "feed"),
    (session_module.WandbStream, "log"),
]


@pytest.mark.parametrize(("owner", "name"), PARTS, ids=[f"{owner.__name__}.{name}" for owner, name in PARTS])
def test_a_fault_anywhere_leaves_the_training_as_it_was(
    owner: Any,
    name: str,
    make_trainer: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    unwatched: dict[str, Any],
) -> None:
    monkeypatch.setattr(owner, name, broken)
    trainer = make_trainer(callbacks=[RLWatchCallback(tmp_path / "runs")], **SETTINGS)
    with caplog.at_level(logging.ERROR, logger="rlwatch"):
        trainer.train()
    assert_same(fingerprint(trainer), unwatched)
    told = [record for record in caplog.records if "broken on purpose" in str(record.exc_info)]
    assert told, "a fault is logged with its traceback"
    assert len(told) == len({record.getMessage() for record in told}), "and once a place"


def test_a_fault_is_counted_in_the_run(make_trainer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TRLListener, "_saw_entropies", broken)
    watcher = RLWatchCallback(tmp_path / "runs")
    make_trainer(callbacks=[watcher]).train()
    assert watcher.run_dir is not None
    [fault] = read_info(watcher.run_dir)["faults"]
    assert fault["where"] == "after _get_per_token_logps_and_entropies"
    assert fault["error"] == "RuntimeError: broken on purpose"
    assert fault["count"] == 9  # three micro-batches in each of three steps
    records = read_records(watcher.run_dir).items
    assert len(records) == 3
    assert "entropy/mean" not in records[0].metrics, "missing is not zero"
    assert "grad/norm" in records[0].metrics


def test_a_run_directory_that_cannot_be_made_still_leaves_the_alerts(
    make_trainer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    watcher = RLWatchCallback(tmp_path / "runs")
    make_trainer(callbacks=[watcher]).train()
    assert watcher.run_dir is None
    assert "the run directory could not be made, there will be alerts only" in capsys.readouterr().out


def test_the_trainers_own_error_goes_through_as_it_is(make_trainer: Any, tmp_path: Path) -> None:
    def failing_reward(**_: Any) -> list[float]:
        raise KeyError("the user's own mistake")

    trainer = make_trainer(reward_funcs=[failing_reward], callbacks=[RLWatchCallback(tmp_path / "runs")])
    with pytest.raises(KeyError, match="the user's own mistake"):
        trainer.train()


def test_a_training_that_was_broken_off_ends_with_the_next_one(make_trainer: Any, tmp_path: Path) -> None:
    calls = []

    def fails_the_first_time(completions: list[str], **_: Any) -> list[float]:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return [float(len(text) % 2) for text in completions]

    watcher = RLWatchCallback(tmp_path / "runs", name="run")
    trainer = make_trainer(reward_funcs=[fails_the_first_time], callbacks=[watcher])
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.train()
    first, second = tmp_path / "runs" / "run", tmp_path / "runs" / "run-2"
    assert "ended" in read_info(first)
    assert len(read_records(first).items) == 1
    assert len(read_records(second).items) == 3
