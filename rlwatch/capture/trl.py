"""Listens to TRL's GRPOTrainer: what its own methods are given and return, row by row.

    _generate                           which tokens a tool wrote
    _calculate_rewards                  what was sampled, and what every reward function gave for it, on all ranks
    _generate_and_score_completions     a generation is complete; each of its rows gets a tag
    compute_loss                        the micro-batch that the loss sees: its mask, and the tags of its rows
    _get_per_token_logps_and_entropies  log-probability and entropy of each of its tokens, and the gradient that returns
    get_high_entropy_mask               which tokens a top_entropy_quantile keeps
    training_step, _get_grad_norm       the loss that went to backward, the gradient's norm before clipping

What a trainer lacks is not listened to, and what it would have given is named as absent: see `releases`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlwatch.capture.correctness import Correctness
from rlwatch.capture.forward import ForwardListener
from rlwatch.capture.generation import FloatArray, Generation
from rlwatch.capture.guard import Guard
from rlwatch.capture.hooks import Hooks
from rlwatch.capture.microbatch import MicroBatch, loss_config
from rlwatch.capture.ranks import gather
from rlwatch.capture.releases import BACKWARD, LOSS, NORM, ROLLOUTS, Part, end_tokens, reach
from rlwatch.capture.rows import TAG, Rows
from rlwatch.capture.text import as_text, fingerprint
from rlwatch.capture.trainer import function_names, is_rloo, reward_weights
from rlwatch.capture.window import StepWindow
from rlwatch.signals.groups import RewardRange, total_rewards
from rlwatch.signals.histogram import entropy_histogram
from rlwatch.signals.tokens import by_correctness, entropy_rows, policy_rows, wide
from rlwatch.signals.weights import weight_rows

ENTROPY = ("entropy/mean", "entropy/p10", "entropy/p50", "entropy/p90", "entropy/top20")


@dataclass
class _Draft:
    """A generation in the making."""

    completion_ids: list[Any] | None = None
    tool_mask: list[Any] | None = None
    per_function: FloatArray | None = None
    rewards: FloatArray | None = None
    context: dict[str, Any] = field(default_factory=dict)


class TRLListener:
    """Turns what a trainer does into generations and step windows.

    Args:
        trainer: A TRL or transformers trainer.
        correctness: Says which completions are correct.
        guard: Catches rlwatch's own faults.
        sample_completions: Groups a generation whose text is kept, or "all".
    """

    def __init__(self, trainer: Any, correctness: Correctness, guard: Guard, sample_completions: int | str = 2) -> None:
        self.window = StepWindow()
        self.generations: dict[int, Generation] = {}
        self.seen = RewardRange()
        self.reach = reach(trainer)
        self.config = loss_config(trainer) if LOSS in self.reach else None
        self.on_loss: Callable[[MicroBatch, torch.Tensor], None] | None = None
        self.rows = Rows(trainer.accelerator)
        self._trainer = trainer
        self._correctness = correctness
        self._guard = guard
        self._sample_completions = sample_completions
        self._draft: _Draft | None = None
        self._micro_batch: MicroBatch | None = None
        self._hooks = Hooks(trainer, guard)
        hooks: dict[Part, dict[str, dict[str, Callable[..., None]]]] = {
            ROLLOUTS: {
                "_generate_and_score_completions": {"before": self._begin_generation, "after": self._end_generation},
                "_generate": {"after": self._sampled},
                "_calculate_rewards": {"after": self._scored},
            },
            LOSS: {
                "compute_loss": {"before": self._begin_loss, "after": self._end_loss},
                "_get_per_token_logps_and_entropies": {"after": self._saw_tokens},
                "get_high_entropy_mask": {"after": self._saw_entropy_mask},
            },
            BACKWARD: {"training_step": {"after": self._end_micro_batch}},
            NORM: {"_get_grad_norm": {"after": self._saw_norm}},
        }
        self.absent = dict(self.reach.absent)
        if getattr(trainer, "beta", 0.0) and is_rloo(trainer):
            self.absent["kl/ref"] = f"{type(trainer).__name__} takes its KL off the reward, and shows none"
        for part in self.reach.parts:
            for name, functions in hooks[part].items():
                if callable(getattr(trainer, name, None)):  # RLOOTrainer keeps no mask of uncertain tokens
                    self._hooks.add(name, **functions)
        self.forward: ForwardListener | None = None
        if LOSS not in self.reach:
            self.forward = ForwardListener(trainer.model, guard, self._saw_forward)

    def begin_step(self, sampled: bool) -> None:
        """A new optimizer step begins; on a sampled one more may be looked at."""
        self.window = StepWindow()
        if self.forward is not None:
            self.forward.look_at_logits = sampled

    def trained_on(self) -> list[Generation]:
        """The generations whose rows the step that just ended trained on, oldest first."""
        return [self.generations[n] for n in sorted(self.window.generations) if n in self.generations]

    def forget_before(self, number: int) -> None:
        """Drop generations older than this one: no step will train on them again."""
        for old in self.rows.forget_before(number):
            self.generations.pop(old, None)

    def close(self) -> None:
        """Take the hooks off the trainer."""
        self._hooks.remove()
        if self.forward is not None:
            self.forward.close()

    # What the trainer's methods are given and return, in the order in which a step calls them.

    def _begin_generation(self, *_: Any, **__: Any) -> None:
        self._draft = _Draft() if self._trainer.model.training else None  # evaluation generates too

    def _sampled(self, result: tuple[Any, ...], *_: Any, **__: Any) -> None:
        if self._draft is not None:
            self._draft.tool_mask = result[2] if len(result) > 3 else None  # RLOOTrainer knows no tools

    def _scored(
        self, result: torch.Tensor, inputs: Any, prompts: Any, completions: Any, completion_ids: Any, **__: Any
    ) -> None:
        if self._draft is None:
            return
        self._draft.per_function = _array(result)
        self._draft.rewards = total_rewards(self._draft.per_function, np.array(reward_weights(self._trainer)))
        self._draft.completion_ids = completion_ids
        columns = {key: [row.get(key) for row in inputs] for key in inputs[0]}
        self._draft.context = {
            **columns,
            "prompts": prompts,
            "completions": completions,
            "completion_ids": completion_ids,
        }

    def _end_generation(self, result: dict[str, Any], *_: Any, **__: Any) -> None:
        draft, self._draft = self._draft, None
        if not self._trainer.model.training:
            return
        rows = len(result["advantages"])
        number, result[TAG] = self.rows.begin(rows)
        columns, prints = torch.full((rows, 4), torch.nan), torch.zeros((rows, 2), dtype=torch.int64)
        if draft is not None:
            self._guard.run("reading a generation", self._fill, columns, prints, draft, result)
        # Every rank comes by here, whatever failed on it before.
        accelerator = self._trainer.accelerator
        columns, prints = gather(accelerator, columns), gather(accelerator, prints)
        if draft is not None:
            self._guard.run("making a generation", self._make_generation, number, draft, columns.cpu(), prints.cpu())

    def _make_generation(self, number: int, draft: _Draft, columns: torch.Tensor, prints: torch.Tensor) -> None:
        trainer = self._trainer
        per_function, rewards = draft.per_function, draft.rewards
        assert per_function is not None
        assert rewards is not None
        self.seen = self.seen.including(rewards)
        lengths, truncated, correct, advantages = _array(columns).T
        generation = Generation(
            number=number,
            group_size=trainer.num_generations,
            functions=tuple(function_names(trainer)),
            weights=np.array(reward_weights(trainer)),
            per_function=per_function,
            rewards=rewards,
            lengths=lengths,
            truncated=truncated,
            correct=None if np.isnan(correct).all() else correct,
            advantages=advantages,
            fingerprints=prints[:, 0].numpy(),
            prompts=prints[:, 1].numpy(),
            seen=self.seen,
            each=getattr(trainer, "multi_objective_aggregation", None) == "normalize_then_sum",
            texts=self._guard.run("keeping completions", self._texts, len(rewards)) or {},
        )
        self.generations[number] = generation
        self.rows.learn(generation)

    def _begin_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> None:
        self._micro_batch = None
        trainer = self._trainer
        if not trainer.model.training or not isinstance(inputs, dict) or "completion_mask" not in inputs:
            return
        self.window.generations |= self.rows.generations(inputs.get(TAG))
        coefficient = 0.0
        if getattr(trainer, "_entropy_bonus_enabled", False):
            held = trainer.use_adaptive_entropy and trainer._last_world_entropy > trainer.args.entropy_target
            coefficient = 0.0 if held else trainer.entropy_coef
        self._micro_batch = MicroBatch(inputs, trainer.current_gradient_accumulation_steps, coefficient)

    def _saw_tokens(self, result: tuple[Any, ...], *_: Any, **__: Any) -> None:
        if self._micro_batch is not None:
            self._micro_batch.take(result[0], result[1], result[2] if len(result) > 2 else None)

    def _saw_entropy_mask(self, result: torch.Tensor, *_: Any, **__: Any) -> None:
        if self._micro_batch is not None:
            self._micro_batch.entropy_mask = result

    def _end_loss(self, result: torch.Tensor, *_: Any, **__: Any) -> None:
        if self._micro_batch is not None and self._micro_batch.logps is not None and self.on_loss is not None:
            self.on_loss(self._micro_batch, result)

    def _end_micro_batch(self, result: torch.Tensor, *_: Any, **__: Any) -> None:
        self.window.add({"loss": result.detach().to(wide(result.device))[None]})
        if LOSS not in self.reach:  # the loss does not show its rows: they are the newest, or were until just now
            self.window.generations |= self.rows.generations(None)
        micro, self._micro_batch = self._micro_batch, None
        if micro is not None and micro.logps is not None:
            self._guard.run("measuring a micro-batch", self._measure, micro)

    def _saw_forward(self, entropies: torch.Tensor, mask: torch.Tensor) -> None:
        self.window.add(entropy_rows(entropies, mask))
        self.window.add_histogram(entropy_histogram(entropies, mask))

    def _saw_norm(self, result: Any, *_: Any, **__: Any) -> None:
        self.window.grad_norm = result

    # What is made of it.

    @torch.no_grad()
    def _measure(self, micro: MicroBatch) -> None:
        tags, mask = micro.inputs.get(TAG), micro.mask
        facts = self.rows.facts(tags)
        rows: dict[str, torch.Tensor] = {}
        if micro.entropies is not None:
            rows |= entropy_rows(micro.entropies, mask)
            self.window.add_histogram(entropy_histogram(micro.entropies, mask))
            if facts.correct is not None:
                rows |= by_correctness(rows, facts.correct)
        if self.config is not None:
            batch, gradient = micro.tokens(), micro.policy_gradient(self.config)
            policy, maxima = policy_rows(self.config, batch, gradient)
            rows |= policy
            self.window.add_maxima(maxima)
            if gradient is not None:
                rows |= weight_rows(policy, batch.advantages, facts.lengths, facts.long, facts.correct, facts.kinds)
            if tags is not None:
                self.rows.saw(tags, rows)
        if rows:
            self.window.add(rows)

    def _fill(self, columns: torch.Tensor, prints: torch.Tensor, draft: _Draft, result: dict[str, Any]) -> None:
        """What this rank knows of its rows; NaN stays where it is not known.

        Length, truncation, correctness and advantage, a column each; a fingerprint of the completion and the prompt.
        """
        if result["advantages"].dim() == 1:
            columns[:, 3] = result["advantages"].detach()
        if draft.completion_ids is not None:
            if draft.tool_mask is not None:  # what a tool wrote has a mask of 0
                columns[:, 0] = torch.tensor([int(sum(mask)) for mask in draft.tool_mask])
            else:
                columns[:, 0] = torch.tensor([len(ids) for ids in draft.completion_ids])
            ends = end_tokens(self._trainer)
            columns[:, 1] = torch.tensor([len(ids) > 0 and int(ids[-1]) not in ends for ids in draft.completion_ids])
            prints[:, 0] = torch.tensor([hash(tuple(ids)) for ids in draft.completion_ids])
            prints[:, 1] = torch.tensor([fingerprint(as_text(prompt)) for prompt in draft.context["prompts"]])
        correct = self._guard.run("correct=", self._judge, draft, len(columns))
        if correct is not None:
            columns[:, 2] = torch.from_numpy(correct)

    def _judge(self, draft: _Draft, rows: int) -> FloatArray | None:
        assert draft.per_function is not None
        assert draft.rewards is not None
        first = self._trainer.accelerator.process_index * rows
        return self._correctness.judge(draft.per_function, draft.rewards, slice(first, first + rows), draft.context)

    def _texts(self, count: int) -> dict[int, tuple[str, str]]:
        """Prompt and completion of the first groups, from what TRL has gathered for its own log."""
        wanted = self._sample_completions
        rows = count if wanted == "all" else int(wanted) * self._trainer.num_generations
        logs = getattr(self._trainer, "_logs", None)
        if logs is None:
            return {}
        prompts, completions = list(logs["prompt"])[-count:], list(logs["completion"])[-count:]
        return {i: (as_text(prompts[i]), as_text(completions[i])) for i in range(min(rows, count))}


def _array(tensor: torch.Tensor) -> FloatArray:
    return tensor.detach().cpu().numpy().astype(np.float64)
