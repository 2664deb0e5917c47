"""The framing of TensorFlow's record files: a length, its checksum, the data, its checksum. Read as a stream."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from rlwatch.readers.crc32c import crc32c, crc32c_of_each

_READ = 1 << 22
_PIECE = 1 << 16
_LARGEST = 1 << 28
_TORN = "its last record is torn: the run was killed, or is still being written; all before it is read"
_BROKEN = "it is not read to its end: a record does not match its checksum"


def begins_a_file(head: bytes) -> bool:
    """Whether a file's first bytes are a record's length and the checksum of that."""
    if len(head) < 12 or int.from_bytes(head[:8], "little") >= _LARGEST:
        return False
    return bool(_masked([crc32c(head[:8])])[0] == int.from_bytes(head[8:12], "little"))


def records(file: IO[bytes], notes: list[str]) -> Iterator[bytes]:
    """Every whole record; where they end before the file does, a note says why."""
    data, ended = b"", False
    while not ended:
        block, ended = _block(file, notes)
        data += block
        pieces, checksums, at = whole(data)
        wrong = np.flatnonzero(_masked(crc32c_of_each(pieces)) != np.frombuffer(b"".join(checksums), dtype="<u4"))
        yield from pieces[: int(wrong[0])] if len(wrong) else pieces
        data = data[at:]
        if len(wrong) or not _may_go_on(data):
            notes.append(_BROKEN)
            return
    if data.strip(b"\0"):
        notes.append(_TORN)


def _block(file: IO[bytes], notes: list[str]) -> tuple[bytes, bool]:
    """The next few megabytes, and whether they are the last. What is broken is lost in small pieces."""
    parts = []
    try:
        for _ in range(_READ // _PIECE):
            parts.append(file.read(_PIECE))
            if not parts[-1]:
                return b"".join(parts), True
    except Exception:  # each compression has errors of its own
        notes.append("it is not read to its end: its compression is broken")
        return b"".join(parts), True
    return b"".join(parts), False


def whole(data: bytes) -> tuple[list[bytes], list[bytes], int]:
    """The records that are whole in the data, their checksums, and where the rest begins."""
    pieces, checksums = [], []
    at, end = 0, len(data) - 16
    unpack = struct.Struct("<Q").unpack_from
    while at <= end:
        size = unpack(data, at)[0]
        if size > end - at:
            break
        pieces.append(data[at + 12 : at + 12 + size])
        at += 16 + size
        checksums.append(data[at - 4 : at])
    return pieces, checksums, at


def _may_go_on(rest: bytes) -> bool:
    """Whether what is left of a file, or waits for more of it, begins as a record does."""
    return len(rest) < 12 or not rest.strip(b"\0") or begins_a_file(rest)


def _masked(checksums: list[int]) -> NDArray[np.uint32]:
    """Checksums as they are stored: turned by 15 bits, with a constant added."""
    values = np.array(checksums, dtype=np.uint32)
    turned: NDArray[np.uint32] = (values >> 15 | values << 17) + np.uint32(0xA282EAD8)
    return turned
