"""The life of an alert: held back, told once, escalated, over, told again."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import Finding, Hold, Quiet, Rule, Untold
from rlwatch.detect.streaming import Baseline, CountedEwma
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord


class Scripted(Rule):
    """Finds what the record's `severity` says: 0 info, 1 warning, 2 critical, −1 nothing; absent means no data."""

    name = "scripted"
    hold = Hold(steps=3, records=2)
    release = Hold(steps=2, records=2)

    def update(self, record: StepRecord) -> Finding | Quiet:
        level = record.metrics.get("severity")
        if level is None:
            return Quiet.NO_DATA
        if level < 0:
            return Quiet.CLEAR
        return Finding(list(Severity)[int(level)], value=level, reference=None, message=f"level {level}")


def play(levels: Iterable[float | None], every: int = 1) -> list[tuple[int, str, str, int]]:
    """The changes as (step, state, severity, since), for one record every so many steps."""
    engine = Engine([Scripted()], run="run")
    changes: list[Alert] = []
    for index, level in enumerate(levels, 1):
        metrics = {} if level is None else {"severity": float(level)}
        changes += engine.feed(StepRecord(index * every, 0.0, metrics))
    return [(a.step, a.state.value, a.severity.value, a.since) for a in changes]


def test_a_finding_that_is_not_told_is_not_put_into_words() -> None:
    told: list[int] = []

    class Terse(Scripted):
        def update(self, record: StepRecord) -> Finding | Untold | Quiet:
            found = super().update(record)
            if isinstance(found, Finding):
                return Untold(found.severity, lambda: told.append(record.step) or found)  # type: ignore[func-returns-value]
            return found

    engines = [Engine([rule], run="run") for rule in (Scripted(), Terse())]
    levels = [-1, 0, 0, 0, 1, 1, 1, 1, -1, -1, 2, 2, 2, 2]
    for step, level in enumerate(levels, 1):
        changes = [engine.feed(StepRecord(step, 0.0, {"severity": float(level)})) for engine in engines]
        assert changes[0] == changes[1]
    assert told == [4, 7, 13], "as it fires, as it escalates, and as it fires again"


def test_it_is_told_once_it_has_held() -> None:
    assert play([-1, 1, 1, 1, 1, 1]) == [(4, "firing", "warning", 2)]


def test_it_is_not_told_if_it_does_not_hold() -> None:
    assert play([1, 1, -1, 1, 1, -1]) == []


def test_rows_every_tenth_step_hold_by_steps_and_by_records() -> None:
    assert play([-1, 1, 1, 1], every=10) == [(30, "firing", "warning", 20)]


def test_it_escalates_once_the_higher_severity_has_held() -> None:
    assert play([1, 1, 1, 2, 1, 2, 2, 2, 2]) == [(3, "firing", "warning", 1), (8, "firing", "critical", 1)]


def test_a_higher_severity_that_has_not_held_fires_as_what_has() -> None:
    assert play([1, 1, 2]) == [(3, "firing", "warning", 1)]


def test_it_does_not_step_down_while_it_lasts() -> None:
    assert play([2, 2, 2, 1, 1, 0, 0]) == [(3, "firing", "critical", 1)]


def test_it_is_over_once_it_has_been_gone_and_may_come_again() -> None:
    told = play([1, 1, 1, -1, 1, -1, -1, 1, 1, 1])
    assert told == [(3, "firing", "warning", 1), (7, "resolved", "warning", 1), (10, "firing", "warning", 8)]


def test_the_step_at_which_it_was_over_is_the_first_clear_one() -> None:
    engine = Engine([Scripted()])
    changes = [
        a
        for step, level in enumerate([1, 1, 1, -1, -1], 1)
        for a in engine.feed(StepRecord(step, 0.0, {"severity": level}))
    ]
    assert changes[-1].state is AlertState.RESOLVED
    assert changes[-1].resolved_step == 4


def test_a_record_that_cannot_tell_neither_ends_it_nor_counts() -> None:
    assert play([1, None, None, 1, None, 1]) == [(4, "firing", "warning", 1)]
    assert play([1, 1, 1, None, None, None]) == [(3, "firing", "warning", 1)]


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two rules are called scripted"):
        Engine([Scripted(), Scripted()])


@given(
    st.lists(st.tuples(st.integers(1, 20), st.floats(-1e6, 1e6)), min_size=1, max_size=60),
    st.floats(0.5, 50),
)
def test_ewma_equals_its_formula(rows: list[tuple[int, float]], half_life: float) -> None:
    mean, step, steps = CountedEwma(half_life), 0, []
    for gap, value in rows:
        step += gap
        mean.update(step, value)
        steps.append((step, value))
    weights = [0.5 ** ((step - at) / half_life) for at, _ in steps]
    expected = math.fsum(w * v for w, (_, v) in zip(weights, steps, strict=True)) / math.fsum(weights)
    assert mean.level == pytest.approx(expected, rel=1e-9, abs=1e-6)
    count = math.fsum(weights) ** 2 / math.fsum(w * w for w in weights)
    assert mean.effective_count == pytest.approx(count, rel=1e-9)


def test_the_baseline_is_a_median_and_then_fixed() -> None:
    baseline = Baseline(records=4)
    assert [baseline.update(x) for x in (1.0, 100.0, 2.0, 3.0, 50.0)] == [None, None, None, 2.5, 2.5]


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([None, -1.0, 0.0, 1.0, 2.0])), max_size=80), st.data())
def test_what_is_found_again_as_it_was_told_changes_nothing_but_how_long_it_holds(
    rows: list[tuple[int, float | None]], data: st.DataObject
) -> None:
    """The short way through the engine against the long one, also over a restart."""
    short, long = Engine([Scripted()], run="run"), Engine([Scripted()], run="run")
    [(_, track, _)] = long._rules
    step, cut = 0, data.draw(st.integers(0, max(0, len(rows) - 1)))
    for at, (gap, level) in enumerate(rows):
        step += gap
        record = StepRecord(step, 0.0, {} if level is None else {"severity": level})
        track.as_told = None  # so that it is always the long way
        assert short.feed(record) == long.feed(record)
        assert short.state() == long.state()
        assert short.held_back() == long.held_back()
        if at == cut:
            state, short = short.state(), Engine([Scripted()], run="run")
            short.restore(state)
