"""The steps of a TRL trainer, one after the other: what was listened to becomes the metrics of a step."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch

from rlwatch.capture.correctness import Correctness
from rlwatch.capture.counterfactual import Counterfactual
from rlwatch.capture.effective import EffectiveGradient
from rlwatch.capture.generation import FloatArray, Generation, concentration, rollout_metrics
from rlwatch.capture.guard import Guard
from rlwatch.capture.microbatch import MicroBatch
from rlwatch.capture.ranks import gather
from rlwatch.capture.releases import LOSS, Reach
from rlwatch.capture.trainer import regularisers
from rlwatch.capture.trl import ENTROPY, TRLListener
from rlwatch.capture.window import Totals, empty_vector
from rlwatch.signals.gradients import gradient_metrics

REST_ON_THE_LOSS = (
    "ratio/*", "clip/*", "kl/*", "signal/*", "weight/*", "cov/*", "surprisal/*", "sampler/*", "advantage/*",
    "grad/effective*", "grad/policy_norm", "grad/regulariser_norm",
)  # fmt: skip
"""What is not recorded where the loss is not what the trainer's configuration says."""


@dataclass(frozen=True)
class Step:
    """One optimizer step, over all ranks.

    Args:
        metrics: Its metrics.
        fresh: The generations that it was the first to train on.
        rows: What it saw of their completions, or None.
        absent: Metrics that have turned out to be absent from now on, and why.
    """

    metrics: dict[str, float]
    fresh: list[Generation]
    rows: FloatArray | None
    absent: dict[str, str] = field(default_factory=dict)


