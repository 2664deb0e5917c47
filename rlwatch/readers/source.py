"""A file as the readers see it: its first bytes to tell what it is, and then its bytes, text or lines, decompressed.

Memory is bounded whatever the file claims to be: lines are streamed, what has to be read whole has a limit, and so has
a single line. `.gz` and `.zst` are told by their first bytes and read as what is in them.
"""

from __future__ import annotations

import codecs
import gzip
import io
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import IO, AnyStr

HEAD = 1 << 16
BLOCK = 1 << 16
WHOLE_LIMIT = 1 << 30
LINE_LIMIT = 64 << 20
BOMB_SIZE, BOMB_RATIO = 64 << 20, 300
"""What unpacks to more than this, and to so many times its own size, is no log."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class UnreadableError(ValueError):
    """A file cannot be read: says what is wrong with it in words for a person, without its path."""


class UnusableError(UnreadableError):
    """The same, where no other reader would fare better."""


class Source:
    """One file, or standard input.

    Args:
        path: The file; `-` is standard input, which is read once and kept (up to the limit of a whole file).

    Raises:
        UnreadableError: It is not there, is no file, or may not be read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = "stdin" if str(path) == "-" else self.path.name
        self._stdin: bytes | None = None
        if str(path) == "-":
            self._stdin = _bounded(sys.stdin.buffer, WHOLE_LIMIT)
            return
        try:
            if not self.path.is_file():
                raise UnreadableError("it is not a file" if self.path.exists() else "there is no such file")
            with self.path.open("rb"):
                pass
        except OSError as error:
            raise UnreadableError(f"it cannot be opened: {error.strerror}") from None

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB, decompressed: what a reader looks at to tell whether the file is one of its own."""
        with self.open() as file:
            return read_from(file, HEAD)

    @cached_property
    def head_text(self) -> str:
        """The same as text, whatever its encoding."""
        return self.head.decode(self.encoding, errors="replace")

    @cached_property
    def encoding(self) -> str:
        """By its byte order mark; UTF-8 where it has none."""
        for mark, name in (
            (codecs.BOM_UTF8, "utf-8-sig"),
            (codecs.BOM_UTF16_LE, "utf-16"),
            (codecs.BOM_UTF16_BE, "utf-16"),
        ):
            if self.head.startswith(mark):
                return name
        return "utf-8"

    @property
    def is_binary(self) -> bool:
        """It is no text: more than a few of its first bytes are control characters. (A log may hold a NUL or two.)"""
        if self.encoding == "utf-16":
            return False
        control = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in self.head)
        return control > max(8, len(self.head) // 100)

    def open(self) -> IO[bytes]:
        """The decompressed bytes, from the start.

        Raises:
            UnreadableError: The file cannot be opened.
        """
        try:
            raw: IO[bytes] = io.BytesIO(self._stdin) if self._stdin is not None else self.path.open("rb")
        except OSError as error:
            raise UnreadableError(f"it cannot be opened: {error.strerror}") from None
        magic = raw.read(4)
        raw.seek(0)
        if magic.startswith(_GZIP):
            return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
        if magic.startswith(_ZSTD):
            return _zstd(raw)
        return raw

    def whole(self, limit: int = WHOLE_LIMIT) -> bytes:
        """Everything, for formats that cannot be read piece by piece.

        Raises:
            UnreadableError: It is larger than the limit, or its compression is broken.
        """
        with self.open() as file:
            return _bounded(file, limit, self.packed_size)

    @cached_property
    def is_plain(self) -> bool:
        """Its bytes on the disk are what it holds: it is not compressed, and not standard input."""
        if self._stdin is not None:
            return False
        with self.path.open("rb") as file:
            return not file.read(4).startswith((_GZIP, _ZSTD))

    @cached_property
    def packed_size(self) -> int:
        """Bytes, as they lie there."""
        return len(self._stdin) if self._stdin is not None else self.path.stat().st_size

    def text(self, limit: int = WHOLE_LIMIT) -> str:
        """Everything as text; bytes that are none become U+FFFD."""
        return self.whole(limit).decode(self.encoding, errors="replace")

    def lines(self) -> Iterator[str]:
        """One line after the other, without its end. A carriage return ends a line too: progress bars write them.

        Raises:
            UnreadableError: A line is longer than 64 MiB, or the file's compression is broken.
        """
        return _lines(self.texts(BLOCK), "\n", "\r")

    def utf8_lines(self) -> Iterator[bytes]:
        """The same in UTF-8, for parsers that take it: bytes that are no text are still in it.

        Raises:
            UnreadableError: As for `lines`.
        """
        if self.encoding == "utf-16":
            return (line.encode() for line in self.lines())
        blocks = self._blocks(BLOCK)
        return _lines(chain([next(blocks).removeprefix(codecs.BOM_UTF8)], blocks), b"\n", b"\r")

    def texts(self, size: int) -> Iterator[str]:
        """Everything as text, about so many bytes at a time.

        Raises:
            UnreadableError: The file's compression is broken.
        """
        decoder = codecs.getincrementaldecoder(self.encoding)(errors="replace")
        return (decoder.decode(block, final=not block) for block in self._blocks(size))

    def _blocks(self, at_once: int) -> Iterator[bytes]:
        """All its bytes, and then none: the last block is empty."""
        size, block = 0, b" "
        with self.open() as file:
            while block:
                block = read_from(file, at_once)
                size += len(block)
                no_bomb(size, self.packed_size)
                yield block


def _lines(blocks: Iterable[AnyStr], newline: AnyStr, back: AnyStr) -> Iterator[AnyStr]:
    """The lines of a text in blocks; the last block is the text's end."""
    return chain.from_iterable(_lines_by_block(blocks, newline, back))


