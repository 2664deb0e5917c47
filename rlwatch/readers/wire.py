"""The wire format of protocol buffers: as much of it as a log needs, without its library.

A message is a row of fields, each a number, a type and a value. What a number means is for the caller to know.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The types of a field that are in use."""


class WireError(ValueError):
    """The bytes are no message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number, and the place behind it.

    Raises:
        WireError: The data ends in it, or it has more than 64 bits.
    """
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise WireError("a number that does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7


def signed(value: int) -> int:
    """A varint as the int64 that it stands for."""
    return value - (1 << 64) if value >> 63 else value


def field_at(data: bytes, at: int) -> tuple[int, int, int | bytes, int]:
    """The number, type and value of the field at a place, and the place behind it.

    Raises:
        WireError: There is none.
    """
    tag, at = varint(data, at)
    kind = tag & 7
    if kind == VARINT:
        value, at = varint(data, at)
        return tag >> 3, kind, value, at
    if kind == BYTES:
        size, at = varint(data, at)
    elif kind == FIXED64:
        size = 8
    elif kind == FIXED32:
        size = 4
    else:
        raise WireError(f"a field of the type {kind}")
    if size > len(data) - at:
        raise WireError("a field that goes beyond its message")
    return tag >> 3, kind, data[at : at + size], at + size


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Each field's number, type and value; 32 and 64 bits of a fixed size come as bytes.

    Raises:
        WireError: What is left is not a field.
    """
    at = 0
    while at < len(data):
        number, kind, value, at = field_at(data, at)
        yield number, kind, value


def messages(data: bytes, number: int) -> Iterator[bytes]:
    """The values of every field of that number which holds bytes: texts and messages within this one."""
    for found, kind, value in fields(data):
        if found == number and kind == BYTES and isinstance(value, bytes):
            yield value


def text(data: bytes, number: int) -> str:
    """The last text of that number; an empty one where there is none."""
    found = b""
    for found in messages(data, number):  # noqa: B007 the last one counts
        pass
    return found.decode("utf-8", errors="replace")


def numbers(kind: int, value: int | bytes, form: str) -> list[float]:
    """What a repeated field of numbers holds, packed or one by one.

    Args:
        kind: The field's type.
        value: Its value.
        form: struct's letter for one of its numbers; `v` for varints.

    Raises:
        WireError: It does not hold whole numbers.
    """
    if isinstance(value, int):
        return [signed(value)]
    if form == "v":
        found, at = [], 0
        while at < len(value):
            one, at = varint(value, at)
            found.append(float(signed(one)))
        return found
    size = struct.calcsize("<" + form)
    if len(value) % size or (kind == FIXED32 and size != 4) or (kind == FIXED64 and size != 8):
        raise WireError("numbers that are not whole")
    return [float(one) for one in struct.unpack(f"<{len(value) // size}{form}", value)]
