"""What other settings change: the alerts that would have been told otherwise by the defaults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rlwatch.detect.rules import RULES
from rlwatch.detect.setting import settings_of
from rlwatch.runs.records import Alert, AlertState
from rlwatch.settings import Settings


@dataclass(frozen=True)
class Difference:
    """An alert that is not the same by the defaults.

    Args:
        rule: The rule's name.
        now: As it is told by the settings; None where it is not.
        by_default: As it would be told by the defaults; None where it would not be.
    """

    rule: str
    now: Alert | None
    by_default: Alert | None


def differences(now: Sequence[Alert], by_default: Sequence[Alert]) -> list[Difference]:
    """The alerts in which two judgements differ, rule by rule, each rule's in the order of their steps.

    Args:
        now: Each alert once, as it stands at the end.
        by_default: The same by the defaults.
    """
    found = []
    for rule in dict.fromkeys(alert.rule for alert in (*now, *by_default)):
        mine, theirs = _of(rule, now), _of(rule, by_default)
        found += [Difference(rule, a, b) for a, b in zip_longest(mine, theirs) if _key(a) != _key(b)]
    return found


def what_was_set(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each thing that was set about the rules: what, and how it is by default."""
    defaults = {rule.name: settings_of(rule) for rule in RULES}
    for path, value in settings.parsed.changed.items():
        _, rule, key = path.split(".", 2)
        setting = defaults.get(rule, {}).get(key)
        if setting is not None:
            yield f"{rule}.{key} = {_plain(value)}", f"by default {setting.default:g} ({setting.unit})"
        elif key == "enabled":
            yield f"{rule}.enabled = false", "it is not told at all"
        elif key == "at_most":
            yield f'{rule}.at_most = "{value}"', "it is told as nothing worse"
        else:
            yield f"{rule}.{key} = {_plain(value)}", ""
    for own in settings.parsed.own:
        what = f"{own['metric']} {own['when']} {_plain(own['value'])} over {own['over']:g} steps"
        yield f"{own['name']}, a rule of your own", f"{own['severity']}: {what}"
    for mine in settings.python:
        yield f"{mine.name}, a rule of your own", "in Python"


def in_a_word(alert: Alert | None) -> str:
    """An alert in one cell of a table."""
    if alert is None:
        return "–"
    over = f", over at {alert.resolved_step}" if alert.state is AlertState.RESOLVED else ""
    return f"{alert.severity.value} at step {alert.step} (since {alert.since}{over})"


def _of(rule: str, alerts: Sequence[Alert]) -> list[Alert]:
    return sorted((alert for alert in alerts if alert.rule == rule), key=lambda alert: alert.since)


def _key(alert: Alert | None) -> tuple[Any, ...] | None:
    return None if alert is None else (alert.severity, alert.state, alert.since, alert.step, alert.resolved_step)


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
