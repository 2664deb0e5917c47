"""Runs the arms of an experiment one after the other, watched by rlwatch, and tells what came of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.table import Table

from rlwatch.capture.callback import RLWatchCallback
from rlwatch.lab.failure_room import ARMS, Arm, build_trainer
from rlwatch.lab.warm_start import WarmStart, warm_start
from rlwatch.lab.watched import ArmResult, train
from rlwatch.runs.records import StepRecord

if TYPE_CHECKING:
    from trl import GRPOTrainer

COUNTERFACTUAL_EVERY = 25
"""Steps; eight of them share a rollout, so that each of its eight updates has its turn."""


def run_failure_room(root: Path, *, seed: int, steps: int, console: Console) -> list[ArmResult[Arm]]:
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


def _run_arm(arm: Arm, warm: WarmStart, root: Path, *, seed: int, steps: int, console: Console) -> ArmResult[Arm]:
    watcher = RLWatchCallback(
        root,
        name=f"failure-room-{arm.name}",
        correct="accuracy_reward",
        counterfactual_every=COUNTERFACTUAL_EVERY,
    )
    console.print(f"\n[bold]{arm.name}[/] (epsilon_high {arm.epsilon_high:g}): {arm.description}", highlight=False)

    def build(scratch: Path, callbacks: Sequence[Any]) -> GRPOTrainer:
        return build_trainer(arm, seed=seed, steps=steps, output_dir=scratch, warm=warm, callbacks=callbacks)

    return train(arm, arm.name, build, watcher, steps=steps, console=console)


def summary_table(results: Sequence[ArmResult[Arm]]) -> Table:
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
