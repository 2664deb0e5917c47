"""Runs the arms of the length bias one after the other, watched by rlwatch, and tells what came of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.table import Table

from rlwatch.capture.callback import RLWatchCallback
from rlwatch.lab.length_bias import ARMS, Arm, build_trainer
from rlwatch.lab.lengths_task import FirstPolicy, first_policy
from rlwatch.lab.watched import ArmResult, train

if TYPE_CHECKING:
    from trl import GRPOTrainer

COUNTERFACTUAL_EVERY = 5
"""Every so many steps, what the other denominators would have made of the same batch is measured as well."""


LONGEST = "longest quarter weighs, at first"
"""Later there may be no such quarter: none is longer than others where a third is as long as an answer may be."""


def run_length_bias(root: Path, *, seed: int, steps: int, console: Console) -> list[ArmResult[Arm]]:
    """Train every arm of the length bias, with a progress bar, its alerts printed as they fire.

    Args:
        root: The folder of runs that the arms' run directories are made in.
        seed: Of the warm start and of the sampling.
        steps: Optimizer steps an arm.
        console: Where the bars go.
    """
    torch.set_num_threads(1)  # the tensors are too small for more
    start = first_policy(seed, console=console)
    return [run_arm(arm, start, root, seed=seed, steps=steps, console=console) for arm in ARMS.values()]


def run_arm(arm: Arm, start: FirstPolicy, root: Path, *, seed: int, steps: int, console: Console) -> ArmResult[Arm]:
    """Train one of them; arguments as in [`run_length_bias`][rlwatch.lab.lengths_runner.run_length_bias].

    Raises:
        OSError: No run directory could be made.
    """
    watcher = RLWatchCallback(
        root,
        name=f"length-bias-{arm.loss_type}",
        correct="right_letter_reward",
        counterfactual_every=COUNTERFACTUAL_EVERY,
    )
    console.print(f"\n[bold]{arm.loss_type}[/]: a token weighs {arm.weight}", highlight=False)

    def build(scratch: Path, callbacks: Sequence[Any]) -> GRPOTrainer:
        return build_trainer(arm, seed=seed, steps=steps, output_dir=scratch, start=start, callbacks=callbacks)

    return train(arm, arm.loss_type, build, watcher, steps=steps, console=console)


def lengths_table(results: Sequence[ArmResult[Arm]]) -> Table:
    """What came of each arm, from its run directory: lengths, what the longest weigh, and the alerts."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("arm")
    for title in (*(f"{what} first → last" for what in ("wrong, tokens", "right, tokens", "gap")), LONGEST):
        table.add_column(title, justify="right")
    table.add_column("alerts")
    for result in results:
        alerts = [f"{a.severity.value} {a.rule} at step {a.step}" for a in result.fired]
        table.add_row(
            result.arm.loss_type,
            _change(result, "length/incorrect", ".1f"),
            _change(result, "length/correct", ".1f"),
            _change(result, "length/gap", "+.1f"),
            _shown(result.first("weight/length_q4"), ".0%"),
            ", ".join(alerts) or "none",
        )
    return table


def _change(result: ArmResult[Arm], metric: str, form: str) -> str:
    return f"{_shown(result.first(metric), form)} → {_shown(result.last(metric), form)}"


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
