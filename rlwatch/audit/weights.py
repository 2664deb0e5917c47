"""What a token weighs: the exact factors that a loss divides it by, for a policy that has just sampled (ratio 1).

A loss of one optimizer step is Σ −w·A·r over tokens: A the advantage, r = p/p_old the ratio, w the weight, which is a
product of factors. Each place where something is divided or averaged gives one factor, so that

    dL/dlog p = −A · w        w = Π factors        (pure numbers; on policy, where r = 1)

as the backward pass of the token's own rank sees it; the optimizer gets that divided by the ranks, whose gradients are
averaged. Symbols: L tokens of the row, B rows of the micro-batch, GA micro-batches of an optimizer step, P ranks, N
tokens of the generation, spg micro-batches of a generation on one rank. Tokens are those of the loss mask.

Source: `GRPOTrainer._compute_loss` and `RLOOTrainer._compute_loss` of TRL 1.16, against which
`tests/test_audit_exact.py` holds this (largest relative error 4e-6, float32's); verl 0.5 `agg_loss` and OpenRLHF 0.11
`aggregate_loss` as read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

AGGREGATIONS = {
    "sequence-mean": "1 / (L·B·GA)",
    "sequence-sum": "1 / (B·GA)",
    "max-length": "1 / (max_length·B·GA)",
    "padded-length": "1 / (max_length·GA)",
    "micro-batch-tokens": "1 / (tokens of the micro-batch·GA)",
    "generation-tokens": "P·spg / (N·GA)",
    "step-tokens": "P / tokens of the optimizer step",
    "rank-tokens": "1 / tokens of the optimizer step on this rank",
    "step-sequences": "P / (L·sequences of the optimizer step)",
    "rank-sequences": "1 / (L·sequences of the optimizer step on this rank)",
}
"""Every way to average that an audit knows → what the backward pass multiplies a token's A·r by."""

LOSS_TYPES = {
    "grpo": "sequence-mean",
    "sapo": "sequence-mean",
    "bnpo": "micro-batch-tokens",
    "dr_grpo": "max-length",
    "dapo": "generation-tokens",
    "cispo": "generation-tokens",
    "vespo": "generation-tokens",
    "luspo": "sequence-sum",
    "rloo": "sequence-sum",
}
"""TRL 1.16's loss types (`rloo` is its RLOOTrainer) → how they average."""

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo", "rloo")
"""Loss types that clip the ratio on both sides; sapo and vespo fade it out, cispo cuts the weight."""


@dataclass(frozen=True)
class Loss:
    """The numbers that a token's weight depends on.

    Args:
        aggregation: A name of [`AGGREGATIONS`][rlwatch.audit.weights.AGGREGATIONS].
        accumulation: GA.
        steps_per_generation: spg.
        ranks: P.
        max_length: The constant that `max-length` and `padded-length` divide by, in tokens.
        weight_cap: cispo's epsilon_high, at which it cuts every ratio; infinite for all others.
        ratio_cap: `delta`, at which a clipped loss cuts the ratio before it clips; infinite where there is none.
        sequence_ratio: One ratio a completion, whose gradient is spread over its tokens.
    """

    aggregation: str
    accumulation: int = 1
    steps_per_generation: int = 1
    ranks: int = 1
    max_length: int = 1
    weight_cap: float = math.inf
    ratio_cap: float = math.inf
    sequence_ratio: bool = False

    def __post_init__(self) -> None:
        if self.aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation {self.aggregation!r} is none of {', '.join(AGGREGATIONS)}")


@dataclass(frozen=True)
class Batch:
    """The completions of one generation, over all ranks: R rows of at most T tokens.

    Args:
        mask: (R, T), the tokens that the loss counts.
        rank: (R,), which rank has the row, from 0.
        micro: (R,), in which micro-batch of its rank it is, from 0; GA of them in a row are one optimizer step.
        kept: (R, T), the tokens that `top_entropy_quantile` keeps; None where that is off.
    """

    mask: BoolArray
    rank: IntArray
    micro: IntArray
    kept: BoolArray | None = None

    @property
    def lengths(self) -> FloatArray:
        """(R,), tokens that the loss counts."""
        return np.asarray(self.mask.sum(axis=1), dtype=np.float64)

    def without(self, rows: BoolArray) -> Batch:
        """The same with these rows' tokens out of the loss, as `mask_truncated_completions` does; the rows stay."""
        return replace(self, mask=self.mask & ~rows[:, None])


