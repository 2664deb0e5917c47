"""What experiment trackers have in common: the names that trainers log under, and which of two counters is the step.

transformers logs `loss` to a tracker as `train/loss` and `eval_loss` as `eval/loss`, and the optimizer step as
`train/global_step`, for the tracker's own counter counts rows. rlwatch mirrors its metrics as `rlwatch/<name>`.

wandb puts the last `train/global_step` into rows that somebody else logs, too: TRL's timings, a user's own numbers.
What has no step of its own is of the step that is logged next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rlwatch.readers.fields import STEP_KEYS
from rlwatch.readers.rows import Log, Row, step_of
from rlwatch.runs.aliases import OURS, RAW, Translator, framework_of

_MIRRORED_STEP = OURS + "step"
_EVALUATED_STEP = "eval/global_step"
_SYNCED_STEP = "train/global_step"
_TRAIN = "train/"
_EVALUATION = "eval/"
_TIMING = "profiling/"
_SYNCED = (_SYNCED_STEP, "train/epoch")
_OF_TRAINERS = (_TRAIN, _EVALUATION, "test/")


def tracker_log(rows: list[Row], **about: Any) -> Log:
    """The log of one run in a tracker.

    Args:
        rows: With the tracker's names and, as `step`, the tracker's own counter.
        about: The other fields of [`Log`][rlwatch.readers.rows.Log].
    """
    names = dict.fromkeys(name for row in rows for name in row.values)
    counters = [name for name in STEP_KEYS if name in names]
    counter = next((name for name in counters if any(_step(row, name) is not None for row in rows)), None)
    if counter is not None and not _agrees(rows, counter):
        rows = _by_their_steps(rows, counter, about.setdefault("notes", []))
    ours = {name: _ours(name, names) for name in names if name not in (*counters, _EVALUATED_STEP)}
    for row in rows:
        row.values = {ours[name]: value for name, value in row.values.items() if name in ours}
    framework = framework_of(ours.values())
    return Log(rows, framework=framework, more_names=_kept_apart(list(ours.values()), framework), **about)


def _ours(name: str, names: Iterable[str]) -> str:
    rest = name.removeprefix(_TRAIN)
    return rest if rest and rest not in names else name


def _step(row: Row, name: str) -> int | None:
    return step_of(row.values.get(name))[0]


def _agrees(rows: list[Row], counter: str) -> bool:
    """Whether the tracker's own counter is the step wherever a row names one: then it is so in all rows."""
    return all(
        row.step is not None and _step(row, name) == row.step
        for row in rows
        for name in (counter, _MIRRORED_STEP)
        if name in row.values
    )


def _by_their_steps(rows: list[Row], counter: str, notes: list[str]) -> list[Row]:
    """The rows that name their step, and in them what was logged without one before."""
    found: list[Row] = []
    waiting: dict[str, float | None] = {}
    lost = 0
    synced = counter == _SYNCED_STEP and any(map(_is_of_a_trainer, rows))
    for row in rows:
        for part in _with_its_step(row, counter, synced):
            if part.step is None:
                part.values = {name: value for name, value in part.values.items() if name != counter}
                evaluated = [name for name in part.values if name.startswith(_EVALUATION)]
                if evaluated and len(evaluated) == len(part.values):
                    part.step = _step(part, _EVALUATED_STEP) or (found[-1].step if found else 0)
                    found.append(part)
                    continue
                lost += sum(name in waiting and not name.startswith(_TIMING) for name in part.values)
                waiting.update(part.values)
                continue
            if waiting and not _evaluates(part):
                part.values = {**waiting, **part.values}
                waiting = {}
            found.append(part)
    if lost:
        notes.append(f"{lost} values without a step, of which there were several before one step: the last one stands")
    for part in reversed(found):
        if not _evaluates(part):
            part.values = {**waiting, **part.values}
            break
    return found


def _evaluates(row: Row) -> bool:
    return any(name.startswith(_EVALUATION) for name in row.values)


def _is_of_a_trainer(row: Row) -> bool:
    return any(name not in _SYNCED and name.startswith(_OF_TRAINERS) for name in row.values)


def _with_its_step(row: Row, counter: str, synced: bool) -> list[Row]:
    """The row with the step that it names, or with none; two rows where rlwatch's metrics are of another step."""
    row.step, mirrored = _step(row, counter), _step(row, _MIRRORED_STEP)
    if synced and not _is_of_a_trainer(row):
        row.step = None
    if mirrored is None or mirrored == row.step:
        return [row]
    own = Row({name: value for name, value in row.values.items() if name.startswith(OURS)}, mirrored, row.time)
    rest = Row({name: value for name, value in row.values.items() if not name.startswith(OURS)}, row.step, row.time)
    return [rest, own] if row.step is None or row.step < mirrored else [own, rest]


def _kept_apart(names: list[str], framework: str | None) -> dict[str, str]:
    """Where rlwatch's own metrics are in the log, they are the ones: what the trainer calls the same stays as it is."""
    translate = Translator(framework)
    mirrored = {translate(name) for name in names if name.startswith(OURS)}
    return {name: RAW + name for name in names if not name.startswith(OURS) and translate(name) in mirrored}
