"""What a person reads at night."""

from __future__ import annotations

import pytest

from rlwatch.alerts.stdout import render, say
from rlwatch.report.words import headline
from rlwatch.runs.reader import RunSummary
from rlwatch.runs.records import Advice, Alert, AlertState, Cause, Severity, StepRecord

ALERT = Alert(
    rule="dead-groups",
    severity=Severity.CRITICAL,
    state=AlertState.FIRING,
    since=188,
    step=212,
    time=0.0,
    value=0.92,
    reference=0.21,
    message="92% of the groups are dead and not solved [red]",
    evidence={"groups/stuck": 0.92, "reward/mean": None},
    causes=(Cause("siblings are alike"),),
    advice=(Advice("raise epsilon_high in small steps", "DAPO 2503.14476"),),
    run="night-run",
)


def test_a_block_says_what_since_when_which_number_why_and_what_to_try() -> None:
    assert render(ALERT).splitlines() == [
        "rlwatch · CRITICAL · dead-groups · run night-run ───────────────────────────────────────────────────",
        "What     92% of the groups are dead and not solved [red]",
        "Since    step 188; told at step 212",
        "Numbers  groups/stuck 0.92",
        "Why      siblings are alike",
        "Try      raise epsilon_high in small steps [DAPO 2503.14476]",
        "─" * 100,
    ]


def test_colour_only_where_it_is_asked_for() -> None:
    assert "\x1b[" in render(ALERT, color=True)
    assert "\x1b[" not in render(ALERT)


def test_the_end_of_an_alert_is_told_in_two_lines() -> None:
    over = Alert.from_dict({**ALERT.to_dict(), "state": "resolved", "step": 260, "resolved_step": 240})
    lines = render(over).splitlines()
    assert "RESOLVED" in lines[0]
    assert lines[2] == "When  from step 188 to step 240"


def test_an_alert_of_info_is_one_line() -> None:
    info = Alert.from_dict({**ALERT.to_dict(), "severity": "info", "message": "95% of the groups are solved"})
    assert render(info) == "rlwatch · info · dead-groups · run night-run: 95% of the groups are solved (since step 188)"


def test_printing_with_a_progress_bar_around(capsys: pytest.CaptureFixture[str]) -> None:
    from tqdm import tqdm

    with tqdm(total=2) as bar:
        bar.update(1)
        say("hello")
    assert "hello\n" in capsys.readouterr().out


def summary(*alerts: Alert, step: int | None = 300) -> RunSummary:
    from pathlib import Path

    last = StepRecord(step, 0.0, {}) if step else None
    return RunSummary(Path("run"), {}, "live", last, list(alerts))


def test_the_headline_says_the_worst_first() -> None:
    warning = Alert.from_dict({**ALERT.to_dict(), "severity": "warning", "rule": "entropy-collapse"})
    found = headline(summary(warning, ALERT))
    assert found.tone == "critical"
    assert found.text == (
        "Not learning since step 188: 92% of the groups are dead and not solved [red]. 1 more open alert."
    )


def test_the_headline_of_a_run_without_alerts() -> None:
    assert headline(summary()).text == "No rule has fired in 300 steps."
    assert headline(summary(step=3)).text == "Too early to say: 3 steps."
    assert headline(summary(step=None)).tone == "unknown"


def test_the_headline_of_a_run_that_recovered() -> None:
    over = Alert.from_dict({**ALERT.to_dict(), "state": "resolved", "resolved_step": 240})
    assert headline(summary(over)).text == "No open alert; dead-groups was over at step 240."
