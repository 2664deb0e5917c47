"""Which shards of rollouts a run has, which one a step trains on, and of which kind the groups in it are.

A kind depends on the best and the worst reward that the run had seen by then, so the rewards of the shards before count
too. A shard never changes once it is there: what was read of it is kept, by its path, size and time of change.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rlwatch.capture.generation import reward_name
from rlwatch.signals.groups import RewardRange, count_groups, total_rewards, zero_variance

KINDS = ("mixed", "stuck", "failed", "solved", "unscored")
"""Of groups: something to learn from, three of zero variance, and those without a reward."""

MOST_ROWS = 200_000
"""How many rows of a shard are looked at; a generation has a few thousand."""

MOST_RANGED = 1000
"""How many shards are asked for their best and worst reward, evenly over the run; the first time takes a millisecond
each."""

Stamp = tuple[int, int]

_NAME = re.compile(r"step-(\d{1,15})\.parquet")
_MAGIC = b"PAR1"


class UnreadableShardError(ValueError):
    """A shard that says nothing; the message says why, in words for a person."""


@dataclass(frozen=True)
class Shard:
    """A file of rollouts, by the first step that trained on them."""

    step: int
    path: Path

    def stamp(self) -> Stamp:
        """What changes when the file does.

        Raises:
            UnreadableShardError: It is gone.
        """
        try:
            status = self.path.stat()
        except OSError as error:
            raise UnreadableShardError(f"it cannot be read: {error.strerror}") from None
        return status.st_size, status.st_mtime_ns


@dataclass(frozen=True)
class Scoring:
    """How a run adds its rewards up.

    Args:
        functions: Column and weight of each reward function; empty where only the totals are known.
        each: A group is dead only where each function by itself has no variance.
    """

    functions: tuple[tuple[str, float], ...] = ()
    each: bool = False

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Scoring:
        """As run.json says it; by the totals alone where it says nothing."""
        weights = info.get("reward_functions")
        config = info.get("config")
        if not isinstance(weights, Mapping) or not all(_is_number(weight) for weight in weights.values()):
            return cls()
        each = isinstance(config, Mapping) and config.get("multi_objective_aggregation") == "normalize_then_sum"
        return cls(tuple((reward_name(str(name)), float(weight)) for name, weight in weights.items()), each)


def list_shards(run: Path) -> list[Shard]:
    """A run's shards, in the order of their steps; none where it has no folder of them."""
    try:
        names = os.listdir(run / "rollouts")
    except OSError:
        return []
    found = [(match, name) for name in names if (match := _NAME.fullmatch(name))]
    return sorted((Shard(int(match[1]), run / "rollouts" / name) for match, name in found), key=lambda s: s.step)


def shard_at(shards: Sequence[Shard], step: int) -> Shard | None:
    """The one that a step trains on: the newest at or before it."""
    place = bisect_right([shard.step for shard in shards], step)
    return shards[place - 1] if place else None


def spread(shards: Sequence[Shard], count: int, keep: Iterable[Shard] = ()) -> list[Shard]:
    """So many shards, evenly over all of them, the first and the last among them; and those to keep."""
    if len(shards) <= count:
        return list(shards)
    places = {round(place * (len(shards) - 1) / (count - 1)) for place in range(count)}
    return sorted({*(shards[place] for place in places), *keep}, key=lambda shard: shard.step)


def ranges(shards: Sequence[Shard], wanted: Iterable[Shard]) -> dict[Shard, RewardRange]:
    """The worst and the best reward that the run had seen, as of each of some shards.

    Every shard up to it counts, or a thousand of them in a run with more. One that cannot be read counts for nothing.
    """
    needed = set(wanted)
    last = max((shard.step for shard in needed), default=-1)
    earlier = [shard for shard in shards if shard.step <= last]
    seen = RewardRange()
    found = {}
    for shard in spread(earlier, MOST_RANGED, needed):
        with suppress(UnreadableShardError):
            seen = seen.including(np.array(_extremes(shard.path, shard.stamp())))
        if shard in needed:
            found[shard] = seen
    return found


def kinds(shard: Shard, seen: RewardRange, scoring: Scoring) -> dict[int, str]:
    """The kind of each of a shard's groups, by the definitions of `groups/solved`, `failed` and `stuck`.

    Raises:
        UnreadableShardError: The shard says nothing.
    """
    return dict(_kinds(shard.path, shard.stamp(), seen, scoring))


