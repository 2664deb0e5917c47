"""Where `rlwatch.toml` is looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

FILE = "rlwatch.toml"


def find(beside: str | os.PathLike[str] | None = None) -> Path | None:
    """The file that holds for a run: in its directory, in the folder of runs, or in the working directory.

    Args:
        beside: A run directory, or a log; of a log, the folder that it lies in is looked at. None for no run.
    """
    found = next((path for path in _places(beside) if _is_file(path)), None)
    return None if found is None else _short(found)


def _places(beside: str | os.PathLike[str] | None) -> Iterable[Path]:
    if beside is not None:
        path = Path(beside)
        if _is_file(path):
            if path.parent.joinpath("run.json").is_file():  # one of the files of a run directory
                yield path.parent / FILE
                path = path.parent
        elif path.is_dir():
            yield path / FILE
        yield Path(os.path.abspath(path)).parent / FILE
    yield Path(FILE)


def _short(path: Path) -> Path:
    """As seen from the working directory, where it lies in it."""
    try:
        return path.relative_to(Path.cwd())
    except (OSError, ValueError):
        return path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
