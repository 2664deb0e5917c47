"""What the rules calculate with, against plain loops, and at its marks."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest

from rlwatch.detect.forecast import forecast
from rlwatch.detect.level import Level
from rlwatch.detect.peak import Peak
from rlwatch.detect.progress import Progress
from rlwatch.detect.rule import Hold
from rlwatch.detect.streaming import CountedEwma
from rlwatch.detect.track import Streak
from rlwatch.detect.trend import Trend
from rlwatch.detect.window import Window
from rlwatch.runs.records import StepRecord
from rlwatch.signals.gradients import gradient_metrics
from rlwatch.signals.totals import token_metrics
from rlwatch.signals.weights import weight_metrics


def noise_of(values: list[float]) -> tuple[float, float]:
    """s and φ of calm rows, by the words of `Level`."""
    variances = []
    for lag in (1, 2):
        moves = [values[i + lag] - values[i] for i in range(len(values) - lag)]
        sizes = [abs(move - statistics.median(moves)) for move in moves]
        held = [min(size, 3 * 1.4826 * statistics.median(sizes)) for size in sizes]
        variances.append(sum(size**2 for size in held) / (len(held) - 1))
    phi = min(0.8, max(0.0, variances[1] / variances[0] - 1)) * len(values) / (len(values) + 5)
    return math.sqrt(variances[0] / 2 / (1 - phi)), phi


@pytest.mark.parametrize("rows", [4, 7, 30, 35, 60])
@pytest.mark.parametrize("alike", [0.0, 0.5, 0.99])
def test_noise_is_that_of_the_last_thirty_calm_rows(rows: int, alike: float) -> None:
    draw, level, values, last = random.Random(rows), Level(half_life=10), [], 0.0
    for i in range(rows):
        last = alike * last + draw.gauss(0, 1)
        values.append(last + (50.0 if i % 9 == 5 else 0.0))  # a wild one now and then does not set the scale
        level.update(i, values[-1])
        level.keep()
    assert level.kept == min(rows, 30)
    assert level.noise == pytest.approx(noise_of(values[-30:]))


def test_noise_is_worked_out_again_after_five_calm_rows() -> None:
    draw, level, values = random.Random(1), Level(half_life=10), []
    seen = []
    for i in range(45):
        values.append(draw.gauss(0, 1))
        level.update(i, values[-1])
        level.keep()
        if i >= 29:
            seen.append(level.noise)
    for i, noise in enumerate(seen):
        assert noise == pytest.approx(noise_of(values[i // 5 * 5 : i // 5 * 5 + 30]))


def test_a_level_of_several_rows_is_not_outweighed_by_one_however_long_the_gap() -> None:
    level = Level(half_life=10, rows=4)
    level.update(0, 0.0)
    assert level.update(1000, 1.0) == pytest.approx(1 / (1 + 0.5**0.25))
    assert level.update(1001, 1.0) == pytest.approx((1 + 0.5**0.1) / (1 + 0.5**0.1 + 0.5**0.35))


def line(slope: float, rows: int, noise: float, seed: int, start: float = 10.0) -> Trend:
    draw, trend = random.Random(seed), Trend(20)
    for i in range(rows):
        trend.update(i, start + slope * i + draw.gauss(0, noise))
    return trend


@pytest.mark.parametrize("seed", range(5))
def test_a_forecasts_interval_is_all_times_at_which_the_line_is_within_its_error_of_the_mark(seed: int) -> None:
    trend = line(-0.05, 80, 0.1, seed)
    found = forecast(trend, "x", 4.0, seen=80)
    assert found is not None
    of_level, of_both, of_slope = trend.covariance or (0.0, 0.0, 0.0)
    ahead = np.arange(0, 200, 0.001)
    off = abs(trend.level + trend.slope * ahead - 4.0)
    inside = ahead[off <= 1.96 * np.sqrt(of_level + 2 * ahead * of_both + ahead**2 * of_slope)]
    assert found.step == 79 + round((4.0 - trend.level) / trend.slope)
    assert found.low == 79 + math.floor(inside[0])
    assert found.high == 79 + math.ceil(inside[-1])


def test_a_forecast_looks_as_far_ahead_as_the_run_is_old_and_no_further() -> None:
    trend = line(-0.05, 80, 0.001, 0)
    mark = trend.level + 60.5 * trend.slope
    assert forecast(trend, "x", mark, seen=61) is not None
    assert forecast(trend, "x", mark, seen=60) is None
    assert forecast(trend, "x", trend.level, seen=80) is None, "it is there already"


def test_a_forecast_of_a_logarithm_is_of_the_number_itself() -> None:
    trend = line(-0.01, 80, 0.001, 0, start=0.2)
    found = forecast(trend, "x", math.exp(trend.level + 30 * trend.slope), seen=80, is_log=True)
    assert found is not None
    assert found.step == 79 + 30
    assert forecast(trend, "x", 0.0, seen=80, is_log=True) is None, "it never gets to 0"


def rewards(progress: Progress, rows: list[tuple[int, float]], std: float | None = None) -> Progress:
    for step, reward in rows:
        progress.update(StepRecord(step, 0.0, {"reward/mean": reward} | ({} if std is None else {"reward/std": std})))
    return progress


def test_a_gain_is_a_twentieth_of_the_spread_and_counts_for_fifty_steps() -> None:
    far = 1_000_000  # so many half-lives apart, the smoothed reward is the newest
    assert rewards(Progress(), [(1, 0.5), (far, 0.549)], std=1.0).best_step == 1
    assert rewards(Progress(), [(1, 0.5), (far, 0.551)], std=1.0).best_step == far
    assert rewards(Progress(), [(1, 0.5), (far, 0.524)]).best_step == 1, "without a spread, of the best's size"
    assert rewards(Progress(), [(1, 0.5), (far, 0.526)]).best_step == far
    assert rewards(Progress(), [(1, -0.5), (far, -0.474)]).best_step == far
    run = rewards(Progress(), [(10, 0.5)])
    assert (run.stalled(59), run.stalled(60)) == (False, True)
    assert not Progress().stalled(1000), "there was no reward"


def test_what_a_right_answer_earns_is_bounded_by_the_mean_of_squares() -> None:
    run = rewards(Progress(), [(1, 0.5)], std=0.5)  # of 0 and 1, half each: E[r²]/E[r] = 1
    assert run.most == pytest.approx(1.0)
    assert run.is_near_best(0.9, 0.9)
    assert not run.is_near_best(0.899, 0.9)
    assert not run.is_near_best(None, 0.9)
    assert not rewards(run, [(2, -0.1)]).is_near_best(1.0, 0.9), "where rewards are below 0, nobody knows"
    assert not rewards(Progress(), [(1, 0.5)]).is_near_best(0.5, 0.9), "nor without a spread"
    assert rewards(Progress(), [(1, 0.0)], std=0.5).most == 0.0, "a reward of 0 says nothing of it"


def test_a_peak_knows_its_best_its_last_gain_and_what_there_is_to_lose() -> None:
    peak = Peak(half_life=1e-9, rows=1e-9, first=1)  # not smoothed: the level is the newest value
    for step, value in ((1, 1.0), (2, 1.04), (3, 1.07), (4, -1.0), (5, 0.5), (6, 2.0)):
        peak.follow(step, value)
        if step == 2:
            assert (peak.best_step, peak.gain_step) == (2, 1), "a gain is a twentieth"
        if step == 3:
            assert (peak.best_step, peak.gain_step, peak.scale) == (3, 3, pytest.approx(1.07))
        if step == 4:
            assert peak.lost == pytest.approx(2.07 / 1.07)
            assert peak.is_at_best, "from three calm rows nobody knows its error"
    assert peak.scale == pytest.approx(3.0), "since the lowest"
    assert peak.lost == 0.0
    assert peak.values == 6
    assert peak.kept == 4, "the two that are far from the best are no noise"


def test_a_counted_mean_rests_on_as_many_values_as_its_weights_say() -> None:
    mean, steps = CountedEwma(half_life=7), [1, 2, 3, 10, 11, 30]
    for step in steps:
        mean.update(step, 1.0)
    weights = [0.5 ** ((30 - step) / 7) for step in steps]
    assert mean.effective_count == pytest.approx(sum(weights) ** 2 / sum(w * w for w in weights))
    assert CountedEwma(half_life=7).effective_count == 0.0


@pytest.mark.parametrize(
    ("records", "step", "spacing", "held"),
    [(3, 19, 1, False), (3, 20, 1, True), (2, 90, 1, False), (3, 11, 10, True), (3, 10, 10, False)],
)
def test_a_streak_has_held_when_both_its_steps_and_its_records_have(
    records: int, step: int, spacing: int, held: bool
) -> None:
    assert Streak(since=11, records=records).held(Hold(steps=10, records=3), step, spacing) is held


def test_a_window_knows_its_oldest_on_both_sides() -> None:
    window = Window()
    assert window.oldest is None
    for step in (1, 2, 3):
        window.push(step, float(step))
    assert window.pop_until(0) == []
    assert window.pop_until(2) == [(1, 1.0), (2, 2.0)]
    window.push(4, 9.0)
    assert (window.oldest, window.mean, len(window)) == (3, 6.0, 2)
    assert window.pop_until(4) == [(3, 3.0), (4, 9.0)]
    assert window.oldest is None


def test_a_steps_metrics_are_means_of_their_own_counts() -> None:
    draw = random.Random(2)
    tokens = [(draw.gauss(0, 1), draw.gauss(-1, 1)) for _ in range(50)]
    sums = {
        "tokens": 50.0, "entropy": 100.0, "logp": sum(p for _, p in tokens), "advantage": sum(a for a, _ in tokens),
        "advantage_logp": sum(a * p for a, p in tokens), "ratio": 44.0, "ratios": 40.0, "clipped_high": 8.0,
        "clipped_high_rare": 2.0, "clipped_low": 4.0, "correct_entropy": 0.0, "correct_tokens": 0.0,
    }  # fmt: skip
    found = token_metrics(sums, {"ratio": 3.0, "sampler_gap": 1.0})
    means = statistics.mean(a for a, _ in tokens), statistics.mean(p for _, p in tokens)
    assert found["cov/logp_advantage"] == pytest.approx(
        statistics.mean((a - means[0]) * (p - means[1]) for a, p in tokens)
    )
    assert found["surprisal/mean"] == pytest.approx(-means[1])
    expected = {"entropy/mean": 2.0, "ratio/mean": 1.1, "clip/low": 0.1, "clip/high": 0.2, "clip/high_rare": 0.25}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["ratio/max"] == 3.0
    assert "entropy/correct" not in found, "of no token there is no mean"
    assert "sampler/logp_gap_max" not in found, "nothing was sampled"


def test_weights_of_a_step_are_those_of_its_completions() -> None:
    draw = random.Random(3)
    rows = [(draw.random(), float(draw.randrange(1, 90))) for _ in range(40)]
    weights, lengths = np.array(rows).T
    sums = {
        "rows": 40.0, "weight": weights.sum(), "weight_squared": (weights**2).sum(), "abs_advantage": 10.0,
        "active": 30.0, "weighed_tokens": 120.0, "weight_known": 8.0, "weight_incorrect": 2.0,
        "weight_long": weights[lengths > 45].sum(), "weight_length": (weights * lengths).sum(),
        "length": lengths.sum(), "length_squared": (lengths**2).sum(),
    }  # fmt: skip
    found = weight_metrics(sums)
    assert found["weight/length_corr"] == pytest.approx(np.corrcoef(weights, lengths)[0, 1])
    assert found["signal/ess"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum() / 40)
    assert found["weight/long"] == pytest.approx(weights[lengths > 45].sum() / weights.sum())
    expected = {"signal/abs_advantage": 0.25, "signal/active_tokens": 0.25, "weight/incorrect": 0.25}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    alike = weight_metrics(sums | {"length": 400.0, "length_squared": 4000.0, "weight_length": 10 * weights.sum()})
    assert "weight/length_corr" not in alike, "lengths that do not vary correlate with nothing"
    assert weight_metrics({}) == {}


def test_a_gradients_metrics_are_what_the_trainer_did_with_it() -> None:
    assert gradient_metrics(None, 1.0, clipped_here=True, policy_only=True) == {}
    found = gradient_metrics(4.0, 1.0, clipped_here=True, policy_only=True)
    expected = {"grad/norm": 4.0, "grad/policy_norm": 4.0, "grad/regulariser_norm": 0.0, "grad/clip_coef": 0.25,
                "grad/applied_norm": 1.0, "grad/effective_norm": 1.0}  # fmt: skip
    assert found == pytest.approx(expected, rel=1e-6)
    assert gradient_metrics(4.0, 1.0, clipped_here=False, policy_only=False) == {"grad/norm": 4.0}


def test_a_level_without_first_rows_has_no_start_and_no_error_of_a_move() -> None:
    level = Level(half_life=10)
    assert level.noise == (math.inf, 0.0), "before the fourth calm row"
    for i in range(40):
        level.update(i, float(i % 3))
        level.keep()
    assert level.start is None
    assert level.error < level.error_of_move == math.inf


def test_an_interval_that_ends_beyond_twice_the_runs_age_is_no_forecast() -> None:
    unsure, sure = line(-0.05, 40, 0.65, 0), line(-0.05, 40, 0.55, 0)
    assert abs(unsure.significance) > 4, "a trend it is"
    of_level, of_both, of_slope = unsure.covariance or (0.0, 0.0, 0.0)
    error = 1.96 * math.sqrt(of_level + 2 * 80 * of_both + 80**2 * of_slope)
    assert abs(80 * unsure.slope - 39 * unsure.slope) < error, "and 80 steps ahead are within its error"
    assert forecast(unsure, "x", unsure.level + 39 * unsure.slope, seen=40) is None
    assert forecast(sure, "x", sure.level + 39 * sure.slope, seen=40) is not None


def test_of_nothing_there_is_no_best_no_loss_and_no_line() -> None:
    peak, trend = Peak(half_life=10, first=3), Trend(20)
    peak.follow(1, 1.0)
    assert (peak.best, peak.lost, peak.is_at_best, peak.values) == (None, 0.0, False, 1)
    assert math.isnan(trend.level)
    assert math.isnan(trend.scatter)
    assert (trend.slope, trend.effective_count, trend.significance) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("value", "at_best"), [(2.0, True), (1.81, True), (1.7, False), (-1.0, False)])
def test_a_peak_is_at_its_best_within_the_slack(value: float, at_best: bool) -> None:
    peak = Peak(half_life=1e-9, rows=1e-9, first=1)
    for step in range(20):
        peak.follow(step, 2.0)
    peak.follow(20, value)
    assert peak.is_at_best is at_best
    assert peak.lost == pytest.approx((2.0 - value) / 2.0)
