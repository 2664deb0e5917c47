"""Answers an alert: the same for the page and for the command line. What holds is then obeyed by every outbox."""

from __future__ import annotations

import time
from pathlib import Path

from rlwatch.runs import acks
from rlwatch.runs.acks import ACKNOWLEDGE, SILENCE, Answer
from rlwatch.runs.reader import latest_alerts, read_alerts
from rlwatch.runs.records import Alert, AlertState

__all__ = ["LONGEST_SILENCE", "Answer", "acknowledge", "rules_of", "silence"]

LONGEST_SILENCE = 24 * 366.0
"""Hours; what is meant for longer is for the rest of the run."""


def acknowledge(run: Path, rule: str, since: int | None = None, *, who: str = "", undo: bool = False) -> Answer:
    """Say that an alert is known: it is told again only if it becomes worse, or is over.

    Args:
        run: The run directory.
        rule: The alert's rule.
        since: The step at which the alert began; by default that of the newest one of the rule that fires.
        who: Who says so.
        undo: It is taken back.

    Returns:
        What was written down.

    Raises:
        ValueError: There is no such alert, or it is over; the message says so.
        OSError: The run directory cannot be written to.
    """
    known = [alert for alert in latest_alerts(_changes(run)) if alert.rule == rule]
    told = [alert for alert in known if alert.state is not AlertState.PENDING and since in (None, alert.since)]
    firing = [alert for alert in told if alert.state is AlertState.FIRING]
    if undo:
        marked = acks.standing_of(acks.read_answers(run)[0]).acknowledged
        sinces = [s for r, s in marked if r == rule and since in (None, s)]
        if not sinces:
            raise ValueError(f"no alert of {rule} {_began(since)}is acknowledged in {run.name}")
        return _write(run, Answer(rule, ACKNOWLEDGE, time.time(), max(sinces), True, who))
    if not firing:
        over = f"it is over since step {told[-1].resolved_step}" if told else _there_is(run, rule)
        raise ValueError(f"no alert of {rule} {_began(since)}fires in {run.name}: {over}")
    alert = max(firing, key=lambda alert: alert.since)
    return _write(run, Answer(rule, ACKNOWLEDGE, time.time(), alert.since, who=who, severity=alert.severity))


def silence(
    run: Path,
    rule: str,
    *,
    until_step: int | None = None,
    hours: float | None = None,
    since: int | None = None,
    who: str = "",
    undo: bool = False,
) -> Answer:
    """Say that nobody is to be told of a rule in this run: until a step, for hours, or for the rest of the run.

    Args:
        run: The run directory.
        rule: The rule; it may have fired yet or not.
        until_step: The step with which the silence ends.
        hours: After how many hours it ends.
        since: The alert that it was said about, for who reads the file.
        who: Who says so.
        undo: It is taken back.

    Returns:
        What was written down.

    Raises:
        ValueError: An end that is none; or there is nothing to take back.
        OSError: The run directory cannot be written to.
    """
    now = time.time()
    if undo:
        if rule not in acks.standing_of(acks.read_answers(run)[0]).silenced:
            raise ValueError(f"{rule} is not silenced in {run.name}")
        return _write(run, Answer(rule, SILENCE, now, since, True, who))
    if until_step is not None and hours is not None:
        raise ValueError("a silence ends at a step or after hours, not at both")
    if until_step is not None and not 0 < until_step < 10**15:
        raise ValueError(f"a silence cannot end at step {until_step}")
    if hours is not None and not 0 < hours <= LONGEST_SILENCE:
        raise ValueError(f"a silence of {hours:g} hours is none: more than 0, and at most {LONGEST_SILENCE:,.0f}")
    ends = now + 3600 * hours if hours is not None else None
    return _write(run, Answer(rule, SILENCE, now, since, who=who, until_step=until_step, until_time=ends))


def rules_of(run: Path) -> set[str]:
    """The rules that the run has told of."""
    return {alert.rule for alert in _changes(run)}


def _changes(run: Path) -> list[Alert]:
    """The run's alerts, without lines that hold something else for a rule."""
    return [change for change in read_alerts(run).items if isinstance(change.rule, str)]


def _write(run: Path, answer: Answer) -> Answer:
    acks.append(run, answer)
    return answer


def _began(since: int | None) -> str:
    return "" if since is None else f"since step {since} "


def _there_is(run: Path, rule: str) -> str:
    firing = [alert for alert in latest_alerts(_changes(run)) if alert.state is AlertState.FIRING]
    names = sorted({alert.rule for alert in firing if alert.rule != rule})
    return f"there is {', '.join(names)}" if names else "none fires"
