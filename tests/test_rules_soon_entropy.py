"""What entropy-collapse tells of after two rows, and after three."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import SOON, Finding, Quiet, Rule, Untold
from rlwatch.detect.rules.entropy_collapse import EntropyCollapse
from rlwatch.runs.records import AlertState, Severity, StepRecord

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
Row = dict[str, float]


def finds(rule: Rule, rows: Sequence[Row], every: int) -> list[Finding | Untold | Quiet]:
    return [rule.update(StepRecord(every * at, 0.0, dict(row))) for at, row in enumerate(rows, 1)]


def last(rule: Rule, rows: Sequence[Row], every: int = 10) -> Severity | Quiet:
    found = finds(rule, rows, every)[-1]
    return found if isinstance(found, Quiet) else found.severity


def fired(rule: Rule, rows: Sequence[Row], every: int) -> list[tuple[int, str, int]]:
    engine = Engine([rule])
    changes = [
        change for at, row in enumerate(rows, 1) for change in engine.feed(StepRecord(every * at, 0.0, dict(row)))
    ]
    return [(a.step, a.severity.value, a.since) for a in changes if a.state is AlertState.FIRING]


# --- entropy-collapse


def narrowing(witness: Row, after: int) -> list[Row]:
    calm = {"reward/mean": 0.5, "groups/solved": 0.1, "groups/failed": 0.05, "groups/stuck": 0.05}
    return [{"entropy/mean": 1.0, **calm}] * 12 + [{"entropy/mean": 0.1, **calm, **witness}] * after


WARNS: Row = {"groups/failed": 0.35}
STUCK: Row = {"groups/stuck": 0.6}
FAST = {"half_life": 1.0, "groups_half_life": 1.0}


@pytest.mark.parametrize(("witness", "severity", "hold"), [(WARNS, WARNING, SOON), (STUCK, CRITICAL, None)])
def test_a_warning_is_held_for_less_than_what_is_critical(witness: Row, severity: Severity, hold: object) -> None:
    found = finds(EntropyCollapse(), narrowing(witness, 2), 1000)[-1]
    assert isinstance(found, Untold)
    assert found.severity is severity
    assert found.hold is hold


def test_of_what_is_worth_knowing_the_rule_says_how_long_it_holds() -> None:
    found = finds(EntropyCollapse(), narrowing({}, 2), 1000)[-1]
    assert isinstance(found, Untold)
    assert (found.severity, found.hold) == (INFO, None)


@pytest.mark.parametrize("every", [50, 1000])
@pytest.mark.parametrize(("witness", "severity", "rows"), [(WARNS, "warning", 2), (STUCK, "critical", 3)])
def test_in_rows_of_many_steps_they_are_told_after_two_and_three(
    witness: Row, severity: str, rows: int, every: int
) -> None:
    story = narrowing(witness, 3)
    rule = EntropyCollapse(settings=FAST)
    assert fired(rule, story, every) == [((12 + rows) * every, severity, 13 * every)]


@pytest.mark.parametrize(("witness", "severity", "steps"), [(WARNS, "warning", 5), (STUCK, "critical", 10)])
def test_in_single_steps_they_are_told_after_five_and_ten(witness: Row, severity: str, steps: int) -> None:
    found = finds(EntropyCollapse(settings=FAST), narrowing(witness, 15), 1)
    first = next(at for at, said in enumerate(found, 1) if isinstance(said, Untold) and said.severity.value == severity)
    told = [step for step, told, _ in fired(EntropyCollapse(settings=FAST), narrowing(witness, 15), 1)
            if told == severity]  # fmt: skip
    assert told == [first + steps - 1]
