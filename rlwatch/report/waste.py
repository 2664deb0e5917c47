"""What a run spent on groups that taught nothing: as a share, in tokens, in time, in money."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlwatch.runs.records import Run, StepRecord
from rlwatch.runs.table import glimpses


@dataclass(frozen=True)
class Waste:
    """What went into zero-variance groups, over all steps that tell of it.

    Args:
        share: Of the generated tokens; of the groups where `by_groups`.
        by_groups: The log knows the share of groups and not of tokens.
        steps: Steps that tell of it.
        tokens: Tokens generated for nothing; None where the number of completions is not known.
        seconds: The same share of the time of the steps; None where the log has no times.
        generation_seconds: The same share of the time of generating; None where the log does not tell it apart.
    """

    share: float
    by_groups: bool
    steps: int
    tokens: float | None = None
    seconds: float | None = None
    generation_seconds: float | None = None

    def money(self, gpu_hour_price: float, gpus: int) -> float | None:
        """Its price, of the time of generating if that is known, else of whole steps; None where no time is."""
        seconds = self.seconds if self.generation_seconds is None else self.generation_seconds
        return None if seconds is None else seconds / 3600 * gpu_hour_price * gpus


GENERATION = ("raw/timing_s/gen", "raw/perf/generation_seconds", "raw/timing/generate")
"""The seconds that a step spent generating, as frameworks call them."""


def waste_of(run: Run) -> Waste | None:
    """Adds up Σ share·length, Σ share·seconds over the steps; None where no step tells of its groups."""
    names = set(run.names)
    by_groups = "groups/wasted_tokens" not in names
    name = "groups/zero_std" if by_groups else "groups/wasted_tokens"
    if name not in names:
        return None
    generation = [own for own in GENERATION if own in names]
    has_length, has_time = "length/mean" in names, "step_seconds" in names
    completions = completions_a_step(run)
    weights = shares = tokens = seconds = generating = 0.0
    steps = timed = generated = 0
    before = None
    for record in glimpses(run.records):
        spacing = 1 if before is None else max(1, record.step - before)
        before = record.step
        share = finite(record, name)
        if share is None:
            continue
        steps += 1
        length = finite(record, "length/mean") if has_length else None
        weight = spacing * (length if length is not None else 1.0)
        weights += weight
        shares += weight * share
        if length is not None and completions is not None:
            tokens += share * length * completions * spacing
        time = finite(record, "step_seconds") if has_time else None
        if time is not None:
            timed += 1
            seconds += share * time * spacing
        own = next((v for v in (finite(record, g) for g in generation) if v is not None), None) if generation else None
        if own is not None:
            generated += 1
            generating += share * own * spacing
    if not steps:
        return None
    return Waste(
        share=shares / weights if weights else 0.0,
        by_groups=by_groups,
        steps=steps,
        tokens=tokens if completions is not None and tokens else None,
        seconds=seconds if timed == steps else None,
        generation_seconds=generating if generated == steps else None,
    )


def completions_a_step(run: Run) -> float | None:
    """Completions generated a step, where the configuration says it."""
    config = run.info.get("config")
    if not isinstance(config, dict):
        return None
    batch, per_generation = config.get("generation_batch_size"), config.get("steps_per_generation")
    accumulation, reuse = config.get("gradient_accumulation_steps"), config.get("num_iterations") or 1
    known = (batch, per_generation, accumulation, reuse)
    if not all(isinstance(x, (int, float)) and x > 0 for x in known):
        return None
    return batch * accumulation / per_generation / reuse  # type: ignore[operator, no-any-return]


def finite(record: StepRecord, name: str) -> float | None:
    """A metric's value; None where it is absent or no finite number."""
    value = record.metrics.get(name)
    return value if value is not None and math.isfinite(value) else None
