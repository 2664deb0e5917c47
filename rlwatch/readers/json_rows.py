"""JSON of any shape that rows can have: lines of dicts, a list of them, an object of columns, a list in an object.

Tinker, prime-rl, NeMo-RL, SkyRL and ms-swift write lines; people write the rest.

    {"step": 0, "timestamp": 1765512391.7, "reward/mean": 0.14, "policy/entropy": 2.89}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from rlwatch.readers.fields import Rows, check_count, has_metrics, is_log_row
from rlwatch.readers.json_columns import columns_of
from rlwatch.readers.jsontext import as_text, document, line
from rlwatch.readers.rows import Log
from rlwatch.readers.settings import simple_settings
from rlwatch.readers.source import Source, UnreadableError, UnusableError

if TYPE_CHECKING:
    from rlwatch.readers.loading import Options


def sniff(source: Source) -> bool:
    """It begins as JSON does: with a bracket, or a brace and a name in double quotes."""
    head = source.head_text.lstrip("\ufeff \t\r\n\0")
    if head.startswith("["):
        return head[1:].lstrip()[:1] in ("{", "]", "[")
    return head.startswith("{") and head[1:].lstrip()[:1] in ('"', "}")


def read(source: Source, options: Options) -> list[Log]:
    """The rows; several logs where it is an object of several.

    Raises:
        UnreadableError: It is broken, or no rows of metrics are in it.
    """
    lines = source.utf8_lines()
    filled = (data for data in lines if as_text(data).strip())
    try:
        first, second = (b"", None) if source.head_text.lstrip()[:1] == "[" else (next(filled, b""), next(filled, None))
    except UnusableError:
        first, second = b"", None  # a document on one very long line
    begin = line(first.rstrip(b" ,"))
    if second is not None and isinstance(begin, dict):
        logs = [_lines(tuple(begin), chain([first, second], lines))]
    else:
        found, note = document(source)
        logs = list(_logs(found, None))
        for log in logs:
            log.notes += [note] if note else []
    logs = [log for log in logs if has_metrics(log.rows)]
    if not logs:
        raise UnreadableError("there are no rows with a metric of a training in its JSON")
    return logs


def _lines(names: tuple[str, ...], lines: Iterator[bytes]) -> Log:
    quick, rest = columns_of(names, lines)
    other = next(rest, None)
    if quick is not None and other is None:
        return Log(quick, "jsonl")
    rows = [] if quick is None else list(quick)
    make = Rows()
    broken = 0
    for data in chain([other or b""], rest):
        value = line(data)
        if not isinstance(value, dict):
            text = as_text(data)
            if not text.strip():
                continue
            value = line(data.rstrip(b" ,")) if text.lstrip()[:1] == "{" else None
        if not isinstance(value, dict):
            broken += 1
            continue
        rows.append(make.row(value))
        check_count(len(rows))
    log = Log(rows, "jsonl")
    if broken:
        log.notes.append(f"{broken} line{'s' * (broken > 1)} that {'are' if broken > 1 else 'is'} no JSON left out")
    return log


def _logs(value: Any, name: str | None) -> Iterator[Log]:
    """The logs in a document: a list of rows, or an object in one of several shapes."""
    make = Rows()
    if isinstance(value, list):
        dicts = [entry for entry in value if isinstance(entry, dict)]
        notes = [f"{len(value) - len(dicts)} entries that are no rows left out"] if len(dicts) < len(value) else []
        if dicts:
            yield Log([make.row(entry) for entry in dicts], "json", name=name, notes=notes)
        return
    if not isinstance(value, dict):
        return
    columns = _columns(value)
    lists = {key: inner for key, inner in value.items() if isinstance(inner, list) and inner and _is_rows(inner)}
    numbered = {key: inner for key, inner in value.items() if key.isdecimal() and isinstance(inner, dict)}
    if columns is not None:
        yield Log([make.row(entry) for entry in columns], "json", name=name)
    elif lists:
        for key, inner in lists.items():
            for log in _logs(inner, key if len(lists) > 1 else name):
                config = simple_settings(value.get("config"))
                log.info = {"config": config} if config else {}
                yield log
    elif numbered and len(numbered) == len(value):
        yield Log([make.row({"step": float(key), **inner}) for key, inner in numbered.items()], "json", name=name)
    elif is_log_row(value):
        yield Log([make.row(value)], "json", name=name)
    elif name is None:  # an object of runs, one level deep
        for key, inner in value.items():
            if isinstance(inner, (dict, list)):
                yield from _logs(inner, key)


def _is_rows(value: list[Any]) -> bool:
    return all(isinstance(entry, dict) for entry in value[:10])


def _columns(value: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Rows of an object of columns: lists of one length, pandas' dicts by row, or its columns beside its data."""
    if set(value) >= {"columns", "data"} and isinstance(value["columns"], list) and isinstance(value["data"], list):
        names = [str(name) for name in value["columns"]]
        return [dict(zip(names, cells, strict=False)) for cells in value["data"] if isinstance(cells, list)]
    lists = {key: inner for key, inner in value.items() if isinstance(inner, list) and not _is_rows(inner)}
    if lists and len({len(inner) for inner in lists.values()}) == 1 and not is_log_row(value):
        return [dict(zip(lists, cells, strict=True)) for cells in zip(*lists.values(), strict=True)]
    indexed = {key: inner for key, inner in value.items() if isinstance(inner, dict)}
    if not indexed or len(indexed) < len(value) or not all(i.isdecimal() for inner in indexed.values() for i in inner):
        return None
    if all(key.isdecimal() for key in indexed):
        return None  # rows by their step
    rows: dict[int, dict[str, Any]] = {}
    for name, column in indexed.items():
        for index, cell in column.items():
            rows.setdefault(int(index), {})[name] = cell
    return [rows[index] for index in sorted(rows)]
