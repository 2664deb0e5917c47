"""Rules, led through made-up runs of a regulariser that takes over and of a KL that runs away."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import Rule
from rlwatch.runs.records import Alert, StepRecord

Row = Callable[[int], Mapping[str, float | None]]


def rows(row: Row, *, steps: int = 400, every: int = 1) -> list[StepRecord]:
    return [StepRecord(step, float(step), dict(row(step))) for step in range(every, steps + 1, every)]


def play(rule: Rule, records: Sequence[StepRecord]) -> list[Alert]:
    def fault(name: str, error: Exception) -> None:
        raise error

    engine = Engine([rule], run="run", on_fault=fault)
    return [change for record in records for change in engine.feed(record)]


def told(rule: Rule, records: Sequence[StepRecord]) -> list[tuple[str, str]]:
    return [(a.state.value, a.severity.value) for a in play(rule, records)]


def severities(rule: Rule, records: Sequence[StepRecord]) -> set[str]:
    return {severity for state, severity in told(rule, records) if state == "firing"}


ONSET = 150


def blind(
    *, seed: int = 0, split: int = 20, onset: int = ONSET, end: int = 10**9, part: float = 0.0,
    regulariser: float = 0.3, kind: str = "failed",
) -> Row:  # fmt: skip
    """rlwatch's own rows of a run whose verifier says one and the same from `onset` to `end`."""
    noise = random.Random(seed)

    def row(step: int) -> dict[str, float | None]:
        dead = onset <= step < end
        policy = (part if dead else 1.0) * math.exp(0.3 * noise.gauss(0, 1))
        other = regulariser if dead else 0.1
        kl = 0.1 * math.exp(-max(0, step - onset) / 100 + 0.1 * noise.gauss(0, 1))
        metrics: dict[str, float | None] = {
            "grad/norm": math.hypot(policy, other),
            "grad/clip_coef": 0.5,
            "kl/ref": kl,
            "groups/zero_std": 1.0 if dead else 0.3,
            "groups/solved": 1.0 if dead and kind == "solved" else 0.0 if dead else 0.2,
            "groups/failed": 1.0 if dead and kind == "failed" else 0.0 if dead else 0.1,
            "groups/stuck": 1.0 if dead and kind == "stuck" else 0.0,
            "reward/mean": {"solved": 1.0, "failed": 0.0, "stuck": 0.5}[kind] if dead else 0.6,
            "reward/std": 0.0 if dead else 0.4,
            "rollouts/age": 0.0,
        }
        if step % split == 0:
            metrics |= {"grad/policy_norm": policy, "grad/regulariser_norm": other}
        else:
            metrics["grad/effective_estimate"] = 0.5 * policy
        return metrics

    return row


def unsplit(row: Row, *names: str) -> Row:
    """The same as a framework logs it: without the parts of the gradient, and without these."""
    gone = (
        "grad/policy_norm", "grad/regulariser_norm", "grad/effective_estimate", "grad/clip_coef", "rollouts/age",
        "groups/solved", "groups/failed", "groups/stuck", *names,
    )  # fmt: skip
    return lambda step: {name: value for name, value in row(step).items() if name not in gone}


def kl_run(
    *, doubles: float = 20.0, onset: int = 150, seed: int = 0, noise: float = 0.2, reward: str = "flat",
    spikes: float = 0.0,
) -> Row:  # fmt: skip
    """A KL that grows to 0.05 and then exponentially, with a reward that rises, stays or turns down at 1 nat."""
    draw = random.Random(seed)

    def row(step: int) -> dict[str, float | None]:
        kl = 0.05 * min(1.0, step / 100)
        kl *= 2 ** (min(max(0, step - onset), 8 * doubles) / doubles)
        shown = kl * math.exp(noise * draw.gauss(0, 1)) * (30 if draw.random() < spikes else 1)
        earned = {
            "flat": 0.5, "rising": 0.2 + step / 1000, "falling": 0.6 / (1 + kl / 4),
            "turning": 0.2 + 0.003 * min(step, 200),
        }[reward]  # fmt: skip
        return {
            "kl/ref": 0.0 if step == 1 else shown, "reward/mean": earned + 0.02 * draw.gauss(0, 1), "reward/std": 0.3,
            "lr": 1e-5,
        }  # fmt: skip

    return row
