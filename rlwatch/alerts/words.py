"""An alert in words for somebody who is woken and has nothing but a phone; every channel says the same."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from rlwatch.alerts.channel import Message
from rlwatch.runs.records import Alert, AlertState, Severity

_TOLD_LATE = 600.0  # seconds after which a message says how old it is
_DOTS = {Severity.INFO: "🔵", Severity.WARNING: "🟡", Severity.CRITICAL: "🔴"}


def title(alert: Alert) -> str:
    """How bad it is, which rule, which run."""
    over = alert.state is AlertState.RESOLVED
    dot, word = ("🟢", "RESOLVED") if over else (_DOTS[alert.severity], alert.severity.value.upper())
    return f"{dot} {word} · {alert.rule} · {alert.run or 'a run'}"


def lines(message: Message, now: float) -> list[str]:
    """What, since when, which number, why, what to try; a `Name: text` each.

    Args:
        message: What is told.
        now: Unix seconds; what is old by then says so.
    """
    alert = message.alert
    found = [f"What: {alert.message}"]
    if alert.state is AlertState.RESOLVED:
        found.append(f"When: from step {alert.since} to step {alert.resolved_step}")
    else:
        found.append(f"Since: step {alert.since} (seen at step {alert.step})")
        if alert.value is not None and alert.reference is not None:
            found.append(f"Number: {alert.value:.3g} against {alert.reference:.3g}")
        elif alert.value is not None:
            found.append(f"Number: {alert.value:.3g}")
        if alert.forecast is not None:
            found.append(f"Ahead: {alert.forecast.text}")
        found += [f"Likely cause: {cause.beside(alert.evidence)}" for cause in alert.causes[:2]]
        found += [f"Try: {advice.text} [{advice.source}]" for advice in alert.advice[:3]]
    if len(message.changes) > 1:
        fired = sum(change.state is AlertState.FIRING for change in message.changes)
        ended = len(message.changes) - fired
        span = f"steps {message.changes[0].step} to {alert.step}"
        found.append(f"Changes: {len(message.changes)} in {span} (fired or grew worse {fired}, over {ended})")
    if now - alert.time > _TOLD_LATE:
        at = datetime.fromtimestamp(alert.time, timezone.utc)
        found.append(f"Told late: this is of {at:%Y-%m-%d %H:%M} UTC")
    return found


def worst_first(messages: Iterable[Message]) -> Sequence[Message]:
    """What is still bad before what is over, and the worst of it first."""
    return sorted(messages, key=lambda m: (m.alert.state is AlertState.RESOLVED, -m.alert.severity.rank))


def page_of(page: str, alert: Alert) -> str:
    """The address of an alert's page, given that of the live page; empty where there is none."""
    if not page.startswith(("http://", "https://")):
        return ""
    run, rule = (urllib.parse.quote(name, safe="") for name in (alert.run, alert.rule))
    return f"{page.rstrip('/')}/run/{run}/alert/{rule}/{alert.since}" if run else page
