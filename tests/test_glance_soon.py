"""What a rule finds soon, and by nothing else that it judges, is not left out by a glance at the log."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rlwatch.detect.glance import in_question
from rlwatch.detect.rule import Quiet, Rule
from rlwatch.detect.rules.clip_saturated import ClipSaturated
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.entropy_collapse import EntropyCollapse
from rlwatch.detect.rules.grad_spike import GradSpike
from rlwatch.detect.rules.kl_runaway import KLRunaway
from rlwatch.detect.rules.length_bias import LengthBias
from rlwatch.detect.rules.length_collapse import LengthCollapse
from rlwatch.detect.rules.length_explosion import LengthExplosion
from rlwatch.detect.rules.low_diversity import LowDiversity
from rlwatch.detect.rules.no_gradient import NoGradient
from rlwatch.detect.rules.reward_collapse import RewardCollapse
from rlwatch.detect.rules.sampler_mismatch import SamplerMismatch
from rlwatch.runs.records import StepRecord

Draw = random.Random
Row = dict[str, float]
SEEDS = 60


def speaks(rule: Rule, records: Sequence[StepRecord]) -> bool:
    return any(not isinstance(said, Quiet) for said in map(rule.update, records))


def log(make: Callable[[Draw], Callable[[float], Row]], seed: int) -> list[StepRecord]:
    """Rows of what is usual at 0 and has changed at 1, one or some steps apart, some of them without a value."""
    draw = random.Random(seed)
    row, noise = make(draw), draw.choice([0.0, 0.01, 0.05])
    every, begins, over = draw.choice([(1,), (2,), (10,), (1, 1, 5)]), draw.randrange(8, 30), draw.choice([1, 3, 8, 20])
    step, records, holes = 0, [], draw.choice([0.0, 0.1])
    for at in range(60):
        step += draw.choice(every)
        metrics = row(min(1.0, max(0.0, (at - begins) / over)))
        metrics = {name: value * (1 + noise * draw.gauss(0, 1)) for name, value in metrics.items()}
        odd = [name for name in metrics if draw.random() < holes]
        records.append(StepRecord(step, 0.0, metrics | dict.fromkeys(odd, draw.choice([None, math.nan]))))
    return records


def clips(draw: Draw) -> Callable[[float], Row]:
    first, then = draw.uniform(0.0, 0.04), draw.uniform(0.05, 0.2)
    return lambda t: {"clip/high": first + (then - first) * t, "clip/low": 0.001, "reward/mean": 0.5}


def stuck(draw: Draw) -> Callable[[float], Row]:
    first, then = draw.uniform(0.0, 0.1), draw.uniform(0.05, 0.35)
    return lambda t: {
        "groups/stuck": first + (then - first) * t, "groups/failed": 0.1, "groups/solved": 0.1, "reward/mean": 0.5,
    }  # fmt: skip


def lengths(low: float, high: float) -> Callable[[Draw], Callable[[float], Row]]:
    def make(draw: Draw) -> Callable[[float], Row]:
        times, lost = math.exp(draw.uniform(math.log(low), math.log(high))), draw.choice([0.0, 0.6])
        return lambda t: {
            "length/mean": 200 * times**t, "reward/mean": 0.5 * (1 - lost * t), "length/truncated": 0.3 * lost * t,
        }  # fmt: skip

    return make


def biased(draw: Draw) -> Callable[[float], Row]:
    then, mean = draw.uniform(0.0, 0.4), draw.choice([5.0, 100.0])
    return lambda t: {"length/gap": mean * (0.02 + then * t), "length/mean": mean}


def idle(draw: Draw) -> Callable[[float], Row]:
    dead, then = draw.uniform(0.5, 1.0), draw.uniform(0.0, 0.5)
    return lambda t: {
        "grad/norm": 1.0, "groups/zero_std": dead, "signal/active_tokens": (1 - dead) * (1 + (then - 1) * t),
    }  # fmt: skip


def bursts(draw: Draw) -> Callable[[float], Row]:
    size = draw.uniform(3, 20)
    return lambda t: {"grad/norm": size if 0 < t < 1 and draw.random() < 0.5 else 1.0}


def gone(draw: Draw) -> Callable[[float], Row]:
    left, sign = draw.uniform(0.2, 0.9), draw.choice([1, 1, -1])
    return lambda t: {"reward/mean": (1.0 if t in (0.0, 1.0) else left) * sign, "reward/std": 0.1}


def slips(draw: Draw) -> Callable[[float], Row]:
    left, rises = draw.uniform(0.7, 1.0), draw.uniform(0.0, 1.0)
    state = [0.5]

    def row(t: float) -> Row:
        state[0] += 0.05 * rises
        return {"reward/mean": state[0], "reward/correct": 0.6 * (1 + (left - 1) * t)}

    return row


def off(draw: Draw) -> Callable[[float], Row]:
    times = draw.uniform(0.3, 3.0)
    return lambda t: {"sampler/ratio_mean": times**t}


def alike(draw: Draw) -> Callable[[float], Row]:
    then = draw.uniform(0.1, 0.9)
    split = {"groups/stuck": 0.4, "groups/failed": 0.2, "groups/solved": 0.1, "reward/mean": 0.5}
    return lambda t: {"groups/unique": 0.9 + (then - 0.9) * t, **split}


def runs_away(draw: Draw) -> Callable[[float], Row]:
    then, state = draw.uniform(1.0, 1.3), [1e-3]

    def row(t: float) -> Row:
        state[0] = min(2.0, state[0] * then)
        return {"kl/ref": state[0], "reward/mean": 0.5}

    return row


def narrows(draw: Draw) -> Callable[[float], Row]:
    left, failed = draw.uniform(0.05, 1.0), draw.choice([0.1, 0.4])
    return lambda t: {
        "entropy/mean": 1 + (left - 1) * t, "groups/failed": failed * t, "groups/stuck": 0.0, "groups/solved": 0.1,
        "reward/mean": 0.5,
    }  # fmt: skip


CASES: list[tuple[type[Rule], dict[str, Any], dict[str, float], Callable[[Draw], Callable[[float], Row]]]] = [
    (ClipSaturated, {}, {"usual": 1.0, "much": 1.0}, clips),
    (DeadGroups, {}, {"stuck_warning": 1.0}, stuck),
    (LengthExplosion, {}, {"grown": 1e9}, lengths(1.0, 2.2)),
    (LengthCollapse, {}, {"fallen_to": 0.01}, lengths(0.25, 1.0)),
    (LengthBias, {"loss_type": "grpo"}, {"matters": 1e9}, biased),
    (NoGradient, {}, {}, idle),
    (GradSpike, {}, {"cluster": 20.0}, bursts),
    (RewardCollapse, {}, {"slipping": 1.0}, gone),
    (SamplerMismatch, {}, {}, off),
    (LowDiversity, {}, {}, alike),
    (KLRunaway, {}, {}, runs_away),
    (EntropyCollapse, {}, {}, narrows),
]


@pytest.mark.parametrize(("rule", "config", "settings", "make"), CASES, ids=[case[0].name for case in CASES])
def test_what_is_left_out_would_have_found_nothing_soon(
    rule: type[Rule], config: dict[str, Any], settings: dict[str, float], make: Callable[[Draw], Callable[[float], Row]]
) -> None:
    spoke = left_out = 0
    for seed in range(SEEDS):
        records = log(make, seed)
        found, asked = speaks(rule(config, settings), records), in_question([rule(config, settings)], records, worth=0)
        assert asked or not found, seed
        spoke += found
        left_out += not asked
    assert spoke >= 5, "else nothing was asked here"
    assert left_out >= 5