class TrainerSteps:
    """Measures the steps of a trainer on one rank; all ranks together make the same calls.

    Args:
        trainer: A TRL or transformers trainer.
        correctness: Says which completions are correct.
        guard: Catches rlwatch's own faults.
        split_every: Every so many steps, measure what costs something; 0 never.
        sample_completions: Groups a generation whose text is kept, or "all".
        counterfactual_every: Every so many steps, measure what other decisions in the loss would have made of it.

    Attributes:
        must_stop: At the last step a rank wanted the training to stop; the same on all ranks.
    """

    def __init__(
        self,
        trainer: Any,
        correctness: Correctness,
        guard: Guard,
        *,
        split_every: int,
        sample_completions: int | str,
        counterfactual_every: int = 0,
    ) -> None:
        self.listener = TRLListener(trainer, correctness, guard, sample_completions)
        try:
            self._effective = EffectiveGradient(trainer, self.listener.config, regularisers(trainer), split_every)
            if LOSS not in self.reach and self.reach.warning:
                self._effective.give_up(self.reach.absent["grad/effective_norm"])
            self._counterfactual = Counterfactual(trainer, self.listener.config, counterfactual_every)
        except Exception:  # nobody could close what was never made: its hooks would stay, and gather generations
            self.listener.close()
            raise
        self.listener.on_loss = self._saw_loss
        self._trainer = trainer
        self._guard = guard
        self._without_entropy: dict[str, str] = {}
        self._absent = self.absent
        self._newest = -1  # the newest generation that a step has trained on
        self._faults_elsewhere: dict[int, float] = {}
        self._newest_since = 0  # and the first step that did
        self.must_stop = False

    @property
    def reach(self) -> Reach:
        """How far the trainer can be looked into."""
        return self.listener.reach

    @property
    def absent(self) -> dict[str, str]:
        """Metrics that this trainer cannot give, and why."""
        found = (self.listener.absent, self._effective.absent, self._counterfactual.absent, self._without_entropy)
        return {name: why for part in found for name, why in part.items()}

    @property
    def told_absent(self) -> dict[str, str]:
        """The same, with what has turned out since the start."""
        return dict(self._absent)

    @property
    def compared_part(self) -> str:
        """Of which weights the gradients are that are compared; empty while none are."""
        return self._counterfactual.part

    def begin(self, step: int, optimizer: Any) -> None:
        """A step begins; after it the learning rate's schedule will have moved on."""
        self._effective.begin_step(step)
        self._counterfactual.begin_step(step)
        self.listener.begin_step(self._effective.sampled)
        if optimizer is not None:
            self.listener.window.learning_rate = float(optimizer.param_groups[0]["lr"])

    def before_optimizer(self, max_norm: float | None) -> None:
        """The gradients are clipped."""
        self._effective.before_optimizer(self.listener.window, max_norm)

    def after_optimizer(self) -> None:
        """The weights have moved."""
        self._effective.after_optimizer(self.listener.window)

    def end(self, step: int, max_norm: float | None, *, stop: bool = False) -> Step | None:
        """The step is over. Its numbers go over the ranks, so every rank has to call it; None if it failed here.

        Where one rank has `stop`, `must_stop` is true on all of them afterwards.
        """
        accelerator = self._trainer.accelerator
        window = self.listener.window
        seconds = time.perf_counter() - window.started
        fresh = sorted(n for n in window.generations if n > self._newest)
        vector = self._guard.run("adding up a step", window.vector, accelerator.device)
        if vector is None:
            vector = empty_vector(accelerator.device)
        newest = (fresh[0], fresh[-1]) if fresh else (-1, -1)
        header = [len(self._guard.faults), self._effective.mismatch, *newest, float(stop)]
        local = torch.cat([torch.tensor(header, dtype=torch.float64).to(vector), vector])
        vectors = gather(accelerator, local[None])  # every rank comes by here
        mismatch, which = float(vectors[:, 1].max()), vectors[:, 2:4]
        self.must_stop = bool(vectors[:, 4].any())
        self._note_faults_elsewhere(vectors[:, 0].tolist())
        rows = None
        if fresh and bool((which == which[0]).all()):  # else a rank has missed one
            rows = self._guard.run("gathering rows", self.listener.rows.gathered, fresh)
        if fresh:
            self._newest, self._newest_since = fresh[-1], step
        generations = [self.listener.generations[n] for n in fresh if n in self.listener.generations]
        others = self._guard.run("comparing gradients", self._counterfactual.finish) or {}  # every rank comes by here
        if rows is not None and len(generations) == len(fresh):
            others |= self._guard.run("measuring weights", concentration, generations, rows) or {}
        made = self._guard.run(
            "measuring a step", self._measure, step, vectors[:, 5:], mismatch, max_norm, seconds, others
        )
        if window.generations:
            self.listener.forget_before(min(window.generations))
        if made is None:
            return None
        metrics, absent = made
        absent = {**self.absent, **absent}
        new = {name: why for name, why in absent.items() if name not in self._absent}
        self._absent |= new
        return Step(metrics, generations, rows if len(generations) == len(fresh) else None, new)

    def close(self) -> None:
        """Let go of the trainer."""
        self.listener.close()

    def _saw_loss(self, micro: MicroBatch, loss: torch.Tensor) -> None:
        self._effective.saw_loss(micro, loss)
        self._counterfactual.saw_loss(micro, self.listener.generations)

    def _note_faults_elsewhere(self, counts: list[float]) -> None:
        """Rank 0 keeps the run, so what failed on the others is counted there; their own logs say more."""
        if self._trainer.accelerator.process_index == 0:
            for rank in range(1, len(counts)):
                if counts[rank] > self._faults_elsewhere.get(rank, 0):
                    self._guard.note(f"rank {rank}", RuntimeError("something of rlwatch failed there, see its own log"))
                    self._faults_elsewhere[rank] = counts[rank]

    def _measure(
        self,
        step: int,
        vectors: torch.Tensor,
        mismatch: float,
        max_norm: float | None,
        seconds: float,
        others: dict[str, float],
    ) -> tuple[dict[str, float], dict[str, str]]:
        accelerator = self._trainer.accelerator
        window = self.listener.window
        totals = Totals.read(vectors, getattr(self._trainer, "current_gradient_accumulation_steps", 1))
        metrics = totals.metrics(accelerator.num_processes)
        generations = self.listener.trained_on()
        metrics |= self._guard.run("measuring rollouts", rollout_metrics, generations) or {}
        if generations:
            metrics["rollouts/age"] = step - self._newest_since
        metrics |= gradient_metrics(
            window.grad_norm,
            max_norm,
            clipped_here="DEEPSPEED" not in str(accelerator.distributed_type).upper(),
            policy_only=self._effective.policy_only,
        )
        metrics |= window.extra | others
        why = self._effective.end_step(metrics, totals.sums.get("gradient_squared"), mismatch)
        if window.learning_rate is not None:
            metrics["lr"] = window.learning_rate
        metrics["step_seconds"] = seconds
        if self.listener.forward is not None and self._effective.sampled and "entropy/mean" not in metrics:
            missing = f"{type(self._trainer).__name__}'s model gives neither entropies nor logits beside labels"
            known = self.reach.absent["entropy/correct"] if self.reach.warning else ""  # told already
            self._without_entropy = dict.fromkeys(ENTROPY, known or missing)
        if why is None:
            return metrics, {}
        self.listener.config = None  # nothing of what rests on it will be summed any more
        self._counterfactual.give_up(why)
        families = ("counterfactual/", *(pattern.rstrip("*") for pattern in REST_ON_THE_LOSS))
        kept = {name: value for name, value in metrics.items() if not name.startswith(families)}
        return kept, dict.fromkeys(REST_ON_THE_LOSS, why)
