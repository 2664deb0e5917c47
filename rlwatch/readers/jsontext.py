"""JSON as logs have it: with NaN and Infinity, very long integers, a torn end; bounded, whatever the file claims."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from rlwatch.readers.source import Source, UnreadableError

LIMIT = 256 << 20
"""Larger than this is no JSON document of a training; lines of JSON may be of any number."""

BRACKETS = 4_000_000
"""A document with more dicts and lists than this is none of a training either."""

_DECODER = json.JSONDecoder(parse_int=float)  # every number a float: no conversion afterwards, and no limit of digits


def _quickest() -> Callable[[bytes], Any]:
    """orjson where it is installed: it is some three times as fast, but knows no NaN."""
    try:
        loads: Callable[[bytes], Any] = import_module("orjson").loads
    except ImportError:
        return lambda data: _DECODER.decode(data.decode())
    return loads


_quick = _quickest()
_SPACE = re.compile(r"[\s,\x1e\ufeff]*")


def document(source: Source) -> tuple[Any, str | None]:
    """What a file's JSON says, and a note if its end is missing.

    Raises:
        UnreadableError: It is no JSON, is nested too deeply, or too large.
    """
    text = source.text(LIMIT)
    if text.count("{") + text.count("[") > BRACKETS:
        raise UnreadableError(f"its JSON has more than {BRACKETS} parts")
    try:
        return _DECODER.decode(text.lstrip("\ufeff")), None
    except RecursionError:
        raise UnreadableError("its JSON is nested too deeply") from None
    except ValueError as error:
        where = getattr(error, "lineno", 0)
        kept = list(_rescued(text))
        if not kept:
            raise UnreadableError(f"its JSON is broken in line {where}") from None
        return kept, f"the JSON is broken in line {where}: the {len(kept)} rows before that are read"


def _rescued(text: str) -> Iterator[dict[str, Any]]:
    """The dicts of the first list of dicts, up to where it breaks, or those that stand one after the other."""
    start = text.find("[")
    place = start + 1 if start >= 0 and text[start + 1 : start + 1000].lstrip().startswith("{") else 0
    while True:
        space = _SPACE.match(text, place)
        place = space.end() if space else place
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            yield value


def as_text(data: bytes) -> str:
    """UTF-8 as text; bytes that are none become U+FFFD."""
    return data.decode("utf-8", errors="replace")


def line(data: bytes) -> Any:
    """What one line of JSON says, in UTF-8, whatever stands behind it; None where it is no JSON."""
    try:
        return _quick(data)
    except RecursionError:
        return None
    except ValueError:
        pass
    text = as_text(data)
    clean = text.encode()
    if clean != data:
        return line(clean)
    try:
        return _DECODER.raw_decode(text.lstrip(" \t\ufeff\x1e"))[0]
    except (ValueError, RecursionError):
        return None


def lines_at_once(data: bytes) -> list[Any] | None:
    """What lines of JSON say that are joined with commas; None where that is no JSON as it stands."""
    try:
        rows: list[Any] = _quick(b"[" + data + b"]")
    except (ValueError, RecursionError):
        return None
    return rows
