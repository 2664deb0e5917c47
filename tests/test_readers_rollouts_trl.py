"""TRL's completions and rlwatch's own shards: a real training's against what was measured live, and made-up ones."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dumps import alike, by_step, read, same, write
from rlwatch.readers import Options, load
from rlwatch.readers import rollout_dump as reader
from tiny import brevity, odd_digit

# --- a real trainer


@pytest.fixture(scope="module")
def trained(make_trainer: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of TRL's completions and of the run that watched it; steps 4 and 6 end with an evaluation."""
    from rlwatch import RLWatchCallback

    runs = tmp_path_factory.mktemp("runs")
    trainer = make_trainer(
        callbacks=[RLWatchCallback(runs, sample_completions=0)],
        reward_funcs=[odd_digit, brevity],
        log_completions=True,
        max_steps=6,
        per_device_train_batch_size=8,
        eval_strategy="steps",
        eval_steps=4,
        num_generations_eval=2,
        per_device_eval_batch_size=4,
    )
    trainer.train()
    [run] = runs.iterdir()
    return Path(trainer.args.output_dir) / "completions", run


def live(run: Path) -> dict[int, dict[str, float]]:
    lines = (run / "metrics.rank0.jsonl").read_text().splitlines()
    return {line["step"]: line["metrics"] for line in map(json.loads, lines) if "metrics" in line}


def of_rollouts(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if name.startswith(("reward/", "groups/", "length/"))}


def test_the_dump_of_a_real_trainer_gives_what_was_measured_live(trained: tuple[Path, Path]) -> None:
    completions, watched = trained
    assert reader.sniff_directory(completions)
    [run] = reader.read_directory(completions, Options())
    assert (run.format, run.framework, run.name) == ("trl-completions", "trl", completions.parent.name)
    assert [record.step for record in run.records] == [1, 2, 3, 4, 5, 6]
    expected = live(watched)
    for step in (1, 2, 3, 5):
        found = by_step(run)[step]
        same(found, {name: expected[step][name] for name in found})
        assert {"groups/zero_std", "groups/excess", "groups/unique", "reward/brevity", "length/share_correct"} <= set(
            found
        )
        missing = set(of_rollouts(expected[step])) - set(found)
        assert all(name.startswith("length/") or name == "groups/wasted_tokens" for name in missing)
    assert any("characters are no tokens" in note for note in run.notes)
    assert any("plain sum of odd_digit, brevity" in note for note in run.notes)


def test_what_an_evaluation_left_in_the_file_is_told_by_its_groups(trained: tuple[Path, Path]) -> None:
    completions, _ = trained
    [run] = reader.read_directory(completions, Options())
    table = pl.read_parquet(completions / "completions_00004.parquet")
    assert len(table) == 24
    left = table[:16]
    assert by_step(run)[4]["reward/odd_digit"] == pytest.approx(left["odd_digit"].mean())
    assert any("16 completions on 2 steps are in groups of 2" in note for note in run.notes)


