"""`load`: what is this file, and which runs are in it."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from rlwatch.readers.assemble import assemble
from rlwatch.readers.rows import Log
from rlwatch.readers.source import Source, UnreadableError, UnusableError
from rlwatch.runs.records import Run
from rlwatch.runs.table import no_garbage

READERS = (
    # directories
    "rlwatch.readers.run_directory",
    "rlwatch.readers.wandb_folder",
    # told by their first bytes
    "rlwatch.readers.tensorboard",
    "rlwatch.readers.wandb_file",
    "rlwatch.readers.trackio",
    "rlwatch.readers.parquet",
    # text, the most particular first
    "rlwatch.readers.notebook",
    "rlwatch.readers.rollout_dump",
    "rlwatch.readers.verl",
    "rlwatch.readers.trl_state",
    "rlwatch.readers.json_rows",
    "rlwatch.readers.csv_table",
    "rlwatch.readers.console",
    "rlwatch.readers.pasted",
)
"""Modules, each with one format and the functions of [`Reader`][rlwatch.readers.loading.Reader]; asked in order."""

DIRECTORIES = (
    "rlwatch.readers.run_directory",
    "rlwatch.readers.wandb_folder",
    "rlwatch.readers.trl_state",
    "rlwatch.readers.tensorboard",
    "rlwatch.readers.rollout_dump",
)
"""Those of them that read a folder as one run: they have `sniff_directory` and `read_directory` too."""


@dataclass(frozen=True)
class Options:
    """What a person may say about a file.

    Args:
        every: Steps from one row to the next, for rows that carry no step.
        correct: Which completions of a rollout dump are correct: `column`, `column>0.5` or `column>=1`.
    """

    every: int | None = None
    correct: str | None = None


FAULTS = (UnreadableError, RecursionError, OSError, MemoryError)
"""What reading and judging a file may raise, whatever is in it."""


class Reader(Protocol):
    """A module that reads one format."""

    def sniff(self, source: Source) -> bool:
        """Whether the file is one of this format, by `source.head` alone. Cheap, and never raises on any bytes."""

    def read(self, source: Source, options: Options) -> list[Log] | list[Run]:
        """What is in it. Raises UnreadableError where that turns out to be nothing or broken."""


def load(path: str | Path, options: Options | None = None) -> list[Run]:
    """The runs in a file or directory, whatever its format.

    Args:
        path: A file, a run directory of rlwatch's or wandb's, or `-` for standard input.
        options: What a person says about it.

    Raises:
        UnreadableError: It is not there, cannot be read, or holds no training in a format that rlwatch knows.
    """
    with no_garbage():
        return _load(path, options or Options())


def _load(path: str | Path, options: Options) -> list[Run]:
    chosen = Path(path)
    if str(path) != "-" and os.path.isdir(path):
        for name in DIRECTORIES:
            module = import_module(name)
            if module.sniff_directory(chosen):
                return _runs(module.read_directory(chosen, options), chosen.name, str(path), options)
        raise UnreadableError("it is a directory, and not the directory of one run")
    source = Source(path)
    if not source.head:
        raise UnreadableError("it is empty")
    tried = []
    for name in READERS:
        module = import_module(name)
        if hasattr(module, "sniff") and module.sniff(source):
            try:
                runs = _runs(module.read(source, options), _stem(source.name), str(path), options)
            except UnusableError:
                raise
            except UnreadableError as error:
                tried.append(f"read as {name.rpartition('.')[2]}, {error}")
                continue
            if runs:
                return runs
            tried.append(f"read as {name.rpartition('.')[2]}, no row of it holds a metric of a training")
    raise UnreadableError("; ".join(tried) or "it is none of the formats that rlwatch reads")


def load_all(paths: list[str], options: Options | None = None) -> Iterator[tuple[str, list[Run] | UnreadableError]]:
    """Each file that the paths name, with its runs or the reason why there are none.

    A folder stands for everything in it, a pattern for what it matches. A folder that is a run is one.
    """
    for path in paths:
        for file in files_of(path):
            try:
                yield file, load(file, options)
            except FAULTS as error:
                yield file, UnreadableError(why_not(error))


def why_not(error: BaseException) -> str:
    """Why a file could not be read, in words, by what was raised: one of `FAULTS`."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"it cannot be read: {error}" if isinstance(error, (OSError, MemoryError)) else str(error)


def files_of(path: str) -> list[str]:
    """The files that a path, a folder or a pattern stands for, sorted; not hidden ones, READMEs or labels."""
    if path == "-" or os.path.isfile(path) or not (os.path.isdir(path) or any(c in path for c in "*?[")):
        return [path]  # a file may be called run[1].log
    if not os.path.isdir(path):
        return sorted(glob.glob(path, recursive=True)) or [path]
    if _is_run(Path(path)):
        return [path]
    found: list[str] = []
    for folder, folders, files in os.walk(path):  # symbolic links to folders are not followed: no loops
        here = Path(folder)
        for name in sorted(folders):
            if _is_run(here / name) and not _is_link_within(here / name, path):
                found.append(str(here / name))
        folders[:] = [name for name in sorted(folders) if not name.startswith(".") and not _is_run(here / name)]
        found += [
            str(here / name)
            for name in sorted(files)
            if not _passed_over(name) and not _is_link_within(here / name, path)
        ]
    return found


def _is_run(path: Path) -> bool:
    return any(import_module(name).sniff_directory(path) for name in DIRECTORIES)


def _is_link_within(path: Path, root: str) -> bool:
    """Whether it is a link to something that is found in the same folder anyway: wandb/latest-run, wandb/debug.log."""
    return path.is_symlink() and os.path.realpath(path).startswith(os.path.realpath(root) + os.sep)


def _passed_over(name: str) -> bool:
    lowered = name.lower()
    return lowered.startswith((".", "readme", "license", "labels.", "debug-cli.", "rlwatch.toml")) or lowered.endswith(
        (".py", ".pyc", ".safetensors", ".png", ".bin", ".pt", ".db-wal", ".db-shm", ".lock")
    )


def _stem(name: str) -> str:
    for ending in (".gz", ".zst"):
        name = name.removesuffix(ending)
    return name.rpartition(".")[0] or name


def _runs(found: list[Log] | list[Run], name: str, path: str, options: Options) -> list[Run]:
    runs: list[Run] = []
    for item in found:
        if isinstance(item, Run):
            runs.append(item)
        else:
            runs += assemble(item, name=name, path=path, every=options.every)
    return runs
