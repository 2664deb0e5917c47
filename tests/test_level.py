"""A smoothed level and its noise, against brute force and against noise of known autocorrelation."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import pytest

from rlwatch.detect.level import ROWS, Level


def brute_error(values: Sequence[float], spacing: float, half_life: float) -> float:
    def square(lag: int) -> float:
        moves = [values[i + lag] - values[i] for i in range(len(values) - lag)]
        sizes = [abs(move - statistics.median(moves)) for move in moves]
        bound = 3 * 1.4826 * statistics.median(sizes)
        return sum(min(s, bound) ** 2 if bound else s**2 for s in sizes) / (len(sizes) - 1)

    phi = min(0.8, max(0.0, square(2) / square(1) - 1)) * len(values) / (len(values) + 5)
    decay = 0.5 ** min(1, spacing / half_life)
    variance = square(1) / 2 / (1 - phi) * (1 - decay) / (1 + decay) * (1 + phi * decay) / (1 - phi * decay)
    return math.sqrt(2 * variance)


@pytest.mark.parametrize("spacing", [1, 10, 50])
def test_a_levels_error_is_that_of_its_last_calm_rows(spacing: int) -> None:
    generator, level, calm = random.Random(1), Level(half_life=10), []
    for i in range(60):
        value = 5.0 if i % 7 == 3 else generator.gauss(0, 1)
        level.update(i * spacing, value)
        if i % 7 != 3:
            level.keep()
            calm.append(value)
    assert level.error == pytest.approx(brute_error(calm[-ROWS:], spacing, 10), rel=1e-9)
    weights = [0.5 ** ((59 - i) * min(1, spacing / 10)) for i in range(60)]
    generator = random.Random(1)
    values = [5.0 if i % 7 == 3 else generator.gauss(0, 1) for i in range(60)]
    assert level.now == pytest.approx(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))


@pytest.mark.parametrize(("phi", "spacing"), [(0.0, 1), (0.5, 1), (0.7, 1), (0.0, 5)])
def test_two_levels_of_noise_are_as_far_apart_as_it_says(phi: float, spacing: int) -> None:
    """Of a stationary AR(1), over many runs: the truth, which estimates from 20 rows come near."""
    generator, differences, errors = random.Random(7), [], []
    for _ in range(300):
        level, value, early = Level(half_life=10), generator.gauss(0, 1), 0.0
        for i in range(1, 161):
            value = phi * value + math.sqrt(1 - phi**2) * generator.gauss(0, 1)
            level.update(i * spacing, value)
            level.keep()
            if i == 80:
                early = level.now
        differences.append(level.now - early)
        errors.append(level.error)
    assert statistics.median(errors) == pytest.approx(statistics.pstdev(differences), rel=0.4)


def test_a_trend_is_hardly_in_the_noise() -> None:
    flat, steep = Level(half_life=10), Level(half_life=10)
    generator = random.Random(3)
    for i in range(40):
        value = generator.gauss(0, 1)
        flat.update(i, value)
        steep.update(i, value + 0.2 * i)
        flat.keep()
        steep.keep()
    assert steep.noise == pytest.approx(flat.noise), "not at all where it is a straight line"


def test_noise_is_not_known_before_the_fourth_row() -> None:
    level = Level(half_life=10)
    for step in (1, 2, 3):
        level.update(step, 1.0)
        level.keep()
    assert level.error == math.inf
    level.update(4, 1.0)
    level.keep()
    assert level.error == 0.0


@pytest.mark.parametrize(("first", "spacing"), [(3, 20), (4, 1), (10, 5)])
def test_a_level_knows_its_start_and_how_far_it_is_from_it(first: int, spacing: int) -> None:
    generator, level = random.Random(4), Level(half_life=10, first=first)
    values = [generator.gauss(0, 1) for _ in range(25)]
    for i, value in enumerate(values):
        level.update(i * spacing, value)
        level.keep()
        assert (level.start is None) == (i < first - 1)
    assert level.start == statistics.median(values[:first])
    scatter, phi = level.noise
    decay = 0.5 ** min(1, spacing / 10)
    of_level = (1 - decay) / (1 + decay) * (1 + phi * decay) / (1 - phi * decay)
    of_start = math.pi / 2 / first * (1 + phi) / (1 - phi)
    assert level.error_of_move == pytest.approx(scatter * math.sqrt(of_level + of_start))
    assert level.error == pytest.approx(scatter * math.sqrt(2 * of_level))
    assert not level.is_late(24 * spacing + 3 * spacing, 3)
    assert level.is_late(24 * spacing + 3 * spacing + 1, 3)
    assert Level(half_life=10).is_late(1, 3)
