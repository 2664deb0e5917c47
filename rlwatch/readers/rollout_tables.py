"""Dumps of completions as narrow tables: numbers and hashes, a row a completion. Texts are hashed and let go of."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from rlwatch.readers.rollout_columns import PARQUET, Columns, Kind
from rlwatch.readers.rollout_json import json_tables
from rlwatch.readers.rollout_objects import kinds_of
from rlwatch.readers.source import Source, UnreadableError

SLICE_ROWS = 32_768
SLICES = 16
"""Into how many slices parquet is cut at most: what a row group holds before a slice is decoded again for it."""

_REFUSED = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_CUT_OFF = ("length", "max_tokens", "max_length")
_BEFORE, _AFTER = "\0before", "\0after"
"""Columns of the two parts of a conversation, under names that no file has."""


def columns_in(source: Source) -> dict[str, Kind]:
    """The columns of a file, in its order, and what they hold; empty where it is no table.

    Raises:
        UnreadableError: It is parquet, and broken.
    """
    if not source.head.startswith(PARQUET):
        return kinds_of(source)
    return {name: _kind(dtype) for name, dtype in _scan(source)[1].items()}


def tables(
    source: Source, columns: Columns, kinds: Mapping[str, Kind], trouble: Counter[str]
) -> Iterator[pl.DataFrame]:
    """The completions of a file, as tables of one and the same few columns.

    `step`, `reward`, `length`, `truncated`, `correct`, `advantage` and `f0`, `f1`, ... for the reward functions are
    numbers, NaN where there is none; `group`, `prompt` and `completion` are hashes, 0 where there is nothing. A column
    is absent where the file has nothing for it.

    Args:
        source: The file.
        columns: What is what in it.
        kinds: What its columns hold.
        trouble: Counts the lines that are no JSON, under `lines`.

    Raises:
        UnreadableError: It is broken as a whole.
    """
    if not source.head.startswith(PARQUET):
        for table in json_tables(source, columns.names(), kinds, trouble):
            table = _with_parts(table, columns)
            yield table.select(_expressions(columns, table.schema))
        return
    lazy, schema = _scan(source)
    wanted = _expressions(columns.within(schema), schema)
    try:
        rows = int(lazy.select(pl.len()).collect().item())
        size = max(SLICE_ROWS, math.ceil(rows / SLICES))
        for start in range(0, rows, size):
            yield lazy.slice(start, size).select(wanted).collect()
    except _REFUSED as error:
        raise _broken(error) from None


def _scan(source: Source) -> tuple[pl.LazyFrame, Mapping[str, Any]]:
    try:
        data: Any = source.path if source.is_plain else io.BytesIO(source.whole())
        lazy = pl.scan_parquet(data, glob=False, hive_partitioning=False)
        return lazy, lazy.collect_schema()
    except _REFUSED as error:
        raise _broken(error) from None


def _broken(error: BaseException) -> UnreadableError:
    return UnreadableError(f"it is no whole parquet file: {(str(error).splitlines() or ['?'])[0]}")


def _kind(dtype: Any) -> Kind:
    if dtype == pl.Boolean:
        return "bool"
    if dtype == pl.Null:
        return "nothing"
    if dtype.is_numeric():
        return "number"
    if isinstance(dtype, (pl.List, pl.Array)):
        return "numbers" if dtype.inner.is_numeric() or dtype.inner == pl.Boolean else "nested"
    return "nested" if dtype.is_nested() else "text"


def _expressions(columns: Columns, schema: Mapping[str, Any]) -> list[pl.Expr]:
    prompt, completion = _hash(columns.prompt, schema), _hash(columns.tokens or columns.completion, schema)
    if _BEFORE in schema:
        prompt, completion = _hash(_BEFORE, schema), _hash(_AFTER, schema)
    elif columns.conversation is not None:
        parts = pl.col(columns.conversation)
        prompt, completion = parts.list.slice(0, parts.list.len() - 1).hash(), parts.list.last().hash()
    elif columns.all_in_one is not None:
        tokens, mask = (pl.col(name) for name in columns.all_in_one)
        first = mask.list.eval(pl.element().cast(pl.Float64)).list.arg_max()
        prompt, completion = tokens.list.slice(0, first).hash(), tokens.hash()
    hashes = {"group": _hash(columns.group, schema), "prompt": prompt, "completion": completion}
    numbers = {
        "step": _number(columns.step, schema, first=r"^\s*(\d+)"),
        "reward": _number(columns.reward, schema),
        "length": _length(columns, schema),
        "truncated": _truncated(columns, schema),
        "correct": _number(columns.correct, schema),
        "advantage": _number(columns.advantage, schema),
        **{f"f{index}": _number(column, schema) for index, (_, column) in enumerate(columns.functions)},
    }
    return [
        *(values.fill_null(0).alias(name) for name, values in hashes.items() if values is not None),
        *(values.fill_null(math.nan).alias(name) for name, values in numbers.items() if values is not None),
    ]


def _number(column: str | None, schema: Mapping[str, Any], first: str = r"^\s*(\S+)") -> pl.Expr | None:
    if column is None or column not in schema:
        return None
    values = pl.col(column)
    if schema[column] == pl.String:
        values = values.str.extract(first, 1)
    return values.cast(pl.Float64, strict=False)


def _hash(column: str | None, schema: Mapping[str, Any]) -> pl.Expr | None:
    if column is None or column not in schema:
        return None
    values = pl.col(column)
    if isinstance(schema[column], (pl.Categorical, pl.Enum)):
        values = values.cast(pl.String)
    return pl.when(pl.col(column).is_not_null()).then(values.hash())


def _truncated(columns: Columns, schema: Mapping[str, Any]) -> pl.Expr | None:
    if columns.truncated is not None or columns.finish is None:
        return _number(columns.truncated, schema)
    return pl.col(columns.finish).cast(pl.String).str.to_lowercase().is_in(_CUT_OFF).cast(pl.Float64)


def _length(columns: Columns, schema: Mapping[str, Any]) -> pl.Expr | None:
    """Tokens of the completion: as counted, else the policy's in the mask, else as many as there are token ids."""
    if columns.length is not None:
        return _number(columns.length, schema)
    if columns.mask is not None:
        mask = pl.col(columns.mask)
        if schema[columns.mask] == pl.String:
            ones = mask.str.count_matches("1", literal=True) + mask.str.count_matches("true", literal=True)
            return ones.cast(pl.Float64)
        return mask.list.eval(pl.element().cast(pl.Float64)).list.sum()
    if columns.tokens is not None:
        tokens = pl.col(columns.tokens)
        if schema[columns.tokens] == pl.String:
            several = tokens.str.count_matches(",", literal=True) + 1
            return pl.when(tokens.str.len_bytes() <= len("[]")).then(0).otherwise(several).cast(pl.Float64)
        return tokens.list.len().cast(pl.Float64)
    return None


