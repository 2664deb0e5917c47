"""What another denominator, scaling or clip would have made of a step's very batch: gradients beside the actual one.

Each alternative costs one more backward pass a micro-batch, so it is done on every n-th step only, and never unless
asked for. Where the model is too large to keep a gradient for each alternative, that of the last block stands for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rlwatch.capture.generation import Generation
from rlwatch.capture.microbatch import MicroBatch
from rlwatch.capture.ranks import gather, mean
from rlwatch.capture.rows import TAG, split_tags
from rlwatch.signals.alternatives import Siblings, alternatives
from rlwatch.signals.decisions import NAMES
from rlwatch.signals.losses import LossConfig

MOST = 200_000_000
"""Numbers that all gradients together may have: 0.8 GB as float32."""

_BLOCK = re.compile(r"(?:^|\.)(?:layers|h|blocks?)\.(\d+)\.")


class Counterfactual:
    """Gathers the gradient of each alternative over a step's micro-batches.

    Args:
        trainer: A TRL trainer.
        config: Its loss, or None for a trainer whose loss is not made of rewards.
        every: Measure every so many steps; 0 never.

    Attributes:
        sampled: This step is measured.
        absent: Why there is nothing, if there is not.
        part: Of which parameters the gradients are, in words.
    """

    def __init__(self, trainer: Any, config: LossConfig | None, every: int) -> None:
        self.sampled = False
        self._due = False  # the same on every rank, whatever fails on one
        self.absent: dict[str, str] = {}
        self.part = ""
        self._trainer = trainer
        self._config = config
        self._every = every
        self._sums: dict[str, torch.Tensor] = {}
        self._counts: dict[str, int] = {}
        self._parameters: list[torch.Tensor] = []
        if every <= 0:
            return
        kind = str(trainer.accelerator.distributed_type).upper()
        sharded = any(hasattr(p, "full_tensor") for p in trainer.model.parameters())
        if config is None:
            self.give_up(f"{type(trainer).__name__}'s loss is not made of rewards")
        elif sharded or "DEEPSPEED" in kind or "FSDP" in kind:
            self.give_up("sharded weights have no gradient that could be taken beside the actual one")

    def begin_step(self, step: int) -> None:
        """Step numbers begin at 1; the first is always sampled."""
        self._sums, self._counts = {}, {}
        self._due = self._every > 0 and (step - 1) % self._every == 0
        self.sampled = self._due and not self.absent
        if self.sampled:
            self._parameters = self._chosen()

    def saw_loss(self, micro: MicroBatch, generations: Mapping[int, Generation]) -> None:
        """A micro-batch's loss is computed and has not gone to backward yet."""
        if not self.sampled or self._config is None or micro.logps is None or not micro.logps.requires_grad:
            return
        batch = micro.tokens()
        scaling = str(getattr(self._trainer, "scale_rewards", "")).lower()
        siblings = self._siblings(micro, generations)
        found = alternatives(self._config, batch, siblings, scaling if scaling in ("group", "batch", "none") else None)
        micro.pause()
        try:
            for name, gradient in found.items():
                parts = torch.autograd.grad(
                    micro.logps, self._parameters, gradient.to(micro.logps), retain_graph=True, allow_unused=True
                )
                self._add(name, parts)
        except RuntimeError as error:  # as under reentrant checkpointing
            self.give_up(f"the graph does not allow a second backward pass ({str(error).splitlines()[0]})")
        finally:
            micro.go_on()

    def finish(self) -> dict[str, float]:
        """Cosine to the actual gradient and ratio of norms, of each alternative; all ranks have to call it.

        An alternative that a micro-batch or a rank could not tell of is left out.
        """
        if not self._due:
            return {}
        accelerator, names = self._trainer.accelerator, ("actual", *NAMES)
        device = accelerator.device
        wanted = getattr(self._trainer, "current_gradient_accumulation_steps", 1)
        sums, self._sums = self._sums, {}
        counts = [float(self._counts.get(name, 0) >= wanted and name in sums and not self.absent) for name in names]
        known = gather(accelerator, torch.tensor(counts, device=device)[None]).min(dim=0).values.tolist()
        common = {}
        for name, everywhere in zip(names, known, strict=True):
            if everywhere:  # the same on every rank
                common[name] = mean(accelerator, sums[name])
        self._parameters = []
        return compared(common)

    def _chosen(self) -> list[torch.Tensor]:
        named = [(name, p) for name, p in self._trainer.model.named_parameters() if p.requires_grad]
        if sum(p.numel() for _, p in named) * (len(NAMES) + 1) <= MOST:
            self.part = "all trainable weights"
            return [p for _, p in named]
        numbers = {name: int(m[1]) for name, _ in named if (m := _BLOCK.search(name))}
        last = max(numbers.values(), default=None)
        self.part = "the last block's weights" if last is not None else "the last weights"
        chosen = [p for name, p in named if numbers.get(name) == last] if last is not None else [named[-1][1]]
        return chosen

    def _add(self, name: str, parts: Sequence[torch.Tensor | None]) -> None:
        flat = torch.cat(
            [
                (torch.zeros_like(p) if part is None else part).detach().flatten().float()
                for p, part in zip(self._parameters, parts, strict=True)
            ]
        )
        known = self._sums.get(name)
        self._sums[name] = flat if known is None else known + flat
        self._counts[name] = self._counts.get(name, 0) + 1

    def _siblings(self, micro: MicroBatch, generations: Mapping[int, Generation]) -> Siblings | None:
        tags = micro.inputs.get(TAG)
        if tags is None:
            return None
        accelerator, values = self._trainer.accelerator, []
        items: set[float | None] = set()
        for number, row in split_tags(tags):
            generation = generations.get(number)
            if generation is None or generation.each:
                return None
            count = len(generation.rewards) // accelerator.num_processes
            index = accelerator.process_index * count + row
            values.append(_of_row(generation, index))
            items.add(self._alive_items(generation, micro))
        columns = torch.tensor(values, dtype=torch.float32, device=accelerator.device)
        alive_items = items.pop() if len(items) == 1 else None
        return Siblings(columns[:, 0:1], columns[:, 1:2], columns[:, 2:3], columns[:, 3:4], alive_items)

    def _alive_items(self, generation: Generation, micro: MicroBatch) -> float | None:
        """The loss's tokens in groups with variance; None if the lengths do not add up to what TRL counted."""
        counted, lengths = micro.inputs.get("num_items_in_batch"), generation.lengths
        if counted is None or np.isnan(lengths).any():
            return None
        if getattr(self._trainer, "mask_truncated_completions", False):
            lengths = np.where(generation.truncated == 1, 0.0, lengths)
        if abs(float(lengths.sum()) - float(counted)) > 0.5:
            return None
        return float(lengths[~np.repeat(generation.dead, generation.group_size)].sum())

    def give_up(self, why: str) -> None:
        """Measure nothing any more, and say why if it was asked for."""
        if self._every > 0:
            self.absent = {"counterfactual/*": why}


