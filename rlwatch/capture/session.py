"""Where the records of a live run go: to the disk, through the rules, to the people and to wandb."""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlwatch.alerts import stdout
from rlwatch.alerts.configured import Delivery
from rlwatch.alerts.obeying import Watch
from rlwatch.alerts.outbox import Outbox
from rlwatch.capture.acting import Acting
from rlwatch.capture.clock import Clock
from rlwatch.capture.generation import FloatArray, Generation, rollout_table
from rlwatch.capture.guard import Guard
from rlwatch.capture.resume import Bookmark, Resumption, corrections, replay, resumes
from rlwatch.capture.wanted import Wanted
from rlwatch.detect.config import config_of
from rlwatch.detect.engine import Engine
from rlwatch.runs.reader import read_summary
from rlwatch.runs.records import Alert, StepRecord
from rlwatch.runs.writer import RunWriter, create_run_directory
from rlwatch.settings import NONE
from rlwatch.streams.wandb import WandbStream


class Session:
    """One live run on rank 0. Each of its parts may fail by itself: without a disk there still are alerts.

    Args:
        root: The folder that holds runs.
        name: The run's name, as wished for.
        info: What run.json says.
        guard: Catches what the parts raise.
        resumption: How an earlier run goes on; None where the training begins at its beginning.
        acting: Hears of every alert.
        wanted: What to judge by.

    Attributes:
        resumption: As given; without its run if that could not be written to.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        name: str,
        info: Mapping[str, Any],
        guard: Guard,
        resumption: Resumption | None = None,
        *,
        acting: Acting | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        self.name = name
        self.guard = guard
        self.writer: RunWriter | None = None
        self._earlier_faults: list[Any] = []
        goes_on = resumption.run if resumption is not None else None
        self._settings = guard.run("reading the settings", (wanted or Wanted(root)).settle, goes_on) or NONE
        info = {**info, "settings": self._settings.to_dict()}
        if resumption is not None and resumption.run is not None:
            self.writer = guard.run("going on with a run directory", self._go_on, resumption.run, resumption, info)
            if self.writer is None:
                resumption = replace(resumption, run=None, missing=f"{resumption.run} cannot be written to")
        self.resumption = resumption
        if self.writer is None:
            self.writer = guard.run("opening the run directory", self._open, root, name, info)
        self._engine = Engine(
            self._settings.rules(config_of(info), self._leave_out), run=self.name, on_fault=self._leave_out
        )
        self._acting = acting or Acting()
        self._judging = threading.RLock()  # the clock judges too; on_alert may close a Monitor
        self._wandb = WandbStream()
        self._tokens: float | None = 0.0
        self._outbox = guard.run("opening the outbox", self._open_outbox, root)
        self._watch = Watch(self.path)
        guard.on_new_fault = self._save_faults
        if resumption is not None and resumption.run is not None and self.writer is not None:
            guard.run("setting rollouts aside", self.writer.set_aside, resumption.back_to)
            guard.run("bringing the rules to where they stood", self._catch_up, resumption.run, resumption.back_to)
        self._clock = Clock(self._tick)
        atexit.register(self.close)

    @property
    def silenced_lints(self) -> tuple[str, ...]:
        """Remarks on the configuration that the user does not want to see."""
        return self._settings.silenced_lints

    @property
    def path(self) -> Path | None:
        """The run directory, or None if it could not be made."""
        return self.writer.path if self.writer else None

    def step(
        self, record: StepRecord, new_generations: Sequence[Generation] = (), rows: FloatArray | None = None
    ) -> None:
        """Take in a step, the generations that it was the first to train on, and what it saw of their rows."""
        record = self.guard.run("counting tokens", self._with_tokens, record, new_generations) or record
        if self.writer is not None:
            self.guard.run("writing a step", self.writer.append, record)
            if new_generations:
                self.guard.run("writing rollouts", self._write_rollouts, record.step, list(new_generations), rows)
        self.guard.run("wandb", self._wandb.log, record)
        with self._judging:
            for alert in self.guard.run("judging a step", self._engine.feed, record) or ():
                self._deliver(alert)
        self._clock.start()

    def _with_tokens(self, record: StepRecord, new_generations: Sequence[Generation]) -> StepRecord:
        """The record with what the policy has written so far; without, once that is not known."""
        if self._tokens is not None and new_generations:
            self._tokens += float(sum(generation.lengths.sum() for generation in new_generations))
            if not math.isfinite(self._tokens):
                self._tokens = None
        if not self._tokens:  # not known, or nothing is written here
            return record
        return replace(record, metrics={**record.metrics, "tokens/total": self._tokens})

    def bookmark(self, step: int, memory: Mapping[str, Any]) -> Bookmark:
        """What a checkpoint of this step has to say about the run."""
        if self.writer is None:
            return Bookmark(step, memory=memory)
        return Bookmark(step, self.name, self.writer.id, len(resumes(self.writer.info)), memory)

    def judged(self) -> dict[str, Any]:
        """What the rules remember, as plain values."""
        with self._judging:
            return self._engine.state()

    def judge_on(self, state: Mapping[str, Any]) -> None:
        """Have the rules remember what they did elsewhere.

        Raises:
            ValueError: Another version's rules remembered it.
        """
        with self._judging:
            self._engine.restore(state)

    def note(self, **changes: Any) -> None:
        """Put something into run.json."""
        if self.writer is not None:
            self.guard.run("writing run.json", self.writer.update_info, **changes)

    def close(self) -> None:
        """The run is over, or the process is."""
        atexit.unregister(self.close)
        self._clock.stop()
        outbox, self._outbox = self._outbox, None
        if outbox is not None:
            self.guard.run("sending the last alerts", outbox.close)
        if self.writer is not None:
            self.guard.run("writing the last rollouts", self.writer.finish_rollouts)  # what fails there is noted too
            faults = {"faults": self._faults()} if self.guard.faults else {}
            writer, self.writer = self.writer, None
            self.guard.run("closing the run directory", writer.close, **faults)

    def _open(self, root: str | os.PathLike[str], name: str, info: Mapping[str, Any]) -> RunWriter:
        path = create_run_directory(root, name)
        self.name = path.name
        if self.resumption is not None:
            entry = {"step": self.resumption.step, "time": time.time(), "missing": self.resumption.missing}
            info = {**info, "resumed": [entry]}
        return RunWriter(path, info, on_fault=self._note_rollouts)

    def _open_outbox(self, root: str | os.PathLike[str]) -> Outbox:
        folder = self.path / "outbox" if self.path is not None else None
        return Delivery.read(self._settings.alerts).open(folder, others=Path(root), note=self.guard.note)

    def _go_on(self, run: Path, resumption: Resumption, info: Mapping[str, Any]) -> RunWriter:
        before = {key: value for key, value in resumption.info.items() if key != "ended"}
        resumed = [*resumes(before), {"step": resumption.step, "time": time.time()}]
        if isinstance(before.get("faults"), list):
            self._earlier_faults = before["faults"]
        self.name = run.name
        everything = {**before, **info, "resumed": resumed}
        return RunWriter(run, everything, back_to=resumption.back_to, on_fault=self._note_rollouts)

    def _catch_up(self, run: Path, step: int) -> None:
        standing = replay(run, self._engine)
        last = read_summary(run).last
        if last is not None:
            self._tokens = last.metrics.get("tokens/total")  # another version's run has none: then it is not known
        for alert in corrections(run, standing, step):
            self._deliver(alert)

    def _leave_out(self, rule: str, error: Exception) -> None:
        self.guard.note(f"the rule {rule}", error)

    def _note_rollouts(self, error: Exception) -> None:
        self.guard.note("writing rollouts", error)

    def _write_rollouts(self, step: int, generations: list[Generation], rows: FloatArray | None) -> None:
        assert self.writer is not None
        if not self.writer.rollouts(step, lambda: rollout_table(step, generations, rows)):
            why = "rollouts came faster than their shards could be written, and some shards were dropped"
            self.guard.note("writing rollouts", OSError(why))

    def _deliver(self, alert: Alert) -> None:
        if self._outbox is not None:  # first: a kill between the two is made good when the training resumes
            self.guard.run("putting an alert into the outbox", self._outbox.put, alert)
        if self.writer is not None:
            self.guard.run("writing an alert", self.writer.alert, alert)
        self.guard.run("reading who has acknowledged what", self._watch.look)
        self.guard.run("printing an alert", stdout.show, alert, self._watch.why_quiet(alert))
        self._acting.heard(alert)  # whatever was acknowledged or silenced: that is about telling

    def _tick(self) -> None:
        with self._judging:
            for alert in self.guard.run("judging the time", self._engine.tick, time.time()) or ():
                self._deliver(alert)

    def _save_faults(self) -> None:
        if self.writer is not None:
            self.writer.update_info(faults=self._faults())

    def _faults(self) -> list[Any]:
        return [*self._earlier_faults, *self.guard.faults]