def without_assumed(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    """Less what a live run has measured, and a dump can only tell as a loss would have weighed it."""
    return {k: v for k, v in metrics.items() if not k.startswith(("weight_grpo/", "weight_dapo/"))}


def test_rlwatchs_own_shards_give_what_was_measured_live(trained: tuple[Path, Path]) -> None:
    _, watched = trained
    expected = live(watched)
    assert reader.sniff_directory(watched / "rollouts")
    [run] = reader.read_directory(watched / "rollouts", Options())
    assert run.name == watched.name
    for step, found in by_step(run).items():
        same(without_assumed(found), {k: v for k, v in of_rollouts(expected[step]).items() if k != "groups/unique"})
    one = load(watched / "rollouts" / "step-000002.parquet")[0]
    same(
        without_assumed(one.records[0].metrics),
        {k: v for k, v in of_rollouts(expected[2]).items() if k != "groups/unique"},
    )


# --- TRL's, made up


def trl(step: int, sizes: Sequence[int], *, seed: int = 0, extra: bool = False, weights: Any = (1, 1)) -> pl.DataFrame:
    """A file with groups of these sizes and group-scaled advantages of two functions."""
    generator = random.Random(seed * 1000 + step)
    rows = []
    for group, size in enumerate(sizes):
        scores = [(float(generator.random() < 0.5), generator.random()) for _ in range(size)]
        totals = [sum(w * s for w, s in zip(weights, pair, strict=True)) for pair in scores]
        mean, scale = statistics.mean(totals), statistics.pstdev(totals) + 1e-4
        for pair, total in zip(scores, totals, strict=True):
            rows.append(
                {
                    "step": step,
                    "prompt": f"{seed}/{group}",
                    "completion": f"{generator.random()}",
                    "right": pair[0],
                    "style": pair[1],
                    **({"guess": generator.random(), "parsed": "x"} if extra else {}),
                    "advantage": (total - mean) / scale,
                }
            )
    return pl.DataFrame(rows)


def save_trl(folder: Path, frames: Sequence[pl.DataFrame]) -> Path:
    folder.mkdir(exist_ok=True)
    for frame in frames:
        frame.write_parquet(folder / f"completions_{frame['step'][0]:05d}.parquet")
    return folder


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([4, 4, 4], 12),  # a generation
        ([4, 4, 4, 2, 2], 12),  # and two prompts of an evaluation
        ([1, 4, 4, 3, 3], 8),  # which have cut a group
        ([3, 5, 5], 0),  # all but a part of a group
        ([4, 4, 8], 16),  # a prompt that came twice
        ([4, 8, 4], 16),
        ([2, 5, 1, 4], 12),  # nothing that TRL writes: nothing is left out
    ],
)
def test_groups_of_two_sizes_are_training_and_evaluation(tmp_path: Path, sizes: list[int], kept: int) -> None:
    folder = save_trl(tmp_path / "completions", [trl(1, [4, 4, 4, 4], seed=1), trl(2, sizes, seed=2)])
    [run] = reader.read_directory(folder, Options())
    metrics = by_step(run)
    assert (2 in metrics) == bool(kept)
    if kept:
        rows = trl(2, sizes, seed=2)
        rows = rows[sizes[0] :][:kept] if sizes[0] == 1 else rows[:kept]
        assert metrics[2]["reward/style"] == pytest.approx(rows["style"].mean())


def test_whole_steps_of_the_evaluations_size_are_left_out(tmp_path: Path) -> None:
    frames = [trl(step, [2] * 6 if step % 3 == 0 else [4] * 3, seed=step) for step in range(1, 8)]
    [run] = reader.read_directory(save_trl(tmp_path / "completions", frames), Options())
    assert [record.step for record in run.records] == [1, 2, 4, 5, 7]
    assert any("24 completions on 2 steps are in groups of 2" in note for note in run.notes)


def test_where_nothing_tells_them_apart_a_note_says_so(tmp_path: Path) -> None:
    frames = [trl(step, [4] * 3, seed=100 if step % 5 == 0 else step) for step in range(1, 11)]
    [run] = reader.read_directory(save_trl(tmp_path / "completions", frames), Options())
    assert len(run.records) == 10
    assert any("nothing here tells them apart" in note for note in run.notes)
    assert any(note.startswith("steps 5, 10 ask the same prompts") for note in run.notes)


def test_a_column_that_was_logged_beside_the_rewards_is_not_one(tmp_path: Path) -> None:
    path = tmp_path / "completions_00001.parquet"
    trl(1, [4] * 6, extra=True).write_parquet(path)
    run = read(path)
    assert {"reward/right", "reward/style"} <= set(run.names)
    assert "reward/guess" not in run.names
    assert any(note.startswith("guess: the advantages do not come of it") for note in run.notes)


def test_weights_that_the_file_does_not_hold_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "completions_00001.parquet"
    trl(1, [4] * 6, weights=(1, 0.1)).write_parquet(path)
    assert any("do not come of that reward" in note for note in read(path).notes)
    trl(1, [4] * 6).write_parquet(path)
    assert not any("do not come of that reward" in note for note in read(path).notes)


def test_conversations_are_told_apart(tmp_path: Path) -> None:
    def said(role: str, text: str) -> list[dict[str, str]]:
        return [{"role": role, "content": text}]

    parts = [(said("user", f"é{i // 2}"), said("assistant", f'"{i % 3}"')) for i in range(6)]
    rows = [{"step": 1, "prompt": p, "completion": c, "f": i, "advantage": i} for i, (p, c) in enumerate(parts)]
    expected = by_step(read(write(tmp_path / "d.jsonl", rows)))
    assert expected[1]["groups/unique"] == 1.0
    alike(read(write(tmp_path / "d.parquet", rows)), expected)
    rows[1]["completion"] = rows[0]["completion"]
    assert by_step(read(write(tmp_path / "d.jsonl", rows)))[1]["groups/unique"] == pytest.approx((0.5 + 1 + 1) / 3)
