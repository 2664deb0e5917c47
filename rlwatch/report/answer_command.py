"""`rlwatch alerts ack` and `rlwatch alerts silence`: answers an alert, and says what follows from it."""

from __future__ import annotations

from pathlib import Path

from rlwatch.alerts import answering
from rlwatch.detect.setting import nearest
from rlwatch.runs.reader import read_info
from rlwatch.runs.records import Severity


def acknowledge(run: str, rule: str, since: int | None = None, *, who: str = "", undo: bool = False) -> str:
    """Acknowledge an alert, or take that back; what a person is told.

    Raises:
        ValueError: There is no such run or alert.
        OSError: The run directory cannot be written to.
    """
    found = _run(run)
    try:
        answer = answering.acknowledge(found, rule, since, who=who, undo=undo)
    except OSError as error:
        raise _cannot(found, error) from None
    what = f"{rule} since step {answer.since} in {found.name}"
    if undo:
        return f"rlwatch: {what} is no longer acknowledged; what changes of it is told again"
    worst = answer.severity is Severity.CRITICAL
    again = "when it is over" if worst else "if it becomes worse, or is over"
    return f"rlwatch: {what} is acknowledged; it is told again {again}"


def silence(
    run: str,
    rule: str,
    *,
    until_step: int | None = None,
    hours: float | None = None,
    who: str = "",
    undo: bool = False,
) -> str:
    """Silence a rule, or take that back; what a person is told. Raises as `acknowledge` does."""
    found = _run(run)
    try:
        answer = answering.silence(found, rule, until_step=until_step, hours=hours, who=who, undo=undo)
    except OSError as error:
        raise _cannot(found, error) from None
    if undo:
        return f"rlwatch: {rule} is no longer silenced in {found.name}"
    said = f"rlwatch: {rule} is {answer.words} in {found.name}; alerts.jsonl and the page have it all the same"
    rules = answering.rules_of(found)
    if rule not in rules:
        said += f"\nrlwatch: {rule} has not fired in this run so far{nearest(rule, sorted(rules))}"
    return said


def _run(given: str) -> Path:
    """A run directory by its path, or by its name in ./runs."""
    places = [Path(given), Path("runs") / given]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise ValueError(f"there is no run {given}, and none of that name in runs/")
    try:
        read_info(found)
    except ValueError as error:
        raise ValueError(f"{given}: {error}") from None
    return found.resolve()


def _cannot(run: Path, error: OSError) -> ValueError:
    return ValueError(f"{run} cannot be written to: {error.strerror or error}")
