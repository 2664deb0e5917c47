"""From a log's rows to runs: whose names they are, which step a row is, where one training ends and the next begins."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rlwatch.readers.json_columns import ColumnRows
from rlwatch.readers.parts import Part, trainings
from rlwatch.readers.rows import Log, Row
from rlwatch.readers.spacing import SUMMARY, number_rows
from rlwatch.readers.spread import LOOK, more_trl_names
from rlwatch.runs import aliases
from rlwatch.runs.aliases import RAW, Translator
from rlwatch.runs.records import Run, StepRecord

_USED_UP: Mapping[str, float | None] = MappingProxyType({})

EVALUATION = ("eval_", "eval/", "val-core/", "val-aux/", "val/", "validation/", "test/", "test_score/")
"""How the names of an evaluation's metrics begin."""


def assemble(log: Log, *, name: str, path: str, every: int | None = None) -> list[Run]:
    """The runs of a log, in its order.

    Args:
        log: What a reader found.
        name: The run's name where the log has none.
        path: Where it was read from.
        every: Steps from one row to the next, for rows that carry no step; None: found out from the rows.

    Returns:
        Nothing where no row has a number that belongs to a step.
    """
    if isinstance(log.rows, ColumnRows) and (run := _of_columns(log, log.rows, log.name or name, path)) is not None:
        return [run]
    notes = list(log.notes)
    rows = [row for row in log.rows if row.values]
    framework = log.framework or framework_of(rows)
    more = {**more_trl_names(rows, framework, log.info, notes), **log.more_names}
    names = Names(framework, more)
    runs = []
    parts = trainings(rows, names.is_evaluation)
    for index, part in enumerate(parts):
        mine = [*notes, *part.notes]
        number_rows(part, every, names, mine)
        records = _merged(part, names, mine)
        title = log.name or name
        if len(parts) > 1:
            title = f"{title}#{index + 1}"
            mine.append(f"training {index + 1} of {len(parts)} in this file")
        if records:
            runs.append(Run(title, path, log.format, framework, records, log.info, tuple(mine)))
    return runs


def _of_columns(log: Log, rows: ColumnRows, name: str, path: str) -> Run | None:
    """The run of a log in columns, if each of its rows names a later step than the one before: then no row is made."""
    notes, first = list(log.notes), rows[:LOOK]
    framework = log.framework or framework_of(first)
    names = Names(framework, {**more_trl_names(first, framework, log.info, notes), **log.more_names})
    table = None if SUMMARY in rows.names else rows.table(lambda keys: names(keys, False))
    return None if table is None else Run(name, path, log.format, framework, table, log.info, tuple(notes))


def framework_of(rows: Sequence[Row]) -> str | None:
    """By the names in the first rows; None where none of them tells."""
    return aliases.framework_of({name for row in rows[:50] for name in row.values})


class Names:
    """What a log's names are called here; those of an evaluation come under `eval/`."""

    def __init__(self, framework: str | None, more: Mapping[str, str]) -> None:
        self._translate = Translator(framework, more)
        # TRL's old PPOTrainer has val/ratio, of the training
        self._starts = tuple(start for start in EVALUATION if framework != "trl" or start != "val/")
        self._known: dict[tuple[tuple[str, ...], bool], tuple[str, ...]] = {}
        self._evaluations: dict[tuple[str, ...], bool] = {}

    def __call__(self, keys: tuple[str, ...], evaluation: bool) -> tuple[str, ...]:
        """Our names for those of one row."""
        found = self._known.get((keys, evaluation))
        if found is None:
            found = self._known[keys, evaluation] = tuple(
                self._evaluated(key) if evaluation or (ours.startswith(RAW) and key.startswith(self._starts)) else ours
                for key, ours in zip(keys, self._translate.all(keys), strict=True)
            )
        return found

    def is_evaluation(self, row: Row) -> bool:
        """Whether a row is about an evaluation alone."""
        if row.evaluation:
            return True
        keys = tuple(row.values)
        found = self._evaluations.get(keys)
        if found is None:
            ours = [name for key, name in zip(keys, self(keys, False), strict=True) if key != "epoch"]
            found = self._evaluations[keys] = bool(ours) and all(name.startswith("eval/") for name in ours)
        return found

    def is_raw(self, row: Row) -> bool:
        """Whether a row has no metric of ours at all."""
        return all(name.startswith(RAW) for name in self(tuple(row.values), row.evaluation))

    def _evaluated(self, name: str) -> str:
        begin = next((start for start in self._starts if name.startswith(start)), "")
        return f"eval/{name[len(begin) :]}" if begin in ("eval_", "eval/", "test/") else f"eval/{name}"


def _merged(part: Part, names: Names, notes: list[str]) -> list[StepRecord]:
    """One record a step: rows of one step are one, and the later value of one name stands. The rows are used up."""
    records: list[StepRecord] = []
    steps: list[int] = []
    twice = 0
    keys: tuple[str, ...] = ()
    evaluation = False
    ours = names(keys, evaluation)
    for row in part.rows:
        values, step = row.values, row.step
        if SUMMARY in values:
            continue
        assert step is not None
        mine = tuple(values)
        if mine != keys or row.evaluation is not evaluation:  # most rows have the names of the one before them
            keys, evaluation = mine, row.evaluation
            ours = names(keys, evaluation)
        metrics: dict[str, float | None] = dict(zip(ours, values.values(), strict=False))
        row.values = _USED_UP  # its memory is the next one's: to ask for more and more takes time
        time = math.nan if row.time is None else row.time
        if not steps or step > steps[-1]:
            records.append(StepRecord(step, time, metrics))
            steps.append(step)
            continue
        place = bisect_left(steps, step)
        if steps[place] == step:
            before = records[place]
            twice += any(name in before.metrics for name in metrics if name != "raw/epoch")
            time = before.time if row.time is None else row.time
            records[place] = StepRecord(step, time, {**before.metrics, **metrics})
        else:
            records.insert(place, StepRecord(step, time, metrics))
            steps.insert(place, step)
    if twice:
        notes.append(f"{twice} row{'s' * (twice > 1)} of a step that was logged before: the later values stand")
    return records