def factors(loss: Loss, batch: Batch) -> dict[str, FloatArray]:
    """Each place's factor in the weight of a row's tokens, (R,) each, by the place's name.

    Their product is what the optimizer gets; without `ranks` it is what the rank's backward pass sees.
    """
    lengths = batch.lengths
    rank, micro = batch.rank, batch.micro
    step = micro // loss.accumulation
    one = np.ones(len(lengths))
    rows = _per_key(one, rank, micro)
    of_row, of_rows = 1 / np.maximum(lengths, 1), 1 / rows
    of_steps, of_ranks = one / loss.accumulation, one / loss.ranks
    found: dict[str, FloatArray] = {}
    kind = loss.aggregation
    if kind in ("sequence-mean", "step-sequences", "rank-sequences"):
        found["tokens of the sequence"] = of_row
    if kind in ("max-length", "padded-length"):
        found["maximum length"] = one / loss.max_length
    if kind in ("sequence-mean", "sequence-sum", "max-length"):
        found["sequences of the micro-batch"] = of_rows
    if kind == "micro-batch-tokens":
        found["tokens of the micro-batch"] = 1 / np.maximum(_per_key(lengths, rank, micro), 1)
    if kind in ("sequence-mean", "sequence-sum", "max-length", "padded-length", "micro-batch-tokens"):
        found["micro-batches"] = of_steps
    nothing = np.zeros_like(rank)
    if kind == "generation-tokens":
        windows = loss.steps_per_generation / loss.accumulation
        found["tokens of the generation"] = one * loss.ranks * windows / max(lengths.sum(), 1)
    if kind == "step-tokens":
        found["tokens of the step"] = loss.ranks / np.maximum(_per_key(lengths, nothing, step), 1)
    if kind == "rank-tokens":
        found["tokens of the step"] = 1 / np.maximum(_per_key(lengths, rank, step), 1)
    counted = (lengths > 0).astype(np.float64)
    if kind == "step-sequences":
        found["sequences of the step"] = loss.ranks / np.maximum(_per_key(counted, nothing, step), 1)
    if kind == "rank-sequences":
        found["sequences of the step"] = 1 / np.maximum(_per_key(counted, rank, step), 1)
    found["ranks"] = of_ranks
    if loss.weight_cap < math.inf:
        found["cut of the ratio"] = one * min(1.0, loss.weight_cap)
    return found


def token_weights(loss: Loss, batch: Batch, *, applied: bool = False) -> FloatArray:
    """w of each token, (R, T): 0 where a mask leaves it out.

    `top_entropy_quantile` takes tokens out and renormalises nothing. With one ratio a completion its gradient is spread
    over all of the completion's tokens, so there each weighs w · kept/L.

    Args:
        loss: How the loss averages.
        batch: What it averages.
        applied: As the optimizer gets it, over all ranks; by default as the rank's backward pass sees it.
    """
    of_places = factors(loss, batch)
    if not applied:
        del of_places["ranks"]
    weight = np.prod(list(of_places.values()), axis=0)
    if batch.kept is None:
        return np.asarray(weight[:, None] * batch.mask)
    kept = batch.kept & batch.mask
    if not loss.sequence_ratio:
        return np.asarray(weight[:, None] * kept)
    return np.asarray((weight * kept.sum(axis=1) / np.maximum(batch.lengths, 1))[:, None] * batch.mask)


def gradient(loss: Loss, batch: Batch, advantages: FloatArray, *, applied: bool = False) -> FloatArray:
    """dL/dlog p of each token on policy, (R, T): −A·w, and 0 for A > 0 where `delta` below 1 cuts the ratio.

    Args:
        loss: How the loss averages.
        batch: What it averages.
        advantages: (R,).
        applied: As in [`token_weights`][rlwatch.audit.weights.token_weights].
    """
    alive = (advantages <= 0) | (loss.ratio_cap >= 1)
    return np.asarray(-(advantages * alive)[:, None] * token_weights(loss, batch, applied=applied))


def _per_key(values: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    """Σ of the values over all rows with the same two keys, (R,)."""
    _, place = np.unique(np.stack([first, second]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    return np.asarray(np.bincount(place, weights=values)[place], dtype=np.float64)
