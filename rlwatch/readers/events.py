"""What an event of TensorBoard says: a step, a time, and the values of some tags. Only scalars are numbers here."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlwatch.readers.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    fields,
    messages,
    numbers,
    signed,
    text,
    varint,
)

HYPERPARAMETERS = "_hparams_/"
"""Before the tags under which a writer describes its hyperparameters."""

_FORMS: Mapping[int, str] = {1: "f", 2: "d", 3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 17: "H", 19: "e", 22: "I", 23: "Q"}
"""struct's letter for each type of tensor that holds numbers."""

_LISTS: Mapping[int, str] = {5: "f", 6: "d", 7: "v", 10: "v", 13: "v", 16: "v", 17: "v"}
"""The fields of a tensor that list its numbers, by their number; `v` are varints."""

_BFLOAT16, _HALF = 14, 19
_LARGEST_TEXT = 1 << 20
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")


@dataclass
class Event:
    """One event.

    Args:
        time: Unix seconds.
        step: As it was logged; 0 where it was logged without one.
        scalars: Tag → value.
        texts: Tag → text.
        restarts: The run starts again at this step: what is said of it and of later ones before is void.
    """

    time: float = math.nan
    step: int = 0
    scalars: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    restarts: bool = False


class Events:
    """Decodes events; one for a file, for a tag says only in its first event what kind of value it has."""

    def __init__(self) -> None:
        self._others: set[str] = set()  # tags of plugins whose values are no scalars
        self._simple: dict[bytes, str] = {}

    def simple(self, data: bytes) -> tuple[str, int, float, float] | None:
        """Tag, step, time and value of an event like one before: a time, a step and one float. Nearly all are."""
        if len(data) < 16 or data[0] != 0x09 or data[9] != 0x10:
            return None
        step, at = data[10], 11
        if step >= 0x80:
            step, at = varint(data, 10)
        tag = self._simple.get(data[at:-4])
        if tag is None:
            return None
        return tag, signed(step), _DOUBLE.unpack_from(data, 1)[0], _FLOAT.unpack_from(data, len(data) - 4)[0]

    def decode(self, data: bytes) -> Event:
        """Any event.

        Raises:
            WireError: It is none.
        """
        event = self._decode(data)
        if len(event.scalars) == 1 and not event.texts and data[:1] == b"\x09" and data[9:10] == b"\x10":
            _, at = varint(data, 10)
            if data[-5:-4] == b"\x15" and at < len(data) - 5:
                self._remember(data[at:-4], event)
        return event

    def _remember(self, before: bytes, event: Event) -> None:
        """Another event that differs in its last four bytes, a float, is of the same tag: lengths come before."""
        [tag] = event.scalars
        if len(self._simple) < 10_000 and self._decode(before + struct.pack("<f", 0.5)).scalars == {tag: 0.5}:
            self._simple[before] = tag

    def _decode(self, data: bytes) -> Event:
        event = Event()
        for number, kind, value in fields(data):
            if number == 1 and kind == FIXED64 and isinstance(value, bytes):
                (event.time,) = struct.unpack("<d", value)
            elif number == 2 and isinstance(value, int):
                event.step = signed(value)
            elif number == 5 and isinstance(value, bytes):
                for one in messages(value, 1):
                    self._value(one, event)
            elif number == 7 and isinstance(value, bytes):
                event.restarts = any(n == 1 and v == 1 for n, _, v in fields(value))
        return event

    def _value(self, data: bytes, event: Event) -> None:
        tag, number, tensor = text(data, 1), None, b""
        for name, kind, value in fields(data):
            if name == 2 and kind == FIXED32 and isinstance(value, bytes):
                (number,) = struct.unpack("<f", value)
            elif name == 8 and kind == BYTES and isinstance(value, bytes):
                tensor = value
            elif name == 9 and kind == BYTES and isinstance(value, bytes):
                plugin = next((text(one, 1) for one in messages(value, 1)), "")
                if plugin not in ("", "scalars", "text"):
                    self._others.add(tag)
        if tag in self._others or tag.startswith(HYPERPARAMETERS):
            return
        if number is None and tensor:
            number = _scalar(tensor)
            if number is None:
                event.texts.update((tag, found) for found in _texts(tensor))
        if number is not None:
            event.scalars[tag] = number


def tags(data: bytes) -> list[str]:
    """The tags of an event's values, whatever these are.

    Raises:
        WireError: It is none.
    """
    return [text(value, 1) for summary in messages(data, 5) for value in messages(summary, 1)]


def _scalar(tensor: bytes) -> float | None:
    """The one number of a tensor that holds one; else None."""
    kind, content, found = 0, b"", []
    for number, form, value in fields(tensor):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in _LISTS:
            found += numbers(form, value, _LISTS[number])
    if content and kind in _FORMS and len(content) == struct.calcsize("<" + _FORMS[kind]):
        return float(struct.unpack("<" + _FORMS[kind], content)[0])
    if content and kind == _BFLOAT16 and len(content) == 2:
        return _bits(int.from_bytes(content, "little"), kind)
    if len(found) != 1 or content or kind not in (*_FORMS, _BFLOAT16):
        return None
    return _bits(int(found[0]), kind) if kind in (_HALF, _BFLOAT16) else found[0]


def _bits(bits: int, kind: int) -> float:
    """A number of 16 bits: they are listed as integers."""
    if kind == _HALF:
        return float(struct.unpack("<e", (bits & 0xFFFF).to_bytes(2, "little"))[0])
    return float(struct.unpack("<f", ((bits & 0xFFFF) << 16).to_bytes(4, "little"))[0])


def _texts(tensor: bytes) -> list[str]:
    """The one text of a tensor that holds one, unless it is huge."""
    found = list(messages(tensor, 8))
    if len(found) != 1 or len(found[0]) > _LARGEST_TEXT:
        return []
    return [found[0].decode("utf-8", errors="replace")]
