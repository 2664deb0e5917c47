"""Training comes first: watched or not, with or without a fault of rlwatch, the weights are the same to the bit."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from rlwatch import RLWatchCallback
from rlwatch.capture import session as session_module
from rlwatch.capture import steps as steps_module
from rlwatch.capture.correctness import Correctness
from rlwatch.capture.effective import EffectiveGradient
from rlwatch.capture.guard import Guard
from rlwatch.capture.microbatch import MicroBatch
from rlwatch.capture.rows import Rows
from rlwatch.capture.steps import TrainerSteps
from rlwatch.capture.trl import TRLListener
from rlwatch.capture.window import StepWindow
from rlwatch.runs.reader import read_info, read_records
from rlwatch.runs.writer import RunWriter, create_run_directory

SETTINGS = {
    "num_iterations": 2,
    "max_steps": 4,
    "eval_strategy": "steps",
    "eval_steps": 2,
    "entropy_coef": 0.01,  # a regulariser, so that the gradient is split
}


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
    (TRLListener, "_judge"),
    (TRLListener, "_texts"),
    (TRLListener, "_make_generation"),
    (TRLListener, "_begin_loss"),
    (TRLListener, "_saw_tokens"),
    (TRLListener, "_end_loss"),
    (TRLListener, "_end_micro_batch"),
    (TRLListener, "_measure"),
    (TRLListener, "_saw_norm"),
    (TRLListener, "begin_step"),
    (Rows, "begin"),
    (Rows, "generations"),
    (Rows, "learn"),
    (Rows, "facts"),
    (Rows, "saw"),
    (Rows, "gathered"),
    (Rows, "forget_before"),
    (TRLListener, "close"),
    (MicroBatch, "take"),
    (MicroBatch, "mismatch"),
    (MicroBatch, "policy_gradient"),
    (EffectiveGradient, "begin_step"),
    (EffectiveGradient, "before_optimizer"),
    (EffectiveGradient, "after_optimizer"),
    (EffectiveGradient, "end_step"),
    (StepWindow, "vector"),
    (TrainerSteps, "end"),
    (RLWatchCallback, "_begin"),
    (RLWatchCallback, "_record"),
    (RunWriter, "append"),
    (RunWriter, "rollouts"),
    (RunWriter, "update_info"),
    (RunWriter, "close"),
    (session_module.Engine, "feed"),
    (session_module.WandbStream, "log"),
]


def test_a_watch_that_cannot_be_set_up_leaves_no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        def __init__(self) -> None:
            self.model, self.accelerator = torch.nn.Linear(1, 1), None

        def training_step(self) -> None: ...

        def _get_grad_norm(self) -> None: ...

    def fail(*_: Any) -> None:
        raise RuntimeError("on purpose")

    trainer = Plain()
    before = set(vars(trainer))
    monkeypatch.setattr(steps_module, "EffectiveGradient", fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        TrainerSteps(trainer, Correctness(None, ()), Guard(), split_every=0, sample_completions=0)
    assert set(vars(trainer)) == before
    assert not trainer.model._forward_hooks


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
    monkeypatch.setattr(TRLListener, "_saw_tokens", broken)
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


def full(run: Path) -> None:
    """Every write to these files fails with ENOSPC."""
    (run / "metrics.rank0.jsonl").symlink_to("/dev/full")
    (run / "alerts.jsonl").symlink_to("/dev/full")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_on_a_full_disk_the_training_goes_on_and_the_fault_is_told_once(
    make_trainer: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    unwatched: dict[str, Any],
) -> None:
    def create(*args: Any) -> Path:
        run = create_run_directory(*args)
        full(run)
        return run

    monkeypatch.setattr(session_module, "create_run_directory", create)
    watcher = RLWatchCallback(tmp_path / "runs")
    trainer = make_trainer(callbacks=[watcher], **SETTINGS)
    trainer.train()
    assert_same(fingerprint(trainer), unwatched)
    [told] = [r for r in caplog.records if r.name == "rlwatch"]
    assert "No space left on device" in str(told.exc_info)
    assert watcher.run_dir is not None
    [fault] = read_info(watcher.run_dir)["faults"]
    assert (fault["where"], fault["count"]) == ("writing a step", 4)


def test_a_fault_while_the_last_rollouts_are_written_is_in_the_run_too(
    make_trainer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow_and_broken(*_: Any) -> None:
        time.sleep(1)  # so that it fails after the last step
        raise OSError("no more")

    monkeypatch.setattr(session_module, "rollout_table", slow_and_broken)
    watcher = RLWatchCallback(tmp_path / "runs")
    make_trainer(callbacks=[watcher], max_steps=1).train()
    assert watcher.run_dir is not None
    [fault] = read_info(watcher.run_dir)["faults"]
    assert (fault["where"], fault["error"]) == ("writing rollouts", "OSError: no more")


def test_a_run_directory_deleted_in_between_is_told_once(
    make_trainer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, unwatched: dict[str, Any]
) -> None:
    class Delete(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            while state.global_step == 1 and (tmp_path / "runs").exists():  # a shard may be on its way into it
                shutil.rmtree(tmp_path / "runs", ignore_errors=True)

    trainer = make_trainer(callbacks=[RLWatchCallback(tmp_path / "runs"), Delete()], **SETTINGS)
    trainer.train()
    assert_same(fingerprint(trainer), unwatched)
    told = [record.getMessage() for record in caplog.records if record.name == "rlwatch"]
    assert sum("writing a step failed" in message for message in told) == 1
    assert len(told) == len(set(told)), "once a place"
    assert not (tmp_path / "runs").exists(), "what was deleted is not made again"


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that this process cannot write to; root can, so for a while it is nobody."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "runs").mkdir()
    (folder / "runs").chmod(0o555)
    (folder / "trainer").mkdir()
    (folder / "trainer").chmod(0o777)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        os.seteuid(me)
        shutil.rmtree(folder)


def test_a_folder_that_cannot_be_written_to_still_leaves_the_alerts(
    make_trainer: Any,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    unwatched: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    watcher = RLWatchCallback()
    trainer = make_trainer(callbacks=[watcher], **SETTINGS)
    folder = request.getfixturevalue("read_only")
    watcher._dir, trainer.args.output_dir = folder / "runs", str(folder / "trainer")
    trainer.train()
    assert_same(fingerprint(trainer), unwatched)
    assert watcher.run_dir is None
    assert "the run directory could not be made, there will be alerts only" in capsys.readouterr().out
    [told] = [record for record in caplog.records if record.name == "rlwatch"]
    assert "Permission denied" in str(told.exc_info)


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
