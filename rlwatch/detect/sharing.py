"""What several rules follow alike is followed once: one object for all of them, which takes each record once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from rlwatch.detect.rule import Rule
from rlwatch.detect.state import attributes, has_parts

R = TypeVar("R", bound=Rule)


class Shared(ABC):
    """A part of a rule that others may have too.

    Its `update(record)` has to return at once for a record of a step that it has seen, so that each rule that has it
    may call it as if it were alone. Nothing but its `key` and the records may bear on what it remembers.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """What makes two of one class the same: all that they were made with."""


def share(rules: Sequence[R]) -> Sequence[R]:
    """Let fresh rules of one run have one object of each [`Shared`][rlwatch.detect.sharing.Shared] part; the rules.

    What a rule says does not change by that, nor what is saved of it.
    """
    first: dict[tuple[object, ...], Shared] = {}
    for rule in rules:
        _share(rule, first)
    return rules


def _share(thing: Any, first: dict[tuple[object, ...], Shared]) -> None:
    for name, value in attributes(thing).items():
        if isinstance(value, Shared):
            same = first.setdefault((type(value), *value.key), value)
            if same is not value:
                setattr(thing, name, same)
                continue
        if has_parts(value):
            _share(value, first)
