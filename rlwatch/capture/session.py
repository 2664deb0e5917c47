"""Where the records of a live run go: to the disk, through the rules, to the people and to wandb."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlwatch.alerts import stdout
from rlwatch.alerts import wandb as wandb_alerts
from rlwatch.capture.generation import Generation, rollout_table
from rlwatch.capture.guard import Guard
from rlwatch.detect.engine import Engine
from rlwatch.detect.rules import default_rules
from rlwatch.runs.records import Alert, StepRecord
from rlwatch.runs.writer import RunWriter, create_run_directory
from rlwatch.streams.wandb import WandbStream


class Session:
    """One live run on rank 0. Each of its parts may fail by itself: without a disk there still are alerts.

    Args:
        root: The folder that holds runs.
        name: The run's name, as wished for.
        info: What run.json says.
        guard: Catches what the parts raise.
    """

    def __init__(self, root: str | os.PathLike[str], name: str, info: Mapping[str, Any], guard: Guard) -> None:
        self.name = name
        self.guard = guard
        self.writer: RunWriter | None = guard.run("opening the run directory", self._open, root, name, info)
        self._engine = Engine(default_rules(info.get("config", {})), run=self.name)
        self._wandb = WandbStream()
        guard.on_new_fault = self._save_faults
        atexit.register(self.close)

    @property
    def path(self) -> Path | None:
        """The run directory, or None if it could not be made."""
        return self.writer.path if self.writer else None

    def step(self, record: StepRecord, new_generations: Sequence[Generation] = ()) -> None:
        """Take in one optimizer step and the generations that it was the first to train on."""
        if self.writer is not None:
            self.guard.run("writing a step", self.writer.append, record)
            if new_generations:
                self.guard.run("writing rollouts", self._write_rollouts, record.step, list(new_generations))
        self.guard.run("wandb", self._wandb.log, record)
        for alert in self.guard.run("judging a step", self._engine.feed, record) or ():
            self._deliver(alert)

    def note(self, **changes: Any) -> None:
        """Put something into run.json."""
        if self.writer is not None:
            self.guard.run("writing run.json", self.writer.update_info, **changes)

    def close(self) -> None:
        """The run is over, or the process is."""
        atexit.unregister(self.close)
        writer, self.writer = self.writer, None
        if writer is not None:
            faults = {"faults": self.guard.faults} if self.guard.faults else {}
            self.guard.run("closing the run directory", writer.close, **faults)

    def _open(self, root: str | os.PathLike[str], name: str, info: Mapping[str, Any]) -> RunWriter:
        path = create_run_directory(root, name)
        self.name = path.name
        return RunWriter(path, info, on_fault=lambda error: self.guard.note("writing rollouts", error))

    def _write_rollouts(self, step: int, generations: list[Generation]) -> None:
        assert self.writer is not None
        if not self.writer.rollouts(step, lambda: rollout_table(step, generations)):
            self.guard.note("writing rollouts", OSError("the disk is slow: waiting shards of rollouts were dropped"))

    def _deliver(self, alert: Alert) -> None:
        if self.writer is not None:
            self.guard.run("writing an alert", self.writer.alert, alert)
        self.guard.run("printing an alert", stdout.show, alert)
        self.guard.run("sending an alert through wandb", wandb_alerts.send, alert)

    def _save_faults(self) -> None:
        if self.writer is not None:
            self.writer.update_info(faults=self.guard.faults)
