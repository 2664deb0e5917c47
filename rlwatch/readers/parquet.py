"""A table of metrics in Parquet: a row a step, a column a metric, and perhaps a column that says which run it is.

So are the histories that wandb exports, and what a data frame of metrics is saved as. A cell without a value is absent:
a table has one for every metric in every row. A table of completions is another format's.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rlwatch.readers.fields import STEP_KEYS, TIME_KEYS, unix_seconds
from rlwatch.readers.loading import Options
from rlwatch.readers.rollout_columns import PARQUET, is_rollouts
from rlwatch.readers.rows import Log, Row, step_of
from rlwatch.readers.source import Source, UnreadableError
from rlwatch.readers.tracker import tracker_log
from rlwatch.runs.aliases import is_known

if TYPE_CHECKING:
    import polars as pl

_RUNS = ("run_id", "run_name", "run", "_run")
_OF_NO_USE = ("_runtime", "__index_level_0__", "id", "log_id", "space_id")
_MOST = 100_000_000


def sniff(source: Source) -> bool:
    """Whether it begins as a Parquet file does."""
    return source.head.startswith(PARQUET)


def read(source: Source, options: Options) -> list[Log]:
    """A run, or as many as a column of runs' names has.

    Raises:
        UnreadableError: It is broken, or no table of metrics.
    """
    frame = _frame(source)
    runs = [name for name in _RUNS if name in frame.columns]
    if not runs or not len(frame):
        return [_log(frame, None)]
    logs = []
    for part in frame.partition_by(runs[0], maintain_order=True):
        names = [str(part[name][0]) for name in ("run_name", *runs) if name in runs and part[name][0] is not None]
        logs.append(_log(part.drop(runs), names[0] if names else None))
    return logs


def _frame(source: Source) -> pl.DataFrame:
    """The columns that matter: numbers, the time, the run."""
    import polars as pl

    try:
        data: Any = source.path if source.is_plain else source.whole()
        kept = _kept(pl.read_parquet_schema(_opened(data)))
        rows = int(pl.scan_parquet(_opened(data)).select(pl.len()).collect().item())
        if rows * len(kept) > _MOST:
            raise UnreadableError(f"it is a table of {rows:,} rows and {len(kept):,} columns, larger than metrics are")
        return pl.read_parquet(_opened(data), columns=kept)
    except UnreadableError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # polars raises many kinds, and panics
        reason = str(error).strip().partition("\n")[0][:200]
        raise UnreadableError(f"it is a Parquet file that cannot be read: {reason}") from None


def _opened(data: Any) -> Any:
    """A path, or bytes as a file: polars closes a file that it has read."""
    return io.BytesIO(data) if isinstance(data, bytes) else data


def _kept(schema: Any) -> list[str]:
    if is_rollouts(schema):
        raise UnreadableError("it is a table of completions")
    numeric = [name for name, kind in schema.items() if kind.is_numeric() and name not in _OF_NO_USE]
    if not any(name in schema for name in STEP_KEYS) and not any(map(is_known, numeric)):
        raise UnreadableError("it is a Parquet table, but not one of metrics: none of its columns is a step")
    if not set(numeric) - {*STEP_KEYS, *TIME_KEYS, *_RUNS}:
        raise UnreadableError("it is a Parquet table without a column of numbers")
    return [name for name in schema if name in numeric or name in TIME_KEYS or name in _RUNS]


def _log(frame: pl.DataFrame, name: str | None) -> Log:
    times = [column for column in TIME_KEYS if column in frame.columns]
    when: list[Any] = [None] * len(frame)
    if times:
        column = frame[times[0]]
        when = (column.dt.epoch("us") / 1e6 if column.dtype.is_temporal() else column).to_list()
    columns = {
        column: frame[column].cast(float).to_list()
        for column in frame.columns
        if frame[column].dtype.is_numeric() and column not in times
    }
    counter = columns.pop("_step", [None] * len(frame))
    rows = []
    for index, cells in enumerate(zip(*columns.values(), strict=True)):
        values = {column: cell for column, cell in zip(columns, cells, strict=True) if cell is not None}
        rows.append(Row(values, step_of(counter[index])[0], unix_seconds(when[index])))
    return tracker_log(rows, format="parquet", name=name)
