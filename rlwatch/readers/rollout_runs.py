"""From all completions of a dump to its runs: a record a step, and what had to be inferred."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rlwatch.readers.rollout_columns import Columns
from rlwatch.readers.rollout_signals import Completions, completion_metrics
from rlwatch.readers.rollout_steps import FloatArray, Segment, Table, segments_of, trainings
from rlwatch.readers.rollout_trl import Layout, as_trl_writes_them, sizes_of_runs
from rlwatch.readers.rollout_verdicts import Verdicts
from rlwatch.runs.records import Run, StepRecord
from rlwatch.signals.groups import RewardRange, total_rewards


@dataclass
class Dump:
    """What is known of a dump before its rows are read.

    Args:
        columns: What is what in it.
        name: The run's.
        path: Where it lies.
        limit: As in [`Verdicts`][rlwatch.readers.rollout_verdicts.Verdicts].
        inclusive: Likewise.
        notes: What had to be inferred or was passed over, a sentence each.
    """

    columns: Columns
    name: str
    path: str
    limit: float | None = None
    inclusive: bool = True
    notes: list[str] = field(default_factory=list)


def runs_of(dump: Dump, table: Table) -> list[Run]:
    """The runs of a dump; none where there is no completion with a reward.

    Args:
        dump: What it is.
        table: Its rows, as [`Rows`][rlwatch.readers.rollout_steps.Rows] gives them.
    """
    count = len(next(iter(table.values()), ()))
    if not count:
        return []
    columns, notes = dump.columns, [f"read as {dump.columns.describe()}", *dump.notes]
    if "step" not in table:
        notes.append("neither the rows nor the file's name say a step: all of it is taken for one")
    segments, order = segments_of(table.get("step", np.ones(count)))
    if order is not None:
        table = {name: values[order] for name, values in table.items()}
        notes.append("the steps come in no order and were put in one: a training that began anew cannot be told")
    columns = as_trl_writes_them(columns, table, segments, notes)
    parts = trainings(segments, notes)
    runs = []
    for index, part in enumerate(parts):
        maker = _Maker(replace(dump, columns=columns), table, part)
        records = [record for segment in part if (record := maker.record(segment)) is not None]
        title, mine = dump.name, [*notes, *maker.notes()]
        if len(parts) > 1:
            title = f"{dump.name}#{index + 1}"
            mine.append(f"training {index + 1} of {len(parts)} in this dump")
        if records:
            runs.append(Run(title, dump.path, columns.format, columns.framework, records, {}, tuple(mine)))
    return runs


class _Maker:
    """Makes the records of one training, in their order."""

    def __init__(self, dump: Dump, table: Table, part: list[Segment]) -> None:
        self._columns, self._table = dump.columns, table
        self._names = [name for name, _ in dump.columns.functions]
        self._verdicts = Verdicts(dump.columns, dump.limit, dump.inclusive)
        self._seen = RewardRange()
        self._missing: Counter[str] = Counter()
        self._steps = 0
        self._layout = None
        if dump.columns.framework == "trl":
            self._layout = Layout([(step, table["prompt"][lo:hi], table["completion"][lo:hi]) for step, lo, hi in part])

    def record(self, segment: Segment) -> StepRecord | None:
        """The record of a step; None where no completion of its is of the training, or none has a reward."""
        step, lo, hi = segment
        if self._layout is not None:
            first, last = self._layout.training(sizes_of_runs(self._table["prompt"][lo:hi]))
            lo, hi = lo + first, lo + last
        if lo == hi:
            return None
        rows: dict[str, Any] = {name: values[lo:hi] for name, values in self._table.items()}
        per_function = np.column_stack(
            [np.empty((hi - lo, 0)), *(rows.get(f"f{i}", np.full(hi - lo, np.nan)) for i in range(len(self._names)))]
        )
        summed = self._columns.reward is None
        rewards = total_rewards(per_function, np.ones(len(self._names))) if summed else rows["reward"]
        self._seen = self._seen.including(rewards)
        self._steps += 1
        completions = Completions(
            rewards=rewards,
            functions=self._names,
            per_function=per_function,
            summed=summed,
            groups=self._groups(rows),
            lengths=self._known(rows, "length"),
            truncated=self._known(rows, "truncated"),
            correct=self._verdicts.judge(rows.get("correct"), rewards, per_function),
            fingerprints=None
            if "completion" not in rows or (rows["completion"] == 0).any()
            else rows["completion"].view(np.int64),
        )
        with np.errstate(invalid="ignore"):  # an infinite reward has no deviation
            return StepRecord(step, math.nan, completion_metrics(completions, self._seen))

    def _known(self, rows: dict[str, Any], name: str) -> FloatArray | None:
        values: FloatArray | None = rows.get(name)
        if values is None or np.isnan(values).any():
            self._missing[name] += 1
            return None
        return values

    def _groups(self, rows: dict[str, Any]) -> Any:
        """The number of each completion's group; None where hardly any has siblings, or nothing tells which."""
        candidates = []
        if self._layout is not None:
            runs = sizes_of_runs(rows["prompt"])
            candidates.append(np.repeat(np.arange(len(runs)), runs))
        for name in ("group", "prompt"):
            if name in rows and not (rows[name] == 0).any():
                candidates.append(np.unique(rows[name], return_inverse=True)[1])
        for index, groups in enumerate(candidates):
            sizes = np.bincount(groups)
            if 2 * (sizes > 1).sum() >= len(sizes):
                self._missing["siblings"] += index > 0
                return groups
        self._missing["alone" if candidates else "groups"] += 1
        return None

    def notes(self) -> list[str]:
        """What had to be inferred, and what cannot be known."""
        notes = [self._verdicts.describe()]
        if self._layout is not None:
            notes += self._layout.notes()
        where = {
            name: "" if count == self._steps else f" on {count} of {self._steps} steps"
            for name, count in self._missing.items()
        }
        if "length" in where:
            notes.append(
                "no column counts the tokens of a completion or holds their ids: length/mean and its kin and "
                f"groups/wasted_tokens are absent{where['length']}, for characters are no tokens"
            )
        if "groups" in where:
            notes.append(f"nothing says which completions share a prompt: groups/ is absent{where['groups']}")
        if "alone" in where:
            notes.append(f"fewer than half of the prompts have several completions: groups/ is absent{where['alone']}")
        if self._missing["siblings"]:
            by = self._columns.group or "the order of the rows"
            notes.append(f"{by} gives each completion a group of its own{where['siblings']}: the prompt tells groups")
        return notes
