"""Means that rest on other rows where each of them is a mean already, against loops; and a glance at them."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from rlwatch.detect.glance import Glance
from rlwatch.detect.level import Level
from rlwatch.detect.peak import Peak
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import StepRecord

Rows = list[tuple[int, float]]


def rows_of(gaps: tuple[int, ...], count: int = 120, seed: int = 1) -> Rows:
    draw, step, rows = random.Random(seed), 0, []
    for _ in range(count):
        step += draw.choice(gaps)
        rows.append((step, draw.gauss(1, 1)))
    return rows


def brute(rows: Rows, half_life: float, of_means: float, least_rows: float = 0.0) -> float:
    """Σ wᵢ·xᵢ / Σ wᵢ, a weight halved in half_life steps between rows one step apart, in of_means between others."""
    halvings = []
    for (before, _), (after, _) in itertools.pairwise(rows):
        halved = (after - before) / (of_means if after - before > 1 and of_means else half_life)
        halvings.append(min(1 / least_rows, halved) if least_rows else halved)
    weights = [0.5 ** math.fsum(halvings[at:]) for at in range(len(rows))]
    return math.fsum(w * x for w, (_, x) in zip(weights, rows, strict=True)) / math.fsum(weights)


GAPS = [(1,), (2,), (10,), (1, 1, 1, 2, 7), (0, 1, 3)]


@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize(("half_life", "of_means"), [(10, 5), (5, 20), (10, 0)])
def test_a_mean_of_means_halves_in_steps_of_its_own(gaps: tuple[int, ...], half_life: float, of_means: float) -> None:
    mean, rows = Ewma(half_life, of_means=of_means), rows_of(gaps)
    for at, (step, value) in enumerate(rows, 1):
        assert mean.update(step, value) == pytest.approx(brute(rows[:at], half_life, of_means))


@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("least_rows", [1.0, 4.0])
@pytest.mark.parametrize(("half_life", "of_means"), [(10, 5), (5, 20), (10, 0)])
def test_so_does_a_level_and_no_row_outweighs_those_before_it(
    gaps: tuple[int, ...], least_rows: float, half_life: float, of_means: float
) -> None:
    level, rows = Level(half_life, rows=least_rows, of_means=of_means), rows_of(gaps)
    for at, (step, value) in enumerate(rows, 1):
        assert level.update(step, value) == pytest.approx(brute(rows[:at], half_life, of_means, least_rows))


def test_rows_two_steps_apart_are_means_and_rows_one_step_apart_are_none() -> None:
    for apart, kept in ((1, 0.5**0.1), (2, 0.5**0.4)):
        for mean in (Ewma(10, of_means=5), Level(10, of_means=5), Peak(10, of_means=5)):
            mean.update(1, 0.0)
            assert mean.update(1 + apart, 1.0) == pytest.approx(1 / (1 + kept))


@pytest.mark.parametrize(("spacing", "half_life"), [(1, 10), (2, 3), (10, 3)])
def test_the_error_of_a_level_is_that_of_the_half_life_it_has(spacing: int, half_life: float) -> None:
    draw, level, plain = random.Random(2), Level(10, first=10, of_means=3), Level(half_life, first=10)
    for i in range(40):
        value = draw.gauss(0, 1)
        for each in (level, plain):
            each.update(i * spacing, value)
            each.keep()
    assert (level.now, level.error, level.error_of_move) == (plain.now, plain.error, plain.error_of_move)


@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("least_rows", [0.0, 1.0, 3.0])
@pytest.mark.parametrize(("half_life", "of_means"), [(10.0, 5.0), (5.0, 20.0), (10.0, 0.0)])
def test_a_glance_at_a_log_sees_them_to_the_last_bit(
    gaps: tuple[int, ...], least_rows: float, half_life: float, of_means: float
) -> None:
    draw = random.Random(3)
    records = [
        StepRecord(step, 0.0, {"x": value if draw.random() < 0.8 else draw.choice([None, math.nan])})
        for step, value in rows_of(gaps, 300)
    ]
    glance, expected = Glance(records), []
    mean = Level(half_life, rows=least_rows, of_means=of_means) if least_rows else Ewma(half_life, of_means=of_means)
    for record in records:
        value = record.metrics["x"]
        expected.append(math.nan if value is None or math.isnan(value) else mean.update(record.step, value))
    by_values = glance.smoothed(glance.values("x"), half_life, least_rows, of_means)
    np.testing.assert_array_equal(by_values, expected)
    np.testing.assert_array_equal(glance.level("x", half_life, least_rows, of_means=of_means), expected)


def test_a_glance_does_not_take_the_one_for_the_other() -> None:
    glance = Glance([StepRecord(10 * i, 0.0, {"x": float(i)}) for i in range(20)])
    ours, plain = glance.level("x", 10, of_means=5), glance.level("x", 10)
    assert (ours[1:] > plain[1:]).all(), "rows that count for less long lag less behind what rises"
    np.testing.assert_array_equal(glance.level("x", 10, of_means=5), ours)
    np.testing.assert_array_equal(glance.level("x", 5), ours)
