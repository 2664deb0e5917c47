"""What every experiment needs: the settings of a quiet trainer, a watched training with a bar, what came of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback, set_seed
from trl import GRPOConfig

from rlwatch.capture.callback import RLWatchCallback
from rlwatch.lab.experiment import Arm
from rlwatch.lab.own_loop import run_dir_of
from rlwatch.runs.reader import read_alerts, read_records
from rlwatch.runs.records import Alert, AlertState, StepRecord

QUIET: Mapping[str, Any] = MappingProxyType(
    {
        # the machine
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
        # the noise
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
    }
)
"""Arguments of a trainer on a CPU that draws no bar, writes no checkpoint and reports nowhere; each step's log still
reaches the callbacks."""

AVERAGED = 5
"""Steps at either end that tables take the mean of."""


class SeedAtStart(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Seeds torch when training starts, so that what happens between building and training changes nothing."""

    def on_train_begin(self, args: GRPOConfig, state: Any, control: Any, **kwargs: Any) -> None:
        """See the class."""
        set_seed(args.seed)


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
    def fired(self) -> Sequence[Alert]:
        """Each rule's first alert."""
        firsts: dict[str, Alert] = {}
        for alert in self.alerts:
            if alert.state is AlertState.FIRING:
                firsts.setdefault(alert.rule, alert)
        return list(firsts.values())

    def first(self, metric: str) -> float | None:
        """The mean of a metric over the first steps that have it; None if none has."""
        return _mean(self.records[:AVERAGED], metric)

    def last(self, metric: str) -> float | None:
        """The same of the last steps."""
        return _mean(self.records[-AVERAGED:], metric)


def train(
    arm: Arm,
    build: Callable[[Path, Sequence[Any]], Any],
    watcher: RLWatchCallback,
    *,
    steps: int,
    console: Console,
) -> ArmResult:
    """Train an arm under a progress bar, watched.

    Args:
        arm: The arm.
        build: Makes the trainer, or what else has a `train()`, given a folder for its output and its callbacks.
        watcher: Watches it.
        steps: Optimizer steps.
        console: Where the bar goes.

    Raises:
        OSError: No run directory could be made.
    """
    with tempfile.TemporaryDirectory() as scratch, progress_bar(console) as progress:
        built = build(Path(scratch), [watcher, Bar(progress, arm.name, steps)])
        built.train()
    run_dir = run_dir_of(built, watcher)
    if run_dir is None:
        raise OSError("no run directory could be made: see the fault that was logged above")
    records, changes = read_records(run_dir).items, read_alerts(run_dir).items
    return ArmResult(arm, run_dir, records, changes)


def _mean(records: Sequence[StepRecord], metric: str) -> float | None:
    values = [value for record in records if (value := record.metrics.get(metric)) is not None]
    return sum(values) / len(values) if values else None


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
