"""Trainings without TRL in the lab: a loop of its own, which a `rlwatch.Monitor` watches instead of the callback."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def name_run(built: Any, folder: Path, name: str) -> None:
    """Tell a loop of its own where its run directory is to be made and what it is called; a trainer needs no telling.

    Args:
        built: What an experiment's `build` gave. A loop of its own has `watch_as(folder, name)`, and `run_dir` once it
            has trained.
        folder: The folder of runs.
        name: The run's.
    """
    watch_as = getattr(built, "watch_as", None)
    if watch_as is not None:
        watch_as(folder, name)


def run_dir_of(built: Any, watcher: Any) -> Path | None:
    """Where what has trained was recorded: by itself, or else by the callback that watched it."""
    found = built.run_dir if hasattr(built, "watch_as") else watcher.run_dir
    assert found is None or isinstance(found, Path)
    return found
