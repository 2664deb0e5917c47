"""`RLWatchCallback`: what a user adds to a trainer."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rlwatch.alerts import stdout
from rlwatch.audit import ConfigError, audit
from rlwatch.capture.acting import Acting, OnAlert, StopOn
from rlwatch.capture.correctness import Correct, Correctness, check_type
from rlwatch.capture.guard import Guard
from rlwatch.capture.logged import Logged
from rlwatch.capture.resume import Bookmark, Memory, Resumption, find_run, whereabouts
from rlwatch.capture.session import Session
from rlwatch.capture.steps import TrainerSteps
from rlwatch.capture.trainer import find_trainer, function_names, reward_weights, run_info
from rlwatch.capture.wanted import Wanted
from rlwatch.runs.records import Severity, StepRecord
from rlwatch.settings import RuleArgument, SettingsArgument


class RLWatchCallback(TrainerCallback):  # type: ignore[misc]  # transformers ships no types
    """Watches a TRL `GRPOTrainer`: records every optimizer step, raises alerts, and never changes the training.

        trainer = GRPOTrainer(..., callbacks=[RLWatchCallback()])
        trainer.train()

    Args:
        dir: The folder that run directories are made in. A training that resumes from a checkpoint goes on with the
            one that it began, if that is still there.
        name: The run's name; by default the trainer's `run_name`, else the last part of its `output_dir`, each with
            the time behind it. A run that goes on keeps the name that it has.
        correct: Which completions count as correct: a function, a reward function's name, or (name, threshold); see
            [`Correctness`][rlwatch.capture.correctness.Correctness] for what it does by default.
        split_every: Every so many steps, measure what costs something: the size of the update, and, where the loss has
            a regulariser, the policy's part of the gradient by a backward pass of its own. 0 turns both off.
        sample_completions: How many groups a generation to keep the text of; 0 keeps none, "all" keeps all.
        counterfactual_every: Every so many steps, measure what another denominator, scaling or clip would have made of
            the same batch, by one more backward pass for each of them; 0, the default, never.
        stop_on: End the training after a checkpoint once there is such an alert: "critical", "warning", or a list of
            rules. By default nothing that rlwatch finds ends a training.
        on_alert: A function that gets every change of an alert's state, on rank 0.
        settings: The path of a `rlwatch.toml`, or the same as a mapping. By default the file is looked for in `dir` and
            in the working directory.
        rules: Rules of your own: classes made from [`Rule`][rlwatch.rules.Rule], or such rules.

    Raises:
        TypeError: `correct` is none of the three, or `on_alert` cannot be called.
        ValueError: `split_every` or `sample_completions` is not a count, or `stop_on` names nothing that there is;
            or `settings` or `rules` make no sense.

    Attributes:
        run_dir: The run directory while and after a training, or None.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str] = "runs",
        *,
        name: str | None = None,
        correct: Correct | None = None,
        split_every: int = 20,
        sample_completions: int | str = 2,
        counterfactual_every: int = 0,
        stop_on: StopOn = None,
        on_alert: OnAlert = None,
        settings: SettingsArgument = None,
        rules: Sequence[RuleArgument] = (),
    ) -> None:
        if not isinstance(split_every, int) or split_every < 0:
            raise ValueError(f"split_every= takes a number of steps, or 0 for never, not {split_every!r}")
        if sample_completions != "all" and (not isinstance(sample_completions, int) or sample_completions < 0):
            raise ValueError(f'sample_completions= takes a number of groups or "all", not {sample_completions!r}')
        if not isinstance(counterfactual_every, int) or counterfactual_every < 0:
            raise ValueError(
                f"counterfactual_every= takes a number of steps, or 0 for never, not {counterfactual_every!r}"
            )
        self.run_dir: Path | None = None
        self._counterfactual_every = counterfactual_every
        self._dir = dir
        self._name = name
        self._correct = check_type(correct)
        self._trainer: Any = None  # as named by the user
        self._split_every = split_every
        self._sample_completions = sample_completions
        self._guard = Guard()
        self._steps: TrainerSteps | None = None
        self._session: Session | None = None
        self._logged: Logged | None = None  # where the trainer cannot be looked into all the way
        self._correctness: Correctness | None = None
        self._memory: Memory | None = None
        self._said_correct = ""
        self._said_part = False
        self._wanted = Wanted(dir, settings, rules)
        self._stop_on, self._on_alert = stop_on, on_alert
        self._acting = self._act()  # now: what is wrong with these is to be said before the training

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

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, optimizer: Any = None, **_: Any
    ) -> None:
        """Begin an optimizer step, and look at its learning rate."""
        if self._logged is not None:
            self._guard.run("recording a step", self._logged.let_go)
        if self._steps is not None:
            self._guard.run("beginning a step", self._steps.begin, state.global_step + 1, optimizer)

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Look at the gradients."""
        if self._steps is not None:
            self._guard.run("looking at the gradients", self._steps.before_optimizer, args.max_grad_norm)

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Look at the update: the weights have moved."""
        if self._steps is not None:
            self._guard.run("looking at the update", self._steps.after_optimizer)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Record the step that just ended."""
        if self._steps is not None:
            self._guard.run("recording a step", self._record, self._steps, args, state)
            self._guard.run("marking the checkpoint", self._mark, state)
            self._guard.run("stopping the training", self._stop, self._steps, args, state, control)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any
    ) -> None:
        """Take from the log what could not be measured."""
        if self._logged is not None:
            self._guard.run("reading the trainer's log", self._logged.logged, state.global_step, logs or {})

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
        self._said_correct, self._said_part = "", False
        self._steps = TrainerSteps(
            trainer,
            self._correctness,
            self._guard,
            split_every=self._split_every,
            sample_completions=self._sample_completions,
            counterfactual_every=self._counterfactual_every,
        )
        functions = function_names(trainer), reward_weights(trainer)
        self._memory = Memory(functions, self._steps.listener, self._correctness)
        resumption = self._resume(self._memory, args, state) if state.global_step > 0 else None
        if not state.is_world_process_zero:
            return
        name = self._name or f"{args.run_name or Path(args.output_dir).name}-{datetime.now():%Y%m%d-%H%M%S}"
        absent = self._steps.absent
        info = {**run_info(trainer), **whereabouts(args.output_dir), "absent": absent}
        self._acting = self._act()
        self._session = Session(
            self._dir, name, info, self._guard, resumption, acting=self._acting, wanted=self._wanted
        )
        self.run_dir = self._session.path
        if self.run_dir is not None:
            where = f"writing to {self.run_dir}; see it with: rlwatch dashboard {self._dir}"
        else:
            where = "writing to nowhere: the run directory could not be made, there will be alerts only"
        stdout.say(f"rlwatch: watching {self._session.name}, {where}")
        if self._session.resumption is not None:
            stdout.say(f"rlwatch: {self._session.resumption.in_words()}")
        reach = self._steps.reach
        if reach.warning:
            stdout.say(reach.warning)
            self._logged = Logged(self._session.step)
        _say_absent(absent, self._steps)
        self._guard.run("auditing the configuration", self._audit, trainer, self._session)

    def _audit(self, trainer: Any, session: Session) -> None:
        """Say what is unwise about the configuration, before the first step."""
        try:
            found = audit(trainer, silence=session.silenced_lints)
        except ConfigError:
            return  # a trainer whose loss an audit does not know
        session.note(lints=[lint.to_dict() for lint in found.lints])
        for lint in found.lints:
            if lint.severity is not Severity.INFO:
                stdout.say(
                    f"rlwatch: {lint.severity.value}, {lint.name}: {lint.message}. {lint.setting}: {lint.advice}."
                )
        others = [lint.name for lint in found.lints if lint.severity is Severity.INFO]
        if others and session.path is not None:
            stdout.say(f"rlwatch: worth knowing: {', '.join(others)}; see rlwatch audit {session.path}")

    def _resume(self, memory: Memory, args: TrainingArguments, state: TrainerState) -> Resumption:
        """Take up what the checkpoint remembers, on every rank alike, and find the run that goes on."""
        bookmark = self._guard.run("reading the checkpoint's bookmark", Bookmark.of, state)
        if bookmark is not None:
            self._guard.run("remembering rewards", memory.load, bookmark.memory)
        step = state.global_step
        found = self._guard.run("finding the run to go on with", find_run, self._dir, step, bookmark, args.output_dir)
        return found or Resumption(step, missing="its run could not be looked for")

    def _mark(self, state: TrainerState) -> None:
        """Have a checkpoint of this step say which run it belongs to."""
        known = self._memory.save() if self._memory is not None else {}
        step = state.global_step
        bookmark = self._session.bookmark(step, known) if self._session is not None else Bookmark(step, memory=known)
        bookmark.put(state)

    def _record(self, steps: TrainerSteps, args: TrainingArguments, state: TrainerState) -> None:
        step = steps.end(state.global_step, args.max_grad_norm, stop=self._acting.stopped_by is not None)
        if self._session is None or step is None:  # not rank 0, or it failed and that was told
            return
        record = StepRecord(state.global_step, time.time(), step.metrics)
        if self._logged is not None:
            self._logged.hold(record, step.fresh, step.rows)
        else:
            self._session.step(record, step.fresh, step.rows)
        if step.absent:
            _say_absent(step.absent, steps)
            self._session.note(absent=steps.told_absent)
        if steps.compared_part and not self._said_part:
            self._said_part = True
            self._session.note(counterfactual=f"gradients of {steps.compared_part}")
        if step.fresh:
            self._say_what_is_correct()

    def _act(self) -> Acting:
        return Acting(self._stop_on, self._on_alert, rules=self._wanted.names(), guard=self._guard)

    def _stop(self, steps: TrainerSteps, args: TrainingArguments, state: TrainerState, control: TrainerControl) -> None:
        """Alone at once; several ranks at the next step, when all of them have heard of it."""
        if not steps.must_stop and (args.world_size > 1 or self._acting.stopped_by is None):
            return
        control.should_save = control.should_training_stop = True
        alert = self._acting.stopped_by
        if alert is not None and self._session is not None:
            stdout.say(
                f"rlwatch: stopping at step {state.global_step}, after a checkpoint: {alert.rule}, as stop_on= says"
            )
            self._session.note(
                stopped={"step": state.global_step, "rule": alert.rule, "severity": alert.severity.value}
            )

    def _say_what_is_correct(self) -> None:
        """Once at the first generation, and again if what the rewards show has changed the answer."""
        assert self._correctness is not None
        sentence = self._correctness.describe()
        if self._session is not None and sentence != self._said_correct:
            self._said_correct = sentence
            stdout.say(f"rlwatch: correct is {sentence}.")
            self._session.note(correct=sentence)

    def _end(self) -> None:
        if self._steps is not None:
            self._guard.run("letting go of the trainer", self._steps.close)
            self._steps = None
        if self._logged is not None:
            self._guard.run("recording a step", self._logged.let_go)
            self._logged = None
        if self._session is not None:
            self._session.close()
            self._session = None


def _say_absent(absent: dict[str, str], steps: TrainerSteps) -> None:
    told = steps.reach.absent.values() if steps.reach.warning else ()  # the warning has said it
    for why in [why for why in dict.fromkeys(absent.values()) if why not in told]:
        names = ", ".join(name for name in absent if absent[name] == why)
        stdout.say(f"rlwatch: {names} will be absent: {why}.")


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
