"""Runs rules over records and turns what they find into alerts: pending → firing → resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord

_SEVERITIES = tuple(Severity)


@dataclass(slots=True)
class _Streak:
    """Records in a row: at which step they began and how many there are."""

    since: int
    records: int = 1

    def held(self, hold: Hold, step: int, spacing: int) -> bool:
        # A row stands for the steps since the row before it: one row of every tenth step has held for ten steps.
        return self.records >= hold.records and step - self.since + spacing >= hold.steps


class _Track:
    """Where one rule stands.

    Attributes:
        at_least: Since when it has found something of each severity or a higher one, the lowest first; as many as the
            last finding is severe.
        clear: Since when it has found nothing.
        alert: What has been told and is not over.
        waiting: What the last record showed and has not held for long enough, and that record.
    """

    __slots__ = ("alert", "at_least", "clear", "waiting")

    def __init__(self) -> None:
        self.at_least: list[_Streak] = []
        self.clear: _Streak | None = None
        self.alert: Alert | None = None
        self.waiting: tuple[Finding | Untold, StepRecord] | None = None


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
        names = [rule.name for rule in rules]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two rules are called {name}: a name tells their alerts apart")
        self._rules = [(rule, _Track()) for rule in rules]
        self._run = run
        self._last_step: int | None = None

    def feed(self, record: StepRecord) -> list[Alert]:
        """Judge the next record; the alerts whose state or severity it changed."""
        spacing = 1 if self._last_step is None else max(1, record.step - self._last_step)
        self._last_step = record.step
        changes = []
        for rule, track in self._rules:
            track.waiting = None
            found = rule.update(record)
            if found is NO_DATA:
                continue
            if found is CLEAR:
                if track.alert is None:
                    if track.at_least:
                        track.at_least.clear()
                    continue
                change = self._release(rule, track, track.alert, record, spacing)
            else:
                assert not isinstance(found, Quiet)
                change = self._fire(rule, track, found, record, spacing)
            if change is not None:
                changes.append(change)
        return changes

    def held_back(self) -> list[Alert]:
        """What the last record shows and has not held for long enough to be told: each as a pending alert."""
        found = ((rule, track, track.waiting) for rule, track in self._rules if track.waiting is not None)
        return [self._alert(r, t, w[0], w[0].severity, w[1], AlertState.PENDING) for r, t, w in found]

    def _fire(
        self, rule: Rule, track: _Track, found: Finding | Untold, record: StepRecord, spacing: int
    ) -> Alert | None:
        track.clear = None
        at_least, rank = track.at_least, _SEVERITIES.index(found.severity)
        del at_least[rank + 1 :]
        for streak in at_least:
            streak.records += 1
        since = found.since if isinstance(found, Untold) else None
        while len(at_least) <= rank:
            at_least.append(_Streak(record.step) if since is None else _Streak(since, rule.hold.records))
        told = -1 if track.alert is None else _SEVERITIES.index(track.alert.severity)
        while rank > told and not at_least[rank].held(rule.hold, record.step, spacing):
            rank -= 1
        if rank <= told:
            if told < 0:
                track.waiting = (found, record)
            return None
        track.alert = self._alert(rule, track, found, _SEVERITIES[rank], record, AlertState.FIRING)
        return track.alert

    def _alert(
        self,
        rule: Rule,
        track: _Track,
        found: Finding | Untold,
        severity: Severity,
        record: StepRecord,
        state: AlertState,
    ) -> Alert:
        if isinstance(found, Untold):
            found = found.tell()
        return Alert(
            rule=rule.name,
            severity=severity,
            state=state,
            since=track.alert.since if track.alert else track.at_least[0].since,
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

    def _release(self, rule: Rule, track: _Track, alert: Alert, record: StepRecord, spacing: int) -> Alert | None:
        track.at_least.clear()
        if track.clear is None:
            track.clear = _Streak(record.step)
        else:
            track.clear.records += 1
        if not track.clear.held(rule.release, record.step, spacing):
            return None
        over = replace(
            alert,
            state=AlertState.RESOLVED,
            step=record.step,
            time=record.time,
            resolved_step=track.clear.since,
        )
        track.alert, track.clear = None, None
        return over
