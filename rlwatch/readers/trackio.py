"""trackio's database: SQLite, a project a file, with a row of metrics a call of `log`. Nothing is written to it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rlwatch.readers.fields import flat, unix_seconds
from rlwatch.readers.loading import Options
from rlwatch.readers.rows import Log, Row, numbers, step_of
from rlwatch.readers.settings import simple_settings
from rlwatch.readers.source import Source, UnreadableError
from rlwatch.readers.tracker import tracker_log
from rlwatch.runs.jsonl import decode

_MAGIC = b"SQLite format 3\0"
_WAL_MODE = b"\x02"


def sniff(source: Source) -> bool:
    """Whether it is an SQLite database: what is in it, only its tables tell."""
    return source.head.startswith(_MAGIC)


def read(source: Source, options: Options) -> list[Log]:
    """A run or more.

    Raises:
        UnreadableError: It is another database, or broken.
    """
    notes: list[str] = []
    try:
        with _opened(source, notes) as connection:
            logs = _runs(connection, notes)
    except UnreadableError:
        raise
    except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
        raise UnreadableError(f"it is an SQLite database that cannot be read: {error}") from None
    if not logs:
        raise UnreadableError("it is a database of trackio's in which no metrics are")
    return logs


@contextmanager
def _opened(source: Source, notes: list[str]) -> Iterator[sqlite3.Connection]:
    """A connection that leaves the file and its folder as they are.

    In WAL mode the newest rows are in a file beside the database. While a writer lives, there is a third, and readers
    may join in. Where there is none, reading would make one, so a copy is read.
    """
    with tempfile.TemporaryDirectory(prefix="rlwatch-") as folder:
        path, how = source.path, "mode=ro"
        log = path.with_name(path.name + "-wal")
        if not source.is_plain:
            path, how = Path(folder) / "database", "immutable=1"
            path.write_bytes(source.whole())
        elif source.head[18:19] == _WAL_MODE and not (log.is_file() and log.stat().st_size):
            how = "immutable=1"
        elif source.head[18:19] == _WAL_MODE and not path.with_name(path.name + "-shm").exists():
            path = Path(shutil.copy(path, Path(folder) / "database"))
            shutil.copy(log, Path(folder) / "database-wal")
        connection = _connect(path, how)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        except sqlite3.OperationalError:
            connection.close()
            connection = _connect(path, "immutable=1")
            notes.append("its folder may not be written to: the newest rows may be missing")
        with closing(connection):
            yield connection


def _connect(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?{how}", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _runs(connection: sqlite3.Connection, notes: list[str]) -> list[Log]:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    columns = {row[1] for row in connection.execute("PRAGMA table_info(metrics)")}
    if "metrics" not in tables or not {"run_name", "step", "timestamp", "metrics"} <= columns:
        raise UnreadableError("it is an SQLite database, but none of trackio's")
    known_by = "run_id" if "run_id" in columns else "run_name"  # versions before 0.24 have no ids
    rows: dict[Any, list[Row]] = {}
    names: dict[Any, str] = {}
    lost = 0
    query = f"SELECT {known_by}, run_name, timestamp, step, metrics FROM metrics ORDER BY rowid"
    for run, name, time, step, metrics in connection.execute(query):
        data = _json(metrics)
        if data is None:
            lost += 1
            continue
        names[run] = str(name)
        rows.setdefault(run, []).append(Row(_numbers(data), step_of(step)[0], unix_seconds(time)))
    if lost:
        notes.append(f"{lost} row{'s' * (lost > 1)} of the table of metrics hold something else")
    configs = _configs(connection, known_by) if "configs" in tables else {}
    return [
        tracker_log(
            found,
            format="trackio",
            name=names[run],
            info={"config": configs[run]} if configs.get(run) else {},
            notes=list(notes),
        )
        for run, found in rows.items()
    ]


def _configs(connection: sqlite3.Connection, known_by: str) -> dict[Any, dict[str, Any]]:
    found = {}
    for run, config in connection.execute(f"SELECT {known_by}, config FROM configs ORDER BY rowid"):
        data = _json(config) or {}
        found[run] = simple_settings({name: value for name, value in data.items() if not name.startswith("_")})
    return found


def _numbers(data: dict[str, Any]) -> dict[str, float | None]:
    """What is a number; of an image, a table or a histogram, which say so in `_type`, nothing is."""
    plain = {name: value for name, value in data.items() if not (isinstance(value, dict) and "_type" in value)}
    return numbers(flat(plain))


def _json(text: Any) -> dict[str, Any] | None:
    try:
        data = decode(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    except (ValueError, TypeError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
