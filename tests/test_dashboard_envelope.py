"""Which points of a long curve are drawn, and its smoothing: against brute force."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from rlwatch_dashboard import smoothing
from rlwatch_dashboard.columns import Floats
from rlwatch_dashboard.envelope import envelope, in_window
from rlwatch_dashboard.smoothing import smoothed

NUMBER = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.0]))
LIMIT = st.integers(16, 120)


@st.composite
def curves_of(draw: st.DrawFn, count: int) -> list[Floats]:
    """Curves of one length: some with gaps, some with many equal values, some with nothing in them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    length = draw(st.integers(1, 400))
    curves = []
    for _ in range(count):
        curve = rng.normal(size=length).round(draw(st.integers(0, 6)))
        gaps = rng.random(length) < draw(st.sampled_from([0.0, 0.01, 0.3, 1.0]))
        curve[gaps] = rng.choice([math.nan, math.inf, -math.inf], gaps.sum())
        curves.append(curve)
    return curves


@settings(max_examples=100, deadline=None)
@given(curves=curves_of(1), limit=LIMIT)
def test_the_envelope_keeps_what_is_seen(curves: list[Floats], limit: int) -> None:
    (curve,) = curves
    kept = envelope([curve], limit).tolist()
    assert len(kept) <= limit
    assert kept == sorted(set(kept))
    if len(curve) <= limit:
        assert kept == list(range(len(curve)))
        return
    assert kept[0] == 0
    assert kept[-1] == len(curve) - 1
    finite = [value for value in curve if math.isfinite(value)]
    drawn = [curve[place] for place in kept if math.isfinite(curve[place])]
    if finite:
        assert (min(drawn), max(drawn)) == (min(finite), max(finite))
    # Between two points that are kept nothing sticks out further than a stretch's own smallest and largest do.
    has_gap = len(finite) < len(curve)
    width = math.ceil(len(curve) / ((limit - 2) // (2 + has_gap)))
    for begin in range(0, len(curve), width):
        stretch = range(begin, min(begin + width, len(curve)))
        values = [curve[place] for place in stretch if math.isfinite(curve[place])]
        shown = [curve[place] for place in kept if place in stretch and math.isfinite(curve[place])]
        if values:
            assert (min(shown), max(shown)) == (min(values), max(values))
        gap_there = any(not math.isfinite(curve[place]) for place in stretch)
        assert gap_there == any(place in stretch and not math.isfinite(curve[place]) for place in kept)


@settings(max_examples=100, deadline=None)
@given(curves=st.integers(2, 4).flatmap(curves_of), limit=LIMIT)
def test_curves_that_are_stacked_share_their_points(curves: list[Floats], limit: int) -> None:
    kept = envelope(curves, limit)
    assert len(kept) <= limit
    for curve in curves:
        finite = curve[np.isfinite(curve)]
        if len(finite):
            shown = curve[kept][np.isfinite(curve[kept])]
            assert (shown.min(), shown.max()) == (finite.min(), finite.max())
        assert (len(finite) < len(curve)) == (not np.isfinite(curve[kept]).all())


@settings(max_examples=100, deadline=None)
@given(curves=curves_of(1), limit=LIMIT, one=st.floats(-10, 450), other=st.floats(-10, 450))
def test_a_window_has_nearly_all_points_in_it(curves: list[Floats], limit: int, one: float, other: float) -> None:
    (curve,) = curves
    x = np.arange(len(curve), dtype=float)
    low, high = sorted((one, other))
    kept = in_window(x, [curve], (low, high), limit)
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert len(kept) <= max(limit, 3 * 16)
    inside = [place for place in range(len(curve)) if low <= place <= high]
    if len(inside) <= max(16, limit - 2 * max(16, limit // 8)) - 2:
        assert set(inside) <= set(kept.tolist()), "few enough: all of them"
        for place in (inside[0] - 1, inside[-1] + 1) if inside else ():
            assert place in (-1, len(curve)) or place in kept, "the curve runs on to the window's edges"
    finite = [curve[place] for place in inside if math.isfinite(curve[place])]
    shown = [curve[place] for place in kept if low <= place <= high and math.isfinite(curve[place])]
    if finite and inside != [0, len(curve) - 1]:
        assert max(shown, default=-math.inf) <= max(finite)


def test_a_spike_and_a_nan_among_a_hundred_thousand_are_kept_at_their_place() -> None:
    rng = np.random.default_rng(0)
    curve = rng.normal(1.0, 0.1, 100_000)
    curve[61_803] = 500.0
    curve[31_415] = np.nan
    kept = envelope([curve], 2000)
    assert len(kept) <= 2000
    assert 61_803 in kept
    assert 31_415 in kept
    rest = [place for place in kept if place not in (61_803, 31_415)]
    assert np.isfinite(curve[rest]).all()
    shown = in_window(np.arange(100_000.0), [curve], (60_000, 63_000), 2000)
    assert 61_803 in shown
    assert 31_415 in shown, "outside of the window it is seen too"
    assert np.count_nonzero((shown >= 60_000) & (shown <= 63_000)) > 1000


def test_a_long_gap_is_as_long_as_it_was() -> None:
    curve = np.ones(10_000)
    curve[4000:6000] = np.nan
    kept = envelope([curve], 300)
    drawn = kept[np.isfinite(curve[kept])]
    before, after = drawn[drawn < 4000].max(), drawn[drawn >= 6000].min()
    width = math.ceil(10_000 / (298 // 3))
    assert 4000 - before <= width
    assert after - 6000 <= width
    assert not np.isfinite(curve[kept[(kept > before) & (kept < after)]]).any()


def slowly_smoothed(values: list[float], weight: float) -> list[float]:
    """The formula as it stands, sum by sum."""
    result, known = [], []
    for value in values:
        if not math.isfinite(value):
            result.append(math.nan)
            continue
        known.append(value)
        weights = [weight ** (len(known) - 1 - place) for place in range(len(known))]
        result.append(math.fsum(w * v for w, v in zip(weights, known, strict=True)) / math.fsum(weights))
    return result


@settings(max_examples=100, deadline=None)
@given(values=st.lists(NUMBER, max_size=40), weight=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 0.999]))
def test_smoothing_is_the_formula(values: list[float], weight: float) -> None:
    expected = slowly_smoothed(values, weight)
    scale = max((abs(value) for value in values if math.isfinite(value)), default=1.0)
    np.testing.assert_allclose(smoothed(np.array(values, float), weight), expected, rtol=1e-9, atol=1e-9 * scale)


def test_smoothing_of_a_constant_is_the_constant_and_its_tail_is_enough() -> None:
    assert smoothed(np.full(50, 3.25), 0.99).tolist() == [3.25] * 50
    rng = np.random.default_rng(1)
    values = rng.normal(size=30_000)
    for weight in (0.5, 0.9, 0.99):
        tail = smoothed(values[-smoothing.needed(weight) :], weight)
        assert tail[-1] == pytest.approx(smoothed(values, weight)[-1], abs=1e-6)


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(smoothing).failed == 0
