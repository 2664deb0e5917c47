"""Runs the arms of an experiment one after the other, watched by rlwatch, and tells what came of each."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from transformers import TrainerCallback

from rlwatch.capture.callback import RLWatchCallback
from rlwatch.lab.failure_room import ARMS, Arm, build_trainer
from rlwatch.lab.warm_start import WarmStart, warm_start
from rlwatch.runs.reader import read_alerts, read_records
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord


@dataclass(frozen=True)
class ArmResult:
    """What one arm's run directory says after the run.

    Args:
        arm: The arm.
        run_dir: Its run directory.
        records: Its steps.
        alerts: The changes of its alerts' states, in the order in which they were told.
    """

    arm: Arm
    run_dir: Path
    records: Sequence[StepRecord]
    alerts: Sequence[Alert]

    @property
    def first_alert(self) -> Alert | None:
        """The first critical alert; without one, the first warning."""
        fired = [a for a in self.alerts if a.state is AlertState.FIRING and a.severity is not Severity.INFO]
        critical = [a for a in fired if a.severity is Severity.CRITICAL]
        return next(iter(critical or fired), None)


def run_failure_room(root: Path, *, seed: int, steps: int, console: Console) -> list[ArmResult]:
    """Train every arm of the failure room, with a progress bar, its alerts printed as they fire.

    Args:
        root: The folder of runs that the arms' run directories are made in.
        seed: Of the warm start and of the sampling.
        steps: Optimizer steps an arm.
        console: Where the bars go.
    """
    torch.set_num_threads(1)  # the tensors are too small for more, and a second core is left to the dashboard
    warm = warm_start(seed, console=console)
    return [_run_arm(arm, warm, root, seed=seed, steps=steps, console=console) for arm in ARMS.values()]


def _run_arm(arm: Arm, warm: WarmStart, root: Path, *, seed: int, steps: int, console: Console) -> ArmResult:
    watcher = RLWatchCallback(root, name=f"failure-room-{arm.name}", correct="accuracy_reward")
    console.print(f"\n[bold]{arm.name}[/] (epsilon_high {arm.epsilon_high:g}): {arm.description}", highlight=False)
    with tempfile.TemporaryDirectory() as scratch, progress_bar(console) as progress:
        bar = Bar(progress, arm.name, steps)
        build_trainer(
            arm, seed=seed, steps=steps, output_dir=Path(scratch), warm=warm, callbacks=[watcher, bar]
        ).train()
    if watcher.run_dir is None:
        raise OSError(f"no run directory could be made under {root}: see the fault that was logged above")
    changes = read_alerts(watcher.run_dir).items
    return ArmResult(arm, watcher.run_dir, read_records(watcher.run_dir).items, changes)


def summary_table(results: Sequence[ArmResult]) -> Table:
    """What came of each arm, from its run directory: reward, entropy, zero-variance share and the first alert."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("arm")
    for title in (
        "steps",
        "final reward",
        "entropy first → last",
        "zero-std share",
        "of it not solved",
        "loss at the end",
    ):
        table.add_column(title, justify="right")
    table.add_column("first alert")
    for result in results:
        first, last = _mean(result.records[:8]), _mean(result.records[-8:])
        alert = result.first_alert
        unsolved = last["groups/stuck"] + last["groups/failed"]
        table.add_row(
            result.arm.name,
            str(result.records[-1].step),
            f"{last['reward/mean']:.2f}",
            f"{first['entropy/mean']:.3f} → {last['entropy/mean']:.3f}",
            f"{last['groups/zero_std']:.0%}",
            f"{unsolved:.0%}",
            f"{last['loss']:+.4f}",
            f"{alert.severity.value} {alert.rule} at step {alert.step}" if alert else "none",
        )
    return table


def _mean(records: Sequence[StepRecord]) -> dict[str, float]:
    """The mean of each metric that all of the records have."""
    names = set.intersection(*(set(record.metrics) for record in records))
    return {name: sum(float(r.metrics[name] or 0.0) for r in records) / len(records) for name in names}


def progress_bar(console: Console) -> Progress:
    """A bar that says how far a training is and what it earns."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeRemainingColumn(compact=True),
        TextColumn("reward {task.fields[reward]}"),
        console=console,
        disable=not console.is_terminal,
    )


class Bar(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Moves the bar on, or prints a line every tenth of the way where there is no terminal to draw a bar on."""

    def __init__(self, progress: Progress, name: str, steps: int) -> None:
        self._progress = progress
        self._name = name
        self._every = max(1, steps // 10)
        self._reward = "–"
        self._task = progress.add_task(name, total=steps, reward=self._reward)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Keep the newest reward."""
        if logs and logs.get("reward") is not None:  # TRL logs it only on the first step of a rollout
            self._reward = f"{logs['reward']:.2f}"
        self._progress.update(self._task, completed=state.global_step, reward=self._reward)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Where no bar can be drawn, a line now and then."""
        if self._progress.disable and state.global_step % self._every == 0:
            print(f"{self._name}: step {state.global_step} of {state.max_steps}, reward {self._reward}", flush=True)