def compared(gradients: Mapping[str, torch.Tensor]) -> dict[str, float]:
    """cos(g_a, g) and ‖g_a‖/‖g‖ of each alternative a, as `counterfactual/<a>/cosine` and `.../norm_ratio`.

    A cosine with a gradient of 0 does not exist and is absent; so is everything where the actual one is 0.

    Args:
        gradients: Flat gradients of one length, `actual` among them.
    """
    actual = gradients.get("actual")
    if actual is None:
        return {}
    actual = actual.double()
    size = float(actual.norm())
    if size == 0 or not math.isfinite(size):
        return {}
    metrics = {}
    for name, gradient in gradients.items():
        if name == "actual":
            continue
        other = gradient.double()
        norm = float(other.norm())
        metrics[f"counterfactual/{name}/norm_ratio"] = norm / size
        if norm > 0:
            metrics[f"counterfactual/{name}/cosine"] = float(other @ actual) / (norm * size)
    return metrics


def _of_row(generation: Generation, index: int) -> tuple[float, float, float, float]:
    size, rewards = generation.group_size, generation.rewards
    first = index // size * size
    group = rewards[first : first + size]
    group_std = float(group.std(ddof=1)) if size > 1 else 0.0
    batch_std = float(rewards.std(ddof=1)) if len(rewards) > 1 else 0.0
    return float(rewards[index] - group.mean()), group_std, batch_std, float(not generation.dead[index // size])
