"""What is wrong with the settings: where, what, and what it may have been meant to be."""

from __future__ import annotations

import re
from collections.abc import Sequence

Path = Sequence["str | int"]
"""Keys from the outside in; a number is the place in a list."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]*?)\s*\]")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w.-]+)\s*=""")
_MOST_TOLD = 20


class SettingsError(ValueError):
    """The settings cannot be used; it says in a line a problem where, what is wrong and the nearest name."""


class Problems:
    """Collects all that is wrong, so that a user is told of it at once.

    Args:
        source: The file's name, or what else the settings come from.
        text: The file's text, to name lines.
    """

    def __init__(self, source: str, text: str = "") -> None:
        self._source = source
        self._text = text
        self._lines: list[str] = []

    def add(self, where: Path, what: str) -> None:
        """One more problem, at a key."""
        line = line_of(self._text, where)
        at = f"{self._source}, line {line}" if line is not None else self._source
        self._lines.append(f"{at}: {_words(where)}{what}")

    def check(self) -> None:
        """Raise what there is.

        Raises:
            SettingsError: There is a problem.
        """
        if self._lines:
            more = len(self._lines) - _MOST_TOLD
            raise SettingsError("\n".join(self._lines[:_MOST_TOLD] + ([f"and {more} more"] if more > 0 else [])))


def shown(value: object) -> str:
    """A value for a message: short, and whatever it is."""
    try:
        text = repr(value)
    except Exception:  # the digits of an integer that is too long, for one
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def line_of(text: str, where: Path) -> int | None:
    """The line, from 1, that a key stands in, as far as a look at the lines can tell; else that of its table.

    >>> line_of("[rules.a]\\nb = 1\\n[[rule]]\\nname = 'x'\\n[[rule]]\\nname = 'y'\\n", ("rule", 1, "name"))
    6
    """
    keys = [key for key in where if isinstance(key, str)]
    nth = next((key for key in where if isinstance(key, int)), 0)
    current: list[str] = []
    counts: dict[str, int] = {}
    table = None
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            current = _split(header[2])
            if header[1] == "[[":
                counts[header[2]] = counts.get(header[2], -1) + 1
            if current == keys[: len(current)] and counts.get(header[2], 0) == nth:
                if len(current) == len(keys):
                    return number
                table = number if current else table
            continue
        if counts.get(".".join(current), 0) != (nth if current == keys[: len(current)] and "rule" in current else 0):
            continue
        key = _KEY.match(line)
        if key and keys and current + _split(key[1]) == keys:
            return number
    return table


def _split(dotted: str) -> list[str]:
    if dotted[:1] in ('"', "'"):
        return [dotted.strip("\"'")]
    return [part.strip().strip("\"'") for part in dotted.split(".")]


def _words(where: Path) -> str:
    text = ""
    for key in where:
        if isinstance(key, int):
            text = f"[[{text}]] number {key + 1}"
        else:
            key = key if len(key) <= 60 else key[:57] + "..."
            text = f"{text}{', ' if ']]' in text else '.' if text else ''}{key}"
    return f"{text}: " if text else ""
