"""Foreign logs to runs: `load` finds out what a file is, one reader a format says what is in it."""

from __future__ import annotations

from rlwatch.readers.loading import Options, load, load_all
from rlwatch.readers.source import UnreadableError

__all__ = ["Options", "UnreadableError", "load", "load_all"]
