"""What a loss will do to the lengths of wrong answers, from what tokens of short and of long ones weigh.

Where a token weighs the same however long its answer is, the expected gradient is that of the expected reward: lengths
that have nothing to do with correctness do not move. Where a token of a long answer weighs less, a long wrong answer is
held down less than a short one, and a short right one is pushed up more than a long one: wrong answers grow, right ones
shrink (Dr.GRPO, 2503.20783).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlwatch.audit.config import AuditConfig
from rlwatch.audit.weights import Batch, FloatArray, token_weights

BIASED = -0.25
"""Elasticity below which a loss is said to favour long wrong answers: a token of one twice as long weighs 0.84."""

ENOUGH = 20
"""Completions that the slope must rest on."""

SURE = 3.0
"""Standard errors that it must be away from 0."""


@dataclass(frozen=True)
class Drift:
    """How a token's weight depends on its answer's length.

    Args:
        elasticity: d log(weight of a token) / d log(length): 0 where it does not depend, −1 for a mean over each
            answer's own tokens.
        error: Its standard error; 0 where it was computed and not measured.
        completions: How many it rests on.
    """

    elasticity: float
    error: float
    completions: int

    @property
    def wrong_answers_grow(self) -> bool:
        """The prediction."""
        return self.elasticity < BIASED and self.elasticity < -SURE * self.error

    @property
    def sentence(self) -> str:
        """For people."""
        twice = 2**self.elasticity
        said = f"a token of an answer that is twice as long weighs ×{twice:.2f}"
        if self.wrong_answers_grow:
            return f"{said}: wrong answers will grow against right ones, whatever is right"
        return f"{said}: nothing in that makes wrong answers grow"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**vars(self), "wrong_answers_grow": self.wrong_answers_grow, "sentence": self.sentence}


def drift_of(config: AuditConfig, lengths: Sequence[int] = (16, 32, 64, 128, 256)) -> Drift:
    """From the configuration alone: the exact weights of rows of these lengths in one generation.

    Rows of all lengths are spread over the micro-batches alike, as a shuffled batch is on average.
    """
    copies = max(1, config.per_device_train_batch_size)
    sizes = np.tile(np.asarray(lengths), copies)
    micro = np.repeat(np.arange(copies), len(lengths))
    mask = np.arange(int(sizes.max())) < sizes[:, None]
    batch = Batch(mask, np.zeros(len(sizes), np.int64), micro.astype(np.int64))
    weights = token_weights(config.loss, batch)[:, 0]
    slope, _ = _slope(np.log(sizes.astype(float)), np.log(weights))
    return Drift(slope, 0.0, len(sizes))


def measured_drift(weights: FloatArray, advantages: FloatArray, lengths: FloatArray) -> Drift | None:
    """From the first steps' completions: the slope of log(|w| / (|A|·L)) on log L.

    Args:
        weights: (n,), |w| = Σ |dL/dlog p| of each completion, up to a factor that all of a step share.
        advantages: (n,), its advantage.
        lengths: (n,), its tokens.

    Returns:
        None where fewer than 20 completions weigh anything, or all are of one length.
    """
    known = (weights > 0) & (np.abs(advantages) > 1e-6) & (lengths > 0)
    if known.sum() < ENOUGH:
        return None
    size = lengths[known]
    logs = np.log(size)
    if float(logs.std()) < 1e-3:
        return None
    slope, error = _slope(logs, np.log(weights[known] / (np.abs(advantages[known]) * size)))
    return Drift(slope, error, int(known.sum()))


def _slope(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Of least squares, and its standard error."""
    centred = x - x.mean()
    square = float(centred @ centred)
    slope = float(centred @ y) / square
    left = y - y.mean() - slope * centred
    freedom = max(1, len(x) - 2)
    return slope, math.sqrt(float(left @ left) / freedom / square)
