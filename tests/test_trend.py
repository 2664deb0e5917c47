"""Trend and forecast against brute force, and against noise of known autocorrelation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlwatch.detect.forecast import REAL, forecast
from rlwatch.detect.setting import Setting, apply_settings, settings_of
from rlwatch.detect.trend import Trend


def ar1(rng: np.random.Generator, phi: float, n: int) -> np.ndarray:
    values, level = np.empty(n), rng.normal()
    for i in range(n):
        level = phi * level + math.sqrt(1 - phi * phi) * rng.normal()
        values[i] = level
    return values


ROWS = st.lists(st.tuples(st.integers(1, 9), st.floats(-100, 100)), min_size=8, max_size=60)


@given(ROWS, st.floats(3, 100))
def test_the_line_is_that_of_weighted_least_squares(rows: list[tuple[int, float]], half_life: float) -> None:
    steps, values = np.cumsum([d for d, _ in rows]), np.array([v for _, v in rows])
    trend = Trend(half_life)
    for step, value in zip(steps, values, strict=True):
        trend.update(int(step), float(value))
    w, tau = 0.5 ** ((steps[-1] - steps) / half_life), (steps - steps[-1]).astype(float)
    design = np.stack([np.ones(len(rows)), tau], axis=1)
    inverse = np.linalg.inv(design.T @ (w[:, None] * design))
    level, slope = inverse @ (design.T @ (w * values))
    size = 1 + np.abs(values).max()
    assert trend.level == pytest.approx(level, abs=1e-6 * size)
    assert trend.slope == pytest.approx(slope, abs=1e-6 * size)
    count = w.sum() ** 2 / (w**2).sum()
    assert trend.effective_count == pytest.approx(count)
    if count > 2.5:
        residual = values - design @ [level, slope]
        scatter = math.sqrt((w * residual**2).sum() / w.sum() / (1 - 2 / count))
        assert trend.scatter == pytest.approx(scatter, abs=1e-4 * size)
        phi = trend.alike
        sandwich = (
            inverse @ (design.T @ (w[:, None] ** 2 * design)) @ inverse * trend.scatter**2 * (1 + phi) / (1 - phi)
        )
        assert trend.covariance == pytest.approx(
            (sandwich[0, 0], sandwich[0, 1], sandwich[1, 1]), rel=1e-5, abs=1e-9 * size**2
        )


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.8, 0.9])
def test_noise_has_no_trend(phi: float) -> None:
    rng = np.random.default_rng(7)
    slopes = []
    for _ in range(150):
        trend = Trend(50)
        for step, value in enumerate(ar1(rng, phi, 300)):
            trend.update(step, float(value))
        slopes.append(trend.significance)
    assert 0.7 < np.std(slopes) < 1.3, "the error is the slopes' own deviation"
    assert np.mean(np.abs(slopes) > REAL) <= 0.01


@pytest.mark.parametrize("every", [1, 10])
def test_a_trend_is_found_in_noise_whatever_the_spacing(every: int) -> None:
    rng = np.random.default_rng(3)
    trend = Trend(100)
    for i, value in enumerate(ar1(rng, 0.5, 60 if every == 10 else 400)):
        trend.update(i * every, 0.02 * i * every + 0.3 * float(value))
    assert trend.slope == pytest.approx(0.02, abs=3 * trend.slope_error)
    assert trend.significance > REAL


def test_precision_is_not_lost_over_a_million_steps() -> None:
    late, early = Trend(50), Trend(50)
    rng = np.random.default_rng(0)
    values = rng.normal(size=500)
    late.update(0, 5.0)
    for i, value in enumerate(values):
        late.update(10_000_000 + i, float(value))
        early.update(i, float(value))
    assert late.level == pytest.approx(early.level, abs=1e-9)
    assert late.slope == pytest.approx(early.slope, abs=1e-12)


def test_a_constant_has_no_trend_and_an_exact_line_has_one() -> None:
    flat, line = Trend(20), Trend(20)
    for i in range(50):
        flat.update(i, 3.0)
        line.update(i, 3.0 - 0.01 * i)
    assert abs(flat.significance) < REAL or flat.slope == pytest.approx(0, abs=1e-12)
    assert line.significance < -REAL


def falling(rng: np.random.Generator, rate: float, n: int, noise: float = 0.1) -> Trend:
    """The logarithm of what decays by `rate` a step."""
    trend = Trend(50)
    for i, value in enumerate(ar1(rng, 0.5, n)):
        trend.update(i, -rate * i + noise * float(value))
    return trend


def test_a_forecast_holds_what_comes() -> None:
    """Of many runs that decay, the true crossing of the mark is inside of the interval about as often as it says."""
    rng = np.random.default_rng(11)
    inside = said = 0
    for _ in range(200):
        rate = rng.uniform(0.004, 0.02)
        trend = falling(rng, rate, 120)
        mark = math.exp(-rate * 119) * 0.5
        found = forecast(trend, "entropy/mean", mark, seen=120, is_log=True)
        if found is None:
            continue
        said += 1
        true = 119 + math.log(2) / rate
        inside += found.low <= true <= found.high
        assert found.low <= found.step <= found.high
    assert said > 100
    assert inside / said > 0.85


def test_a_forecast_is_silent_where_it_cannot_know() -> None:
    rng = np.random.default_rng(5)
    decays = falling(rng, 0.01, 120)
    assert forecast(decays, "x", 10.0, seen=120, is_log=True) is None, "it goes the other way"
    assert forecast(decays, "x", 0.0, seen=120, is_log=True) is None, "what decays never gets to 0"
    assert forecast(decays, "x", 1e-9, seen=120, is_log=True) is None, "further off than the run is old"
    assert forecast(falling(rng, 0.01, 8), "x", 0.1, seen=8, is_log=True) is None, "too few records"
    silent = 0
    for _ in range(200):
        noise = falling(rng, 0.0, 120)
        silent += all(forecast(noise, "x", mark, seen=120) is None for mark in (-0.5, 0.5))
    assert silent >= 198


def test_settings_are_numbers_of_their_own_on_each_rule() -> None:
    class Base:
        share = Setting(0.3, "share of groups", "a paper", most=1)

    class Special(Base):
        half_life = Setting(20, "optimizer steps", "a calibration", least=1)

    one, two = Special(), Special()
    apply_settings(one, {"share": 0.5})
    assert (one.share, two.share, one.half_life) == (0.5, 0.3, 20.0)
    assert list(settings_of(Special)) == ["share", "half_life"]
    with pytest.raises(ValueError, match="there is no setting 'shore': did you mean 'share'"):
        apply_settings(one, {"shore": 1})
    with pytest.raises(ValueError, match=r"share has to be from 0 to 1 \(share of groups\), and is 2"):
        apply_settings(one, {"share": 2})
    for wrong in ("much", True, None, math.nan):
        with pytest.raises(ValueError, match="share has to be a number"):
            apply_settings(one, {"share": wrong})
