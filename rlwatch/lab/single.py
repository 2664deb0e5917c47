"""Trains some arms of an experiment once, one after the other, and tells what came of each."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from rlwatch.capture.callback import RLWatchCallback
from rlwatch.lab.experiment import Arm, Column, Experiment, run_name
from rlwatch.lab.own_loop import name_run
from rlwatch.lab.watched import ArmResult, train


def run_once(
    experiment: Experiment,
    arms: Sequence[Arm],
    root: Path,
    *,
    seed: int,
    steps: int,
    console: Console,
    cache: Path | None = None,
) -> list[ArmResult]:
    """Train each arm, with a progress bar, its alerts printed as they fire.

    Args:
        experiment: Which one.
        arms: Those of its arms that are run.
        root: The folder of runs that the arms' run directories are made in.
        seed: Of the warm start and of the sampling.
        steps: Optimizer steps an arm.
        console: Where the bars go.
        cache: A folder in which first policies are kept.

    Raises:
        OSError: No run directory could be made.
    """
    torch.set_num_threads(1)  # the tensors are too small for more, and a second core is left to the dashboard
    start = importlib.import_module(experiment.module).prepare(seed, cache)
    return [run_arm(experiment, arm, start, root, seed=seed, steps=steps, console=console) for arm in arms]


def run_arm(
    experiment: Experiment, arm: Arm, start: Any, root: Path, *, seed: int, steps: int, console: Console
) -> ArmResult:
    """Train one arm from where its experiment starts; arguments as in [`run_once`][rlwatch.lab.single.run_once]."""
    module = importlib.import_module(experiment.module)
    watcher = RLWatchCallback(root, name=run_name(experiment.name, arm.name), **experiment.watch)
    settings = ", ".join(f"{name} {value}" for name, value in {**arm.settings, **arm.task}.items())
    console.print(f"\n[bold]{arm.name}[/] ({settings}): {arm.description}", highlight=False)

    def build(scratch: Path, callbacks: Sequence[Any]) -> Any:
        built = module.build(arm, start, seed=seed, steps=steps, output_dir=scratch, callbacks=callbacks)
        name_run(built, root, run_name(experiment.name, arm.name))
        return built

    return train(arm, build, watcher, steps=steps, console=console)


def arms_table(experiment: Experiment, results: Sequence[ArmResult]) -> Table:
    """What came of each arm, from its run directory: the experiment's columns and the alerts."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("arm")
    for column in experiment.table:
        table.add_column(column.title, justify="right")
    table.add_column("alerts")
    for result in results:
        cells = [_cell(column, result) for column in experiment.table]
        told = [f"{alert.severity.value} {alert.rule} at step {alert.step}" for alert in result.fired]
        table.add_row(result.arm.name, *cells, ", ".join(told) or "none")
    return table


def _cell(column: Column, result: ArmResult) -> str:
    ends = {"first": result.first, "last": result.last}
    found = [ends[end](column.metric) for end in column.ends]
    return " → ".join("–" if value is None else format(value, column.form) for value in found)
