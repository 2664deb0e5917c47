"""Runs rules over records and turns what they find into alerts: pending → firing → resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rlwatch.detect.rule import Finding, Hold, Quiet, Rule
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord


@dataclass
class _Streak:
    """Records in a row: at which step they began and how many there are."""

    since: int
    records: int = 1

    def held(self, hold: Hold, step: int, spacing: int) -> bool:
        # A row stands for the steps since the row before it: one row of every tenth step has held for ten steps.
        return self.records >= hold.records and step - self.since + spacing >= hold.steps


@dataclass
class _Track:
    """Where one rule stands."""

    at_least: dict[Severity, _Streak] = field(default_factory=dict)
    clear: _Streak | None = None
    alert: Alert | None = None


class Engine:
    """Judges a run, live or from a log: the same records give the same alerts.

    A finding fires once it has held as long as its rule asks for, at the highest severity that has held so long. It
    escalates when a higher severity has held too, is never told twice, and is over once it has been gone for as long as
    its rule asks for; a record that cannot tell neither ends it nor counts towards it. After that the rule may fire
    again.

    Args:
        rules: The rules.
        run: The run's name, for the alerts.

    Raises:
        ValueError: Two rules have one name.
    """

    def __init__(self, rules: Sequence[Rule], *, run: str = "") -> None:
        self._rules = list(rules)
        self._tracks: dict[str, _Track] = {}
        for rule in self._rules:
            if rule.name in self._tracks:
                raise ValueError(f"two rules are called {rule.name}: a name tells their alerts apart")
            self._tracks[rule.name] = _Track()
        self._run = run
        self._last_step: int | None = None

    def feed(self, record: StepRecord) -> list[Alert]:
        """Judge the next record; the alerts whose state or severity it changed."""
        spacing = 1 if self._last_step is None else max(1, record.step - self._last_step)
        self._last_step = record.step
        changes = []
        for rule in self._rules:
            found = rule.update(record)
            if found is Quiet.NO_DATA:
                continue
            track = self._tracks[rule.name]
            if isinstance(found, Finding):
                change = self._fire(rule, track, found, record, spacing)
            else:
                change = self._release(rule, track, record, spacing)
            if change is not None:
                changes.append(change)
        return changes

    def _fire(self, rule: Rule, track: _Track, found: Finding, record: StepRecord, spacing: int) -> Alert | None:
        track.clear = None
        for severity in Severity:
            if severity.rank > found.severity.rank:
                track.at_least.pop(severity, None)
            elif severity in track.at_least:
                track.at_least[severity].records += 1
            else:
                track.at_least[severity] = _Streak(record.step)
        held = [s for s, streak in track.at_least.items() if streak.held(rule.hold, record.step, spacing)]
        if not held:
            return None
        severity = max(held, key=lambda s: s.rank)
        if track.alert is not None and severity.rank <= track.alert.severity.rank:
            return None
        since = track.alert.since if track.alert else track.at_least[Severity.INFO].since
        track.alert = Alert(
            rule=rule.name,
            severity=severity,
            state=AlertState.FIRING,
            since=since,
            step=record.step,
            time=record.time,
            value=found.value,
            reference=found.reference,
            message=found.message,
            evidence=found.evidence,
            causes=tuple(found.causes),
            advice=tuple(found.advice),
            run=self._run,
        )
        return track.alert

    def _release(self, rule: Rule, track: _Track, record: StepRecord, spacing: int) -> Alert | None:
        track.at_least.clear()
        if track.alert is None:
            return None
        if track.clear is None:
            track.clear = _Streak(record.step)
        else:
            track.clear.records += 1
        if not track.clear.held(rule.release, record.step, spacing):
            return None
        over = replace(
            track.alert,
            state=AlertState.RESOLVED,
            step=record.step,
            time=record.time,
            resolved_step=track.clear.since,
        )
        track.alert, track.clear = None, None
        return over
