"""Metrics and alerts in the user's own wandb run, read back from the file that wandb wrote."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from transformers import TrainerCallback

import rlwatch
from rlwatch import RLWatchCallback
from rlwatch.alerts.outbox import Outbox
from rlwatch.alerts.wandb import Wandb
from rlwatch.runs.reader import read_records
from rlwatch.runs.records import Alert, StepRecord
from rlwatch.streams.wandb import WandbStream
from test_alerts import ALERT


def begin(folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    return wandb.init(project="rlwatch-tests", dir=folder, mode="offline", settings={"console": "off"})


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    assert wandb.run is None
    yield begin(tmp_path)
    if wandb.run is not None:
        wandb.finish()


def written(tmp_path: Path) -> list[dict[str, Any]]:
    """Every record of the run's .wandb file, through wandb's own reader."""
    [path] = tmp_path.glob("wandb/offline-run-*/*.wandb")
    command = shutil.which("wandb", path=str(Path(sys.executable).parent)) or "wandb"
    done = subprocess.run([command, "leet", "inspect", "--json", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def history(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record["history"]["item"] for record in records if record["type"] == "history"]


def record(step: int) -> StepRecord:
    return StepRecord(step, 0.0, {"loss": step / 10, "kl": None})


def test_a_training_that_reports_to_wandb_has_the_same_rows_with_our_metrics_in_them(
    run: Any, make_trainer: Any, tmp_path: Path
) -> None:
    watcher = RLWatchCallback(tmp_path / "runs")
    make_trainer(callbacks=[watcher], report_to="wandb", max_steps=4).train()
    wandb.finish()
    begin(tmp_path / "unwatched")
    make_trainer(report_to="wandb", max_steps=4).train()
    wandb.finish()
    assert watcher.run_dir is not None
    ours = read_records(watcher.run_dir).items
    rows, without = history(written(tmp_path)), history(written(tmp_path / "unwatched"))
    assert [row["_step"] for row in rows] == [row["_step"] for row in without]
    training = [row for row in rows if "train/loss" in row]
    assert [row["train/global_step"] for row in training] == [1, 2, 3, 4]
    for row, twin in zip(rows, without, strict=True):
        assert {name for name in row if not name.startswith("rlwatch/")} == set(twin)
    for row, step in zip(training, ours, strict=True):
        assert row["rlwatch/step"] == step.step
        mirrored = {name.removeprefix("rlwatch/"): value for name, value in row.items() if name.startswith("rlwatch/")}
        del mirrored["step"]
        assert mirrored == pytest.approx(dict(step.metrics))


def test_with_a_row_every_third_step_no_step_of_ours_is_lost(run: Any, make_trainer: Any, tmp_path: Path) -> None:
    watcher = RLWatchCallback(tmp_path / "runs")
    make_trainer(callbacks=[watcher], report_to="wandb", max_steps=6, logging_steps=3).train()
    wandb.finish()
    rows = history(written(tmp_path))
    assert [row["rlwatch/step"] for row in rows if "rlwatch/loss" in row] == [1, 2, 3, 4, 5, 6]
    assert [row["train/global_step"] for row in rows if "train/loss" in row] == [3, 6]


@pytest.mark.parametrize("explicit_first", [True, False])
def test_a_user_who_logs_with_step_loses_nothing(
    run: Any, tmp_path: Path, make_trainer: Any, explicit_first: bool
) -> None:
    class Explicit(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            run.log({"mine/early": state.global_step}, step=state.global_step)

        def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            run.log({"mine/late": state.global_step}, step=state.global_step)

    watcher = RLWatchCallback(tmp_path / "runs")
    make_trainer(callbacks=[Explicit(), watcher] if explicit_first else [watcher, Explicit()], max_steps=3).train()
    wandb.finish()
    rows = {row["_step"]: row for row in history(written(tmp_path))}
    assert [rows[step]["mine/early"] for step in (1, 2, 3)] == [1, 2, 3]
    assert [rows[step]["mine/late"] for step in (1, 2, 3)] == [1, 2, 3]
    assert sorted(row["rlwatch/step"] for row in rows.values() if "rlwatch/loss" in row) == [1, 2, 3]


def test_where_nobody_else_logs_every_step_is_a_row(run: Any, tmp_path: Path) -> None:
    stream = WandbStream()
    for step in range(1, 6):
        stream.log(record(step))
    wandb.finish()
    rows = history(written(tmp_path))
    assert [(row["rlwatch/step"], row["rlwatch/loss"]) for row in rows] == [(s, s / 10) for s in range(1, 6)]
    assert all("rlwatch/kl" not in row for row in rows), "a metric without a value is not sent as one"


def test_the_x_axis_is_our_own_step(run: Any, tmp_path: Path) -> None:
    WandbStream().log(record(1))
    wandb.finish()
    metrics = [r["metric"] for r in written(tmp_path) if r["type"] == "metric"]
    assert any(m.get("step_metric") == "rlwatch/step" for m in metrics), metrics


def alerts(tmp_path: Path) -> list[dict[str, Any]]:
    return [record["alert"] for record in written(tmp_path) if record["type"] == "alert"]


def open_outbox(run_dir: Path, **settings: Any) -> Outbox:
    run_dir.mkdir(exist_ok=True, parents=True)
    note = settings.pop("note", lambda *_: None)
    return Outbox([Wandb()], run_dir / "outbox", others=run_dir.parent, note=note, **settings)


def wait_until_sent(run_dir: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(list((run_dir / "outbox" / "sent").glob("*.wandb.json"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


OVER = Alert.from_dict({**ALERT.to_dict(), "state": "resolved", "step": 260, "resolved_step": 240})


def test_an_alert_and_its_end_go_through_the_active_run_and_the_outbox(run: Any, tmp_path: Path) -> None:
    box = open_outbox(tmp_path / "runs" / "night")
    box.put(ALERT)
    wait_until_sent(tmp_path / "runs" / "night", 1)
    box.put(OVER)
    assert box.close() == 0
    wandb.finish()
    fired, over = alerts(tmp_path)
    assert (fired["title"], fired["level"]) == ("critical: dead-groups in night-run", "ERROR")
    assert "Try: raise epsilon_high in small steps [DAPO 2503.14476]" in fired["text"]
    assert (over["title"], over["level"]) == ("resolved: dead-groups in night-run", "INFO")
    assert "When: from step 188 to step 240" in over["text"]
    # wandb drops what has the title of one that it was told within this time; 0 it takes for a minute.
    assert [int(alert["wait_duration"]) for alert in (fired, over)] == [1, 1]
    assert len(list((tmp_path / "runs" / "night" / "outbox" / "sent").glob("*.wandb.json"))) == 2


def test_a_bad_night_is_a_handful_of_alerts_in_wandb_too(run: Any, tmp_path: Path) -> None:
    box = open_outbox(tmp_path / "runs" / "night")
    for since in range(0, 200, 20):
        change = {**ALERT.to_dict(), "severity": "warning", "since": since, "step": since + 2}
        box.put(Alert.from_dict(change))
        box.put(Alert.from_dict({**change, "state": "resolved", "resolved_step": since + 5}))
    assert box.close() == 0
    wandb.finish()
    told = alerts(tmp_path)
    assert len(told) <= 3
    counts = [re.search(r"Changes: (\d+) in", alert["text"]) for alert in told]
    assert sum(int(count[1]) if count else 1 for count in counts) == 20


def test_a_monitored_loop_alerts_once_through_wandb(run: Any, tmp_path: Path) -> None:
    with rlwatch.Monitor(tmp_path / "runs", name="night") as monitor:
        for step in range(1, 6):
            monitor.step(step, loss=float("nan") if step > 1 else 0.5)
    wandb.finish()
    assert [alert["title"] for alert in alerts(tmp_path)] == ["critical: non-finite in night"]


def test_a_run_that_starts_and_ends_within_the_training(tmp_path: Path) -> None:
    """What happens while there is none is not meant for it; what it did not get is told through the next one."""
    folder = tmp_path / "runs" / "night"
    notes: list[str] = []
    box = open_outbox(folder, note=lambda where, error: notes.append(f"{where}: {error}"))
    box.put(ALERT)
    assert not (folder / "outbox").exists()
    begin(tmp_path / "first")
    later = Alert.from_dict({**ALERT.to_dict(), "rule": "truncation", "since": 300})
    box.put(later)
    wait_until_sent(folder, 1)
    box.put(Alert.from_dict({**later.to_dict(), "since": 400}))  # within the hour of the one before
    wandb.finish()
    assert box.close() == 1
    assert [note.split(":")[0] for note in notes] == ["sending alerts"]
    assert ["truncation" in alert["title"] for alert in alerts(tmp_path / "first")] == [True]
    begin(tmp_path / "second")
    open_outbox(tmp_path / "runs" / "next").close()
    wandb.finish()
    assert ["Since: step 400" in alert["text"] for alert in alerts(tmp_path / "second")] == [True]


def test_without_an_active_run_nothing_happens_and_none_is_started(tmp_path: Path) -> None:
    assert wandb.run is None
    WandbStream().log(record(1))
    box = open_outbox(tmp_path / "runs" / "night")
    box.put(ALERT)
    assert box.close() == 0
    assert not (tmp_path / "runs" / "night" / "outbox").exists()
    assert wandb.run is None


def test_alerts_test_tries_wandb_where_it_is_asked_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rlwatch", "alerts", "test", "--wandb", "rlwatch-tests"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "wandb (offline, until it is synced): sent\n"), done.stderr
    assert [alert["title"] for alert in alerts(tmp_path)] == ["info: test in test"]
