"""The groups of a step's rollouts, as far as a page shows them.

Texts may be megabytes long: they are searched and compared where they lie, and only their beginnings are taken out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from rlwatch.signals.groups import RewardRange
from rlwatch_dashboard.shards import Scoring, Shard, collect, columns_of, kinds
from rlwatch_dashboard.view import View

GROUPS_A_PAGE = 8
ROWS_A_GROUP = 24
ROWS_OF_ONE_GROUP = 256
"""Different completions shown of a group: beside others, and where it is shown alone."""

FOLD = 2_000
"""Characters from which a text is folded."""

LONGEST = 20_000
"""Characters of a text that a page gets at most."""

BUDGET = 300_000
"""Characters of all its texts, as long as each has `FOLD` of them."""

_NUMBERS = (
    "index", "prompt_id", "reward", "correct", "length", "truncated", "advantage", "weight", "entropy", "logprob_sum",
)  # fmt: skip


@dataclass(frozen=True)
class Text:
    """The beginning of a text, and how long all of it is."""

    shown: str
    length: int


@dataclass(frozen=True)
class Row:
    """Completions of a group that are the same.

    Args:
        copies: The numbers of each of them, by column.
        text: What they say; None where that was not kept, and then they are the same in every number.
        found: Whether the search found it.
    """

    copies: tuple[dict[str, Any], ...]
    text: Text | None
    found: bool

    def values(self, column: str) -> list[Any]:
        """Of each copy."""
        return [copy.get(column) for copy in self.copies]


@dataclass(frozen=True)
class Group:
    """A prompt and its completions.

    Args:
        rewards: Of all completions, in their order.
        rows: Its different completions: those that the search found first, then those with the most copies.
        left_out: How many more of these there are than are shown.
        has_text: Whether the text of any completion was kept.
    """

    number: int
    kind: str
    prompt_id: str | None
    prompt: Text | None
    rewards: list[float | None]
    rows: list[Row]
    left_out: int
    has_text: bool


@dataclass(frozen=True)
class Step:
    """What a page shows of a step.

    Args:
        groups: Those of this page.
        counts: How many groups there are of each kind, of those that the search found.
        matching: How many groups the filters leave.
        total: How many groups there are.
        page: Which page this is, and of how many.
        functions: The columns of the single reward functions.
        rows: How many completions there are.
        texts: How many of them have their text.
    """

    groups: list[Group]
    counts: Counter[str]
    matching: int
    total: int
    page: int
    pages: int
    functions: list[str]
    rows: int
    texts: int

    @property
    def prompts(self) -> set[str]:
        """The ids of the prompts that are shown."""
        return {group.prompt_id for group in self.groups if group.prompt_id is not None}


def read_step(
    shard: Shard, view: View, seen: RewardRange, scoring: Scoring, prompts: Collection[str] | None = None
) -> Step:
    """The groups that a view shows of a shard.

    Args:
        shard: It.
        view: Its `kind`, `q` and `page` count; or its `group`, which the others then do not hide.
        seen: The run's range of rewards as of it.
        scoring: How the run adds rewards up.
        prompts: Only groups with one of these prompts, instead of the group that the view names.

    Raises:
        UnreadableShardError: The shard says nothing.
    """
    columns = columns_of(shard.path)
    kind_of = kinds(shard, seen, scoring)
    hits = _search(shard, columns, view.q)
    found = [number for number in kind_of if not view.q or number in hits]
    counts = Counter(kind_of[number] for number in found)
    if prompts is not None:
        same = _with_prompts(shard, columns, prompts)
        numbers = [number for number in kind_of if number in same]
    elif view.group is not None:
        numbers = [number for number in kind_of if number == view.group]
    else:
        numbers = [number for number in found if view.kind in (None, kind_of[number])]
    pages = max(1, -(-len(numbers) // GROUPS_A_PAGE))
    page = min(view.page, pages)
    shown = numbers[(page - 1) * GROUPS_A_PAGE : page * GROUPS_A_PAGE]
    frame = _rows(shard, columns, shown)
    rows_a_group = ROWS_OF_ONE_GROUP if len(shown) == 1 else ROWS_A_GROUP
    groups = [_group(number, kind_of[number], rows, hits, rows_a_group) for number, rows in _by_group(frame, shown)]
    return Step(
        _cut(groups),
        counts,
        len(numbers),
        len(kind_of),
        page,
        pages,
        [name for name in columns if name.startswith("reward/")],
        *_count(shard, columns),
    )


def whole_text(shard: Shard, group: int, index: int, part: str) -> str | None:
    """All of one text; None where there is none.

    Args:
        shard: Where it is.
        group: Its group.
        index: Its place in the group.
        part: `prompt` or `completion`.

    Raises:
        UnreadableShardError: The shard says nothing.
    """
    if not {part, "index"} <= set(columns_of(shard.path)):
        return None
    wanted = (pl.col("group") == group) & (pl.col("index") == index)
    found = collect(shard.path, lambda lazy: lazy.filter(wanted).select(part).head(1))[part]
    return None if found.is_empty() else found[0]


def _search(shard: Shard, columns: Collection[str], wanted: str) -> dict[int, set[int]]:
    """The groups that have a text in their prompt or a completion: of each, which completions, counted from 0."""
    texts = [name for name in ("prompt", "completion") if name in columns]
    if not wanted or not texts:
        return {}

    def has(name: str) -> pl.Expr:
        return pl.col(name).str.to_lowercase().str.contains(wanted.lower(), literal=True).fill_null(False)

    place = pl.int_range(pl.len()).over("group").alias("place")
    either = pl.any_horizontal([has(name) for name in texts]).alias("either")
    exact = has("completion").alias("exact") if "completion" in columns else pl.lit(False).alias("exact")
    frame = collect(shard.path, lambda lazy: lazy.select("group", place, either, exact).filter("either"))
    hits: dict[int, set[int]] = {}
    for group, where, exactly in frame.select("group", "place", "exact").iter_rows():
        found = hits.setdefault(group, set())
        if exactly:
            found.add(where)
    return hits


def _with_prompts(shard: Shard, columns: Collection[str], prompts: Collection[str]) -> set[int]:
    if "prompt_id" not in columns:
        return set()
    same = pl.col("prompt_id").is_in(list(prompts))
    return set(collect(shard.path, lambda lazy: lazy.filter(same).select("group").unique())["group"].to_list())


def _count(shard: Shard, columns: Collection[str]) -> tuple[int, int]:
    """How many rows there are, and how many of them with the text of a completion."""
    texts = pl.col("completion").count() if "completion" in columns else pl.lit(0)
    frame = collect(shard.path, lambda lazy: lazy.select(pl.len().alias("rows"), texts.alias("texts")))
    return int(frame["rows"][0]), int(frame["texts"][0])


def _rows(shard: Shard, columns: Collection[str], groups: list[int]) -> pl.DataFrame:
    """The rows of some groups: all numbers, and of each text its beginning, its length and a fingerprint."""
    picked = [pl.col("group"), *(pl.col(name) for name in columns if name in _NUMBERS or name.startswith("reward/"))]
    for name in ("prompt", "completion"):
        if name in columns:
            text = pl.col(name)
            picked += [
                text.str.slice(0, LONGEST),
                text.str.len_chars().alias(f"{name} length"),
                text.hash().alias(f"{name} hash"),
            ]
    return collect(shard.path, lambda lazy: lazy.filter(pl.col("group").is_in(groups)).select(picked))


def _by_group(frame: pl.DataFrame, groups: list[int]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    rows: dict[int, list[dict[str, Any]]] = {group: [] for group in groups}
    for row in frame.iter_rows(named=True):
        rows[row["group"]].append(row)
    yield from rows.items()


def _group(number: int, kind: str, rows: list[dict[str, Any]], hits: dict[int, set[int]], most: int) -> Group:
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault(_identity(row), []).append(place)
    found = hits.get(number, set())
    folded = [
        Row(tuple(rows[place] for place in places), _text(rows[places[0]], "completion"), not found.isdisjoint(places))
        for places in alike.values()
    ]
    folded.sort(key=lambda row: (not row.found, -len(row.copies)))
    return Group(
        number=number,
        kind=kind,
        prompt_id=rows[0].get("prompt_id"),
        prompt=next((text for row in rows if (text := _text(row, "prompt")) is not None), None),
        rewards=[row["reward"] for row in rows],
        rows=folded[:most],
        left_out=len(folded[most:]),
        has_text=any(row.text is not None for row in folded),
    )


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    """Equal where two completions are the same: their text, or all their numbers where that was not kept."""
    if row.get("completion") is not None:
        return row["completion length"], row["completion hash"]
    return tuple(value for name, value in row.items() if name != "index")


def _text(row: dict[str, Any], part: str) -> Text | None:
    return Text(row[part], row[f"{part} length"]) if row.get(part) is not None else None


def _cut(groups: list[Group]) -> list[Group]:
    """The groups with texts of such a length that all of them fit on a page."""
    texts = sum(row.text is not None for group in groups for row in group.rows) + len(groups)
    longest = max(FOLD, min(LONGEST, BUDGET // max(1, texts)))

    def cut(text: Text | None) -> Text | None:
        return Text(text.shown[:longest], text.length) if text is not None else None

    return [
        replace(group, prompt=cut(group.prompt), rows=[replace(row, text=cut(row.text)) for row in group.rows])
        for group in groups
    ]
