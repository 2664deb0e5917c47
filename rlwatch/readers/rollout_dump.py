"""Completions that a training wrote down, with their rewards, as step records: what a log of metrics does not show.

A file, or a folder with a file a step: TRL's completions, verl's rollout_data_dir, prime-rl's and NeMo-RL's rollouts,
rlwatch's own shards, and any parquet, JSON lines or JSON list with a row a completion.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlwatch.readers.loading import Options
from rlwatch.readers.rollout_columns import PARQUET, REWARD, Columns, Kind, is_rollouts
from rlwatch.readers.rollout_objects import kinds_in_head
from rlwatch.readers.source import Source, UnreadableError
from rlwatch.runs.records import Run

if TYPE_CHECKING:  # polars and numpy take longer to import than most logs to read
    from rlwatch.readers.rollout_runs import Dump

_ENDINGS = (".parquet", ".jsonl", ".ndjson", ".json", ".jsonl.gz", ".jsonl.zst", ".json.gz")
_STEP = re.compile(r"(?:.*[_\-.]|.*step|)step[_\-=.]?(\d+)|completions_(\d+)|(\d+)", re.IGNORECASE)
_EVALUATION = re.compile(r"(?:^|[_.-])(?:val|valid|validation|eval|evaluation)(?:[_.-]|$)", re.IGNORECASE)
_FOLDERS = ("completions", "rollouts", "rollout", "rollout_data", "rollout_data_dir", "train_data")
"""What folders of dumps are called: their runs have the name of the folder around them."""


def sniff(source: Source) -> bool:
    """Whether a row is a completion with a reward, by the first rows or the columns."""
    if source.head.startswith(PARQUET):
        from rlwatch.readers.rollout_tables import columns_in

        try:
            return _columns(columns_in(source)) is not None
        except UnreadableError:
            return False
    kinds = kinds_in_head(source)
    if kinds and all(kind == "nothing" for kind in kinds.values()):
        # The first row is longer than what may be looked at: its reward may come behind its text.
        return is_rollouts([*kinds, REWARD[0]])
    return _columns(kinds) is not None


def read(source: Source, options: Options) -> list[Run]:
    """The runs of a dump in one file.

    Raises:
        UnreadableError: It is broken, holds no completions, or `options.correct` names a column that it does not have.
    """
    name = source.name.removesuffix(".gz").removesuffix(".zst")
    return _read([(source, _step_of(source.name))], name.rpartition(".")[0] or name, str(source.path), options)


def sniff_directory(path: Path) -> bool:
    """Whether a folder is the dump of one run: all in it are files, or folders of files, that are named by a step."""
    shards = _shards(path)
    if not shards:
        return False
    file, step = shards[0]
    try:
        source = Source(file)
        if not sniff(source):
            return False
        # Numbers may as well count the runs that somebody has put into a folder.
        return not file.name.split(".")[0].isdecimal() or _first_step(source) in (None, step)
    except UnreadableError:
        return False


def read_directory(path: Path, options: Options) -> list[Run]:
    """The runs of a dump with a file, or a folder of files, a step.

    Raises:
        UnreadableError: None of its files can be read, or `options.correct` names a column that they do not have.
    """
    name = path.resolve().name
    if name.lower() in _FOLDERS:
        name = path.resolve().parent.name or name
    return _read([(file, step) for file, step in _shards(path)], name, str(path), options)


def _read(files: Sequence[tuple[Source | Path, int | None]], name: str, path: str, options: Options) -> list[Run]:
    from rlwatch.readers.rollout_runs import runs_of
    from rlwatch.readers.rollout_steps import Rows
    from rlwatch.readers.rollout_tables import columns_in, tables

    dump: Dump | None = None
    kinds: dict[str, Kind] = {}
    rows = Rows()
    trouble: Counter[str] = Counter()
    broken: list[str] = []
    for file, step in files:
        try:
            source = file if isinstance(file, Source) else Source(file)
            here = columns_in(source)
            kinds = {**here, **{n: kind for n, kind in kinds.items() if here.get(n, "nothing") == "nothing"}}
            if dump is None:
                dump = _dump(kinds, options, name, path)
            for table in tables(source, dump.columns, kinds, trouble):
                rows.add(table, step)
        except UnreadableError as error:
            if len(files) == 1 or (dump is None and options.correct):
                raise
            broken.append(f"{file.name}: {error}")
    if dump is None:
        raise UnreadableError(broken[0] if broken else "it holds no file")
    if trouble["lines"]:
        dump.notes.append(f"{trouble['lines']} line{'s' * (trouble['lines'] > 1)} passed over: no whole JSON objects")
    if broken:
        dump.notes.append(f"{len(broken)} of {len(files)} files could not be read, the first one {broken[0]}")
    runs = runs_of(dump, rows.whole())
    if not runs:
        raise UnreadableError("it holds no completion with a reward")
    return runs


def _dump(kinds: Mapping[str, Kind], options: Options, name: str, path: str) -> Dump:
    from rlwatch.readers.rollout_runs import Dump
    from rlwatch.readers.rollout_verdicts import said

    columns = _columns(kinds)
    if columns is None:
        raise UnreadableError("it has no columns of completions and rewards")
    limit, inclusive = None, True
    if options.correct:
        column, limit, inclusive = said(options.correct, kinds)
        columns = replace(columns, correct=column)
    dump = Dump(columns, name, path, limit, inclusive)
    for part in Path(path).parts[-2:]:
        if _EVALUATION.search(part):
            dump.notes.append(f"by its name, {part}, this is an evaluation and not a training")
    return dump


def _columns(kinds: Mapping[str, Kind]) -> Columns | None:
    columns = Columns.of(kinds)
    if columns is None or not (columns.reward or columns.functions):
        return None
    return columns if columns.completion or columns.conversation or columns.tokens or columns.all_in_one else None


def _first_step(source: Source) -> int | None:
    from rlwatch.readers.rollout_tables import columns_in, tables

    kinds = columns_in(source)
    columns = Columns.of(kinds)
    if columns is None or columns.step is None:
        return None
    table = next(tables(source, Columns(step=columns.step), kinds, Counter()), None)
    found = table["step"].drop_nans() if table is not None and "step" in table.columns else None
    return int(found[0]) if found is not None and len(found) else None


def _step_of(name: str) -> int | None:
    """The step that a file or folder is named by."""
    match = _STEP.fullmatch(name.split(".")[0])
    return int(next(group for group in match.groups() if group)) if match else None


def _shards(path: Path) -> list[tuple[Path, int]]:
    """The files of a folder with the step of each, in their order; none where something in it is no step's."""
    found: list[tuple[int, Path]] = []
    try:
        for entry in path.iterdir():
            if _passed_over(entry):
                continue
            step = _step_of(entry.name)
            if step is None:
                return []
            inside = [file for file in entry.iterdir() if not _passed_over(file)] if entry.is_dir() else [entry]
            if not inside or not all(file.name.endswith(_ENDINGS) and file.is_file() for file in inside):
                return []
            found += [(step, file) for file in inside]
    except OSError:
        return []
    return [(file, step) for step, file in sorted(found)]


def _passed_over(entry: Path) -> bool:
    lowered = entry.name.lower()
    return lowered.startswith((".", "readme")) or lowered == "abandoned"