def columns_of(path: Path) -> dict[str, pl.DataType]:
    """The columns that a shard has, as far as they hold what they should.

    Raises:
        UnreadableShardError: It is empty, torn, gone, or no shard of rollouts.
    """
    _check(path)
    try:
        schema = dict(pl.read_parquet_schema(path))
    except (Exception, pl.exceptions.PanicException) as error:  # polars raises many kinds, and panics
        raise UnreadableShardError(f"it is a Parquet file that cannot be read: {_reason(error)}") from None
    usable = {name: kind for name, kind in schema.items() if _is_usable(name, kind)}
    missing = [name for name in ("group", "reward") if name not in usable]
    if missing:
        raise UnreadableShardError(f"it is no shard of rollouts: it has no column {' and no column '.join(missing)}")
    return usable


def collect(path: Path, query: Any) -> pl.DataFrame:
    """What a lazy query on a shard gives; `query` takes the lazy frame.

    Raises:
        UnreadableShardError: It cannot be read.
    """
    _check(path)
    try:
        lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False, n_rows=MOST_ROWS)
        return query(lazy).collect()  # type: ignore[no-any-return]
    except (Exception, pl.exceptions.PanicException) as error:
        raise UnreadableShardError(f"it cannot be read: {_reason(error)}") from None


@lru_cache(maxsize=8192)
def _extremes(path: Path, stamp: Stamp) -> tuple[float, ...]:
    """The smallest and the largest finite reward of a shard; nothing where it has none."""
    columns_of(path)
    rewards = collect(path, lambda lazy: lazy.select(pl.col("reward").cast(pl.Float64)))["reward"].to_numpy()
    finite = rewards[np.isfinite(rewards)]
    return (float(finite.min()), float(finite.max())) if finite.size else ()


@lru_cache(maxsize=256)
def _kinds(path: Path, stamp: Stamp, seen: RewardRange, scoring: Scoring) -> tuple[tuple[int, str], ...]:
    present = columns_of(path)
    functions = scoring.functions if all(name in present for name, _ in scoring.functions) else ()
    scored = dict(functions) or {"reward": 1.0}
    weights = np.array(list(scored.values()))
    names = ["group", *scored]
    frame = collect(path, lambda lazy: lazy.select(names).drop_nulls("group"))
    found: dict[int, str] = {}
    by_size: dict[int, list[tuple[int, NDArray[np.float64]]]] = {}
    for (group,), rows in frame.group_by("group", maintain_order=True):
        scores = rows.select(pl.col(list(scored)).cast(pl.Float64).fill_null(math.nan)).to_numpy()
        found[int(str(group))] = "mixed"
        by_size.setdefault(len(scores), []).append((int(str(group)), scores))
    at_level: dict[float, str] = {}  # groups of zero variance are of few levels
    for size, groups in by_size.items():
        dead = zero_variance(np.concatenate([scores for _, scores in groups]), weights, size, each=scoring.each)
        for (group, scores), is_dead in zip(groups, dead.tolist(), strict=True):
            if np.isnan(scores).all():
                found[group] = "unscored"
            elif is_dead:
                level = float(np.nanmean(total_rewards(scores, weights)))
                if level not in at_level:
                    at_level[level] = _kind(scores, weights, seen, scoring.each)
                found[group] = at_level[level]
    return tuple(found.items())


def _kind(scores: NDArray[np.float64], weights: NDArray[np.float64], seen: RewardRange, each: bool) -> str:
    """Of one group without variance, as the metrics count it."""
    counts = count_groups(scores, weights, len(scores), seen, each=each)
    return next((kind for kind in ("solved", "failed", "stuck") if getattr(counts, kind)), "mixed")


def _check(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(4)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4))
            tail = file.read(4)
    except OSError as error:
        raise UnreadableShardError(f"it cannot be read: {error.strerror}") from None
    if not size:
        raise UnreadableShardError("it is empty")
    if head != _MAGIC:
        raise UnreadableShardError("it is no Parquet file")
    if tail != _MAGIC or size < 12:
        raise UnreadableShardError("it is torn: its end is missing")


def _is_usable(name: str, kind: pl.DataType) -> bool:
    if name in ("group", "index"):
        return bool(kind.is_integer())
    if name in ("prompt", "completion", "prompt_id"):
        return kind == pl.String
    if name in ("correct", "truncated"):
        return kind == pl.Boolean
    return bool(kind.is_numeric())


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _reason(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__
