"""Dicts as Python or JSON prints them, found in a text: no eval, bounded in length and depth, and never an exception.

>>> [found.data for found in dicts_in("12%|#2 | 5/40 {'loss': 0.5, 'kl': nan, 'reward': np.float64(1.0), 'x': None}")]
[{'loss': 0.5, 'kl': nan, 'reward': 1.0, 'x': None}]
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LENGTH = 1 << 16
"""A dict longer than this is none that a logger printed."""

DEPTH = 8
"""Deeper than this is no dict of a log or a configuration."""

ENDS = 16
"""So many dicts of a text may begin and not end before what follows is passed over."""

_START = re.compile(r"\{\s*(?=['\"])")
_SPACE = re.compile(r"\s*")
_STRING = re.compile(r"[bru]?'([^'\\]*(?:\\.[^'\\]*)*)'|[bru]?\"([^\"\\]*(?:\\.[^\"\\]*)*)\"", re.DOTALL)
_SCALAR = re.compile(r"[-+]?[\w.]+(?:[-+]\d+)?(\((?:[^()'\"]|'[^']*'|\"[^\"]*\")*\))?")
_OBJECT = re.compile(r"<[^<>\n]*>")
_WORDS = {
    "True": True,
    "true": True,
    "False": False,
    "false": False,
    "None": None,
    "null": None,
    "nan": math.nan,
    "NaN": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}
_WRAPPED = re.compile(r"(?:np\.|numpy\.|torch\.)?(?:float\d*|int\d*|bfloat16|tensor|array)\((.*?)(?:,.*)?\)", re.DOTALL)
_PYTHON_TO_JSON = {"nan": "NaN", "inf": "Infinity", "None": "null"}
_PYTHON_WORD = re.compile(r"(?<=[ :-])(?:nan|inf|None)(?=[,}\s])")
_DECODE = json.JSONDecoder(parse_int=float).decode


@dataclass
class Found:
    """One dict and where it stands."""

    data: dict[str, Any]
    start: int
    end: int


class _BrokenError(Exception):
    """It is no dict after all, as shows at some place of the text."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class _EndsError(_BrokenError):
    """The text ends in the middle of it."""


def dicts_in(text: str) -> Iterator[Found]:
    """The dicts that stand in a text, outermost ones."""
    place = ends = 0
    while ends < ENDS and (match := _START.search(text, place)):
        start = match.start()
        if text.find("}", start) < 0:
            return
        found = _quick(text, start)
        if found is None:
            try:
                data, end = _dict(text[start : start + LENGTH], 0, DEPTH)
                found = Found(data, start, start + end)
            except _EndsError:
                place, ends = start + 1, ends + 1
                continue
            except _BrokenError as broken:
                place = start + max(1, broken.place)
                continue
        yield found
        place = found.end


def open_dict(text: str) -> int | None:
    """Where a dict begins that goes on after the end of the text, or None."""
    place = 0
    for _ in range(8):
        match = _START.search(text, place)
        if match is None or len(text) - match.start() > LENGTH:
            return None
        try:
            place = match.start() + _dict(text[match.start() :], 0, DEPTH)[1]
        except _EndsError:
            return match.start()
        except _BrokenError as broken:
            place = match.start() + max(1, broken.place)
    return None


def parse(text: str) -> dict[str, Any] | None:
    """A text that is one dict, however long; None where it is none."""
    try:
        return _dict(text, _skip(text, 0), DEPTH)[0]
    except _BrokenError:
        return None


def _quick(text: str, start: int) -> Found | None:
    """The most frequent shape, flat and with neither quotes nor escapes in its names, as JSON: ten times as fast."""
    end = text.find("}", start, start + LENGTH) + 1
    if not end:
        return None
    piece = text[start:end]
    if "{" in piece[1:] or "\\" in piece:
        return None
    if "'" in piece:
        if '"' in piece or "(" in piece:
            return None
        piece = piece.replace("'", '"')
    for attempt in (piece, None):
        try:
            data = _DECODE(attempt or _PYTHON_WORD.sub(lambda match: _PYTHON_TO_JSON[match[0]], piece))
        except (ValueError, RecursionError):
            continue
        return Found(data, start, end)
    return None


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    place = match.end() if match else place
    if place >= len(text):
        raise _EndsError(place)
    return place


def _value(text: str, place: int, depth: int) -> tuple[Any, int]:
    place = _skip(text, place)
    first = text[place]
    if first == "{":
        return _dict(text, place, depth - 1)
    if first in "[(":
        return _list(text, place, depth - 1)
    if first in "'\"" or text[place + 1 : place + 2] in ("'", '"'):
        return _string(text, place)
    match = _SCALAR.match(text, place)
    if match is None:
        match = _OBJECT.match(text, place)
        if match is None:
            raise _BrokenError(place)
        return match[0], match.end()
    if match.end() == len(text):
        raise _EndsError(place)
    return _scalar(match[0]), match.end()


def _dict(text: str, place: int, depth: int) -> tuple[dict[str, Any], int]:
    if depth < 1 or text[place : place + 1] != "{":
        raise _BrokenError(place)
    data: dict[str, Any] = {}
    place = _skip(text, place + 1)
    while text[place] != "}":
        key, place = _value(text, place, 1)
        place = _skip(text, place)
        if text[place] != ":":
            raise _BrokenError(place)
        data[str(key)], place = _value(text, place + 1, depth)
        place = _separator(text, place, "}")
    return data, place + 1


def _list(text: str, place: int, depth: int) -> tuple[Any, int]:
    if depth < 1:
        raise _BrokenError(place)
    closing = "]" if text[place] == "[" else ")"
    items: list[Any] = []
    place = _skip(text, place + 1)
    while text[place] != closing:
        item, place = _value(text, place, depth)
        items.append(item)
        place = _separator(text, place, closing)
    single = closing == ")" and len(items) == 1 and isinstance(items[0], str)  # pprint breaks long strings so
    return (items[0] if single else items), place + 1


def _separator(text: str, place: int, closing: str) -> int:
    place = _skip(text, place)
    if text[place] == ",":
        return _skip(text, place + 1)
    if text[place] != closing:
        raise _BrokenError(place)
    return place


def _string(text: str, place: int) -> tuple[str, int]:
    """A string, and those that stand right behind it: Python joins them."""
    parts = []
    while match := _STRING.match(text, place):
        parts.append(match[1] if match[1] is not None else match[2])
        place = _skip(text, match.end())
    if not parts:
        raise _EndsError(place)
    return "".join(parts), place


def _scalar(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    wrapped = _WRAPPED.fullmatch(word)
    if wrapped and wrapped[1] != word:
        word = wrapped[1].strip()
        if word in _WORDS:
            return _WORDS[word]
    try:
        return int(word) if word.lstrip("+-").isdecimal() and len(word) < 300 else float(word)
    except (ValueError, OverflowError):
        return word
