"""Listens to TRL's GRPOTrainer: what its own methods are given and return, row by row.

    _generate                           which tokens a tool wrote
    _calculate_rewards                  what was sampled, and what every reward function gave for it, on all ranks
    _generate_and_score_completions     a generation is complete; each of its rows gets a tag
    compute_loss                        the micro-batch that the loss sees: its mask, and the tags of its rows
    _get_per_token_logps_and_entropies  the entropy of each of its tokens
    training_step, _get_grad_norm       the loss that went to backward, the gradient's norm before clipping

A method that a trainer does not have is not listened to, and what it would have given is named as absent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlwatch.capture.correctness import Correctness
from rlwatch.capture.generation import Generation
from rlwatch.capture.guard import Guard
from rlwatch.capture.hooks import Hooks
from rlwatch.capture.trainer import function_names, missing_methods, reward_weights
from rlwatch.capture.window import StepWindow
from rlwatch.signals.groups import RewardRange, count_groups, total_rewards

ROW_TAG = "rlwatch_row"
"""The key of the tensor that travels with a generation's rows through TRL's shuffling and splitting."""

_NUMBER_SHIFT = 32  # a tag is (generation's number << 32) | row

_NEEDED_FOR = {
    "_generate": "length/* with tools",
    "_calculate_rewards": "reward/*, groups/*",
    "_generate_and_score_completions": "reward/*, groups/*, length/*",
    "_get_per_token_logps_and_entropies": "entropy/mean",
    "compute_loss": "entropy/mean",
    "training_step": "loss",
    "_get_grad_norm": "grad/*",
}


@dataclass
class _Draft:
    """A generation in the making."""

    completion_ids: list[Any] | None = None
    tool_mask: list[Any] | None = None
    per_function: Any = None
    context: dict[str, Any] = field(default_factory=dict)


class TRLListener:
    """Turns what a trainer does into generations and step windows.

    Args:
        trainer: A TRL or transformers trainer.
        correctness: Says which completions are correct.
        guard: Catches rlwatch's own faults.
    """

    def __init__(self, trainer: Any, correctness: Correctness, guard: Guard) -> None:
        self.window = StepWindow()
        self.generations: dict[int, Generation] = {}
        self._trainer = trainer
        self._correctness = correctness
        self._guard = guard
        self._seen = RewardRange()
        self._count = 0
        self._draft: _Draft | None = None
        self._micro_batch: dict[str, Any] | None = None
        self._hooks = Hooks(trainer, guard)
        hooks: dict[str, dict[str, Callable[..., None]]] = {
            "_generate_and_score_completions": {"before": self._begin_generation, "after": self._end_generation},
            "_generate": {"after": self._sampled},
            "_calculate_rewards": {"after": self._scored},
            "compute_loss": {"before": self._begin_loss, "after": self._end_loss},
            "_get_per_token_logps_and_entropies": {"after": self._saw_entropies},
            "training_step": {"after": self._saw_loss},
            "_get_grad_norm": {"after": self._saw_norm},
        }
        missing = missing_methods(trainer, list(hooks))
        self.absent = {_NEEDED_FOR[name]: f"{type(trainer).__name__} has no {name}" for name in missing}
        for name, functions in hooks.items():
            if name not in missing:
                self._hooks.add(name, **functions)

    def begin_step(self) -> None:
        """A new optimizer step begins."""
        self.window = StepWindow()

    def trained_on(self) -> list[Generation]:
        """The generations whose rows the step that just ended trained on, oldest first."""
        return [self.generations[n] for n in sorted(self.window.generations) if n in self.generations]

    def forget_before(self, number: int) -> None:
        """Drop generations older than this one: no step will train on them again."""
        for old in [n for n in self.generations if n < number]:
            del self.generations[old]

    def close(self) -> None:
        """Take the hooks off the trainer."""
        self._hooks.remove()

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
        self._draft.per_function = result
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
        if draft is None:
            return
        number, self._count = self._count, self._count + 1
        trainer = self._trainer
        accelerator = trainer.accelerator
        rows = len(result["advantages"])
        result[ROW_TAG] = torch.arange(rows) + (number << _NUMBER_SHIFT)
        weights = np.array(reward_weights(trainer), dtype=np.float64)
        per_function = draft.per_function.detach().cpu().numpy().astype(np.float64)
        rewards = total_rewards(per_function, weights)
        own = slice(accelerator.process_index * rows, (accelerator.process_index + 1) * rows)
        local = torch.full((rows, 4), torch.nan)
        self._guard.run("reading a generation", self._fill, local, draft, result)
        correct = self._guard.run("correct=", self._correctness.judge, per_function, rewards, own, draft.context)
        if correct is not None:
            local[:, 2] = torch.from_numpy(correct)
        if accelerator.num_processes > 1:  # every rank comes by here, whatever failed on it before
            local = accelerator.gather(local.to(accelerator.device))
        columns = local.cpu().numpy().astype(np.float64)
        self._seen = self._seen.including(rewards)
        each = getattr(trainer, "multi_objective_aggregation", None) == "normalize_then_sum"
        self.generations[number] = Generation(
            number=number,
            group_size=trainer.num_generations,
            functions=tuple(function_names(trainer)),
            per_function=per_function,
            rewards=rewards,
            lengths=columns[:, 0],
            truncated=columns[:, 1],
            correct=None if np.isnan(columns[:, 2]).all() else columns[:, 2],
            advantages=columns[:, 3],
            counts=count_groups(per_function, weights, trainer.num_generations, self._seen, each=each),
        )

    def _begin_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> None:
        self._micro_batch = None
        if not self._trainer.model.training or not isinstance(inputs, dict) or "completion_mask" not in inputs:
            return
        self._micro_batch = inputs
        if ROW_TAG in inputs:
            self.window.generations.update((inputs[ROW_TAG] >> _NUMBER_SHIFT).unique().tolist())
        elif self.generations:  # a subclass that drops keys it does not know: the newest is the likeliest
            self.window.generations.add(max(self.generations))

    def _saw_entropies(self, result: tuple[Any, ...], *_: Any, **__: Any) -> None:
        inputs = self._micro_batch
        if inputs is None or result[1] is None:
            return
        mask = inputs["completion_mask"]
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        self.window.add_entropies(result[1], mask)

    def _end_loss(self, *_: Any, **__: Any) -> None:
        self._micro_batch = None

    def _saw_loss(self, result: torch.Tensor, *_: Any, **__: Any) -> None:
        self.window.add_loss(result)

    def _saw_norm(self, result: Any, *_: Any, **__: Any) -> None:
        self.window.grad_norm = result

    def _fill(self, columns: torch.Tensor, draft: _Draft, result: dict[str, Any]) -> None:
        """Length, truncation and advantage of this rank's rows into columns 0, 1 and 3; NaN stays where not known."""
        if result["advantages"].dim() == 1:
            columns[:, 3] = result["advantages"].detach()
        if draft.completion_ids is None:
            return
        if draft.tool_mask is not None:  # what a tool wrote has a mask of 0
            columns[:, 0] = torch.tensor([int(sum(mask)) for mask in draft.tool_mask])
        else:
            columns[:, 0] = torch.tensor([len(ids) for ids in draft.completion_ids])
        ends = {*self._trainer.eos_token_ids, self._trainer._tokenizer.pad_token_id}
        columns[:, 1] = torch.tensor([len(ids) > 0 and int(ids[-1]) not in ends for ids in draft.completion_ids])
