"""The framing of a .wandb file: LevelDB's log format.

Blocks of 32 KiB, in them pieces of records, each with a checksum, a length, and whether it is a whole record or the
first, a middle or the last piece of one. What is after a piece that is torn or does not match its checksum is not read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import IO

MAGIC = b":W&B"
"""How a .wandb file begins."""

HEADER = MAGIC + b"\xe1\xbe\x00"
"""How one of the version that is read here begins."""

_BLOCK = 1 << 15
_LARGEST = 1 << 28
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_TORN = "its last record is torn: the run was killed, or is still being written; all before it is read"
_BROKEN = "it is not read to its end: a record does not match its checksum"
_DISORDER = "it is not read to its end: the pieces of a record are not in their order"


def records(file: IO[bytes], notes: list[str]) -> Iterator[bytes]:
    """Every whole record; where they end before the file does, a note says why.

    A last record that is not whole is torn; zeros at the end are of a file that was made longer before it was written.
    """
    parts: list[bytes] = []
    size, at = 0, len(HEADER)
    while block := _block(file, notes):
        while len(block) - at >= 7:
            length, kind = int.from_bytes(block[at + 4 : at + 6], "little"), block[at + 6]
            if not kind and not any(block[at:]):
                break
            piece = block[at + 7 : at + 7 + length]
            if len(piece) < length:
                break
            if zlib.crc32(piece, zlib.crc32(block[at + 6 : at + 7])) != int.from_bytes(block[at : at + 4], "little"):
                notes.append(_BROKEN)
                return
            at += 7 + length
            goes_on = kind in (_MIDDLE, _LAST)
            size = size + length if goes_on else length
            if goes_on != bool(parts) or not _FULL <= kind <= _LAST or size > _LARGEST:
                notes.append(_DISORDER)
                return
            parts.append(piece)
            if kind in (_FULL, _LAST):
                yield b"".join(parts)
                parts = []
        rest, at = block[at:], 0
        if len(block) < _BLOCK:
            if parts or any(rest):
                notes.append(_TORN)
            return
        if len(rest) >= 7 and any(rest):
            notes.append(_BROKEN)
            return
    if parts:
        notes.append(_TORN)


def _block(file: IO[bytes], notes: list[str]) -> bytes:
    """32 KiB, less only at the end."""
    block = b""
    try:
        while len(block) < _BLOCK and (more := file.read(_BLOCK - len(block))):
            block += more
    except Exception:  # each compression has errors of its own
        notes.append("it is not read to its end: its compression is broken")
    return block
