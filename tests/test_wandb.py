"""Metrics and alerts in the user's own wandb run, read back from the file that wandb wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from transformers import TrainerCallback

from rlwatch import RLWatchCallback
from rlwatch.alerts import wandb as wandb_alerts
from rlwatch.runs.reader import read_records
from rlwatch.runs.records import StepRecord
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


def test_an_alert_goes_through_the_active_run(run: Any, tmp_path: Path) -> None:
    assert wandb_alerts.send(ALERT)
    wandb.finish()
    [alert] = [r["alert"] for r in written(tmp_path) if r["type"] == "alert"]
    assert alert["title"] == "critical: dead-groups in night-run"
    assert alert["level"] == "ERROR"
    assert "Try: raise epsilon_high in small steps [DAPO 2503.14476]" in alert["text"]


def test_without_an_active_run_nothing_happens_and_none_is_started() -> None:
    assert wandb.run is None
    WandbStream().log(record(1))
    assert not wandb_alerts.send(ALERT)
    assert wandb.run is None


def test_the_end_of_an_alert_is_not_sent_as_an_alert(run: Any) -> None:
    from rlwatch.runs.records import Alert

    assert not wandb_alerts.send(Alert.from_dict({**ALERT.to_dict(), "state": "resolved"}))