def _with_parts(table: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """With what comes before the policy's first word, and with that and what follows, where both are in one column."""
    if columns.conversation is not None:
        parts = [_parts_of_messages(text) for text in table[columns.conversation].to_list()]
    elif columns.all_in_one is not None:
        rows = zip(*(table[name].to_list() for name in columns.all_in_one), strict=True)
        parts = [_parts_of_tokens(tokens, mask) for tokens, mask in rows]
    else:
        return table
    return table.with_columns(
        pl.Series(name, [part[index] for part in parts], dtype=pl.String)
        for index, name in enumerate((_BEFORE, _AFTER))
    )


def _parts_of_messages(text: str | None) -> tuple[str | None, str | None]:
    """Messages up to the first of the assistant's, or all texts but the last."""
    try:
        messages = json.loads(text or "null")
    except (ValueError, RecursionError):
        messages = None
    if not isinstance(messages, list) or not messages:
        return None, None
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    first = roles.index("assistant") if "assistant" in roles else len(messages) - 1
    return json.dumps(messages[:first]), json.dumps(messages[first:])


def _parts_of_tokens(tokens: str | None, mask: str | None) -> tuple[str | None, str | None]:
    """From lists as JSON: the ids before the first one that the mask keeps, and all of them."""
    found = [mask.find(one) for one in ("1", "true") if one in mask] if mask else []
    if tokens is None or mask is None or not found:
        return None, tokens
    before = mask.count(",", 0, min(found))
    return ",".join(tokens.split(",", before)[:before]), tokens
