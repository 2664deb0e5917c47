"""Runs the arms of the length bias one after the other, watched by rlwatch, and tells what came of each."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from rlwatch.capture.callback import RLWatchCallback
from rlwatch.lab.length_bias import ARMS, Arm, build_trainer
from rlwatch.lab.lengths_task import FirstPolicy, first_policy
from rlwatch.lab.runner import Bar, progress_bar
from rlwatch.runs.reader import read_alerts, read_records
from rlwatch.runs.records import Alert, AlertState, StepRecord

AVERAGED = 5
"""Steps at either end that the table takes the mean of."""

COUNTERFACTUAL_EVERY = 5
"""Every so many steps, what the other denominators would have made of the same batch is measured as well."""


LONGEST = "longest quarter weighs, at first"
"""Later there may be no such quarter: none is longer than others where a third is as long as an answer may be."""


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

    def first(self, metric: str) -> float | None:
        """The mean of a metric over the first steps that have it; None if none has."""
        return _mean(self.records[:AVERAGED], metric)

    def last(self, metric: str) -> float | None:
        """The same of the last steps."""
        return _mean(self.records[-AVERAGED:], metric)

    @property
    def fired(self) -> Sequence[Alert]:
        """Each rule's first alert."""
        firsts: dict[str, Alert] = {}
        for alert in self.alerts:
            if alert.state is AlertState.FIRING:
                firsts.setdefault(alert.rule, alert)
        return list(firsts.values())


def run_length_bias(root: Path, *, seed: int, steps: int, console: Console) -> list[ArmResult]:
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


def run_arm(arm: Arm, start: FirstPolicy, root: Path, *, seed: int, steps: int, console: Console) -> ArmResult:
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
    with tempfile.TemporaryDirectory() as scratch, progress_bar(console) as progress:
        bar = Bar(progress, arm.loss_type, steps)
        build_trainer(
            arm, seed=seed, steps=steps, output_dir=Path(scratch), start=start, callbacks=[watcher, bar]
        ).train()
    if watcher.run_dir is None:
        raise OSError(f"no run directory could be made under {root}: see the fault that was logged above")
    records, changes = read_records(watcher.run_dir).items, read_alerts(watcher.run_dir).items
    return ArmResult(arm, watcher.run_dir, records, changes)


def lengths_table(results: Sequence[ArmResult]) -> Table:
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


def _mean(records: Sequence[StepRecord], metric: str) -> float | None:
    values = [value for record in records if (value := record.metrics.get(metric)) is not None]
    return sum(values) / len(values) if values else None


def _change(result: ArmResult, metric: str, form: str) -> str:
    return f"{_shown(result.first(metric), form)} → {_shown(result.last(metric), form)}"


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