def _lines_by_block(blocks: Iterable[AnyStr], newline: AnyStr, back: AnyStr) -> Iterator[list[AnyStr]]:
    begun: list[AnyStr] = []  # pieces of a line: put together once, however many blocks it goes through
    size = 0
    for block in blocks:
        ends = newline in block or back in block or (begun and begun[-1].endswith(back))
        begun.append(block)
        size += len(block)
        if ends:
            text = newline[:0].join(begun)
            cut = text.rfind(newline) + 1
            cut = max(cut, text.rfind(back, cut, -1) + 1)
            yield _split(text[:cut], newline, back)
            begun, size = [text[cut:]], len(text) - cut
        if size > LINE_LIMIT:
            raise UnusableError(f"it has a line of more than {LINE_LIMIT >> 20} MiB")
    yield _split(newline[:0].join(begun), newline, back)


def _split(text: AnyStr, newline: AnyStr, back: AnyStr) -> list[AnyStr]:
    """At \\n, \\r\\n and \\r, and nowhere else: a form feed or a U+2028 is a part of a line."""
    if not text:
        return []
    if back in text:
        text = text.replace(back + newline, newline).replace(back, newline)
    lines = text.split(newline)
    return lines if lines[-1] else lines[:-1]


def read_from(file: IO[bytes], size: int, *, line: bool = False) -> bytes:
    """So many bytes, or as many of a line.

    Raises:
        UnreadableError: The file, or its compression, is broken.
    """
    try:
        return file.readline(size) if line else file.read(size)
    except Exception as error:  # zlib's, zstd's and the file system's have nothing in common
        raise UnusableError(f"it cannot be read: {error}") from None


def no_bomb(size: int, packed: int) -> None:
    """Refuse what has been unpacked to so many bytes, of so many packed ones, where no log does that.

    Raises:
        UnreadableError: It is such a file.
    """
    if size > BOMB_SIZE and size > BOMB_RATIO * packed:
        raise UnusableError(f"it unpacks to more than {BOMB_RATIO} times its size, as no log does")


def _bounded(file: IO[bytes], limit: int, packed: int = 1 << 62) -> bytes:
    parts, size = [], 0
    while block := read_from(file, 1 << 20):
        parts.append(block)
        size += len(block)
        no_bomb(size, packed)
        if size > limit:
            raise UnreadableError(f"it is larger than {limit >> 20} MiB, which is more than is read at once")
    return b"".join(parts)


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise UnreadableError("it is compressed with zstd, which needs: pip install zstandard") from None
    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return io.BufferedReader(reader)  # type: ignore[arg-type, unused-ignore]
