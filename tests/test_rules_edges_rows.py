"""Rules over several rows, against a loop over the whole past, and dead groups without their kinds."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest

from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import CLEAR, Quiet, Rule, Untold
from rlwatch.detect.rules import RULES
from rlwatch.detect.rules.clip_saturated import ClipSaturated
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.group_size_one import GroupSizeOne
from rlwatch.detect.rules.no_gradient import NoGradient
from rlwatch.detect.rules.sampler_mismatch import SamplerMismatch
from rlwatch.detect.rules.truncation import Truncation
from rlwatch.runs.records import Severity, StepRecord

Row = dict[str, float]


def smoothed(rows: list[tuple[int, float]], half_life: float, of_means: float) -> float:
    """Σ wᵢ·xᵢ / Σ wᵢ, with wᵢ halved in so many steps since: in fewer over those between rows further apart than 1."""
    steps = [step for step, _ in rows]
    halvings = [(b - a) / (of_means if b - a > 1 else half_life) for a, b in itertools.pairwise(steps)]
    weights = [0.5 ** math.fsum(halvings[at:]) for at in range(len(rows))]
    return sum(w * x for w, (_, x) in zip(weights, rows, strict=True)) / sum(weights)


def mean(past: list[tuple[int, Row]], of: Callable[[Row], float], half_life: float, of_means: float = 0.0) -> float:
    return smoothed([(step, of(row)) for step, row in past], half_life, of_means or half_life)


def mismatch(past: list[tuple[int, Row]]) -> object:
    off = abs(mean(past, lambda row: math.log(row["sampler/ratio_mean"]), 10, 5))
    return Severity.CRITICAL if off >= math.log(5) else Severity.WARNING if off >= math.log(2) else CLEAR


def group_of_one(past: list[tuple[int, Row]]) -> object:
    apart = mean(past, lambda row: abs(row["advantage/mean"] - row["reward/mean"]), 20)
    return Severity.CRITICAL if apart <= 0.05 * mean(past, lambda row: abs(row["reward/mean"]), 20) else CLEAR


def cut_off(past: list[tuple[int, Row]]) -> object:
    return Severity.INFO if mean(past, lambda row: row["length/truncated"], 20) >= 0.95 else CLEAR


def still(past: list[tuple[int, Row]]) -> object:
    share = mean(past, lambda row: float(row["grad/norm"] == 0), 2)
    return Severity.CRITICAL if share >= 0.95 else CLEAR


def clipped(past: list[tuple[int, Row]]) -> object:
    cut = mean(past, lambda row: row["clip/low"] + row["clip/high"], 10, 5)
    lost = cut / (cut + mean(past, lambda row: row["signal/active_tokens"], 10, 5))
    return Severity.WARNING if cut >= 0.2 and lost >= 0.5 else Severity.INFO if cut >= 0.3 else CLEAR


@pytest.mark.parametrize(
    ("rule", "draw", "expected"),
    [
        (SamplerMismatch, lambda r: {"sampler/ratio_mean": math.exp(r.gauss(0.9, 1.2))}, mismatch),
        (GroupSizeOne, lambda r: {"advantage/mean": 1 + r.gauss(0, 0.065), "reward/mean": 1 + r.gauss(0, 0.01)},
         group_of_one),
        (Truncation, lambda r: {"length/truncated": r.uniform(0.9, 1.0)}, cut_off),
        (NoGradient, lambda r: {"grad/norm": float(r.random() < 0.1), "groups/zero_std": 0.2, "kl/ref": 0.0}, still),
        (ClipSaturated, lambda r: {"clip/low": r.uniform(0, 0.3), "clip/high": r.uniform(0, 0.3),
                                   "signal/active_tokens": r.uniform(0, 0.6)}, clipped),
    ],
)  # fmt: skip
def test_a_rule_says_what_a_loop_over_all_rows_says(
    rule: type[Rule], draw: Callable[[random.Random], Row], expected: Callable[[list[tuple[int, Row]]], object]
) -> None:
    generator, judged, step, past, seen = random.Random(7), rule(), 0, [], set()
    for _ in range(400):
        step += generator.choice([1, 1, 1, 3, 12])
        past.append((step, draw(generator)))
        found = judged.update(StepRecord(step, 0.0, dict(past[-1][1])))
        said = found if isinstance(found, Quiet) else found.severity
        assert said is expected(past), step
        seen.add(said)
    assert len(seen) > 1, "both sides of a mark were seen"


def undivided(*rows: Row) -> Quiet | Untold:
    rule, found = DeadGroups(), CLEAR
    for step, row in enumerate(rows, 1):
        found = rule.update(StepRecord(step, 0.0, dict(row)))
    assert isinstance(found, (Quiet, Untold))
    return found


ALL_DEAD = {"groups/zero_std": 1.0}


@pytest.mark.parametrize(
    ("rows", "dead"),
    [
        ([ALL_DEAD], True),
        ([{"groups/zero_std": 0.995}], True),
        ([{"groups/zero_std": 0.994}], False),
        ([{"groups/reward_std": 0.0}], True),
        ([{"groups/reward_std": 1e-9}], False),
        ([ALL_DEAD | {"reward/mean": 0.0}], True),
        ([ALL_DEAD | {"reward/mean": 0.5}], False),  # the only reward that was seen, and it is earned
        ([ALL_DEAD | {"reward/mean": 0.5, "reward/length": -0.1}], True),  # a part of it takes something off
        ([ALL_DEAD | {"reward/mean": 0.5}, ALL_DEAD | {"reward/mean": 0.4}], True),
        ([ALL_DEAD | {"reward/mean": -0.5}, ALL_DEAD | {"reward/mean": -0.4}], False),  # the best that was seen
    ],
)
def test_all_groups_dead_in_a_log_that_does_not_say_how(rows: list[Row], dead: bool) -> None:
    found = undivided(*rows)
    assert isinstance(found, Untold) is dead
    if isinstance(found, Untold):
        assert found.severity is found.tell().severity is Severity.CRITICAL


@pytest.mark.parametrize(("truncated", "told"), [(None, False), (0.994, False), (0.995, True), (1.0, True)])
def test_dead_groups_name_the_length_limit_where_it_cuts_off_all(truncated: float | None, told: bool) -> None:
    found = undivided(ALL_DEAD | ({} if truncated is None else {"length/truncated": truncated}))
    assert isinstance(found, Untold)
    assert any("cut off" in cause.text for cause in found.tell().causes) is told


class Late(Truncation):
    """Fails while no record comes."""

    name = "late"

    def tick(self, now: float) -> Quiet:
        raise RuntimeError(f"at {now:g}")


def test_a_rule_that_fails_while_no_record_comes_is_left_out_and_the_others_go_on() -> None:
    faults: list[tuple[str, str]] = []
    engine = Engine([Late(), SamplerMismatch()], run="run", on_fault=lambda name, e: faults.append((name, str(e))))
    assert engine.tick(5.0) == [], "before the first record there is nothing to be late"
    assert faults == []
    row = {"length/truncated": 1.0, "reward/mean": 0.0, "sampler/ratio_mean": 9.0}
    engine.feed(StepRecord(1, 1.0, dict(row)))
    assert engine.tick(5.0) == engine.tick(6.0) == []
    assert faults == [("late", "at 5")], "once"
    told = {change.rule for step in range(2, 60) for change in engine.feed(StepRecord(step, 1.0, dict(row)))}
    assert told == {"sampler-mismatch"}


HOLDS = {
    "non-finite": (1, 1, 1, 3), "stalled": (1, 1, 1, 1), "group-size-one": (10, 10, 20, 10),
    "sampler-mismatch": (5, 2, 20, 3), "no-gradient": (10, 5, 10, 3), "truncation": (20, 3, 20, 3),
    "clip-saturated": (5, 2, 20, 3), "grad-spike": (1, 1, 20, 10), "kl-runaway": (5, 2, 40, 3),
    "regulariser-dominates": (20, 3, 40, 3), "entropy-collapse": (10, 3, 40, 3), "dead-groups": (20, 3, 40, 3),
    "low-diversity": (5, 2, 20, 3), "reward-collapse": (3, 2, 20, 3), "entropy-explosion": (5, 2, 40, 3),
    "length-bias": (10, 3, 20, 3), "length-explosion": (5, 2, 20, 3), "length-collapse": (5, 2, 20, 3),
    "reward-hacking": (10, 3, 20, 3), "reward-stall": (10, 3, 20, 3),
}  # fmt: skip
"""Steps and records that a condition holds before it is told, and is gone before it is over: the calibration's."""


def test_how_long_a_rule_waits_is_what_it_was_calibrated_with() -> None:
    waits = {r.name: (r.hold.steps, r.hold.records, r.release.steps, r.release.records) for r in RULES}
    assert waits == HOLDS
