"""JSON lines and lists of JSON objects, however large, as tables of the columns that matter.

JSON lines are read in blocks of whole lines, which polars parses. A block that it refuses (a torn line, a NaN, a number
in a string) is parsed line by line.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rlwatch.readers.rollout_columns import Kind
from rlwatch.readers.rollout_objects import is_list, items, object_of
from rlwatch.readers.rows import NOTHING, number
from rlwatch.readers.source import LINE_LIMIT, Source, UnusableError, no_bomb, read_from

if TYPE_CHECKING:
    import polars as pl

BLOCK = 8 << 20
"""Bytes of JSON lines that are parsed at once: more cost more in fresh pages than they save in calls."""

BATCH = 4096


def json_tables(
    source: Source, wanted: Iterable[str], kinds: Mapping[str, Kind], trouble: Counter[str]
) -> Iterator[pl.DataFrame]:
    """Tables of some of the columns, one after the other: numbers, truth values, and all else as text.

    Args:
        source: The file.
        wanted: The columns.
        kinds: What all the columns hold.
        trouble: Counts under `lines` what is no JSON object.

    Raises:
        UnreadableError: It cannot be read on.
    """
    import polars as pl

    dtypes: Mapping[Kind, Any] = {"number": pl.Float64, "bool": pl.Boolean, "nothing": pl.Float64}
    schema = {name: dtypes.get(kinds.get(name, "nothing"), pl.String) for name in wanted}
    if is_list(source) or source.encoding == "utf-16":
        batch = []
        for item in items(source):
            batch.append(item)
            if len(batch) == BATCH:
                yield _table(batch, schema, trouble)
                batch = []
        yield _table(batch, schema, trouble)
        return
    before = re.compile(rb'(?<!\\)"(?:' + "|".join(map(re.escape, kinds)).encode() + rb')"\s*:\s*\Z')
    for block in _blocks(source):
        table = _parsed(block, schema)
        if table is None and b"NaN" in block:  # JSON has none, Python writes it
            table = _parsed(_without_nan(block, before), schema)
        if table is None:
            table = _table((object_of(line) for line in block.split(b"\n") if line.strip()), schema, trouble)
        yield table


def _without_nan(block: bytes, before: re.Pattern[bytes]) -> bytes:
    """With null for each NaN that is a value, and not a part of a text: there, quotes have a backslash before them."""

    def null(match: re.Match[bytes]) -> bytes:
        return b"null" if before.search(block, max(0, match.start() - 100), match.start()) else b"NaN"

    return re.sub(rb"NaN(?=\s*[,}])", null, block)


def _parsed(block: bytes, schema: Mapping[str, Any]) -> pl.DataFrame | None:
    import polars as pl

    try:
        return pl.read_ndjson(io.BytesIO(block), schema=schema)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None


def _table(items: Iterable[dict[str, Any] | None], schema: Mapping[str, Any], trouble: Counter[str]) -> pl.DataFrame:
    import polars as pl

    columns: dict[str, list[Any]] = {name: [] for name in schema}
    for item in items:
        if item is None:
            trouble["lines"] += 1
            continue
        for name, values in columns.items():
            values.append(item.get(name))
    return pl.DataFrame(
        {
            name: pl.Series([_text(v) for v in values], dtype=pl.String)
            if schema[name] == pl.String
            else pl.Series([_float(v) for v in values], dtype=pl.Float64)
            for name, values in columns.items()
        }
    )


def _float(value: Any) -> float | None:
    if isinstance(value, bool):
        return float(value)
    found = number(value)
    return None if found is NOTHING else found


def _text(value: Any) -> str | None:
    """As polars puts a value into a column of text, so that both give equal things one and the same text."""
    text = value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if text is None or text.isascii() else text.encode(errors="replace").decode()


def _blocks(source: Source) -> Iterator[bytes]:
    """Whole lines, about as many as make a block."""
    size = 0
    with source.open() as file:
        while block := read_from(file, BLOCK):
            if not block.endswith(b"\n"):
                rest = read_from(file, LINE_LIMIT + 1, line=True)
                if len(rest) > LINE_LIMIT:
                    raise UnusableError(f"it has a line of more than {LINE_LIMIT >> 20} MiB")
                block += rest
            yield block.removeprefix(codecs.BOM_UTF8) if size == 0 else block
            size += len(block)
            no_bomb(size, source.packed_size)
