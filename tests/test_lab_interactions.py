"""Interactions: the contrasts of a factorial, against effects that were planted, and their verdicts by brute force."""

from __future__ import annotations

import io
import math
import random
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev

import pytest

from rlwatch.lab.experiment import Claim, Experiment, Measure
from rlwatch.lab.experiments.interactions import EXPERIMENT, FACTORS, effect_of
from rlwatch.lab.verdicts import Measured, Verdict, judge

ALL = [names for size in (1, 2, 3) for names in combinations(FACTORS, size)]


def levels(arm: str) -> dict[str, int]:
    clip, sampling, denominator = arm.split("-")
    return {
        "clip": int(clip == "wide"),
        "sampling": int(sampling == "resampled"),
        "denominator": int(denominator == "dapo"),
    }


def value_of(weights: dict[str, float], numbers: dict[str, float]) -> float:
    return sum(weight * numbers[arm] for arm, weight in weights.items())


def test_contrasts_find_the_effects_that_were_planted_each_by_itself() -> None:
    rng = random.Random(0)
    for _ in range(20):
        planted = {names: rng.uniform(-1, 1) for names in ALL}
        numbers = {}
        for arm in EXPERIMENT.arms:
            at = levels(arm.name)
            numbers[arm.name] = 5.0 + sum(
                effect / 2 * math.prod(1 if at[name] else -1 for name in names) for names, effect in planted.items()
            )
        for names, effect in planted.items():
            assert value_of(dict(effect_of(*names)), numbers) == pytest.approx(effect)


def test_a_main_effect_is_the_mean_difference_and_an_interaction_half_a_difference_of_differences() -> None:
    rng = random.Random(1)
    numbers = {arm.name: rng.random() for arm in EXPERIMENT.arms}
    pairs = [
        numbers[f"wide-{s}-{d}"] - numbers[f"tight-{s}-{d}"] for s in ("plain", "resampled") for d in ("grpo", "dapo")
    ]
    assert value_of(dict(effect_of("clip")), numbers) == pytest.approx(fmean(pairs))
    with_it = fmean(numbers[f"wide-resampled-{d}"] - numbers[f"tight-resampled-{d}"] for d in ("grpo", "dapo"))
    without = fmean(numbers[f"wide-plain-{d}"] - numbers[f"tight-plain-{d}"] for d in ("grpo", "dapo"))
    assert value_of(dict(effect_of("clip", "sampling")), numbers) == pytest.approx((with_it - without) / 2)


def test_the_arms_are_all_combinations_and_differ_in_these_three_alone() -> None:
    assert len({arm.name for arm in EXPERIMENT.arms}) == 8
    for arm in EXPERIMENT.arms:
        at = levels(arm.name)
        assert dict(arm.settings) == {
            "epsilon_high": 1.0 if at["clip"] else 0.2,
            "loss_type": "dapo" if at["denominator"] else "grpo",
        }
        assert dict(arm.task) == {"draws": 8 if at["sampling"] else 1}


def judged(
    kind: str, numbers: list[dict[str, float]], *, weights: dict[str, float], bound: float = 0.0
) -> tuple[Verdict, str]:
    claim = Claim("it", kind, "m", weights=weights, bound=bound)  # type: ignore[arg-type]
    experiment = Experiment(
        "e", "", "", "", EXPERIMENT.arms, (), 1, (Measure("m", lambda _: None),), (claim,), "nowhere"
    )  # fmt: skip
    measured = [Measured(arm, seed, 1, {"m": x}) for seed, row in enumerate(numbers) for arm, x in row.items()]
    found = judge(experiment, measured)
    return (found[0].verdict, found[0].numbers) if found else (Verdict.NOT_SHOWN, "")


def test_verdicts_of_contrasts_by_brute_force() -> None:
    weights = dict(effect_of("clip"))
    rng, seen = random.Random(2), set()
    for shift in (-0.5, -0.1, 0.0, 0.1, 0.5) * 6:
        numbers = [{arm: rng.random() * 0.6 + (shift if weights[arm] > 0 else 0) for arm in weights} for _ in range(6)]
        values = [value_of(weights, row) for row in numbers]
        half = 2.5706 * stdev(values) / math.sqrt(6)  # Student's t with 5 degrees of freedom
        low, high = fmean(values) - half, fmean(values) + half
        ways = [sum(s * v for s, v in zip(signs, values, strict=True)) for signs in _signs(6)]
        p = sum(way >= sum(values) - 1e-9 for way in ways) / 64
        back = sum(way <= sum(values) + 1e-9 for way in ways) / 64
        expected = Verdict.SHOWN if low > 0 and p <= 0.05 else Verdict.NOT_SHOWN
        if high < 0 and back <= 0.05:
            expected = Verdict.REVERSED
        assert judged("more", numbers, weights=weights)[0] is expected
        same = Verdict.SHOWN if low >= -0.3 and high <= 0.3 else Verdict.NOT_SHOWN
        assert judged("same", numbers, weights=weights, bound=0.3)[0] is same
        seen |= {expected, same}
    assert seen == set(Verdict)


def _signs(n: int) -> list[list[int]]:
    return [[1 if number >> bit & 1 else -1 for bit in range(n)] for number in range(2**n)]


def test_a_seed_without_all_arms_is_left_out_and_without_an_arm_nothing_is_said() -> None:
    weights = dict(effect_of("clip"))
    whole = [{arm: float(weights[arm] > 0) for arm in weights} for _ in range(5)]
    part = dict.fromkeys(list(weights)[:7], 100.0)
    verdict, words = judged("more", [*whole, part], weights=weights)
    assert verdict is Verdict.SHOWN
    assert words.startswith("a contrast of 8 arms: +1")
    assert "5 of 5 seeds" in words
    assert judged("more", [part], weights=weights)[1] == ""


def test_a_short_run_of_the_whole(tmp_path: Path, first_policies: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("trl")
    from rich.console import Console

    from rlwatch.lab.single import run_once

    torch.set_num_threads(1)
    arms = [EXPERIMENT.arm(name) for name in EXPERIMENT.short]
    none, whole = run_once(
        EXPERIMENT, arms, tmp_path, seed=1, steps=16, console=Console(file=io.StringIO()), cache=first_policies
    )
    tokens = [result.records[-1].metrics["reward/generated_tokens"] for result in (none, whole)]
    assert tokens[0] is not None
    assert tokens[1] is not None
    assert tokens[1] > 1.3 * tokens[0]
    entropy = [result.last("entropy/mean") for result in (none, whole)]
    assert entropy[0] is not None
    assert entropy[1] is not None
    assert entropy[1] > entropy[0]
