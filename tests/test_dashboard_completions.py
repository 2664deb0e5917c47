"""The page of completions without a browser: kinds, folding, search, pages, addresses, and files that are none."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

import polars as pl

from components import text_of
from rlwatch.runs.reader import read_records
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch.signals.groups import RewardRange
from rlwatch_dashboard import create_app, plain_text, rollouts
from rlwatch_dashboard.app import page_at
from rlwatch_dashboard.pages.completions import asked
from rlwatch_dashboard.rollouts import BUDGET, FOLD, GROUPS_A_PAGE, LONGEST, Step, read_step
from rlwatch_dashboard.shards import Scoring, UnreadableShardError, kinds, list_shards, ranges, shard_at, spread
from rlwatch_dashboard.view import View, address


def row(step: int, group: int, index: int, reward: float | None, text: str | None, **more: Any) -> dict[str, Any]:
    return {
        "step": step,
        "group": group,
        "index": index,
        "prompt_id": f"{group:016x}",
        "reward": reward,
        "reward/accuracy": reward,
        "correct": None if reward is None else reward >= 1,
        "length": 10 + index,
        "truncated": False,
        "advantage": 0.0,
        "weight": 0.125,
        "entropy": 0.5,
        "logprob_sum": -3.0,
        "prompt": None if text is None else f"prompt of {group}",
        "completion": text,
        **more,
    }


def groups(step: int, *rewards: Sequence[float | None], texts: bool = True) -> list[dict[str, Any]]:
    return [
        row(step, group, index, reward, f"text {group}.{index}" if texts else None)
        for group, of_group in enumerate(rewards)
        for index, reward in enumerate(of_group)
    ]


STUCK, FAILED, SOLVED, MIXED = (0.5, 0.5), (0.0, 0.0), (1.0, 1.0), (0.0, 1.0)


def new_run(root: Path, name: str = "run", **info: Any) -> RunWriter:
    (root / name).mkdir(parents=True)
    return RunWriter(root / name, {"reward_functions": {"accuracy": 1.0}, **info})


def write(writer: RunWriter, step: int, rows: list[dict[str, Any]]) -> None:
    texts = {"prompt": pl.String, "completion": pl.String, "correct": pl.Boolean}
    writer.rollouts(step, lambda: pl.DataFrame(rows, schema_overrides=texts, infer_schema_length=None))
    writer.finish_rollouts()


def read(run: Path, search: str = "", step: int | None = None) -> Step:
    shards = list_shards(run)
    shard = shards[-1] if step is None else shard_at(shards, step)
    assert shard is not None
    info = json.loads((run / "run.json").read_text())
    return read_step(shard, View.of(search), ranges(shards, [shard])[shard], Scoring.of(info))


def components(page: Any) -> Iterator[Any]:
    if isinstance(page, (list, tuple)):
        for part in page:
            yield from components(part)
    elif hasattr(page, "to_plotly_json"):
        yield page
        yield from components(getattr(page, "children", None))


def links(page: Any) -> list[str]:
    return [part.href for part in components(page) if getattr(part, "href", None)]


def page_of(root: Path, search: str = "", name: str = "run") -> list[Any]:
    return page_at(root, f"/run/{quote(name, safe='')}/completions", search)[0]


def size_of(page: Any) -> int:
    return len(json.dumps(page, default=lambda part: part.to_plotly_json()))


# Kinds


def test_a_group_is_of_the_kind_that_the_metrics_count_it_as(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, MIXED, STUCK, FAILED, SOLVED, (None, None)))
    kind_of = {group.number: group.kind for group in read(writer.path).groups}
    assert kind_of == {0: "mixed", 1: "stuck", 2: "failed", 3: "solved", 4: "unscored"}


def test_the_range_of_rewards_is_that_of_the_run_up_to_the_step(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, STUCK))
    write(writer, 9, groups(9, STUCK, MIXED))
    write(writer, 17, groups(17, STUCK, (0.5, 2.0)))
    shards = list_shards(writer.path)
    seen = ranges(shards, shards)
    assert [seen[shard] for shard in shards] == [RewardRange(0.5, 0.5), RewardRange(0, 1), RewardRange(0, 2)]
    assert read(writer.path, step=1).counts == {"solved": 1}, "one reward above 0 is all that was seen"
    assert read(writer.path, step=9).counts == {"stuck": 1, "mixed": 1}


def test_equal_totals_of_different_parts_are_told_apart_only_where_each_function_counts(tmp_path: Path) -> None:
    parts = [{"reward/a": 1.0, "reward/b": 0.0}, {"reward/a": 0.0, "reward/b": 1.0}]
    rows = [row(1, 0, index, 1.0, "x", **part) for index, part in enumerate(parts)]
    rows += [row(1, 1, index, 2.0, "x", **{"reward/a": 1.0, "reward/b": 1.0}) for index in range(2)]
    rows += [row(1, 2, index, 0.0, "x", **{"reward/a": 0.0, "reward/b": 0.0}) for index in range(2)]
    weights = {"a": 1.0, "b": 1.0}
    summed = new_run(tmp_path, "summed", reward_functions=weights)
    each = new_run(
        tmp_path, "each", reward_functions=weights, config={"multi_objective_aggregation": "normalize_then_sum"}
    )
    for writer, expected in ((summed, "stuck"), (each, "mixed")):
        write(writer, 1, rows)
        assert [group.kind for group in read(writer.path).groups] == [expected, "solved", "failed"]


def test_kinds_agree_with_the_counts_of_a_generation(tmp_path: Path) -> None:
    from rlwatch.signals.groups import count_groups

    values = list(itertools.product((0.0, 0.5, 1.0), repeat=3))
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, *values))
    shard = list_shards(writer.path)[0]
    seen = RewardRange(0, 1)
    found = Counter(kinds(shard, seen, Scoring((("reward/accuracy", 1.0),))).values())
    import numpy as np

    counted = count_groups(np.array(values).reshape(-1, 1), np.ones(1), 3, seen)
    assert (found["solved"], found["failed"], found["stuck"]) == (counted.solved, counted.failed, counted.stuck)


def test_kinds_are_those_that_a_real_run_recorded(make_trainer: Callable[..., Any], tmp_path: Path) -> None:
    from rlwatch import RLWatchCallback

    make_trainer(callbacks=[RLWatchCallback(dir=tmp_path, name="run")], num_generations=2, max_steps=6).train()
    records = {record.step: record.metrics for record in read_records(tmp_path / "run").items}
    shards = list_shards(tmp_path / "run")
    assert len(shards) >= 2
    for shard in shards:
        found = read(tmp_path / "run", f"?step={shard.step}", shard.step)
        assert found.counts["mixed"] < found.total, "or it shows nothing"
        for kind in ("solved", "failed", "stuck"):
            assert found.counts[kind] / found.total == pytest.approx(records[shard.step][f"groups/{kind}"])


def test_groups_of_different_sizes_are_judged_each_by_itself(tmp_path: Path) -> None:
    writer = new_run(tmp_path, reward_functions={"accuracy": "NaN"})
    write(writer, 1, groups(1, (0.0,), (1.0, 1.0, 1.0), (0.0, 1.0)))
    assert [group.kind for group in read(writer.path).groups] == ["failed", "solved", "mixed"]


# Folding


def test_identical_completions_are_one_row_with_a_count(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    texts = ["a", "b", "a", "a", "b", "c"]
    write(writer, 1, [row(1, 0, index, 0.5 if index else 1.0, text) for index, text in enumerate(texts)])
    rows = read(writer.path).groups[0].rows
    assert [(found.text.shown if found.text else None, len(found.copies)) for found in rows] == [
        ("a", 3),
        ("b", 2),
        ("c", 1),
    ]
    page = text_of(page_of(tmp_path))
    assert "×3" in page
    assert "0.5 to 1" in page, "copies that were scored differently say so"
    assert "37.5 %" in page, "their weights add up"


def test_long_texts_that_differ_only_at_their_end_are_not_folded(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, [row(1, 0, index, 1.0, "x" * 3 * LONGEST + str(index % 2)) for index in range(4)])
    assert [len(found.copies) for found in read(writer.path).groups[0].rows] == [2, 2]


def test_completions_without_text_are_folded_where_all_their_numbers_agree(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, [row(1, 0, index, 1.0, None, length=5 + index // 3) for index in range(4)])
    found = read(writer.path)
    assert [len(one.copies) for one in found.groups[0].rows] == [3, 1]
    assert found.texts == 0
    page = text_of(page_of(tmp_path))
    assert "3 alike in every number" in page
    assert 'sample_completions="all"' in page


# Search, filters, pages


def test_search_finds_a_plain_part_of_prompt_or_completion_whatever_its_case(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    rows = [row(1, 0, 0, 1.0, "Straße a.*b"), row(1, 1, 0, 1.0, "other", prompt="Which A.*B?"), row(1, 2, 0, 1.0, None)]
    write(writer, 1, rows)
    assert [group.number for group in read(writer.path, "?q=a.*B").groups] == [0, 1]
    assert [group.number for group in read(writer.path, "?q=STRASSE").groups] == []
    assert [group.number for group in read(writer.path, "?q=STRAẞE").groups] == [0]
    found = read(writer.path, "?q=a.*b").groups
    assert [[one.found for one in group.rows] for group in found] == [[True], [False]]
    assert "2 of 3 completions" in text_of(page_of(tmp_path, "?q=a.*b"))
    marks = [part.children for part in components(page_of(tmp_path, "?q=A.*b")) if type(part).__name__ == "Mark"]
    assert sorted(marks) == ["A.*B", "a.*b"]


def test_what_is_found_deep_in_a_long_text_comes_first_and_is_said_to_be_there(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    rows = [row(1, 0, index, 1.0, "same") for index in range(5)]
    rows.append(row(1, 0, 5, 1.0, "x" * 10 * LONGEST + " needle"))
    write(writer, 1, rows)
    found = read(writer.path, "?q=NEEDLE").groups[0].rows
    assert [one.found for one in found] == [True, False]
    page = page_of(tmp_path, "?q=NEEDLE")
    assert "What you search for is in them." in text_of(page)


def test_filters_by_kind_and_counts_them(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, MIXED, STUCK, STUCK, SOLVED))
    found = read(writer.path, "?kind=stuck")
    assert [group.number for group in found.groups] == [1, 2]
    assert found.counts == {"mixed": 1, "stuck": 2, "solved": 1}
    page = page_of(tmp_path, "?kind=failed")
    assert "None of its 4 groups is left by the filters." in text_of(page)
    assert address("run", View(kind="stuck")) in links(page)


def test_groups_come_in_pages_and_one_alone(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, *[MIXED] * (2 * GROUPS_A_PAGE + 1)))
    assert [group.number for group in read(writer.path, "?page=3").groups] == [2 * GROUPS_A_PAGE]
    assert read(writer.path, "?page=99").page == 3
    assert [group.number for group in read(writer.path, "?group=4&kind=stuck&page=2").groups] == [4]
    page = page_of(tmp_path, "?page=2&q=text")
    assert "9 to 16 of 17 groups" in text_of(page)
    assert {address("run", View(q="text", page=page)) for page in (1, 3)} <= set(links(page))
    assert "There is no group 77" in text_of(page_of(tmp_path, "?group=77"))


def test_a_group_of_many_different_completions_shows_more_of_them_alone(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    many = rollouts.ROWS_A_GROUP + 10
    write(writer, 1, groups(1, [0.0] * many, [1.0] * many))
    first = read(writer.path).groups[0]
    assert (len(first.rows), first.left_out) == (rollouts.ROWS_A_GROUP, 10)
    assert len(read(writer.path, "?group=1").groups[0].rows) == many
    assert "10 more different completions" in text_of(page_of(tmp_path))


# Steps


def test_a_step_without_a_shard_of_its_own_shows_the_newest_before_it_and_says_so(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    for step in (9, 17):
        write(writer, step, groups(step, MIXED))
    writer.append(StepRecord(20, time.time(), {"loss": 0.0}))
    assert "Step 12 has no completions of its own. Those of step 9 are shown" in text_of(page_of(tmp_path, "?step=12"))
    assert "has not come to step 99 yet. Those of step 17" in text_of(page_of(tmp_path, "?step=99"))
    assert "of its own" not in text_of(page_of(tmp_path, "?step=17"))
    before = page_of(tmp_path, "?step=3&kind=mixed")
    assert "No completions are there of this step or one before it" in text_of(before)
    assert address("run", View(step=9, kind="mixed")) in links(before)


def test_two_steps_are_side_by_side_and_a_group_meets_its_prompt(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, MIXED, STUCK, SOLVED))
    late = groups(9, STUCK, STUCK, FAILED)
    write(writer, 9, [{**one, "prompt_id": f"{2 - one['group']:016x}"} for one in late])
    page = page_of(tmp_path, "?step=9&beside=1")
    labels = [getattr(part, "aria-label", "") for part in components(page)]
    assert {"Completions of step 9", "Completions of step 1, beside"} <= set(labels)
    cards = [getattr(part, "aria-label", "") for part in components(page_of(tmp_path, "?step=9&beside=1&group=2"))]
    assert [label for label in cards if label.startswith("Group ")] == ["Group 2, failed", "Group 0, mixed"]
    write(writer, 17, [{**one, "prompt_id": "new"} for one in groups(17, STUCK)])
    assert "not among those" in text_of(page_of(tmp_path, "?step=17&beside=1&group=0"))


def test_the_strip_has_a_way_to_each_step_and_a_long_run_few_of_them(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    for step in (1, 5, 9):
        write(writer, step, groups(step, MIXED, STUCK, STUCK, STUCK))
    page = page_of(tmp_path, "?step=5&q=text")
    titles = [part.title for part in components(page) if "bar" in str(getattr(part, "className", "")).split()]
    assert titles[1] == "step 5: solved 0%, failed 0%, stuck 75%"
    assert {address("run", View(step=step, q="text")) for step in (1, 9)} <= set(links(page))
    many = [list_shards(writer.path)[0].__class__(step, Path(f"step-{step}.parquet")) for step in range(5000)]
    few = spread(many, 60, [many[1234]])
    assert len(few) in (60, 61)
    assert {few[0].step, few[-1].step} == {0, 4999}
    assert many[1234] in few


def test_an_alert_leads_to_the_completions_of_its_steps(tmp_path: Path) -> None:
    writer = new_run(tmp_path, "a b")
    writer.append(StepRecord(1, time.time(), {"loss": 0.0}))
    for step, severity in ((12, Severity.WARNING), (20, Severity.CRITICAL)):
        writer.alert(
            Alert(
                rule="dead-groups", severity=severity, state=AlertState.FIRING, since=10, step=step, time=time.time(),
                value=0.75, reference=0.1, message="75% are dead", evidence={"groups/stuck": 0.75},
            )
        )  # fmt: skip
    found = links(page_at(tmp_path, "/run/a%20b")[0])
    assert "/run/a%20b/completions?step=12" in found
    assert "/run/a%20b/completions?step=20&kind=stuck" in found
    write(writer, 9, groups(9, STUCK))
    assert "dead-groups" in text_of(page_of(tmp_path, "?step=20", "a b"))
    assert "dead-groups" not in text_of(page_of(tmp_path, "?step=9", "a b"))


# Addresses


@pytest.mark.parametrize(
    "view",
    [
        View(),
        View(step=0),
        View(step=120, kind="stuck", q="a&b=c #ü \n", beside=40, group=3, page=2),
        View(q="?%20"),
    ],
)
def test_an_address_holds_the_whole_view(view: View) -> None:
    assert View.of(view.search()) == view


def test_half_a_letter_is_searched_for_without_a_fault(tmp_path: Path) -> None:
    write(new_run(tmp_path), 1, groups(1, MIXED))
    assert asked(View(), "1", "", "a\ud800").q == "a?"
    assert "None of its 1 groups" in text_of(page_of(tmp_path, "?q=\ud800"))


@pytest.mark.parametrize("search", [None, "", "?", "?step=x&beside=-3&group=1.5&page=0&kind=no", "?step=" + "9" * 400])
def test_what_makes_no_sense_in_an_address_is_left_out(search: str | None) -> None:
    assert View.of(search) == View()


def test_the_fields_change_the_view() -> None:
    view = View(step=5, kind="stuck", q="a", group=3, page=1)
    assert asked(view, "5", "", "a") == view
    assert asked(view, "9", "1", "a") == View(step=9, kind="stuck", q="a", beside=1)
    assert asked(view, "nonsense", "nonsense", "b") == View(step=5, kind="stuck", q="b")


# Files that are none


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "torn":
        path.write_bytes(data[: len(data) // 2])
    elif how == "text":
        path.write_text("hello")
    elif how == "garbled":
        path.write_bytes(b"PAR1" + os.urandom(200) + b"PAR1")
    elif how == "foreign":
        pl.DataFrame({"step": [1], "loss": [0.5]}).write_parquet(path)
    elif how == "folder":
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("empty", "it is empty"),
        ("torn", "it is torn"),
        ("text", "it is no Parquet file"),
        ("garbled", "cannot be read"),
        ("foreign", "it has no column group"),
        ("folder", "cannot be read"),
    ],
)
def test_a_shard_that_is_none_says_why_and_hides_no_other(tmp_path: Path, how: str, why: str) -> None:
    writer = new_run(tmp_path)
    for step in (1, 9):
        write(writer, step, groups(step, MIXED))
    damage(writer.path / "rollouts" / "step-000009.parquet", how)
    page = text_of(page_of(tmp_path, "?step=9"))
    assert "step-000009.parquet" in page
    assert why in page
    assert "step 9: cannot be read" in page
    assert not [part for part in components(page_of(tmp_path, "?step=9")) if getattr(part, "className", "") == "count"]
    assert "Group 0" in text_of(page_of(tmp_path, "?step=1"))


def test_a_shard_that_vanishes_is_said_to_be_gone(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, MIXED))
    shard = list_shards(writer.path)[0]
    shard.path.unlink()
    with pytest.raises(UnreadableShardError, match="No such file"):
        read_step(shard, View(), RewardRange(), Scoring())


def test_a_shard_without_rows_or_with_few_columns_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, MIXED))
    path = writer.path / "rollouts" / "step-000001.parquet"
    whole = pl.read_parquet(path)
    whole.clear().write_parquet(path)
    assert "The file has no completion in it." in text_of(page_of(tmp_path))
    pl.DataFrame({"group": [0, 0], "reward": [0.0, 1.0], "completion": [[1], [2]]}).write_parquet(path)
    page = text_of(page_of(tmp_path))
    assert "mixed" in page
    assert "No text of this step was kept." in page


def test_other_files_are_no_shards(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, MIXED))
    folder = writer.path / "rollouts"
    for name in (".step-000002.parquet.77", "step-x.parquet", "notes.txt", "step-000003.parquet.tmp"):
        (folder / name).write_text("no")
    (folder / "abandoned").mkdir()
    assert [shard.step for shard in list_shards(writer.path)] == [1]


def test_other_kinds_of_numbers_are_read_too(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, MIXED))
    path = writer.path / "rollouts" / "step-000001.parquet"
    rows = {
        "group": pl.Series([0, 0], dtype=pl.UInt8),
        "reward": pl.Series([0, 1], dtype=pl.Float32),
        "completion": "x" * 90_000,
    }
    pl.DataFrame(rows).write_parquet(path)
    assert [group.kind for group in read(writer.path, "?q=X&group=0").groups] == ["mixed"]
    assert not [link for link in links(page_of(tmp_path)) if "/text?" in link], "a text without an index has no address"


def test_a_run_without_rollouts_says_how_to_get_them(tmp_path: Path) -> None:
    new_run(tmp_path)
    page = text_of(page_of(tmp_path))
    assert "No completions" in page
    assert "sample_completions" in page
    assert "Monitor.rollouts" in page


def test_an_address_of_no_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "Not found" in text_of(page_of(tmp_path, name="nope"))
    assert "no run.json" in text_of(page_of(tmp_path, name="empty"))
    new_run(tmp_path)
    assert "Not found" in text_of(page_at(tmp_path, "/run/run/other")[0])


# Texts


def test_a_long_text_is_folded_and_a_huge_one_is_bounded_and_can_be_had_whole(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    huge = "word " * 400_000
    write(writer, 1, [row(1, 0, 0, 0.0, "s" * FOLD), row(1, 0, 1, 1.0, "l" * (FOLD + 1)), row(1, 0, 2, 1.0, huge)])
    page = page_of(tmp_path)
    summaries = [part.children for part in components(page) if type(part).__name__ == "Summary"]
    assert summaries == ["Show all 2,001 characters", f"Show {LONGEST:,} of 2,000,000 characters"]
    assert f"{2_000_000 - LONGEST:,} characters are left out here." in text_of(page)
    assert size_of(page) < 60_000
    (link,) = [link for link in links(page) if "/text?" in link]
    answer = create_app(tmp_path).server.test_client().get(link)
    assert answer.get_data(as_text=True) == huge
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_is_bounded_however_large_the_step(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    rows = [row(1, g, i, float(i % 2), f"{g}.{i} " + "long " * 8000) for g in range(20) for i in range(40)]
    write(writer, 1, rows)
    page = page_of(tmp_path)
    shown = sum(len(part) for part in map(str, _strings(page)) if "long" in part)
    assert shown <= max(BUDGET, FOLD * GROUPS_A_PAGE * (rollouts.ROWS_A_GROUP + 1))
    assert size_of(page) < 1_000_000


def _strings(page: Any) -> Iterator[str]:
    for part in components(page):
        children = getattr(part, "children", None)
        yield from (
            child for child in (children if isinstance(children, list) else [children]) if isinstance(child, str)
        )


@pytest.mark.parametrize(
    "query",
    ["", "step=1", "step=1&group=0&index=9&part=completion", "step=1&group=0&index=0&part=reward", "step=2&group=0"],
)
def test_a_text_that_is_not_there_is_not_found(tmp_path: Path, query: str) -> None:
    write(new_run(tmp_path), 1, groups(1, MIXED))
    client = create_app(tmp_path).server.test_client()
    assert client.get(f"/run/run/text?{query}").status_code == 404
    assert client.get("/run/nope/text?step=1&group=0&index=0&part=completion").status_code == 404
    whole = client.get("/run/run/text?step=1&group=0&index=1&part=completion")
    assert whole.get_data(as_text=True) == "text 0.1"


def test_control_characters_are_seen_and_joiners_are_left_alone() -> None:
    assert (
        plain_text.visible("\x1b[31m\r\x85\u200b\ufeff\U000e0041") == "⟨ESC⟩[31m⟨CR⟩⟨U+0085⟩⟨U+200B⟩⟨U+FEFF⟩⟨U+E0041⟩"
    )
    assert plain_text.visible("می\u200cخواهم 👩\u200d🔬\n\t") == "می\u200cخواهم 👩\u200d🔬\n\t"


def test_white_space_at_the_ends_and_nothing_at_all_are_seen(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, [row(1, 0, index, 0.0, text) for index, text in enumerate(["a3", "a3 ", "a3\n", "", "  "])])
    page = text_of(page_of(tmp_path))
    for seen in ("a3 ·", "a3 ↵", "(empty)", "··"):
        assert seen in page


@pytest.mark.parametrize("wanted", ["", "x", "ß", "İ"])
def test_marking_loses_no_letter(wanted: str) -> None:
    text = "İxß XX ẞ iİ"
    assert "".join(piece for piece, _ in plain_text.split(text, wanted)) == text


def test_names_with_markup_are_text(tmp_path: Path) -> None:
    evil = "<b>x"
    writer = new_run(tmp_path, reward_functions={evil: 1.0, "other": 1.0})
    rows = [row(1, 0, index, 1.0, evil, **{f"reward/{evil}": 1.0, "reward/other": 0.0}) for index in range(2)]
    write(writer, 1, rows)
    assert text_of(page_of(tmp_path)).count(evil) >= 2


# While the run is written


def answer_to(app: Any, shown: int | None, known: str, search: str = "") -> Any:
    outputs = "..completions-steps.children...completions-shards.data...reload.data"
    name = next(key for key in app.callback_map if key.startswith(outputs))
    values = {
        "completions-run.data": "run",
        "completions-shards.data": known,
        "completions-shown.data": shown,
        "url.search": search,
    }
    state = [
        dict(zip(("id", "property", "value"), (*key.split("."), value), strict=True)) for key, value in values.items()
    ]
    parts = [dict(zip(("id", "property"), part.rsplit(".", 1), strict=True)) for part in name.strip(".").split("...")]
    body = {
        "output": name,
        "outputs": parts,
        "inputs": [{"id": "completions-timer", "property": "n_intervals", "value": 1}],
        "changedPropIds": ["completions-timer.n_intervals"],
        "state": state,
    }
    return app.server.test_client().post("/_dash-update-component", json=body)


def store(page: Any, name: str) -> Any:
    return next(part.data for part in components(page) if getattr(part, "id", None) == name)


def test_new_shards_change_the_picker_alone_and_keep_the_place(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write(writer, 1, groups(1, MIXED))
    app = create_app(tmp_path)
    page = page_of(tmp_path)
    known = store(page, "completions-shards")
    assert answer_to(app, 1, known).status_code == 204
    write(writer, 9, groups(9, STUCK))
    answer = answer_to(app, 1, known).get_json()["response"]
    assert set(answer) == {"completions-steps", "completions-shards"}
    text = json.dumps(answer["completions-steps"])
    assert "newest, step 9" in text
    assert "bar current" in text
    assert answer_to(app, 1, answer["completions-shards"]["data"]).status_code == 204


def test_a_page_without_completions_is_made_anew_when_some_come(tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    app = create_app(tmp_path)
    known = store(page_of(tmp_path), "completions-shards")
    assert answer_to(app, None, known).status_code == 204
    write(writer, 1, groups(1, MIXED))
    assert "reload" in answer_to(app, None, known).get_json()["response"]
