"""What people have answered to a run's alerts: that they know, or that they want to hear nothing for a while.

    runs/<run>/acks.jsonl    {"rule":"dead-groups","kind":"acknowledge","since":188,"severity":"warning","time":17645e5}
                             {"rule":"dead-groups","kind":"silence","until_step":400,"time":17645e5,"who":"Ada"}
                             {"rule":"dead-groups","kind":"silence","undo":true,"time":17645e5}

Appended to, a line an answer, and never rewritten; the last line about a thing counts. An alert is acknowledged as it
was: one that becomes worse is told again. A silence is about a rule, up to a step, for some time, or for the rest of
the run. The file has no markers: a training that resumes takes back steps, not what people have said.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rlwatch.runs.jsonl import decode, encode
from rlwatch.runs.reader import Skipped
from rlwatch.runs.records import Alert, AlertState, Severity
from rlwatch.runs.writer import LineFile

FILE = "acks.jsonl"

ACKNOWLEDGE, SILENCE = "acknowledge", "silence"

LONGEST_NAME = 80
"""Letters of the name of who answers."""

LONGEST_LINE = 4000
"""Bytes of a line: it is one write."""

Stamp = tuple[int, int, int]

_UNSOUND = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


@dataclass(frozen=True)
class Answer:
    """What somebody has said.

    Args:
        rule: The rule that it is about.
        kind: `acknowledge` or `silence`.
        time: Unix seconds.
        since: The step at which the alert began; an acknowledgement is of one alert, and has one.
        undo: It is taken back.
        who: Who says so, in their own words; may be empty.
        severity: How bad the alert was when it was acknowledged; None where that is not known.
        until_step: The step with which a silence ends.
        until_time: Unix seconds at which a silence ends. Without an end it is for the rest of the run.
    """

    rule: str
    kind: str
    time: float
    since: int | None = None
    undo: bool = False
    who: str = ""
    severity: Severity | None = None
    until_step: int | None = None
    until_time: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """It as plain JSON types, without what is not said."""
        data = {**self.__dict__, "severity": self.severity.value if self.severity is not None else None}
        unsaid = {"who": "", "undo": False}
        return {name: value for name, value in data.items() if value is not None and value != unsaid.get(name)}

    def holds(self, step: int | None, now: float) -> bool:
        """Whether a silence has not ended.

        Args:
            step: The run's newest step; None where it has none.
            now: Unix seconds.
        """
        by_step = self.until_step is None or step is None or step < self.until_step
        return by_step and (self.until_time is None or now < self.until_time)

    @property
    def words(self) -> str:
        """For people, in UTC: "acknowledged", "silenced until step 400"."""
        if self.kind == ACKNOWLEDGE:
            return "acknowledged"
        ends = [f"step {self.until_step:,}"] if self.until_step is not None else []
        if self.until_time is not None:
            ends.append(f"{datetime.fromtimestamp(self.until_time, timezone.utc):%Y-%m-%d %H:%M} UTC")
        return f"silenced until {' or '.join(ends)}" if ends else "silenced for the rest of the run"


@dataclass(frozen=True)
class Standing:
    """What holds of all that was said.

    Args:
        acknowledged: By rule and the step at which the alert began.
        silenced: The last silence of each rule, if it was not taken back. It may have ended.
    """

    acknowledged: Mapping[tuple[str, int], Answer] = field(default_factory=dict)
    silenced: Mapping[str, Answer] = field(default_factory=dict)

    def acknowledgement(self, alert: Alert) -> Answer | None:
        """That of an alert, as long as the alert is no worse than what was seen. What is over needs none."""
        found = self.acknowledged.get((alert.rule, alert.since))
        if found is None or alert.state is not AlertState.FIRING:
            return None
        seen = Severity.WARNING if found.severity is None else found.severity  # a critical alert is told, if in doubt
        return found if alert.severity.rank <= seen.rank else None

    def silence(self, rule: str, step: int | None, now: float) -> Answer | None:
        """That of a rule, if it has not ended; see [`Answer.holds`][rlwatch.runs.acks.Answer.holds]."""
        found = self.silenced.get(rule)
        return found if found is not None and found.holds(step, now) else None

    def silent(self, step: int | None, now: float) -> frozenset[str]:
        """The rules that are silenced."""
        return frozenset(rule for rule, answer in self.silenced.items() if answer.holds(step, now))

    def of(self, alert: Alert, step: int | None, now: float) -> list[Answer]:
        """What there is to say of an alert: that it is acknowledged, that its rule is silenced, both, or nothing."""
        return [answer for answer in (self.acknowledgement(alert), self.silence(alert.rule, step, now)) if answer]


def standing_of(answers: Iterable[Answer]) -> Standing:
    """What holds after these answers, the oldest first."""
    acknowledged: dict[tuple[str, int], Answer] = {}
    silenced: dict[str, Answer] = {}
    for answer in answers:
        if answer.kind == SILENCE:
            silenced.pop(answer.rule, None)
            if not answer.undo:
                silenced[answer.rule] = answer
        elif answer.since is not None:
            acknowledged.pop((answer.rule, answer.since), None)
            if not answer.undo:
                acknowledged[answer.rule, answer.since] = answer
    return Standing(acknowledged, silenced)


def read_answers(run: Path) -> tuple[list[Answer], list[Skipped]]:
    """All that was said of a run, the oldest first, and lines that are not what they should be.

    A last line without its newline is still in flight, and left.

    Raises:
        OSError: The file is there and cannot be read.
    """
    path = run / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], []
    answers, skipped, offset = [], [], 0
    for line in data[: data.rfind(b"\n") + 1].split(b"\n"):
        if line.strip():
            try:
                answers.append(_answer_of(decode(line)))
            except _UNSOUND as error:
                skipped.append(Skipped(path, f"the line at byte {offset} is not what rlwatch writes: {error}"))
        offset += len(line) + 1
    return answers, skipped


def stamp_of(run: Path) -> Stamp | None:
    """What changes when somebody answers; None where nobody has."""
    try:
        status = os.stat(run / FILE)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def append(run: Path, answer: Answer) -> None:
    """Write an answer down.

    Raises:
        OSError: The run directory is read-only, gone or full.
        ValueError: It is too long for a line.
    """
    line = encode(replace(answer, who=clean_name(answer.who)).to_dict())
    if len(line) > LONGEST_LINE:
        raise ValueError(f"what is said takes {len(line):,} bytes; at most {LONGEST_LINE:,} are written")
    if not run.is_dir():
        raise FileNotFoundError(f"there is no run directory {run}")
    file = LineFile(run / FILE)
    try:
        file.write(line)
    finally:
        file.close()


def can_write(run: Path) -> bool:
    """Whether answers can be written down here, as far as one can tell without writing."""
    return os.access(run / FILE if (run / FILE).exists() else run, os.W_OK)


def clean_name(who: str) -> str:
    r"""A name on one line.

    >>> clean_name("  Ada\n Lovelace\x00 ")
    'Ada Lovelace'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in who).split())[:LONGEST_NAME]


