"""A training that resumes from a checkpoint goes on in its run: no step lost, none doubled, no alert told twice."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import torch
from transformers import TrainerCallback

from rlwatch import RLWatchCallback
from rlwatch.capture import callback as callback_module
from rlwatch.capture import session as session_module
from rlwatch.capture.guard import Guard
from rlwatch.capture.resume import Bookmark, Memory, Resumption, find_run, resumes, whereabouts
from rlwatch.capture.session import Session
from rlwatch.runs.reader import latest_alerts, read_alerts, read_info, read_records, read_summary
from rlwatch.runs.records import Alert, AlertState, StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch.signals.groups import RewardRange

SETTINGS: dict[str, Any] = {
    "max_steps": 6,
    "save_strategy": "steps",
    "save_steps": 2,
    "gradient_accumulation_steps": 2,
    "num_iterations": 2,
}
KILLED_AT = 5  # with the checkpoint of step 4


def low_rewards(completions: list[str], **_: Any) -> list[float]:
    """Rewards that are never as high again as in the first two generations."""
    low_rewards.calls += 1  # type: ignore[attr-defined]
    top = 1.0 if low_rewards.calls <= 2 else 0.5  # type: ignore[attr-defined]
    return [top * (index % 2) for index in range(len(completions))]


low_rewards.calls = 0  # type: ignore[attr-defined]


class Stop(TrainerCallback):
    """Breaks the training off at the end of a step, or after the save that follows it."""

    def __init__(self, step: int, *, saved: bool = False, how: Callable[[], None] | None = None) -> None:
        self.step, self.saved, self.how = step, saved, how

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.stop(state, self.saved)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.stop(state, not self.saved)

    def stop(self, state: Any, not_now: bool) -> None:
        if state.global_step == self.step and not not_now:
            self.step = -1
            if self.how is not None:
                self.how()
            raise KeyboardInterrupt


def steps_of(run: Path) -> list[int]:
    return [record.step for record in read_records(run).items]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def weights_of(trainer: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def break_off(trainer: Any, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        trainer.train(**options)


# One training that was killed in another process, and what becomes of it in this one.


def be_killed(out: Path) -> None:
    """Train until kill -9; run in a process of its own."""
    import conftest

    factory = SimpleNamespace(mktemp=lambda name: out / "trainer")
    make = conftest.make_trainer.__wrapped__(factory)
    watcher = RLWatchCallback(out / "runs", name="killed")

    def kill_9() -> None:
        while not (out / "runs" / "killed" / "rollouts" / f"step-{KILLED_AT:06d}.parquet").exists():
            time.sleep(0.01)  # another thread writes it
        os.kill(os.getpid(), signal.SIGKILL)

    kill = Stop(KILLED_AT, how=kill_9)
    make(callbacks=[watcher, kill], reward_funcs=[low_rewards], **SETTINGS).train()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `trainer`, the killed training's output_dir, and `runs`."""
    out = tmp_path_factory.mktemp("killed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, __file__, str(out)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    return out


@pytest.fixture
def resume(killed: Path, make_trainer: Any, tmp_path: Path) -> Callable[..., tuple[Any, RLWatchCallback]]:
    """Resumes the killed training, in a copy of its runs."""
    shutil.copytree(killed / "runs", tmp_path / "runs")

    def go_on(*, output_dir: Path | None = None, **settings: Any) -> tuple[Any, RLWatchCallback]:
        low_rewards.calls = 2  # type: ignore[attr-defined]
        watcher = RLWatchCallback(tmp_path / "runs", name="killed")
        trainer = make_trainer(callbacks=[watcher], reward_funcs=[low_rewards], **{**SETTINGS, **settings})
        trainer.args.output_dir = str(output_dir or killed / "trainer")
        trainer.train(resume_from_checkpoint=str(killed / "trainer" / "checkpoint-4"))
        return trainer, watcher

    return go_on


@pytest.fixture(scope="module")
def unwatched(make_trainer: Any) -> dict[str, torch.Tensor]:
    """The weights of the same training, killed and resumed, that nobody watched."""
    low_rewards.calls = 0  # type: ignore[attr-defined]
    first = make_trainer(callbacks=[Stop(KILLED_AT)], reward_funcs=[low_rewards], **SETTINGS)
    break_off(first)
    low_rewards.calls = 2  # type: ignore[attr-defined]
    second = make_trainer(reward_funcs=[low_rewards], **SETTINGS)
    second.train(resume_from_checkpoint=str(Path(first.args.output_dir) / "checkpoint-4"))
    return weights_of(second)


def test_a_new_process_goes_on_with_the_run(
    killed: Path, resume: Any, tmp_path: Path, unwatched: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_info(killed / "runs" / "killed")
    first = {record.step: record for record in read_records(killed / "runs" / "killed").items}
    assert list(first) == [1, 2, 3, 4, 5]
    assert "ended" not in before
    trainer, watcher = resume()
    assert_same(weights_of(trainer), unwatched)
    run = watcher.run_dir
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["killed"], "the same name twice is no new run"
    assert run == tmp_path / "runs" / "killed"
    records = read_records(run).items
    assert [record.step for record in records] == [1, 2, 3, 4, 5, 6]
    assert records[:4] == [first[step] for step in (1, 2, 3, 4)]
    assert records[4].time > first[5].time, "done again"
    after = read_info(run)
    assert (after["id"], after["created"]) == (before["id"], before["created"])
    assert [entry["step"] for entry in after["resumed"]] == [4]
    assert after["pid"] == os.getpid()
    assert after["ended"] > after["resumed"][0]["time"]
    assert "faults" not in after
    assert [line["resume"] for line in lines_of(run / "alerts.jsonl") if "resume" in line] == [4]
    assert "the run goes on after step 4." in capsys.readouterr().out


def test_what_the_rewards_had_shown_is_not_forgotten(resume: Any, killed: Path) -> None:
    assert read_records(killed / "runs" / "killed").items[0].metrics["reward/mean"] > 0
    trainer, _ = resume()
    saved = trainer.state.stateful_callbacks["rlwatch"]["memory"]
    assert saved["rewards"] == [0.0, 1.0], "since the resumption none was above a half"
    assert saved["values"] == [[0.0, 0.5, 1.0]]


def test_the_killed_trainings_abandoned_rollouts_are_set_aside(resume: Any, tmp_path: Path) -> None:
    shards = tmp_path / "runs" / "killed" / "rollouts"
    before = {shard.name for shard in shards.iterdir()}
    assert "step-000005.parquet" in before
    resume()
    assert (shards / "abandoned" / "step-000005.parquet").exists()
    assert before - {"step-000005.parquet"} <= {shard.name for shard in shards.glob("step-*.parquet")}
    assert (shards / "step-000005.parquet").exists(), "done again"


def test_a_run_that_was_moved_is_begun_anew_and_says_so(
    resume: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs" / "killed").rename(tmp_path / "elsewhere")
    _, watcher = resume()
    assert watcher.run_dir == tmp_path / "runs" / "killed"
    assert steps_of(watcher.run_dir) == [5, 6]
    [entry] = read_info(watcher.run_dir)["resumed"]
    assert entry["step"] == 4
    assert entry["missing"] == f"its run killed is not in {tmp_path / 'runs'}"
    assert "resumes after step 4, and a new run begins there: its run killed is not in" in capsys.readouterr().out
    assert steps_of(tmp_path / "elsewhere") == [1, 2, 3, 4, 5], "and the old one is left as it was"


def test_another_run_of_the_same_name_is_not_taken_for_it(resume: Any, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "runs" / "killed")
    other = tmp_path / "runs" / "killed"
    other.mkdir()
    RunWriter(other, {}).close()
    _, watcher = resume()
    assert watcher.run_dir == tmp_path / "runs" / "killed-2"
    assert not steps_of(other)


def test_a_training_that_starts_off_from_a_checkpoint_leaves_the_run_alone(
    resume: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, watcher = resume(output_dir=tmp_path / "fork")
    assert watcher.run_dir == tmp_path / "runs" / "killed-2"
    assert steps_of(tmp_path / "runs" / "killed") == [1, 2, 3, 4, 5]
    assert "with an output_dir of its own" in capsys.readouterr().out


def test_restored_callback_states_do_no_harm(resume: Any, unwatched: dict[str, torch.Tensor], tmp_path: Path) -> None:
    trainer, watcher = resume(restore_callback_states_from_checkpoint=True)
    assert_same(weights_of(trainer), unwatched)
    assert steps_of(tmp_path / "runs" / "killed") == [1, 2, 3, 4, 5, 6]
    assert watcher.run_dir == tmp_path / "runs" / "killed"


def broken(*_: Any, **__: Any) -> None:
    raise RuntimeError("broken on purpose")


PARTS = [
    (Bookmark, "of", "killed-2"),
    (Bookmark, "put", "killed"),
    (callback_module, "find_run", "killed-2"),
    (Memory, "load", "killed"),
    (Memory, "save", "killed"),
    (Session, "_go_on", "killed-2"),
    (Session, "bookmark", "killed"),
    (RunWriter, "set_aside", "killed"),
    (session_module, "replay", "killed"),
    (session_module, "corrections", "killed"),
]


@pytest.mark.parametrize(("owner", "name", "run"), PARTS, ids=[f"{o.__name__}.{name}" for o, name, _ in PARTS])
def test_a_fault_anywhere_leaves_the_resumed_training_as_it_was(
    owner: Any,
    name: str,
    run: str,
    resume: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    unwatched: dict[str, torch.Tensor],
) -> None:
    monkeypatch.setattr(owner, name, broken)
    with caplog.at_level(logging.ERROR, logger="rlwatch"):
        trainer, watcher = resume()
    assert_same(weights_of(trainer), unwatched)
    assert [record for record in caplog.records if "broken on purpose" in str(record.exc_info)]
    assert watcher.run_dir == tmp_path / "runs" / run
    assert steps_of(watcher.run_dir) == ([5, 6] if run == "killed-2" else [1, 2, 3, 4, 5, 6])
    assert "broken on purpose" in str(read_info(watcher.run_dir)["faults"])


# In one process


def test_a_trainer_that_was_broken_off_twice_makes_one_run(make_trainer: Any, tmp_path: Path) -> None:
    stops = [Stop(3), Stop(5)]
    unwatched = make_trainer(callbacks=stops, **SETTINGS)
    break_off(unwatched)
    break_off(unwatched, resume_from_checkpoint=True)
    unwatched.train(resume_from_checkpoint=True)

    watcher = RLWatchCallback(tmp_path)
    trainer = make_trainer(callbacks=[watcher, Stop(3), Stop(5)], **SETTINGS)
    break_off(trainer)
    first = watcher.run_dir
    break_off(trainer, resume_from_checkpoint=True)
    assert "ended" not in read_info(watcher.run_dir), "it is live again"
    assert read_summary(watcher.run_dir).state == "live"
    trainer.train(resume_from_checkpoint=True)
    assert_same(weights_of(trainer), weights_of(unwatched))
    assert watcher.run_dir == first
    assert list(tmp_path.iterdir()) == [first]
    assert steps_of(first) == [1, 2, 3, 4, 5, 6]
    assert [entry["step"] for entry in read_info(first)["resumed"]] == [2, 4]
    written = [line.get("resume") or -line["step"] for line in lines_of(first / "metrics.rank0.jsonl")]
    assert written == [-1, -2, -3, 2, -3, -4, -5, 4, -5, -6], "and nothing was rewritten"
    shards = [pl.read_parquet(path) for path in (first / "rollouts").glob("step-*.parquet")]
    tokens = {step: sum(s["length"].sum() for s in shards if s["step"][0] <= step) for step in (1, 3, 6)}
    assert {r.step: r.metrics["tokens/total"] for r in read_records(first).items if r.step in tokens} == tokens

    trainer.train()
    assert watcher.run_dir != first, "one that does not resume is a run of its own"
    assert steps_of(watcher.run_dir) == [1, 2, 3, 4, 5, 6]
    assert "resumed" not in read_info(watcher.run_dir)


def test_rollouts_that_a_trainer_kept_from_before_are_not_taken_for_new_ones(make_trainer: Any, tmp_path: Path) -> None:
    """TRL trains on with the generation in its buffer, which step 3 began and the resumed step 3 finishes."""
    watcher = RLWatchCallback(tmp_path)
    trainer = make_trainer(callbacks=[watcher, Stop(3)], **SETTINGS)
    break_off(trainer)
    trainer.train(resume_from_checkpoint=True)
    run = watcher.run_dir
    records = {record.step: record.metrics for record in read_records(run).items}
    ages = [records[step].get("rollouts/age") for step in range(1, 7)]
    assert ages == [0, 1, None, 0, 1, 0], "nobody knows when the resumed step 3's were new"
    assert {path.stem for path in run.glob("rollouts/*.parquet")} == {f"step-{step:06d}" for step in (1, 4, 6)}
    assert not any(value != value for value in records[3].values()), "unknown is not NaN"
    assert "faults" not in read_info(run)


def test_a_new_callback_takes_over_from_one_that_was_left_open(make_trainer: Any, tmp_path: Path) -> None:
    """As in a notebook: interrupted, and everything made anew in the next cell."""
    old = RLWatchCallback(tmp_path, name="run")
    first = make_trainer(callbacks=[old, Stop(4, saved=True)], **SETTINGS)
    break_off(first)
    new = RLWatchCallback(tmp_path, name="run")
    second = make_trainer(callbacks=[new, Stop(5)], **SETTINGS)
    second.args.output_dir = first.args.output_dir
    break_off(second, resume_from_checkpoint=True)
    assert new.run_dir == old.run_dir == tmp_path / "run"
    old.on_train_end(first.args, first.state, first.control)  # as it happens when the process ends
    info = read_info(tmp_path / "run")
    assert "ended" not in info, "only the one that writes it can end it"
    assert [entry["step"] for entry in info["resumed"]] == [4]
    assert steps_of(tmp_path / "run") == [1, 2, 3, 4, 5], "no step was abandoned"
    new.on_train_end(second.args, second.state, second.control)
    assert "ended" in read_info(tmp_path / "run")


def test_a_checkpoint_from_before_rlwatch_begins_a_run_at_its_step(
    make_trainer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = make_trainer(callbacks=[Stop(3)], **SETTINGS)
    break_off(first)
    watcher = RLWatchCallback(tmp_path)
    second = make_trainer(callbacks=[watcher], **SETTINGS)
    second.args.output_dir = first.args.output_dir
    second.train(resume_from_checkpoint=True)
    assert steps_of(watcher.run_dir) == [3, 4, 5, 6]
    [entry] = read_info(watcher.run_dir)["resumed"]
    assert (entry["step"], entry["missing"]) == (2, "the checkpoint was saved without rlwatch")
    assert "a new run begins there: the checkpoint was saved without rlwatch." in capsys.readouterr().out


# The bookmark and the run that it belongs to


def test_a_bookmark_comes_back_as_it_was() -> None:
    state = SimpleNamespace(stateful_callbacks={"TrainerControl": {}})
    assert Bookmark.of(state) is None
    bookmark = Bookmark(4, "run", "00ff", 1, {"rewards": None})
    bookmark.put(state)
    state.stateful_callbacks = json.loads(json.dumps(state.stateful_callbacks, allow_nan=False))
    assert Bookmark.of(state) == bookmark


@pytest.mark.parametrize(
    "value", [3, "x", [], {}, {"step": 1}, {"step": "1", "run": "", "id": "", "resumes": 0, "memory": {}}]
)
def test_a_bookmark_that_is_none_is_a_fault_and_not_a_guess(value: Any) -> None:
    with pytest.raises(ValueError, match="where rlwatch's bookmark should be"):
        Bookmark.of(SimpleNamespace(stateful_callbacks={"rlwatch": value}))


def test_a_memory_of_other_reward_functions_or_of_nonsense_is_not_taken_up() -> None:
    def fresh(**functions: float) -> tuple[Memory, Any, Any]:
        listener = SimpleNamespace(seen=RewardRange())
        correctness = SimpleNamespace(_values=[[] for _ in functions], _looked_at=0)
        of = list(functions), list(functions.values())
        return Memory(of, listener, correctness), listener, correctness  # type: ignore[arg-type]

    memory, listener, correctness = fresh(a=1.0)
    assert memory.save()["rewards"] is None
    listener.seen, correctness._values, correctness._looked_at = RewardRange(-1.0, 2.0), [[0.0, 1.0]], 8
    saved = json.loads(json.dumps(memory.save(), allow_nan=False))
    memory, listener, correctness = fresh(a=1.0)
    memory.load(saved)
    assert (listener.seen, correctness._values, correctness._looked_at) == (RewardRange(-1.0, 2.0), [[0.0, 1.0]], 8)
    for others in ({"b": 1.0}, {"a": 2.0}, {"a": 1.0, "b": 1.0}):
        memory, listener, correctness = fresh(**others)
        memory.load(saved)
        assert (listener.seen, correctness._looked_at) == (RewardRange(), 0)
    memory, listener, correctness = fresh(a=1.0)
    for nonsense in ({"values": 3}, {"values": [3]}, {"rewards": [1]}, {"rewards": "x"}, {"looked_at": None}):
        with pytest.raises(ValueError, match=r".+"):
            memory.load({**saved, **nonsense})
    assert (listener.seen, correctness._values) == (RewardRange(), [[]])


def make_run(root: Path, steps: int, **info: Any) -> RunWriter:
    (root / "run").mkdir(parents=True)
    writer = RunWriter(root / "run", {**whereabouts("out"), **info})
    for step in range(1, steps + 1):
        writer.append(StepRecord(step, float(step), {}))
    return writer


def test_the_run_is_looked_for_where_runs_are_and_nowhere_else(tmp_path: Path) -> None:
    writer = make_run(tmp_path / "runs", 3)
    bookmark = Bookmark(2, "run", writer.id)
    assert find_run(tmp_path / "runs", 2, bookmark, "out").run == tmp_path / "runs" / "run"
    assert find_run(tmp_path / "runs", 2, bookmark, str(Path.cwd() / "out")).run is not None, "the same in the end"
    for other in (
        find_run(tmp_path / "runs" / "run", 2, replace(bookmark, run="../run"), "out"),
        find_run(tmp_path / "runs", 2, replace(bookmark, run=".."), "out"),
        find_run(tmp_path / "nowhere", 2, bookmark, "out"),
        find_run(tmp_path / "runs", 2, replace(bookmark, id="00"), "out"),
        find_run(tmp_path / "runs", 2, bookmark, "out2"),
        find_run(tmp_path / "runs", 2, None, "out"),
    ):
        assert other.run is None
        assert other.missing
    (tmp_path / "runs" / "run" / "run.json").write_text("{")
    assert "not JSON" in find_run(tmp_path / "runs", 2, bookmark, "out").missing


def test_a_checkpoint_of_a_branch_that_was_given_up_goes_back_to_where_it_branched(tmp_path: Path) -> None:
    """Resumed from step 100, and later from step 120 of the first part: steps 101 to 115 are the second part's."""
    make_run(tmp_path, 0, resumed=[{"step": 100, "time": 0.0}], id="a")
    assert find_run(tmp_path, 120, Bookmark(120, "run", "a", resumes=0), "out").back_to == 100
    assert find_run(tmp_path, 110, Bookmark(110, "run", "a", resumes=1), "out").back_to == 110
    unwatched = find_run(tmp_path, 110, Bookmark(105, "run", "a", resumes=1), "out")
    assert unwatched.back_to == 105
    assert unwatched.in_words() == "the run goes on after step 105; 106 to 110 are not in it."


@pytest.mark.parametrize("value", [None, 3, "x", [3], [{}], [{"step": "x"}]])
def test_strange_words_of_resumptions_are_passed_over(value: Any) -> None:
    assert resumes({"resumed": value}) == []


# The rules


def story(step: int) -> StepRecord:
    """Groups die from step 30 on and come back at 110; the gradient is infinite for a moment at step 60 and 95."""
    dead = 0.9 if 30 <= step < 110 else 0.0
    metrics = {
        "groups/solved": 0.0,
        "groups/failed": 0.0,
        "groups/stuck": dead,
        "reward/mean": 0.5,
        "entropy/mean": 2.0 / (1 + step / 10),
        "grad/norm": float("inf") if step in (60, 95) else 1.0,
    }
    return StepRecord(step, float(step), metrics)


def alerts_of(run: Path) -> list[Alert]:
    return [replace(alert, run="") for alert in read_alerts(run).items]


@pytest.mark.parametrize(("checkpoint", "killed_at"), [(10, 20), (50, 59), (60, 61), (61, 64), (90, 120), (140, 140)])
def test_resumed_rules_neither_forget_nor_tell_twice(
    checkpoint: int, killed_at: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Session(tmp_path, "whole", {}, Guard())
    for step in range(1, 201):
        whole.step(story(step))
    whole.close()
    told_whole = capsys.readouterr().out.count("rlwatch ·")

    first = Session(tmp_path, "run", whereabouts("out"), Guard())
    for step in range(1, killed_at + 1):
        first.step(story(step))
        if step == checkpoint:
            bookmark = first.bookmark(step, {})
    first.close()
    in_vain = capsys.readouterr().out.count("rlwatch ·") - len(
        [a for a in read_alerts(tmp_path / "run").items if a.step <= checkpoint]
    )
    before = alerts_of(tmp_path / "run")
    second = Session(tmp_path, "run", {}, Guard(), find_run(tmp_path, checkpoint, bookmark, "out"))
    assert second.path == tmp_path / "run"
    assert capsys.readouterr().out == "", "the replay tells nobody"
    assert alerts_of(tmp_path / "run") == [alert for alert in before if alert.step <= checkpoint]
    for step in range(checkpoint + 1, 201):
        second.step(story(step))
    second.close()
    assert alerts_of(tmp_path / "run") == alerts_of(tmp_path / "whole")
    assert len(alerts_of(tmp_path / "whole")) == told_whole > 4
    assert in_vain == len(before) - len([alert for alert in before if alert.step <= checkpoint])
    assert steps_of(tmp_path / "run") == list(range(1, 201))


def test_an_alert_whose_line_was_lost_is_told_and_one_that_nothing_holds_is_over(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = Session(tmp_path, "run", whereabouts("out"), Guard())
    for step in range(1, 81):
        first.step(story(step))
    first.close()
    lost = {alert.rule: alert for alert in read_alerts(run).items}["dead-groups"]
    (run / "alerts.jsonl").write_text("")
    writer = RunWriter(run, read_info(run))
    writer.alert(replace(lost, rule="a-rule-of-old"))
    writer.close()
    second = Session(tmp_path, "run", {}, Guard(), Resumption(80, run, read_info(run), back_to=80))
    second.close()
    newest = {alert.rule: alert for alert in latest_alerts(read_alerts(run).items)}
    assert (newest["a-rule-of-old"].state, newest["a-rule-of-old"].resolved_step) == (AlertState.RESOLVED, 80)
    assert (newest["dead-groups"].state, newest["dead-groups"].since) == (AlertState.FIRING, lost.since)


def test_faults_of_the_first_part_are_kept(tmp_path: Path) -> None:
    guard = Guard()
    first = Session(tmp_path, "run", whereabouts("out"), guard)
    guard.note("somewhere", ValueError("first"))
    bookmark = first.bookmark(0, {})
    again = Guard()
    second = Session(tmp_path, "run", {}, again, find_run(tmp_path, 0, bookmark, "out"))
    again.note("somewhere", ValueError("second"))
    second.close()
    assert [fault["error"] for fault in read_info(tmp_path / "run")["faults"]] == [
        "ValueError: first",
        "ValueError: second",
    ]
    first.close()


def test_the_replay_is_fast(tmp_path: Path) -> None:
    writer = make_run(tmp_path, 0, id="a")
    for step in range(1, 5001):
        writer.append(replace(story(step), metrics={**story(step).metrics, **{f"metric {n}": 0.1 for n in range(30)}}))
    writer.close()
    began = time.perf_counter()
    session = Session(tmp_path, "run", {}, Guard(), find_run(tmp_path, 5000, Bookmark(5000, "run", "a"), "out"))
    seconds = time.perf_counter() - began
    session.close()
    print(f"5,000 steps of 36 metrics were replayed in {seconds:.2f} s")
    assert seconds < 10


if __name__ == "__main__":
    be_killed(Path(sys.argv[1]))
