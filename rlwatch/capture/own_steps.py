"""The steps of a loop of one's own, one after the other: what it has told of becomes the metrics of a step."""

from __future__ import annotations

import os
import platform
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rlwatch.capture import inputs
from rlwatch.capture.generation import FloatArray
from rlwatch.capture.guard import Guard
from rlwatch.capture.own_rollouts import Given, OwnRollouts, generations_of
from rlwatch.capture.session import Session
from rlwatch.capture.trainer import versions
from rlwatch.runs.records import StepRecord
from rlwatch.signals.arrays import TokenArrays, entropy_histogram, signal_metrics, token_sums
from rlwatch.signals.gradients import gradient_metrics, gradient_norm
from rlwatch.signals.groups import RewardRange
from rlwatch.signals.histogram import mean_of_top, quantiles
from rlwatch.signals.totals import token_metrics

_SECRET = re.compile(r"token$|key$|secret|password|webhook", re.IGNORECASE)


def run_info(config: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says about where a run comes from."""
    return {
        "trainer": "own loop",
        "framework": versions(),
        "config": _setting("", config),
        "world_size": 1,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "python": platform.python_version(),
    }


def micro_batch(logprobs: Any, mask: Any, advantages: Any, epsilon: Any, **others: Any) -> TokenArrays:
    """What a user has given of a micro-batch; the arguments are those of `Monitor.tokens`, by its names."""
    logps = inputs.numbers("logprobs", logprobs)
    if logps.ndim != 2:
        raise ValueError(
            f"logprobs= has shape {logps.shape}: it takes (completions, tokens), the log-probability of each sampled "
            "token; give a single completion as logprobs[None]"
        )
    found = {n: None if value is None else inputs.per_token(n, value, logps.shape) for n, value in others.items()}
    return TokenArrays(
        logps=logps,
        mask=inputs.token_mask(mask, logps.shape),
        entropies=found["entropy"],
        old_logps=found["old_logprobs"],
        ref_logps=found["ref_logprobs"],
        sampler_logps=found["sampler_logprobs"],
        advantages=None if advantages is None else inputs.token_advantages(advantages, logps.shape),
        epsilon=inputs.clip_range(epsilon),
    )


class OwnSteps:
    """Gathers what is told between two steps, and records it.

    Args:
        guard: Catches rlwatch's own faults.
        keep: Groups a call of `rollouts` whose text is kept; None keeps all.

    Attributes:
        rollouts: The completions that steps train on by now.
        last: The last step; None before the first.
    """

    def __init__(self, guard: Guard, keep: int | None) -> None:
        self.rollouts = OwnRollouts()
        self.last: int | None = None
        self._guard = guard
        self._keep = keep
        self._calls = 0
        self._seen = RewardRange()
        self._tally = Tally()
        self._gradients: dict[str, float] | None = None
        self._knows_gradients = False
        self._ended = 0.0

    def state(self) -> dict[str, Any]:
        """What steps to come need to know of those before, as plain values."""
        seen = self._seen
        return {"step": self.last, "rewards": [seen.worst, seen.best] if np.isfinite(seen.best) else None}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self.last = state["step"]
        self._seen = RewardRange(*state["rewards"]) if state["rewards"] is not None else RewardRange()

    def take(self, given: Given) -> None:
        """Rollouts: those that a step has trained on make way for them."""
        if self.rollouts.first_step is not None:
            self.rollouts = OwnRollouts()
        self._seen = self._seen.including(given.rewards)
        self.rollouts.add(given, generations_of(given, self._calls, self._seen, self._keep))
        self._calls += 1

    def count(self, batch: TokenArrays, rows: list[int] | None) -> None:
        """A micro-batch, whose rows are these of the rollouts, if that is known."""
        self._tally.begin()
        if rows is not None:
            batch = replace(batch, correct=self.rollouts.correct(rows))
            self.rollouts.saw(rows, batch)
        self._tally.add(batch)

    def saw_gradients(self, parameters: Any, norm: float | None, max_norm: float | None, policy_only: bool) -> None:
        """The gradients of parameters, or their norm.

        Raises:
            TypeError: These are no parameters.
            ValueError: There is none at the first step that tells of any, or they have been told of already.
        """
        if self._gradients is not None:
            raise ValueError(
                "monitor.gradients() was called twice for one step: call monitor.step() after each optimizer step"
            )
        if parameters is not None:
            found = inputs.gradients(parameters)
            if not found and not self._knows_gradients:
                raise ValueError(
                    "no parameter has a gradient: call monitor.gradients() after loss.backward() and before "
                    "optimizer.zero_grad()"
                )
            norm = self._guard.run("looking at the gradients", gradient_norm, found) if found else None
        self._knows_gradients = True
        self._gradients = gradient_metrics(norm, max_norm, clipped_here=True, policy_only=policy_only)

    def end(self, step: int, own: Mapping[str, float | None], session: Session | None) -> dict[str, float | None]:
        """The step is over; its metrics.

        Args:
            step: Its number.
            own: Metrics that the user gives; they stand in place of what was measured.
            session: Where the record goes.
        """
        rollouts, tally, gradients = self.rollouts, self._tally, self._gradients
        now, before, last = time.perf_counter(), self._ended, self.last
        self._tally, self._gradients, self._ended, self.last = Tally(), None, now, step
        fresh = rollouts.first_step is None and rollouts.count > 0
        if fresh:
            rollouts.first_step = step
        metrics: dict[str, float | None] = {}
        metrics |= self._guard.run("measuring tokens", tally.metrics) or {}
        metrics |= self._guard.run("measuring rollouts", rollouts.metrics) or {}
        if rollouts.first_step is not None:
            metrics["rollouts/age"] = step - rollouts.first_step
        metrics |= gradients or {}
        if last is not None:
            metrics["step_seconds"] = (now - before) / (step - last)
        metrics |= own
        if session is not None:
            generations, rows = rollouts.table() if fresh else ([], None)
            session.step(StepRecord(step, time.time(), metrics), generations, rows)
        return metrics


class Tally:
    """Adds up the micro-batches of a step; a sum that lacks one of them is no sum, and is left out."""

    def __init__(self) -> None:
        self._micro_batches = 0
        self._sums: dict[str, list[float]] = {}
        self._maxima: dict[str, list[float]] = {}
        self._histograms: list[FloatArray] = []

    def begin(self) -> None:
        """A micro-batch comes: should it not get as far as its sums, they are known to lack it."""
        self._micro_batches += 1

    def add(self, batch: TokenArrays) -> None:
        """Count it in."""
        sums, maxima = token_sums(batch)
        for known, found in ((self._sums, sums), (self._maxima, maxima)):
            for name, value in found.items():
                known.setdefault(name, []).append(value)
        if batch.entropies is not None:
            self._histograms.append(entropy_histogram(batch.entropies, batch.mask))

    def metrics(self) -> dict[str, float]:
        """Everything that is made of tokens."""
        if not self._micro_batches:
            return {}
        sums = {name: sum(values) for name, values in self._sums.items() if len(values) == self._micro_batches}
        maxima = {name: float(np.max(values)) for name, values in self._maxima.items()}
        metrics = token_metrics(sums, maxima) | signal_metrics(sums)
        counts = np.sum(self._histograms, axis=0).tolist() if len(self._histograms) == self._micro_batches else []
        if any(counts):
            names = ("entropy/p10", "entropy/p50", "entropy/p90")
            metrics |= dict(zip(names, quantiles(counts, (0.1, 0.5, 0.9)), strict=True))
            metrics["entropy/top20"] = mean_of_top(counts, 0.2)
        return metrics


def _setting(name: str, value: Any) -> Any:
    """A setting as run.json holds it: JSON, and no text whose name speaks of a secret."""
    if isinstance(value, Mapping):
        return {str(key): _setting(str(key), item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_setting(name, item) for item in value]
    if isinstance(value, str) and _SECRET.search(name):
        return "(not kept)"
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