def _answer_of(data: Any) -> Answer:
    """An answer from its line.

    Raises:
        Exception: One of `_UNSOUND`; it is not what rlwatch writes.
    """
    rule, kind, who, undo = data["rule"], data["kind"], data.get("who", ""), data.get("undo", False)
    if not isinstance(rule, str) or kind not in (ACKNOWLEDGE, SILENCE):
        raise ValueError(f"{kind!r} of {rule!r} is no answer to an alert")
    if not isinstance(who, str) or not isinstance(undo, bool):
        raise ValueError("its `who` is no text, or its `undo` neither true nor false")
    since, until_step = (_whole(data.get(name), name) for name in ("since", "until_step"))
    if kind == ACKNOWLEDGE and since is None:
        raise ValueError("it does not say since when the alert that it acknowledges holds")
    time, until_time = _seconds(data["time"], "time"), _seconds(data.get("until_time"), "until_time")
    if time is None:
        raise ValueError("it has no time")
    severity = Severity(data["severity"]) if data.get("severity") is not None else None
    return Answer(rule, kind, time, since, undo, clean_name(who), severity, until_step, until_time)


def _whole(value: Any, name: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"its {name} is {value!r}, which is no step")
    return value


def _seconds(value: Any, name: str) -> float | None:
    if value is None:
        return None
    # up to the year 5138: later ones are no dates everywhere
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) > 1e11:
        raise ValueError(f"its {name} is {value!r}, which is no point in time")
    return float(value)
