"""The folders whose runs are shown, and what a run is called in an address: its name, and if need be the folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_NUMBERED = re.compile(r"(.+)@([1-9][0-9]{0,3})", re.DOTALL)


@dataclass(frozen=True)
class Roots:
    """One or several folders of runs.

    A run of the first folder is called by its name. One of the second is called `name@2`, one of the third `name@3`:
    two folders may hold runs of the same name, and an address stays right when one of them vanishes. Where there are
    several folders, a run of the first whose own name ends in `@2` is called `...@2@1`: no two are called the same.

    Args:
        folders: They; none need exist yet.
    """

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, given: Path | str | Sequence[Path | str] | Roots) -> Roots:
        """Roots of one folder or of several; the same folder twice, also by another way to it, counts once.

        Raises:
            ValueError: No folder is given.
        """
        if isinstance(given, Roots):
            return given
        folders = [given] if isinstance(given, (str, Path)) else given
        if not folders:
            raise ValueError("no folder of runs is given: name one, as in `rlwatch dashboard runs`")
        once: dict[Path, Path] = {}
        for folder in folders:
            once.setdefault(_real(Path(folder)), Path(folder))
        return cls(tuple(once.values()))

    def find(self, key: str) -> Path | None:
        """The run directory that is called so, or None. Only what lies directly under a root can be found."""
        match = _NUMBERED.fullmatch(key)
        number = int(match[2]) if match else 0
        if match and 1 <= number <= len(self.folders) > 1:
            found = _directly_under(self.folders[number - 1], match[1])
            if found is not None:
                return found
        return _directly_under(self.folders[0], key)

    def key_of(self, run: Path) -> str:
        """What a run directory under one of the roots is called.

        >>> roots = Roots.of(["runs", "old"])
        >>> roots.key_of(Path("runs/a")), roots.key_of(Path("old/a"))
        ('a', 'a@2')
        """
        number = self.folders.index(run.parent) + 1
        match = _NUMBERED.fullmatch(run.name)
        looks_numbered = match is not None and 1 <= int(match[2]) <= len(self.folders) > 1
        return run.name if number == 1 and not looks_numbered else f"{run.name}@{number}"


def _real(folder: Path) -> Path:
    try:
        return folder.resolve()
    except (OSError, RuntimeError):  # links that lead in a circle
        return folder.absolute()


def _directly_under(folder: Path, name: str) -> Path | None:
    if name.startswith(".") or not name or "\0" in name or Path(name).name != name or "\\" in name:
        return None
    path = folder / name
    return path if path.is_dir() else None
