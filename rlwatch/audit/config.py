"""One shape for the configuration of any trainer: what its loss divides by, and what its lints ask.

Field names are TRL's GRPOConfig's wherever it has one; `names` says what the setting is called where it was read.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlwatch.audit.advantages import Scaling
from rlwatch.audit.weights import AGGREGATIONS, CLIPPED, Loss

LARGEST = 1_000_000
"""Of completions, tokens, steps and ranks: beyond it a number is a slip, and an audit would run out of memory."""


class ConfigError(ValueError):
    """A configuration that cannot be audited; the message names the path and the key."""


@dataclass(frozen=True)
class AuditConfig:
    """What an audit knows of a trainer.

    Args:
        source: The path, or the object, that it was read from.
        framework: `trl`, `transformers`, `verl`, `openrlhf` or `prime-rl`.
        trainer: The trainer's name, such as `GRPOTrainer`.
        objective: `policy` (rewards), `supervised` (SFT, plain HF) or `preference` (DPO).
        loss_type: TRL's name of the loss, or the framework's own.
        aggregation: How it averages: a name of [`AGGREGATIONS`][rlwatch.audit.weights.AGGREGATIONS].
        baseline: See [`Scaling`][rlwatch.audit.advantages.Scaling].
        scale_rewards: What advantages are divided by: `group`, `batch`, `whiten`, `none`.
        std_epsilon: What is added to a deviation.
        multi_objective_aggregation: TRL's name of how several reward functions are made one.
        num_generations: Completions a prompt.
        num_iterations: Passes over a generation.
        steps_per_generation: Micro-batches of a generation on one rank.
        gradient_accumulation_steps: Micro-batches of an optimizer step on one rank.
        per_device_train_batch_size: Sequences of a micro-batch.
        ranks: Processes that train.
        max_completion_length: In tokens.
        mask_truncated_completions: Truncated completions are out of the loss.
        epsilon: How far below 1 a ratio is clipped.
        epsilon_high: How far above; for cispo the largest weight.
        delta: The largest ratio before clipping, or None.
        importance_sampling_level: `token` or `sequence`.
        beta: The KL term's coefficient.
        kl_in: Where that term is: the `loss` or the `reward`.
        top_entropy_quantile: The share of tokens, by entropy, that are trained on.
        off_policy_mask_threshold: TRL's, or None.
        entropy_coef: Of an entropy bonus.
        use_adaptive_entropy: It has a target.
        use_vllm: Completions come from another engine, whose mismatch is corrected.
        ld_alpha: DPO: what a token beyond the shorter answer's length weighs, or None.
        names: Field → what the setting is called there.
        own: Field → its value there, where that is another word or number.
        given: Fields that were set there; the others are defaults.
        notes: What had to be assumed, a sentence each.
    """

    source: str
    framework: str
    trainer: str
    objective: str
    loss_type: str
    aggregation: str
    baseline: str = "group"
    scale_rewards: str = "group"
    std_epsilon: float = 1e-4
    multi_objective_aggregation: str = "sum_then_normalize"
    num_generations: int = 8
    num_iterations: int = 1
    steps_per_generation: int = 1
    gradient_accumulation_steps: int = 1
    per_device_train_batch_size: int = 8
    ranks: int = 1
    max_completion_length: int = 512
    mask_truncated_completions: bool = False
    epsilon: float = 0.2
    epsilon_high: float = 0.2
    delta: float | None = None
    importance_sampling_level: str = "token"
    beta: float = 0.0
    kl_in: str = "loss"
    top_entropy_quantile: float = 1.0
    off_policy_mask_threshold: float | None = None
    entropy_coef: float = 0.0
    use_adaptive_entropy: bool = False
    use_vllm: bool = False
    ld_alpha: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.aggregation not in AGGREGATIONS:
            raise ConfigError(f"{self.source}: aggregation {self.aggregation!r} is none of {', '.join(AGGREGATIONS)}")
        for name in (
            "num_generations", "num_iterations", "steps_per_generation", "gradient_accumulation_steps",
            "per_device_train_batch_size", "ranks", "max_completion_length",
        ):  # fmt: skip
            if not 1 <= getattr(self, name) <= LARGEST:
                raise ConfigError(
                    f"{self.source}: {self.setting(name)}: {getattr(self, name)} is not from 1 to {LARGEST:,}"
                )

    def setting(self, name: str) -> str:
        """What a field is called where it was read."""
        return self.names.get(name, name)

    @property
    def is_policy(self) -> bool:
        """It learns from rewards."""
        return self.objective == "policy"

    @property
    def clips(self) -> bool:
        """Its ratio is clipped on both sides."""
        return self.is_policy and (self.loss_type in CLIPPED or self.framework in ("verl", "openrlhf"))

    @property
    def updates(self) -> float:
        """Optimizer steps that are made with one generation: num_iterations · spg / GA."""
        return self.num_iterations * self.steps_per_generation / self.gradient_accumulation_steps

    @property
    def off_policy(self) -> bool:
        """Some of them are made after the policy has moved away from the one that sampled."""
        return self.num_iterations > 1 or self.steps_per_generation > self.gradient_accumulation_steps

    @property
    def loss(self) -> Loss:
        """What a token's weight depends on."""
        return Loss(
            aggregation=self.aggregation,
            accumulation=self.gradient_accumulation_steps,
            steps_per_generation=self.steps_per_generation,
            ranks=self.ranks,
            max_length=self.max_completion_length,
            weight_cap=self.epsilon_high if self.loss_type == "cispo" else math.inf,
            ratio_cap=self.delta if self.delta is not None and self.loss_type in CLIPPED else math.inf,
            sequence_ratio=self.importance_sampling_level == "sequence" and self.loss_type not in ("cispo", "vespo"),
        )

    @property
    def scaling(self) -> Scaling:
        """How advantages are made."""
        return Scaling(self.baseline, self.scale_rewards, self.std_epsilon, self.num_generations)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {
            **data,
            "names": dict(self.names),
            "own": dict(self.own),
            "given": sorted(self.given),
            "notes": list(self.notes),
            "updates_per_rollout": self.updates,
        }
