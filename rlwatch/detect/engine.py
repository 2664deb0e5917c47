"""Runs rules over records and turns what they find into alerts: pending → firing → resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Quiet, Rule, Untold
from rlwatch.detect.sharing import share
from rlwatch.detect.state import dump, restore
from rlwatch.detect.track import Streak, Track
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord

_SEVERITIES = tuple(Severity)

FEW = 10
"""Records below which an alert says on how few of them it rests."""


class Engine:
    """Judges a run, live or from a log: the same records give the same alerts.

    A finding fires once it has held as long as its rule asks for, at the highest severity that has held so long. It
    escalates when a higher severity has held too, is never told twice, and is over once it has been gone for as long as
    its rule asks for; a record that cannot tell neither ends it nor counts towards it. After that the rule may fire
    again. While a rule tells of something critical, nothing new is told of what it is the cause of: that comes after
    it, if it is still there.

    A rule that raises is left out from then on, and `on_fault` hears of it.

    Args:
        rules: The rules, causes before their symptoms.
        run: The run's name, for the alerts.
        on_fault: Called with the name of a rule and what it raised.

    Raises:
        ValueError: Two rules have one name.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        run: str = "",
        on_fault: Callable[[str, Exception], None] | None = None,
    ) -> None:
        names = [rule.name for rule in rules]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two rules are called {name}: a name tells their alerts apart")
        share(rules)
        tracks = {rule.name: Track() for rule in rules}
        self._rules = [
            (rule, tracks[rule.name], [tracks[cause] for cause in rule.symptom_of if cause in tracks]) for rule in rules
        ]
        self._updates = [(judged[0].update, judged[1], judged) for judged in self._rules]  # bound once, not a record
        self._waiting: list[Track] = []
        self._run = run
        self._on_fault = on_fault
        self._last: StepRecord | None = None
        self._records = 0

    def feed(self, record: StepRecord) -> list[Alert]:
        """Judge the next record; the alerts whose state or severity it changed."""
        spacing = 1 if self._last is None else max(1, record.step - self._last.step)
        self._last = record
        self._records += 1
        changes, broken = [], []
        for track in self._waiting:
            track.waiting = None
        self._waiting.clear()
        for update, track, judged in self._updates:
            try:
                found = update(record)
                if found is CLEAR:
                    if not track.busy:
                        continue
                elif found is NO_DATA:
                    continue
                elif found.severity is track.as_told:  # type: ignore[union-attr]  # neither of the two that are quiet
                    for streak in track.at_least:
                        streak.records += 1
                    continue
                change = self._take(*judged, found, record, spacing)
            except Exception as error:
                broken.append((judged, error))
                continue
            if change is not None:
                changes.append(change)
        for judged, raised in broken:
            self._leave_out(judged, raised)
        return changes

    def tick(self, now: float) -> list[Alert]:
        """Judge that no record has come until now (Unix seconds); the alerts that this changed."""
        if self._last is None:
            return []
        record, changes = replace(self._last, time=now), []
        for judged in list(self._rules):
            rule, track, causes = judged
            if type(rule).tick is Rule.tick:
                continue
            try:
                found = rule.tick(now)
                change = None if found is NO_DATA else self._take(rule, track, causes, found, record, 1)
            except Exception as error:
                self._leave_out(judged, error)
                continue
            if change is not None:
                changes.append(change)
        return changes

    def held_back(self) -> list[Alert]:
        """What the last record shows and has not held for long enough to be told: each as a pending alert."""
        found = ((rule, track, track.waiting) for rule, track, _ in self._rules if track.waiting is not None)
        return [self._alert(r, t, w[0], w[0].severity, w[1], AlertState.PENDING) for r, t, w in found]

    def state(self) -> dict[str, Any]:
        """All that is remembered, as plain values: for [`restore`][rlwatch.detect.engine.Engine.restore]."""
        return {
            "records": self._records,
            "last": None if self._last is None else [self._last.step, self._last.time],
            "rules": {rule.name: {"rule": dump(rule), "track": track.state()} for rule, track, _ in self._rules},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where another engine stood. A rule that it did not have begins here.

        Raises:
            ValueError: Another version saved it.
        """
        self._records = state["records"]
        self._last = None if state["last"] is None else StepRecord(state["last"][0], state["last"][1], {})
        for rule, track, _ in self._rules:
            saved = state["rules"].get(rule.name)
            if saved is not None:
                restore(rule, saved["rule"])
                track.restore(saved["track"])

    def _take(
        self,
        rule: Rule,
        track: Track,
        causes: Sequence[Track],
        found: Finding | Untold | Quiet,
        record: StepRecord,
        spacing: int,
    ) -> Alert | None:
        if found is CLEAR:
            if track.alert is None:
                track.at_least.clear()
                track.busy = False
                return None
            return self._release(rule, track, track.alert, record, spacing)
        assert not isinstance(found, Quiet)
        return self._fire(rule, track, causes, found, record, spacing)

    def _fire(
        self,
        rule: Rule,
        track: Track,
        causes: Sequence[Track],
        found: Finding | Untold,
        record: StepRecord,
        spacing: int,
    ) -> Alert | None:
        track.clear, track.busy, track.as_told = None, True, None
        at_least, rank = track.at_least, _SEVERITIES.index(found.severity)
        del at_least[rank + 1 :]
        for streak in at_least:
            streak.records += 1
        hold = (found.hold if isinstance(found, Untold) else None) or rule.hold
        if len(at_least) <= rank:
            since = found.since if isinstance(found, Untold) else None
            while len(at_least) <= rank:
                at_least.append(Streak(record.step) if since is None else Streak(since, hold.records))
        for streak in at_least:
            streak.ask(hold)  # what is worse is no less than that
        told = -1 if track.alert is None else _SEVERITIES.index(track.alert.severity)
        while rank > told and not at_least[rank].held(at_least[rank].hold or rule.hold, record.step, spacing):
            rank -= 1
        if rank > told and any(cause.is_critical for cause in causes):
            return None
        if rank <= told:
            if told < 0:
                track.waiting = (found, record)
                self._waiting.append(track)
            elif len(at_least) <= told + 1:
                track.as_told = found.severity
            return None
        track.alert = self._alert(rule, track, found, _SEVERITIES[rank], record, AlertState.FIRING)
        return track.alert

    def _alert(
        self,
        rule: Rule,
        track: Track,
        found: Finding | Untold,
        severity: Severity,
        record: StepRecord,
        state: AlertState,
    ) -> Alert:
        if isinstance(found, Untold):
            found = found.tell()
        few = state is AlertState.FIRING and self._records < FEW and not rule.certain
        return Alert(
            rule=rule.name,
            severity=severity,
            state=state,
            since=track.alert.since if track.alert else track.at_least[0].since,
            step=record.step,
            time=record.time,
            value=found.value,
            reference=found.reference,
            message=found.message + (low_evidence(self._records) if few else ""),
            evidence=found.evidence,
            causes=tuple(found.causes),
            advice=tuple(found.advice),
            run=self._run,
            forecast=found.forecast,
        )

    def _release(self, rule: Rule, track: Track, alert: Alert, record: StepRecord, spacing: int) -> Alert | None:
        track.at_least.clear()
        track.as_told = None
        if track.clear is None:
            track.clear = Streak(record.step)
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
            forecast=None,
        )
        track.alert, track.clear, track.busy = None, None, False
        return over

    def _leave_out(self, judged: tuple[Rule, Track, list[Track]], error: Exception) -> None:
        self._rules.remove(judged)
        self._updates = [each for each in self._updates if each[2] is not judged]
        if self._on_fault is not None:
            self._on_fault(judged[0].name, error)


def low_evidence(rows: int) -> str:
    """What stands behind a message that rests on so many rows."""
    return f" (low evidence: {rows} row{'s' * (rows > 1)})"
