"""The objects of JSON lines or of a JSON list, one after the other, and what is in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from rlwatch.readers.rollout_columns import Kind
from rlwatch.readers.source import LINE_LIMIT, Source, UnusableError

LOOKED_AT = 32
"""Rows by which it is known which columns there are and what they hold."""

_NO_JSON = (ValueError, RecursionError)
_KEY = re.compile(r'(?<!\\)"([^"\\]{1,80})"\s*:')


def is_json(source: Source) -> bool:
    """It begins as JSON lines or a list of objects do."""
    return source.head_text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")


def kinds_in_head(source: Source) -> dict[str, Kind]:
    """The columns of the first rows, and what they hold, by `source.head` alone; empty where that shows no object.

    Of a row that is longer than the head, there are names only: all their kinds are `nothing`.
    """
    if not is_json(source):
        return {}
    try:
        kinds = _kinds(_rows_of_text(source.head_text))
    except _NO_JSON:
        return {}
    if not kinds and (is_list(source) or "\n" not in source.head_text.strip()):
        return dict.fromkeys(_KEY.findall(source.head_text), "nothing")
    return kinds


def kinds_of(source: Source) -> dict[str, Kind]:
    """The same, whatever their size."""
    return _kinds(items(source))


def _kinds(items: Iterable[dict[str, Any] | None]) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for _, item in zip(range(LOOKED_AT), items, strict=False):
        for name, value in (item or {}).items():
            if kinds.get(name, "nothing") == "nothing":
                kinds[name] = _kind(value)
    return kinds


def _kind(value: Any) -> Kind:
    if value is None or value == []:
        return "nothing"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    flat = isinstance(value, list) and value and all(isinstance(item, (int, float)) for item in value[:8])
    return "numbers" if flat else "nested"


def is_list(source: Source) -> bool:
    """It begins as a list does."""
    return source.head_text.lstrip("\ufeff \t\r\n").startswith("[")


def object_of(line: str | bytes) -> dict[str, Any] | None:
    """What a line holds; None where that is no object."""
    try:
        found = json.loads(line)
    except _NO_JSON:
        return None
    return found if isinstance(found, dict) else None


def items(source: Source) -> Iterator[dict[str, Any] | None]:
    """The objects of the file; None for what is none."""
    if is_list(source):
        yield from _list_items(source.texts(1 << 20))
    else:
        yield from (object_of(line) for line in source.lines() if line.strip())


def _rows_of_text(text: str) -> Iterator[dict[str, Any] | None]:
    """The whole objects at the beginning of a file."""
    text = text.lstrip("\ufeff \t\r\n")
    if text.startswith("["):
        return _list_items(iter([text]), whole=False)
    lines = text.split("\n")
    return (object_of(line) for line in (lines[:-1] or lines) if line.strip())


_BETWEEN = re.compile(r"[\s,\[\ufeff]*")


def _list_items(chunks: Iterator[str], *, whole: bool = True) -> Iterator[dict[str, Any] | None]:
    """The objects of a list, which is never in memory as a whole; None where it breaks off."""
    decoder = json.JSONDecoder()
    text, place, need = "", 0, 0
    for chunk in chain(chunks, ("",)):
        text, place = text[place:] + chunk, 0
        if chunk and len(text) < need:
            continue
        while (match := _BETWEEN.match(text, place)) is not None and match.end() < len(text):
            place = match.end()
            if text[place] == "]":
                return
            try:
                item, place = decoder.raw_decode(text, place)
            except _NO_JSON:
                need = 2 * (len(text) - place)  # an object that is not whole is tried again once twice as much is here
                if need > 4 * LINE_LIMIT:
                    raise UnusableError(f"it has an object of more than {LINE_LIMIT >> 20} MiB") from None
                break
            need = 0
            yield item if isinstance(item, dict) else None
    if whole:
        yield None
