"""Which metric of another framework is which of ours.

Names are compared after [`normal`][rlwatch.runs.aliases.normal]: no spaces around slashes. What is in no table is kept
as `raw/<its name>`: nothing is lost, and no rule takes it for what it may not be. The tables, and what only looks the
same, are in [`foreign`][rlwatch.runs.foreign].
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from rlwatch.runs.foreign import MARKS, NOT_THE_SAME, PLAIN, SWIFT_MARKS, TABLES
from rlwatch.runs.metrics import METRICS

__all__ = ["NOT_THE_SAME", "RAW", "TABLES", "Translator", "framework_of", "is_known", "normal"]

RAW = "raw/"
"""Before the name of a metric that is none of ours."""

OURS = "rlwatch/"
"""Before our own names where rlwatch mirrored them into another tool: they are what they say."""

_PREFIXES = ("train/", "training/")
"""What loggers put before a framework's own name."""

_TELL_LITTLE = {"lr", "step_seconds"}
"""A configuration or a benchmark has these as well as a training's log."""


def normal(name: str) -> str:
    """A foreign name as it is looked up: `rewards / f / mean` of a notebook's table is `rewards/f/mean`."""
    name = name.strip()
    return re.sub(r"\s*/\s*", "/", name) if " " in name and len(name) < 500 else name


def framework_of(names: Iterable[str]) -> str | None:
    """By the names of a log; None where none of them tells."""
    seen = {name for given in names for name in _spellings(normal(given))}
    votes = {framework: sum(mark in seen for mark in marks) for framework, marks in MARKS.items()}
    votes["trl"] += any(pattern.fullmatch(name) for name in seen for pattern in _starred())
    best = max(votes, key=lambda framework: votes[framework])
    if (best == "trl" or not votes[best]) and any(mark in seen for mark in SWIFT_MARKS):
        return "ms-swift"
    return best if votes[best] else None


class Translator:
    """Foreign names to ours, for one framework; each name is worked out once.

    Args:
        framework: One of [`TABLES`][rlwatch.runs.foreign.TABLES], `rlwatch` for our own names, or anything else: then
            only those names are ours that mean one thing everywhere.
        more: Further names, which come first: what a reader knows of this very file.
    """

    def __init__(self, framework: str | None, more: Mapping[str, str] | None = None) -> None:
        table = {**(more or {}), **TABLES.get(framework or "", PLAIN)}
        table.update(more or {})
        apart = NOT_THE_SAME.get(framework or "", {})
        self._own = framework == "rlwatch"
        self._exact = {key: (rank, ours) for rank, (key, ours) in enumerate(table.items()) if "*" not in key}
        self._patterns = [(_pattern(key), rank, ours) for rank, (key, ours) in enumerate(table.items()) if "*" in key]
        self._apart = [_pattern(key) for key in apart if key not in (more or {})]
        self._known: dict[str, tuple[int, str]] = {}

    def __call__(self, name: str) -> str:
        """Our name for it, or `raw/<name>`."""
        return self._find(name)[1]

    def all(self, names: Sequence[str]) -> list[str]:
        """Our names for those of one row, each once: of two that are the same metric, the better one is it.

        >>> Translator("verl").all(["timing_s/step", "perf/time_per_step"])
        ['raw/timing_s/step', 'step_seconds']
        """
        found = [self._find(name) for name in names]
        taken: dict[str, int] = {}
        for rank, ours in found:
            taken[ours] = min(rank, taken.get(ours, rank))
        result: list[str] = []
        used: set[str] = set()
        for name, (rank, ours) in zip(names, found, strict=True):
            mine = ours if rank == taken[ours] and ours not in used else RAW + normal(name)
            used.add(mine)
            result.append(mine)
        return result

    def _find(self, name: str) -> tuple[int, str]:
        found = self._known.get(name)
        if found is None:
            given = normal(name)
            found = next((hit for spelling in _spellings(given) if (hit := self._look(spelling))), (0, RAW + given))
            self._known[name] = found
        return found

    def _look(self, name: str) -> tuple[int, str] | None:
        """How good a name is as one of ours, and as which; None where it is none."""
        if name.startswith(OURS) or self._own:
            rest = name.removeprefix(OURS)
            if rest in METRICS or rest.startswith(("reward/", "eval/")):
                return -1, rest
        if name in self._exact:
            return self._exact[name]
        if any(pattern.fullmatch(name) for pattern in self._apart):
            return None
        for pattern, rank, ours in self._patterns:
            match = pattern.fullmatch(name)
            if match:
                mine = ours.replace("*", match[1])
                return None if mine in METRICS else (rank, mine)  # a function called "std" is not reward/std
        return None


@lru_cache(maxsize=1 << 16)
def is_known(name: str) -> bool:
    """Whether some framework has a metric of this name: what tells a row of a log from another table or dict.

    A learning rate alone does not: configurations have one too.
    """
    given = normal(name)
    if given.startswith(("eval_", "eval/")):
        given = given[5:]
    return any(
        spelling in _names() or any(pattern.fullmatch(spelling) for pattern in _starred())
        for spelling in _spellings(given)
    )


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    named = {key for table in (*TABLES.values(), PLAIN) for key, ours in table.items() if ours not in _TELL_LITTLE}
    marks = {mark for marks in MARKS.values() for mark in marks if mark != "learning_rate"}
    apart = {key for table in NOT_THE_SAME.values() for key in table if "lr" not in key}
    return frozenset(key for key in (*named, *marks, *apart) if "*" not in key)


@lru_cache(maxsize=1)
def _starred() -> tuple[re.Pattern[str], ...]:
    return tuple(_pattern(key) for key in TABLES["trl"] if "*" in key)


def _spellings(name: str) -> tuple[str, ...]:
    """A name, and what it is without a logger's prefix."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name, name[len(prefix) :]
    return (name,)


def _pattern(key: str) -> re.Pattern[str]:
    return re.compile(re.escape(key).replace(r"\*", "([^/]+)"))
