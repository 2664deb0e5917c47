"""Lengths that leave what they were fast, and a length bias that has begun, at their marks.

Rows 10 000 steps apart are each their own smoothed value, where a mean is of steps.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest

from rlwatch.detect.engine import Engine
from rlwatch.detect.level import Level
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Quiet, Rule, Untold
from rlwatch.detect.rules.length_bias import LengthBias
from rlwatch.detect.rules.length_collapse import LengthCollapse
from rlwatch.detect.rules.length_explosion import LengthExplosion
from rlwatch.detect.trend import Trend
from rlwatch.runs.records import AlertState, Severity, StepRecord

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
FAR = 10_000


class Row:
    """Of a length, so many steps after the row before."""

    def __init__(self, length: float, after: int = 10, reward: float | None = 0.5, **others: float) -> None:
        self.length, self.after, self.reward = length, after, reward
        self.others = {name.replace("__", "/"): value for name, value in others.items()}


def records(rows: Sequence[Row]) -> list[StepRecord]:
    step, found = 0, []
    for row in rows:
        step += row.after
        metrics = {"length/mean": row.length, "reward/mean": row.reward, "reward/std": 0.5, **row.others}
        found.append(StepRecord(step, 0.0, metrics))
    return found


def finds(rule: Rule, rows: Sequence[Row]) -> list[Finding | Untold | Quiet]:
    return [rule.update(record) for record in records(rows)]


def last(rule: Rule, rows: Sequence[Row]) -> Severity | Quiet:
    found = finds(rule, rows)[-1]
    return found if isinstance(found, Quiet) else found.severity


def untold(rule: Rule, rows: Sequence[Row]) -> Untold:
    found = finds(rule, rows)[-1]
    assert isinstance(found, Untold)
    assert found.tell().severity is found.severity
    return found


def fired(rule: Rule, rows: Sequence[Row]) -> list[tuple[int, str, int]]:
    engine = Engine([rule])
    changes = [change for record in records(rows) for change in engine.feed(record)]
    return [(a.step, a.severity.value, a.since) for a in changes if a.state is AlertState.FIRING]


USUAL = [Row(200.0)] * 12
SURE = {"scatter": 0.0}
"""Where rows do not scatter at all, the first that moves is all the noise that there is."""


# --- fast, in rows of several steps


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ((250.0, 350.0), WARNING),
        ((250.0, 349.9), CLEAR),
        ((249.9, 350.0), CLEAR),  # the first that has left what it was
        ((350.0,), CLEAR),  # one row decides nothing
        ((350.0, 200.0, 350.0), CLEAR),
        ((300.0, 249.9, 350.0), CLEAR),  # it was back in between
        ((300.0, 250.0, 350.0), WARNING),
        ((350.0, 350.0), WARNING),
        ((350.0, 349.0), CLEAR),
    ],
)
def test_lengths_that_leave_what_they_were_fast(then: tuple[float, ...], expected: object) -> None:
    assert last(LengthExplosion(settings=SURE), [*USUAL, *map(Row, then)]) is expected


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ((160.0, 83.3), WARNING),
        ((160.0, 83.4), CLEAR),
        ((160.1, 80.0), CLEAR),
        ((80.0,), CLEAR),
        ((80.0, 200.0, 80.0), CLEAR),
        ((100.0, 160.1, 80.0), CLEAR),
        ((100.0, 160.0, 80.0), WARNING),
        ((80.0, 80.0), WARNING),
        ((80.0, 83.4), CLEAR),
    ],
)
def test_answers_that_get_short_fast(then: tuple[float, ...], expected: object) -> None:
    assert last(LengthCollapse(settings=SURE), [*USUAL, *map(Row, then)]) is expected


GAINS = [Row(200.0, FAR)] * 12


@pytest.mark.parametrize(
    ("rule", "at_gain", "then", "expected"),
    [
        (LengthExplosion, 240.0, (300.0, 360.1), WARNING),
        (LengthExplosion, 240.0, (300.0, 359.9), CLEAR),  # half as much again as when the reward gained
        (LengthCollapse, 150.0, (120.0, 74.9), WARNING),
        (LengthCollapse, 150.0, (120.0, 75.1), CLEAR),
    ],
)
def test_what_it_left_while_the_reward_gained_does_not_count(
    rule: type[Rule], at_gain: float, then: tuple[float, ...], expected: object
) -> None:
    gain = Row(at_gain, FAR, 1.0)
    assert last(rule(), [*GAINS, gain, *(Row(length, reward=1.0) for length in then)]) is expected


@pytest.mark.parametrize(("rule", "then"), [(LengthExplosion, (300.0, 360.0)), (LengthCollapse, (120.0, 70.0))])
@pytest.mark.parametrize(("passed", "expected"), [(50, WARNING), (51, CLEAR)])
def test_slow_is_longer_than_a_stall(
    rule: type[Rule], then: tuple[float, float], passed: int, expected: object
) -> None:
    rows = [*USUAL, Row(then[0]), Row(then[1], passed)]
    settings = {"grown": 9.0} if rule is LengthExplosion else {"fallen_to": 0.1}
    assert last(rule(settings=settings), rows) is expected


@pytest.mark.parametrize(("rule", "then"), [(LengthExplosion, (360.0, 360.0)), (LengthCollapse, (78.0, 78.0))])
@pytest.mark.parametrize(("scatter", "least", "expected"), [(0.03, 6.0, 1), (0.4, 6.0, 0), (0.4, 0.0, 1)])
def test_it_is_nothing_where_rows_scatter_by_as_much(
    rule: type[Rule], then: tuple[float, float], scatter: float, least: float, expected: int
) -> None:
    draw = random.Random(3)
    rows = [Row(200.0 * math.exp(draw.gauss(0, scatter))) for _ in range(40)]
    middle = sorted(row.length for row in rows[:10])
    start = (middle[4] + middle[5]) / 2 / 200.0
    rows[-1] = Row(200.0 * start)
    rows += [Row(length * start) for length in then]
    settings = {"scatter": least, **({"grown": 9.0} if rule is LengthExplosion else {"fallen_to": 0.1})}
    assert (last(rule(settings=settings), rows) is WARNING) is bool(expected)


@pytest.mark.parametrize(
    ("rule", "then", "settings", "expected"),
    [
        (LengthExplosion, (300.0, 360.0), {"rushed": 1.8}, WARNING),
        (LengthExplosion, (300.0, 360.0), {"rushed": 1.81}, CLEAR),
        (LengthExplosion, (300.0, 360.0), {"rushed_since_gain": 1.79}, WARNING),
        (LengthExplosion, (300.0, 360.0), {"rushed_since_gain": 1.81}, CLEAR),
        (LengthExplosion, (300.0, 360.0), {"moved": 1.5}, WARNING),
        (LengthExplosion, (300.0, 360.0), {"moved": 1.51}, CLEAR),
        (LengthExplosion, (300.0, 360.0), {"at_first": 15.0}, NO_DATA),
        (LengthCollapse, (160.0, 78.0), {"rushed": 2.56}, WARNING),
        (LengthCollapse, (160.0, 78.0), {"rushed": 2.57}, CLEAR),
        (LengthCollapse, (160.0, 78.0), {"rushed_since_gain": 2.56}, WARNING),
        (LengthCollapse, (160.0, 78.0), {"rushed_since_gain": 2.57}, CLEAR),
        (LengthCollapse, (160.0, 78.0), {"moved": 1.25}, WARNING),
        (LengthCollapse, (160.0, 78.0), {"moved": 1.26}, CLEAR),
    ],
)
def test_each_number_of_what_is_fast_counts(
    rule: type[Rule], then: tuple[float, ...], settings: dict[str, float], expected: object
) -> None:
    assert last(rule(settings={**SURE, **settings}), [*USUAL, *map(Row, then)]) is expected


@pytest.mark.parametrize(("rule", "then"), [(LengthExplosion, (300.0, 360.0)), (LengthCollapse, (120.0, 75.0))])
@pytest.mark.parametrize("after", [2, 5, 10])
def test_what_is_fast_is_told_as_the_row_comes_that_shows_it(
    rule: type[Rule], then: tuple[float, float], after: int
) -> None:
    rows = [Row(200.0, after)] * 12 + [Row(length, after) for length in then]
    found = untold(rule(settings=SURE), rows)
    assert (found.since, found.hold) == (13 * after, None)
    assert found.tell().value == then[1], "the row as it is"
    told = fired(rule(settings=SURE), [*rows, Row(then[1], after)])
    assert told[0] == ((14 if after >= 5 else 15) * after, "warning", 13 * after)
    assert fired(rule(settings=SURE), rows[:-1]) == []


def test_answers_that_are_short_and_right_are_no_collapse() -> None:
    solved = [Row(200.0, groups__solved=0.5)] * 12 + [Row(120.0, groups__solved=0.5), Row(78.0, groups__solved=0.5)]
    assert last(LengthCollapse(), solved) is CLEAR
    solved[-1] = Row(78.0, groups__solved=0.49)
    assert last(LengthCollapse(), solved) is WARNING
    fallen = [Row(200.0, groups__solved=0.6)] * 20 + [Row(200.0, reward=0.1, groups__solved=0.6)] * 30
    fallen += [Row(length, reward=0.1, groups__solved=0.6) for length in (120.0, 78.0)]
    assert last(LengthCollapse(), fallen) is WARNING, "below its best it is not done"


# --- fast, in rows of single steps: with a witness


SINGLE = [Row(200.0, 1)] * 30


def grown_at(rows: Sequence[Row]) -> list[float]:
    """Half of the row and half of the smoothed length, in starts."""
    kept, total, weight, found = 0.5 ** (1 / 5), 0.0, 0.0, []
    for row in rows:
        total, weight = total * kept + row.length, weight * kept + 1
        found.append((total / weight + row.length) / 2 / 200.0)
    return found


@pytest.mark.parametrize(("more", "expected"), [(0.2, WARNING), (0.0, CLEAR)])
def test_single_steps_that_explode_need_answers_that_are_cut_off(more: float, expected: object) -> None:
    rows = [Row(200.0, 1, length__truncated=0.0)] * 30 + [Row(200.0 + 30 * i, 1, length__truncated=more * min(i, 6) / 3)
                                                          for i in range(12)]  # fmt: skip
    times = grown_at(rows)
    moved = next(at for at, by in enumerate(times) if by >= 1.25)
    first = next(at for at, by in enumerate(times) if by >= 1.75)
    assert moved < first
    found = finds(LengthExplosion(settings={"grown": 9.0}), rows)
    assert all(isinstance(said, Quiet) for said in found[:first])
    said = found[first]
    assert (said if isinstance(said, Quiet) else said.severity) is expected
    if isinstance(said, Untold):
        assert (said.since, said.tell().value) == (moved + 1, pytest.approx(200 * times[first]))


@pytest.mark.parametrize(("cut_off", "expected"), [(0.1001, WARNING), (0.0999, CLEAR)])
def test_a_tenth_more_cut_off_is_a_witness(cut_off: float, expected: object) -> None:
    """In so many rows the smoothed share is what it stays at, but for a millionth."""
    rows = [Row(200.0, 1, length__truncated=0.0)] * 10 + [Row(200.0, 1, length__truncated=cut_off)] * 400
    rows += [Row(600.0, 1, length__truncated=cut_off)] * 3
    assert last(LengthExplosion(settings={"grown": 9.0, **SURE}), rows) is expected


@pytest.mark.parametrize(("rule", "length"), [(LengthExplosion, 400.0), (LengthCollapse, 70.0)])
@pytest.mark.parametrize(("reward", "expected"), [(0.1, WARNING), (0.49, CLEAR)])
def test_a_reward_that_is_lost_is_a_witness(rule: type[Rule], length: float, reward: float, expected: object) -> None:
    settings = {**SURE, **({"grown": 9.0} if rule is LengthExplosion else {"fallen_to": 0.1, "no_gain": 99.0})}
    rows = [*SINGLE, *[Row(length, 1, reward)] * 15]
    assert last(rule(settings=settings), rows) is expected
    gained = [Row(200.0, 1, 0.3), *SINGLE[:29], *[Row(length, 1, reward)] * 15]
    assert last(rule(settings=settings), gained) is expected


@pytest.mark.parametrize(("rule", "length"), [(LengthExplosion, 400.0), (LengthCollapse, 70.0)])
def test_without_one_single_steps_wait_for_what_is_smoothed_and_a_stall(rule: type[Rule], length: float) -> None:
    single, means = ([*[Row(200.0, n)] * 12, *[Row(length, n)] * 3] for n in (1, 2))
    assert last(rule(settings=SURE), single) is CLEAR
    assert last(rule(settings=SURE), means) is WARNING


@pytest.mark.parametrize(("before", "expected"), [(17, CLEAR), (18, WARNING)])
def test_of_single_steps_that_get_short_no_gain_for_twenty_is_a_witness(before: int, expected: object) -> None:
    rows = [*[Row(200.0, 1)] * before, *[Row(10.0, 1)] * 3]  # the only gain was at the first step
    assert last(LengthCollapse(settings={**SURE, "fallen_to": 0.01}), rows) is expected


@pytest.mark.parametrize("every", [1, 2, 10])
@pytest.mark.parametrize(("rule", "to"), [(LengthExplosion, 900.0), (LengthCollapse, 45.0)])
def test_lengths_that_move_as_fast_while_the_reward_gains_stay_silent(rule: type[Rule], every: int, to: float) -> None:
    rows = [
        Row(200.0 * (to / 200.0) ** (i / 100), every, 0.2 + 0.7 * i / 100, length__truncated=0.0) for i in range(101)
    ]
    assert fired(rule(), rows) == []


# --- length-bias that has begun


def gaps(values: Sequence[float], mean: float = 100.0, **others: float) -> list[dict[str, float]]:
    return [{"length/gap": value, "length/mean": mean, **others} for value in values]


def judge(rule: Rule, rows: Sequence[dict[str, float]], every: int = 10) -> list[Severity | Quiet]:
    said = [rule.update(StepRecord(every * at, 0.0, dict(row))) for at, row in enumerate(rows, 1)]
    return [found if isinstance(found, Quiet) else found.severity for found in said]


def line_to(grown: float, rows: int = 25, every: int = 10) -> list[float]:
    """A straight line of gaps whose level is this far above its start, by the last row."""
    kept = 0.5 ** min(1.0, every / (5.0 if every > 1 else 10.0))
    weights = [kept ** (rows - i) for i in range(1, rows + 1)]
    level = sum(w * i for i, w in enumerate(weights, 1)) / sum(weights)
    return [grown / (level - 5.5) * i for i in range(1, rows + 1)]


GRPO: dict[str, Any] = {"loss_type": "grpo"}


@pytest.mark.parametrize("every", [1, 2, 10])
@pytest.mark.parametrize(
    ("config", "mean", "grown", "expected"),
    [
        (GRPO, 100.0, 12.5001, WARNING),
        (GRPO, 100.0, 12.4999, CLEAR),
        ({"loss_type": "dapo"}, 100.0, 12.5001, CLEAR),  # a long wrong answer costs what it is long
        ({"loss_type": "dapo"}, 100.0, 30.0001, INFO),
        ({"loss_type": "dapo"}, 100.0, 29.9999, CLEAR),
        ({}, 100.0, 12.5001, CLEAR),
        (GRPO, 5.0, 1.0001, WARNING),  # a fifth of the length, and a token
        (GRPO, 5.0, 0.9999, CLEAR),
    ],
)
def test_a_bias_that_has_begun(config: dict[str, Any], mean: float, grown: float, expected: object, every: int) -> None:
    said = judge(LengthBias(config), gaps(line_to(grown, every=every), mean), every)
    assert said[-1] is expected
    if expected is WARNING:
        assert set(said[:-1]) == {NO_DATA, CLEAR}, "only now"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"begun": 0.199}, WARNING), ({"begun": 0.201}, CLEAR), ({"begun": 0.201, "matters": 0.199}, WARNING)],
)
def test_each_number_of_a_bias_that_has_begun_counts(settings: dict[str, float], expected: object) -> None:
    assert judge(LengthBias(GRPO, settings), gaps(line_to(20.0)))[-1] is expected


def test_between_prompts_nothing_has_begun() -> None:
    rows: list[dict[str, float]] = [
        {"length/incorrect": 100.0 + gap, "length/correct": 100.0, "length/mean": 100.0} for gap in line_to(20.0)
    ]
    assert set(judge(LengthBias(GRPO), rows)) == {NO_DATA, CLEAR}
    within: list[dict[str, float]] = [{**row, "length/gap": row["length/incorrect"] - 100.0} for row in rows]
    assert judge(LengthBias(GRPO), within)[-1] is WARNING


def test_right_answers_that_get_concise_are_none() -> None:
    shrinks = [{**row, "length/incorrect": 100.0 - i} for i, row in enumerate(gaps(line_to(20.0)))]
    assert set(judge(LengthBias(GRPO), shrinks)) == {NO_DATA, CLEAR}


@pytest.mark.parametrize("every", [1, 2])
def test_a_bias_has_begun_beyond_its_errors_and_by_a_line_in_single_steps(every: int) -> None:
    """Against the same level and line, and with a mark so low and so noisy a gap that each of them decides."""
    draw, seen = random.Random(4), set()
    for _ in range(40):
        noise, slope = draw.choice([0.5, 1.5, 3.0]), draw.uniform(0.2, 0.8)
        values = [5 + draw.gauss(0, noise) + max(0, i - 20) * slope for i in range(80)]
        rule, level, line = LengthBias(GRPO), Level(10.0, first=10, of_means=5.0), Trend(40.0)
        for at, (value, said) in enumerate(zip(values, judge(rule, gaps(values), every), strict=True), 1):
            now = level.update(every * at, value)
            if level.start is None:
                level.keep()
                assert said is NO_DATA
                continue
            grown = (now - level.start) / 100
            if grown <= 0.15:
                level.keep()
            if grown > 0.3:
                break
            line.update(every * at, value)
            begun, real = grown > 0.125, every > 1 or line.significance >= 5
            asked = level if begun and real else deepcopy(level)  # it remembers its noise from when it was asked
            clear = now - level.start > 6 * asked.error_of_move
            assert (said is WARNING) == (begun and real and clear), at
            seen.add((begun, real, clear))
    assert seen >= {(True, True, True), (True, True, False)}
    assert ((True, False, True) in seen) is (every == 1), "without its line it would have been one"


def test_a_bias_in_rows_of_several_steps_is_held_for_less() -> None:
    for every, hold in ((1, None), (2, SOON), (10, SOON)):
        rule, said = LengthBias(GRPO), None
        for at, row in enumerate(gaps(line_to(20.0, every=every)), 1):
            said = rule.update(StepRecord(every * at, 0.0, dict(row)))
        assert isinstance(said, Untold)
        assert said.hold is hold
