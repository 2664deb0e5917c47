"""How long a finding has to hold that says so itself, beside what its rule asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import CLEAR, SOON, Finding, Hold, Quiet, Rule, Untold
from rlwatch.runs.records import Severity, StepRecord

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL


class Said(NamedTuple):
    """What a row shows."""

    severity: Severity
    hold: Hold | None = None
    since: int | None = None


class Scripted(Rule):
    """Finds what it was told to find, row by row."""

    name = "scripted"
    hold = Hold(steps=10, records=3)
    release = Hold(steps=2, records=2)
    script: Sequence[Said | None] = ()

    def __init__(self) -> None:
        super().__init__()
        self.at = 0

    def update(self, record: StepRecord) -> Untold | Quiet:
        said = self.script[self.at]
        self.at += 1
        if said is None:
            return CLEAR
        return Untold(said.severity, lambda: Finding(said.severity, 1.0, None, "so"), said.since, said.hold)


Told = list[tuple[int, str, int]]


def play(script: Sequence[Said | None], every: int = 1, saved_at: int = -1) -> Told:
    """What fires, as (step, severity, since); the engine is saved and another goes on before one of the rows."""

    class Here(Scripted):
        pass

    Here.script = script
    engine, told = Engine([Here()]), []
    for at in range(len(script)):
        if at == saved_at:
            state, engine = engine.state(), Engine([Here()])
            engine.restore(state)
        for alert in engine.feed(StepRecord(every * (at + 1), 0.0, {})):
            assert alert.state.value == "firing"
            told.append((alert.step, alert.severity.value, alert.since))
    return told


@pytest.mark.parametrize(
    ("hold", "every", "step"),
    [
        (None, 1, 10), (Hold(3, 2), 1, 3), (Hold(5, 2), 1, 5), (Hold(1, 1), 1, 1), (Hold(1, 4), 1, 4),
        (Hold(20, 1), 1, 20), (Hold(5, 20), 1, 20), (None, 10, 30), (Hold(5, 2), 10, 20), (Hold(1, 1), 10, 10),
        (Hold(11, 1), 10, 20), (Hold(20, 5), 10, 50), (SOON, 1, 5), (SOON, 2, 6), (SOON, 5, 10), (SOON, 50, 100),
    ],
)  # fmt: skip
def test_a_finding_is_told_once_it_has_held_for_as_long_as_it_says(hold: Hold | None, every: int, step: int) -> None:
    assert play([Said(WARNING, hold)] * 25, every) == [(step, "warning", every)]


def test_what_shows_soon_is_two_rows_or_five_steps() -> None:
    assert (SOON.steps, SOON.records) == (5, 2)


def test_it_is_not_told_one_row_before_it_has_held() -> None:
    assert play([Said(WARNING, Hold(3, 2))] * 2) == []
    assert play([Said(WARNING, Hold(3, 2))] * 2 + [None] + [Said(WARNING, Hold(3, 2))] * 2) == []
    assert play([Said(WARNING, Hold(15, 3))] * 14) == [], "also where that is longer than what the rule asks for"


def test_the_row_that_says_less_is_told_with_those_before_it() -> None:
    assert play([Said(WARNING)] * 3 + [Said(WARNING, Hold(3, 2))]) == [(4, "warning", 1)]
    assert play([Said(WARNING, Hold(20, 3))] * 9 + [Said(WARNING)]) == [(10, "warning", 1)]


def test_a_severity_that_has_held_is_told_while_a_higher_one_has_not() -> None:
    rows = [Said(INFO)] * 2 + [Said(WARNING, Hold(3, 2))] * 3
    assert play(rows) == [(3, "info", 1), (5, "warning", 1)]


def test_a_higher_severity_of_a_short_hold_does_not_wait_for_the_rules() -> None:
    assert play([Said(INFO), Said(CRITICAL, Hold(1, 1))]) == [(2, "critical", 1)]
    assert play([Said(WARNING, SOON)] * 5 + [Said(CRITICAL, Hold(2, 2))] * 2) == [(5, "warning", 1), (7, "critical", 1)]


def test_a_higher_severity_without_one_waits_for_the_rules() -> None:
    assert play([Said(WARNING, SOON)] * 5 + [Said(CRITICAL)] * 10) == [(5, "warning", 1), (15, "critical", 1)]
    assert play([Said(WARNING, SOON)] * 5 + [Said(CRITICAL)] * 9) == [(5, "warning", 1)]


def test_what_was_told_is_not_told_again_by_a_shorter_hold() -> None:
    assert play([Said(WARNING)] * 10 + [Said(WARNING, Hold(1, 1))] * 5) == [(10, "warning", 1)]


@pytest.mark.parametrize(
    ("hold", "first", "told"),
    [
        (Hold(3, 2), 3, 3),  # since step 1 it has held for three steps, and for rows enough
        (Hold(3, 2), 2, 3),  # not yet for three steps
        (Hold(8, 2), 5, 8),
        (Hold(20, 3), 5, 20),
        (None, 5, 10),
        (None, 12, 12),
    ],
)
def test_a_finding_that_says_since_when_it_holds_is_judged_from_there(hold: Hold | None, first: int, told: int) -> None:
    rows: list[Said | None] = [None] * (first - 1)
    assert play(rows + [Said(WARNING, hold, since=1)] * 25) == [(told, "warning", 1)]


def test_a_higher_severity_that_says_since_when_is_told_at_once() -> None:
    rows = [Said(WARNING, SOON)] * 5 + [Said(CRITICAL, Hold(2, 2), since=5)]
    assert play(rows) == [(5, "warning", 1), (6, "critical", 1)]
    assert play([*rows[:-1], Said(CRITICAL, Hold(3, 2), since=5)]) == [(5, "warning", 1)]


@pytest.mark.parametrize("saved_at", range(8))
def test_how_long_it_has_held_outlives_a_restart(saved_at: int) -> None:
    rows = [Said(INFO, Hold(3, 2))] * 4 + [Said(WARNING, Hold(4, 2), since=3)] * 4

    assert play(rows, saved_at=saved_at) == play(rows) == [(3, "info", 1), (6, "warning", 1)]
