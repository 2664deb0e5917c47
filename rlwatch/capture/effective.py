"""The effective gradient and the update of a TRL trainer: free where it can be, split on every n-th step where not."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from rlwatch.capture.microbatch import MicroBatch
from rlwatch.capture.ranks import gather, mean
from rlwatch.capture.releases import divided_again
from rlwatch.capture.sampled import GradientSplit, UpdateNorm
from rlwatch.capture.window import StepWindow
from rlwatch.signals.gradients import clip_coefficient
from rlwatch.signals.losses import LossConfig

MISMATCH = 1e-4
"""How far the rebuilt loss may be from the trainer's, as a share of its terms' size."""


class EffectiveGradient:
    """Measures what of the gradient is the policy's, and checks at the first step that the loss is what it seems.

    Between split steps it gives `grad/effective_estimate`. The policy's gradient is Jᵀg with g = ∂L_policy/∂log p, and
    g is known at every step: ‖Jᵀg‖ is taken to be ‖g‖ times what ‖Jᵀg‖/‖g‖ was at the last split.

    Args:
        trainer: A TRL trainer.
        config: Its loss, or None for a trainer whose loss is not made of rewards.
        regularisers: What its loss holds beside the policy's part, in words.
        every: Split every so many steps; 0 never.
    """

    def __init__(self, trainer: Any, config: LossConfig | None, regularisers: list[str], every: int) -> None:
        self.absent: dict[str, str] = {}
        self.mismatch = -1.0  # of this rank, in the first step; below 0 while no loss was seen
        self._trainer = trainer
        self._config = config
        self._every = every
        self.sampled = False
        self._stretch: float | None = None  # ‖Jᵀg‖/‖g‖ as of the last split
        self._split = GradientSplit()
        self._update = UpdateNorm()
        self._parameters: list[torch.Tensor] = []
        self._checked = False
        unknown = [r for r in regularisers if "does not know" in r or "not made of rewards" in r]
        self._splits = bool(regularisers) and not unknown and config is not None
        sharded = any(hasattr(p, "full_tensor") for p in trainer.model.parameters())  # FSDP2: DTensors
        kind = str(trainer.accelerator.distributed_type).upper()
        hidden = "DEEPSPEED" in kind or ("FSDP" in kind and not sharded)
        again = divided_again(trainer)
        # The same on every rank, for good.
        self._wanted = self._splits and every > 0 and not sharded and not hidden and again == 1
        self._updates = every > 0 and not hidden
        if unknown:
            self.give_up(f"the loss also holds {' and '.join(unknown)}")
        elif self._splits and every == 0:
            self.give_up(f"the loss also holds {' and '.join(regularisers)}, and split_every=0 never splits it off")
        elif self._splits and again > 1:
            divides = f"accelerate divides the gradient by {again} once more, as transformers before 5.6 had it do"
            self.give_up(f"the loss also holds {' and '.join(regularisers)}, and {divides}")
        elif self._splits and not self._wanted:
            self.give_up(f"the loss also holds {' and '.join(regularisers)}, and sharded gradients cannot be split")
        if "DEEPSPEED" in kind:  # it steps inside backward
            names = ("grad/clip_coef", "grad/applied_norm", "grad/effective_norm")
            self.absent |= dict.fromkeys(names, "DeepSpeed clips the gradient where it cannot be seen")
        if hidden and every > 0:
            why = f"{kind.rpartition('.')[2]} keeps the weights where their movement cannot be seen"
            self.absent |= {"update/norm": why, "update/relative": why}

    @property
    def policy_only(self) -> bool:
        """All of the gradient is the policy's, so nothing has to be split."""
        return not self._splits and "grad/policy_norm" not in self.absent

    def begin_step(self, step: int) -> None:
        """Step numbers begin at 1; the first is always sampled."""
        self.sampled = self._every > 0 and (step - 1) % self._every == 0
        if self.sampled:
            self._parameters = [p for p in self._trainer.model.parameters() if p.requires_grad]

    def saw_loss(self, micro: MicroBatch, loss: torch.Tensor) -> None:
        """A micro-batch's loss is computed and has not gone to backward yet."""
        if self._config is None:
            return
        aux = float(getattr(self._trainer, "router_aux_loss_coef", 0.0) or 0.0)
        if not self._checked:
            self.mismatch = max(self.mismatch, micro.mismatch(self._config, loss.detach(), aux))
        if self.sampled and self._splits and self._wanted:
            try:
                gradients = micro.regulariser_gradients(self._config, aux, self._parameters)
            except RuntimeError as error:  # as under reentrant checkpointing
                self.give_up(f"the graph does not allow a second backward pass ({str(error).splitlines()[0]})")
                return
            self._split.add(gradients)

    def before_optimizer(self, window: StepWindow, max_norm: float | None) -> None:
        """The gradients are clipped and the weights have not moved yet."""
        if self._wanted and self.sampled:
            self._measure(window, max_norm)
        if self.sampled and self._updates:
            self._update.before(self._parameters)

    def after_optimizer(self, window: StepWindow) -> None:
        """The weights have moved."""
        window.extra.update(self._update.after(self._parameters))
        self._parameters = []

    def end_step(self, metrics: dict[str, float], gradient_squared: float | None, mismatch: float) -> str | None:
        """The step is over: puts the estimate into its metrics.

        Args:
            metrics: The step's, with what a split found.
            gradient_squared: Σ g² over all tokens and ranks, or None where it is not known.
            mismatch: The largest of all ranks; below 0 where no loss was seen.

        Returns:
            After the first step, a sentence if the loss turned out to be another than it seemed.
        """
        if self._splits and gradient_squared is not None:
            size, exact = math.sqrt(gradient_squared), metrics.get("grad/policy_norm")
            if exact is not None and size:
                self._stretch = exact / size
            elif exact is None and self._stretch is not None and "grad/clip_coef" in metrics:
                metrics["grad/effective_estimate"] = metrics["grad/clip_coef"] * self._stretch * size
        if self._checked or mismatch < 0:
            return None
        self._checked = True
        if mismatch <= MISMATCH:
            return None
        why = (
            f"the loss that rlwatch rebuilds from what it captured is {mismatch:.2g} of its size away from the "
            "trainer's, so this trainer trains on something else than its configuration says"
        )
        self.give_up(why)
        return why

    def _measure(self, window: StepWindow, max_norm: float | None) -> None:
        accelerator = self._trainer.accelerator
        ready = torch.tensor([float(self._split.gathered and window.grad_norm is not None)], device=accelerator.device)
        if gather(accelerator, ready).min() == 0:  # every rank comes by here, whatever failed on it before
            self._split = GradientSplit()
            return
        coefficient = clip_coefficient(float(window.grad_norm), max_norm)
        window.extra.update(self._split.finish(self._parameters, coefficient, partial(mean, accelerator)))

    def give_up(self, why: str) -> None:
        """Do not tell the policy's part of the gradient from the rest, and say why."""
        self._splits = False
        for name in ("grad/effective_norm", "grad/policy_norm", "grad/regulariser_norm"):
            self.absent[name] = why
