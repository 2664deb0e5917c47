"""`RLWatchCallback`: what a user adds to a trainer."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rlwatch.alerts import stdout
from rlwatch.capture.correctness import Correct, Correctness, check_type
from rlwatch.capture.generation import rollout_metrics
from rlwatch.capture.guard import Guard
from rlwatch.capture.session import Session
from rlwatch.capture.trainer import find_trainer, function_names, regularisers, run_info
from rlwatch.capture.trl import TRLListener
from rlwatch.capture.window import gradient_metrics, no_totals, window_metrics
from rlwatch.runs.records import StepRecord


class RLWatchCallback(TrainerCallback):  # type: ignore[misc]  # transformers ships no types
    """Watches a TRL `GRPOTrainer`: records every optimizer step, raises alerts, and never changes the training.

        trainer = GRPOTrainer(..., callbacks=[RLWatchCallback()])
        trainer.train()

    Args:
        dir: The folder that run directories are made in.
        name: The run's name; by default the trainer's `run_name`, else the last part of its `output_dir`, each with
            the time behind it.
        correct: Which completions count as correct: a function, a reward function's name, or (name, threshold); see
            [`Correctness`][rlwatch.capture.correctness.Correctness] for what it does by default.

    Raises:
        TypeError: `correct` is none of the three.

    Attributes:
        run_dir: The run directory while and after a training, or None.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str] = "runs",
        *,
        name: str | None = None,
        correct: Correct | None = None,
    ) -> None:
        self.run_dir: Path | None = None
        self._dir = dir
        self._name = name
        self._correct = check_type(correct)
        self._trainer: Any = None  # as named by the user
        self._watched: Any = None  # as found or named
        self._policy_only = False
        self._guard = Guard()
        self._listener: TRLListener | None = None
        self._session: Session | None = None
        self._correctness: Correctness | None = None
        self._said_correct = ""
        self._newest = -1  # the newest generation that a step has trained on
        self._newest_since = 0  # and the first step that did

    def attach(self, trainer: Any) -> None:
        """Name the trainer to watch, instead of having it found when the training begins."""
        self._trainer = trainer

    # A trainer calls these. Each does nothing but hand over to the guard.

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Begin a run."""
        trainer = self._trainer or find_trainer(self)
        self._end()  # a training that was broken off never said that it ended
        self._guard = Guard()
        self._guard.run("starting to watch", self._begin, trainer, args, state)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Begin an optimizer step."""
        if self._listener is not None:
            self._guard.run("beginning a step", self._listener.begin_step)

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, optimizer: Any = None, **_: Any
    ) -> None:
        """Note the learning rate: after the step the scheduler has moved on."""
        if self._listener is not None:
            self._guard.run("reading the learning rate", self._note_learning_rate, optimizer)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Record the step that just ended."""
        if self._listener is not None:
            self._guard.run("recording a step", self._record, self._listener, args, state)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """End the run."""
        self._end()

    def _begin(self, trainer: Any, args: TrainingArguments, state: TrainerState) -> None:
        if trainer is None:
            stdout.say("rlwatch: the trainer was not found, so nothing is watched; use rlwatch.watch(trainer).")
            return
        try:
            self._correctness = Correctness(self._correct, function_names(trainer))
        except ValueError as error:
            self._correctness = Correctness.unknown(str(error))
        self._said_correct = ""
        self._newest, self._newest_since = -1, 0
        self._listener = TRLListener(trainer, self._correctness, self._guard)
        self._watched = trainer
        extra = regularisers(trainer)
        absent = dict(self._listener.absent)
        if extra:
            absent["grad/effective_norm"] = f"the loss also holds {' and '.join(extra)}"
        self._policy_only = not extra
        if not state.is_world_process_zero:
            return
        name = self._name or f"{args.run_name or Path(args.output_dir).name}-{datetime.now():%Y%m%d-%H%M%S}"
        self._session = Session(self._dir, name, {**run_info(trainer), "absent": absent}, self._guard)
        self.run_dir = self._session.path
        where = self.run_dir or "nowhere: the run directory could not be made, there will be alerts only"
        stdout.say(
            f"rlwatch: watching {self._session.name}, writing to {where}; see it with: rlwatch dashboard {self._dir}"
        )
        for metric, why in absent.items():
            stdout.say(f"rlwatch: {metric} will be absent: {why}.")

    def _note_learning_rate(self, optimizer: Any) -> None:
        assert self._listener is not None
        self._listener.window.learning_rate = float(optimizer.param_groups[0]["lr"])

    def _record(self, listener: TRLListener, args: TrainingArguments, state: TrainerState) -> None:
        window = listener.window
        seconds = time.perf_counter() - window.started
        accelerator = self._watched.accelerator
        totals = self._guard.run("adding up a step", window.totals, accelerator.device)
        if totals is None:
            totals = no_totals(accelerator.device)
        if accelerator.num_processes > 1:  # every rank comes by here, whatever failed on it before
            totals = accelerator.reduce(totals, reduction="sum")
        generations = listener.trained_on()
        fresh = [generation for generation in generations if generation.number > self._newest]
        if fresh:
            self._newest, self._newest_since = fresh[-1].number, state.global_step
        if generations:
            listener.forget_before(generations[0].number)
        if self._session is None:  # not rank 0
            return
        micro_batches = getattr(self._watched, "current_gradient_accumulation_steps", 1)
        metrics = window_metrics(totals.tolist(), micro_batches, accelerator.num_processes)
        metrics |= self._guard.run("measuring rollouts", rollout_metrics, generations) or {}
        if generations:
            metrics["rollouts/age"] = state.global_step - self._newest_since
        metrics |= gradient_metrics(
            window.grad_norm,
            args.max_grad_norm,
            clipped_here="DEEPSPEED" not in str(accelerator.distributed_type).upper(),
            policy_only=self._policy_only,
        )
        if window.learning_rate is not None:
            metrics["lr"] = window.learning_rate
        metrics["step_seconds"] = seconds
        self._session.step(StepRecord(state.global_step, time.time(), metrics), fresh)
        if fresh:
            self._say_what_is_correct()

    def _say_what_is_correct(self) -> None:
        """Once at the first generation, and again if what the rewards show has changed the answer."""
        assert self._correctness is not None
        sentence = self._correctness.describe()
        if self._session is not None and sentence != self._said_correct:
            self._said_correct = sentence
            stdout.say(f"rlwatch: correct is {sentence}.")
            self._session.note(correct=sentence)

    def _end(self) -> None:
        if self._listener is not None:
            self._guard.run("letting go of the trainer", self._listener.close)
            self._listener = None
        if self._session is not None:
            self._session.close()
            self._session = None


def watch(trainer: Any, **options: Any) -> RLWatchCallback:
    """Watch a trainer: the explicit form of `callbacks=[RLWatchCallback(...)]`.

    Args:
        trainer: A TRL trainer whose training has not begun.
        options: As [`RLWatchCallback`][rlwatch.RLWatchCallback] takes them.

    Returns:
        The callback; its `run_dir` says where the run is kept.

    Raises:
        ValueError: The trainer is watched already, or `correct` names no reward function of it.
    """
    if any(isinstance(callback, RLWatchCallback) for callback in trainer.callback_handler.callbacks):
        raise ValueError("this trainer is watched already: it has an RLWatchCallback among its callbacks")
    callback = RLWatchCallback(**options)
    Correctness(options.get("correct"), function_names(trainer))  # say now what would only be printed later
    callback.attach(trainer)
    trainer.add_callback(callback)
    return callback
