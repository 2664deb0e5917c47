"""From a log's rows to runs: whose names they are, which step a row is, where one training ends and the next begins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from rlwatch.readers.rows import Log, Row
from rlwatch.runs.aliases import Translator
from rlwatch.runs.records import Run, StepRecord

MARKS: Mapping[str, tuple[str, ...]] = {
    "verl": ("actor/pg_loss", "actor/ppo_kl", "critic/score/mean", "actor/entropy_loss", "critic/rewards/mean"),
    "tinker": ("progress/done_frac", "progress/step", "optim/lr", "policy/entropy"),
    "skyrl": ("policy/policy_entropy", "policy/policy_loss", "reward/avg_raw_reward"),
    "openrlhf": ("actor_grad_norm", "policy_loss", "ppo_clip_ratio", "rollout/reward_mean", "train/policy_loss"),
    "trl": ("reward_std", "completion_length", "completions/mean_length", "frac_reward_zero_std", "learning_rate"),
}
"""Names that tell a framework."""

EVALUATION = ("eval_", "eval/", "val-core/", "val-aux/", "val/", "test/")
"""How the names of an evaluation's metrics begin."""

_SUMMARY = "train_runtime"
"""A key of the row that transformers logs at the end of a training; it is about all of it."""


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
    rows = [row for row in log.rows if row.values and _SUMMARY not in row.values]
    notes = list(log.notes)
    if len(rows) < len(log.rows):
        left_out = sum(_SUMMARY in row.values for row in log.rows)
        if left_out:
            notes.append(f"{left_out} row{'s' * (left_out > 1)} of totals at the end of a training left out")
    framework = log.framework or framework_of(rows)
    names = Names(framework, log.more_names)
    runs = []
    parts = _trainings(rows, notes)
    for index, part in enumerate(parts):
        mine = list(notes)
        numbered = _numbered(part, every, mine)
        records = _merged(numbered, names)
        title = log.name or name
        if len(parts) > 1:
            title = f"{title}#{index + 1}"
            mine.append(f"training {index + 1} of {len(parts)} in this file")
        if records:
            runs.append(Run(title, path, log.format, framework, records, log.info, tuple(mine)))
    return runs


def framework_of(rows: Sequence[Row]) -> str | None:
    """By the names in the first rows; None where none of them tells."""
    seen = {name for row in rows[:20] for name in row.values}
    votes = {framework: sum(mark in seen for mark in marks) for framework, marks in MARKS.items()}
    best = max(votes, key=lambda framework: votes[framework])
    return best if votes[best] else None


class Names:
    """What a log's names are called here; those of an evaluation come under `eval/`."""

    def __init__(self, framework: str | None, more: Mapping[str, str]) -> None:
        self._translate = Translator(framework, more)
        self._known: dict[tuple[str, bool], str] = {}

    def __call__(self, name: str, evaluation: bool) -> str:
        """Our name."""
        found = self._known.get((name, evaluation))
        if found is None:
            begin = next((start for start in EVALUATION if name.startswith(start)), "")
            rest = name[len(begin) :] if begin.startswith(("eval", "test")) else name
            found = f"eval/{rest}" if begin or evaluation else self._translate(name)
            self._known[name, evaluation] = found
        return found


def rows_of_averages(rows: Sequence[Row]) -> int:
    """How many steps a row is the mean of, from counts that are whole at each step, such as the shortest completion.

    The smallest k for which k times each of them is whole; 1 where there are none.
    """
    found = 1
    for row in rows:
        for name, value in row.values.items():
            if name.endswith(("/min_length", "/max_length")) and value is not None and math.isfinite(value):
                near = Fraction(value).limit_denominator(100)
                if abs(float(near) - value) < 1e-4:
                    found = found * near.denominator // math.gcd(found, near.denominator)
                if found > 100:
                    return 1  # they are no means of whole numbers after all
    return found


def _trainings(rows: Iterable[Row], notes: list[str]) -> list[list[Row]]:
    """Cut where the counter starts again; where it goes back to a later step than its first, the run was resumed."""
    parts: list[list[Row]] = [[]]
    resumed = []
    for row in rows:
        part = parts[-1]
        counter = _counter(row)
        if part and counter is not None:
            before = next((c for c in (_counter(r) for r in reversed(part)) if c is not None), None)
            first = next((c for c in (_counter(r) for r in part) if c is not None), None)
            if before is not None and first is not None and counter < before:
                if counter <= first:
                    parts.append([])
                else:
                    resumed.append(counter)
                    kept = [r for r in part if (c := _counter(r)) is None or c < counter]
                    part[:] = kept
        parts[-1].append(row)
    if resumed:
        where = ", ".join(f"{step:g}" for step in resumed[:5])
        notes.append(f"the counter goes back to {where}: resumed there, and what came after it before is left out")
    return [part for part in parts if part]


def _counter(row: Row) -> float | None:
    """What grows from row to row: the step, else the epoch."""
    if row.step is not None:
        return row.step
    epoch = row.values.get("epoch")
    return epoch if epoch is not None and math.isfinite(epoch) else None


def _numbered(rows: list[Row], every: int | None, notes: list[str]) -> list[Row]:
    """Rows that all have a step; those that carry none are counted."""
    if any(row.step is not None for row in rows):
        step = None
        for row in rows:
            if row.step is None:
                row.step = step if step is not None else 0
            step = row.step
        return rows
    spacing = every or rows_of_averages([row for row in rows if not row.evaluation])
    how = (
        "as you said"
        if every
        else "the rows are means of so many"
        if spacing > 1
        else "one row each, as far as can be told"
    )
    notes.append(f"the rows carry no step: taken to be {spacing}, {2 * spacing}, {3 * spacing} ... ({how})")
    count = 0
    for row in rows:
        if not row.evaluation and not all(name.startswith(EVALUATION) for name in row.values):
            count += 1
        row.step = count * spacing
    return rows


def _merged(rows: list[Row], names: Names) -> list[StepRecord]:
    """One record a step: rows of one step are one, and the later value of one name stands."""
    records: list[StepRecord] = []
    for row in rows:
        assert row.step is not None
        metrics = {names(name, row.evaluation): value for name, value in row.values.items()}
        time = math.nan if row.time is None else row.time
        if records and records[-1].step == row.step:
            before = records[-1]
            metrics = {**before.metrics, **metrics}
            records[-1] = StepRecord(row.step, time if row.time is not None else before.time, metrics)
        else:
            records.append(StepRecord(row.step, time, metrics))
    return records
