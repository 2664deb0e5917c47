"""Dumps of completions: every metric against brute force, every format, and what is inferred."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dumps import Row, alike, at, by_step, random_rows, read, row, same, write
from rlwatch.readers import Options, UnreadableError, load
from rlwatch.readers import rollout_dump as reader
from rlwatch.readers.source import Source

# --- brute force


def brute_force(rows: Sequence[Row], worst: float, best: float) -> dict[str, float]:
    """The metrics of a step, from their definitions alone."""
    rewards = [r["reward"] for r in rows if r["reward"] is not None]
    groups: dict[str, list[Row]] = {}
    for r in rows:
        groups.setdefault(r["uid"], []).append(r)
    dead, scored, kinds, deviations, chance, gaps = [], 0, {"solved": 0, "failed": 0, "stuck": 0}, [], [], []
    for siblings in groups.values():
        scores = [r["reward"] for r in siblings if r["reward"] is not None]
        if scores:
            scored += 1
            if len(set(scores)) == 1:
                dead += siblings
                kind = "solved" if scores[0] == best else "failed" if scores[0] == worst else "stuck"
                kinds[kind] += 1
        if len(scores) > 1:
            deviations.append(statistics.stdev(scores))
        size, right = len(siblings), [r for r in siblings if r["is_correct"]]
        rate = (len(right) + 0.5) / (size + 1)
        chance.append(rate**size + (1 - rate) ** size)
        if 0 < len(right) < size:
            wrong = [r["length"] for r in siblings if not r["is_correct"]]
            gaps.append(statistics.mean(wrong) - statistics.mean(r["length"] for r in right))
    right, wrong = [r for r in rows if r["is_correct"]], [r for r in rows if not r["is_correct"]]
    tokens = sum(r["length"] for r in rows)
    found = {
        "reward/mean": statistics.mean(rewards),
        "reward/std": statistics.stdev(rewards),
        "reward/accuracy": statistics.mean(r["reward/accuracy"] for r in rows),
        "groups/zero_std": sum(kinds.values()) / scored,
        **{f"groups/{kind}": count / scored for kind, count in kinds.items()},
        "groups/reward_std": statistics.mean(deviations),
        "groups/unique": statistics.mean(len({r["completion"] for r in g}) / len(g) for g in groups.values()),
        "groups/excess": sum(kinds.values()) / scored - statistics.mean(chance),
        "groups/wasted_tokens": sum(r["length"] for r in dead) / tokens,
        "length/mean": tokens / len(rows),
        "length/truncated": statistics.mean(r["truncated"] for r in rows),
        "length/share_correct": len(right) / len(rows),
    }
    for name, some in (("correct", right), ("incorrect", wrong)):
        if some:
            found[f"length/{name}"] = statistics.mean(r["length"] for r in some)
            found[f"length/truncated_{name}"] = statistics.mean(r["truncated"] for r in some)
    if gaps:
        found["length/gap"] = statistics.mean(gaps)
    return found


def assumed_weights(rows: Sequence[Row]) -> dict[str, float]:
    """|A| and |A|·length of each completion, added up by kind; nothing where a reward is missing."""
    if any(r["reward"] is None for r in rows):
        return {}
    groups: dict[str, list[Row]] = {}
    for r in rows:
        groups.setdefault(r["uid"], []).append(r)
    marks = statistics.quantiles([r["length"] for r in rows], n=4, method="inclusive")
    found = {}
    for family in ("weight_grpo", "weight_dapo"):
        weights: list[tuple[Row, float]] = []
        for siblings in groups.values():
            scores = [r["reward"] for r in siblings]
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            for r in siblings:
                size = abs(r["reward"] - statistics.mean(scores)) / (spread + 1e-4) if spread > 1e-9 else 0.0
                weights.append((r, size * (r["length"] if family == "weight_dapo" else 1)))
        total = sum(w for _, w in weights)
        if not total:
            return {}
        rates = {uid: statistics.mean(float(r["is_correct"]) for r in g) for uid, g in groups.items()}
        shares = {
            **{f"length_q{q + 1}": lambda r, q=q: sum(r["length"] > mark for mark in marks) == q for q in range(4)},
            "truncated": lambda r: r["truncated"],
            "incorrect": lambda r: not r["is_correct"],
            "hard": lambda r, rates=rates: rates[r["uid"]] <= 0.25,
            "easy": lambda r, rates=rates: rates[r["uid"]] >= 0.75,
        }
        for name, is_one in shares.items():
            found[f"{family}/{name}"] = sum(w for r, w in weights if is_one(r)) / total
        by_group = {uid: sum(w for r, w in weights if r["uid"] == uid) for uid in groups}
        found[f"{family}/largest_group"] = max(by_group.values()) / total
        ordered, carried, needed = sorted((w for _, w in weights), reverse=True), 0.0, 0.0
        tenth = sum(w * min(1.0, max(0.0, 0.1 * len(ordered) - i)) for i, w in enumerate(ordered))
        for w in ordered:
            part = 1.0 if carried + w < total / 2 else (total / 2 - carried) / w
            carried, needed = carried + part * w, needed + part
            if part < 1:
                break
        found[f"{family}/top_tenth"], found[f"{family}/half"] = tenth / total, needed / len(ordered)
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "d.json", "d.parquet"])
def test_every_metric_is_what_brute_force_gives(tmp_path: Path, seed: int, name: str) -> None:
    rows = random_rows(seed)
    run = read(write(tmp_path / name, rows))
    assert [record.step for record in run.records] == [1, 2, 3, 4, 5, 6]
    assert (run.name, run.format, run.path) == ("d", "rollouts", str(tmp_path / name))
    seen: list[float] = []
    for record in run.records:
        mine = [r for r in rows if r["step"] == record.step]
        seen += [r["reward"] for r in mine if r["reward"] is not None]
        same(record.metrics, brute_force(mine, min(seen), max(seen)) | assumed_weights(mine))


def test_the_range_of_rewards_does_not_look_ahead(tmp_path: Path) -> None:
    rows = [row(1, 0, 1.0), row(1, 0, 1.0), row(1, 1, 0.0), row(1, 1, 1.0), row(2, 0, 2.0), row(2, 0, 2.0)]
    metrics = by_step(read(write(tmp_path / "d.jsonl", rows)))
    assert metrics[1]["groups/solved"] == 0.5, "1 is the best so far"
    assert metrics[2]["groups/solved"] == 1.0


def test_blocks_that_cut_groups_and_steps_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "d.jsonl", random_rows(3))
    whole = by_step(read(path))
    monkeypatch.setattr("rlwatch.readers.rollout_json.BLOCK", 300)
    assert by_step(read(path)) == whole
    monkeypatch.setattr("rlwatch.readers.rollout_tables.SLICE_ROWS", 7)
    alike(read(write(tmp_path / "d.parquet", random_rows(3))), whole)


# --- verl, NeMo-RL, prime-rl


def verl(step: int, uid: bool = True) -> list[Row]:
    rows = []
    for prompt in range(3):
        for sibling in range(4):
            right = prompt == 1 or (prompt == 2 and sibling == 0)
            more = {"uid": f"u{prompt}"} if uid else {}
            text = {"input": f"q{prompt}", "output": f"a{sibling}", "gts": "4"}
            rows.append({**text, "score": 1.0 if right else -1.0, "step": step, "acc": right, **more})
    return rows


@pytest.mark.parametrize("uid", [True, False])
def test_a_folder_of_verls_is_one_run(tmp_path: Path, uid: bool) -> None:
    folder = tmp_path / "experiment" / "rollout_data"
    folder.mkdir(parents=True)
    for step in (1, 2, 10):
        write(folder / f"{step}.jsonl", verl(step, uid))
    assert reader.sniff_directory(folder)
    [run] = reader.read_directory(folder, Options())
    assert (run.format, run.framework, run.name) == ("verl-rollouts", "verl", "experiment")
    assert [record.step for record in run.records] == [1, 2, 10]
    metrics = run.records[0].metrics
    assert metrics["groups/solved"] == metrics["groups/failed"] == pytest.approx(1 / 3)
    assert metrics["length/share_correct"] == pytest.approx(5 / 12)
    assert load(folder / "2.jsonl")[0].format == "verl-rollouts"


def test_a_folder_of_an_evaluation_is_told_by_its_name_alone(tmp_path: Path) -> None:
    (tmp_path / "val_generations").mkdir()
    write(tmp_path / "val_generations" / "10.jsonl", verl(10))
    [run] = reader.read_directory(tmp_path / "val_generations", Options())
    assert "by its name, val_generations, this is an evaluation and not a training" in run.notes


def test_a_folder_of_runs_that_are_numbered_is_not_one_run(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / f"{number}.jsonl", [*verl(7), *verl(8)])
    assert not reader.sniff_directory(tmp_path)
    write(tmp_path / "1.jsonl", verl(1))
    (tmp_path / "notes.txt").write_text("hello")
    assert not reader.sniff_directory(tmp_path)
    assert not reader.sniff_directory(tmp_path / "nowhere")


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("content", [True, False])
def test_tokens_and_their_mask_give_lengths_and_groups(tmp_path: Path, ending: str, content: bool) -> None:
    rows = []
    for prompt in (7, 8):
        for length in (1, 2, 3):
            ids = [prompt, 5, *range(10, 10 + length), 0]
            rows.append(
                {
                    **({"content": [f"question {prompt}", f"answer {length}"]} if content else {}),
                    "rewards": float(length == 3),
                    "input_lengths": len(ids),
                    "token_ids": ids,
                    "token_loss_mask": [0, 0, *[1] * length, 0],
                    "generation_logprobs": [-0.5] * len(ids),
                }
            )
    run = read(write(tmp_path / f"train_data_step12.{ending}", rows))
    [record] = run.records
    assert record.step == 12
    assert record.metrics["length/mean"] == 2.0
    assert record.metrics["length/gap"] == 1.5 - 3
    assert record.metrics["groups/zero_std"] == 0.0
    assert record.metrics["groups/unique"] == 1.0


def test_folders_of_steps_are_one_run(tmp_path: Path) -> None:
    for step in (0, 1):
        folder = tmp_path / "rollouts" / f"step_{step}"
        folder.mkdir(parents=True)
        for rank in range(2):
            ids = [{"problem_id": f"{rank}{i // 2}", "output_tokens": list(range(1 + i))} for i in range(4)]
            rows = [{**row, "rewards": float(i % 2), "completion": "x"} for i, row in enumerate(ids)]
            write(folder / f"rank_{rank}.parquet", rows)
    assert reader.sniff_directory(tmp_path / "rollouts")
    [run] = reader.read_directory(tmp_path / "rollouts", Options())
    assert [record.step for record in run.records] == [0, 1]
    assert run.records[0].metrics["length/mean"] == 2.5
    assert run.records[0].metrics["groups/unique"] == 1.0, "tokens tell what texts do not"
    (tmp_path / "rollouts" / "step_1" / "rank_0.parquet").write_bytes(b"PAR1 and no more")
    [run] = reader.read_directory(tmp_path / "rollouts", Options())
    assert any("1 of 4 files could not be read, the first one rank_0.parquet: " in note for note in run.notes)


# --- what is correct


def graded(**more: Any) -> list[Row]:
    return [row(1, i // 4, i / 8, f"{i}", length=10 * i, grade=i % 4, **more) for i in range(8)]


@pytest.mark.parametrize(
    ("option", "correct"),
    [
        (None, None),
        ("grade", {1, 2, 3, 5, 6, 7}),
        ("grade>2", {3, 7}),
        ("grade>=2", {2, 3, 6, 7}),
        (" reward >= 0.5 ", {4, 5, 6, 7}),
    ],
)
def test_a_person_says_what_is_correct(tmp_path: Path, option: str | None, correct: set[int] | None) -> None:
    run = read(write(tmp_path / "d.jsonl", graded()), correct=option)
    metrics = run.records[0].metrics
    if correct is None:
        assert "length/share_correct" not in metrics
        assert any("--correct" in note for note in run.notes)
    else:
        assert metrics["length/share_correct"] == len(correct) / 8
        assert metrics["length/correct"] == pytest.approx(statistics.mean(10 * i for i in correct))


@pytest.mark.parametrize("option", ["nothing", "nothing>0", "completion"])
def test_a_column_that_cannot_say_it_is_an_error(tmp_path: Path, option: str) -> None:
    with pytest.raises(UnreadableError, match="which is to say what is correct"):
        read(write(tmp_path / "d.jsonl", graded()), correct=option)


def test_a_column_of_verdicts_says_it(tmp_path: Path) -> None:
    for name in ("acc", "correct", "is_correct", "accuracy"):
        run = read(write(tmp_path / "d.jsonl", [{**r, name: i < 2} for i, r in enumerate(graded())]))
        assert run.records[0].metrics["length/correct"] == 5.0, name


def test_a_reward_of_two_values_says_it(tmp_path: Path) -> None:
    rows = [row(1, i // 4, float(i % 2), length=i) for i in range(8)]
    run = read(write(tmp_path / "d.jsonl", rows))
    assert run.records[0].metrics["length/correct"] == 4.0
    assert "correct is reward ≥ 1 (it alone takes two values; --correct says otherwise)" in run.notes


# --- groups


def test_ids_of_single_completions_are_no_groups(tmp_path: Path) -> None:
    rows = [{**row(1, i // 4, 0.5, f"{i}"), "uid": f"u{i}"} for i in range(8)]
    run = read(write(tmp_path / "d.jsonl", rows))
    assert run.records[0].metrics["groups/zero_std"] == 1.0
    assert any("the prompt tells groups" in note for note in run.notes)


@pytest.mark.parametrize("gone", [("prompt", "uid"), ("prompt",)])
def test_without_siblings_there_are_no_groups(tmp_path: Path, gone: tuple[str, ...]) -> None:
    rows = [{k: v for k, v in row(1, i, 0.5).items() if k not in gone} for i in range(8)]
    run = read(write(tmp_path / "d.jsonl", rows))
    assert not any(name.startswith("groups/") for name in run.names)
    assert any("groups/ is absent" in note for note in run.notes)


# --- steps


def steps_of(path: Path) -> list[list[int]]:
    return [[record.step for record in run.records] for run in reader.read(Source(path), Options())]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((1, 2, 3, 4, 5), [[1, 2, 3, 4, 5]]),
        ((1, 2, 3, 4, 1, 2, 3), [[1, 2, 3, 4], [1, 2, 3]]),  # two trainings
        ((1, 2, 3, 4, 3, 4, 5), [[1, 2, 3, 4, 5]]),  # resumed
        ((1, 3, 2, 4, 3, 5, 4, 6, 5, 7), [[1, 2, 3, 4, 5, 6, 7]]),  # asynchronous
    ],
)
def test_steps_that_come_again(tmp_path: Path, steps: tuple[int, ...], expected: list[list[int]]) -> None:
    path = write(tmp_path / "d.jsonl", at(*steps))
    assert steps_of(path) == expected
    if len(set(steps)) < len(steps):
        assert any("training 1 of 2" in n or "goes back to 3" in n or "no order" in n for n in load(path)[0].notes)


def test_a_file_sorted_by_prompt_is_put_in_order(tmp_path: Path) -> None:
    rows = random_rows(1)
    straight = by_step(read(write(tmp_path / "d.jsonl", rows)))
    rows.sort(key=lambda r: r["prompt"])
    alike(read(write(tmp_path / "d.jsonl", rows)), straight)


def test_where_no_step_is_said(tmp_path: Path) -> None:
    rows = [{k: v for k, v in r.items() if k != "step"} for r in at(1)]
    run = read(write(tmp_path / "d.jsonl", rows))
    assert [record.step for record in run.records] == [1]
    assert any("all of it is taken for one" in note for note in run.notes)
    assert [record.step for record in read(write(tmp_path / "step_40.jsonl", rows)).records] == [40]
    progress = [{**r, "step": "5/3766"} for r in rows]
    assert [record.step for record in read(write(tmp_path / "d.jsonl", progress)).records] == [5]
