"""rlwatch's own directories, trackio's databases and tables in Parquet, written by what writes them."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rlwatch.readers.loading import files_of, load, load_all
from rlwatch.readers.settings import simple_settings
from rlwatch.readers.source import UnreadableError
from rlwatch.runs.records import Run, StepRecord
from rlwatch.runs.writer import RunWriter
from test_run_directory import alert

NAN = math.nan


def one(path: Path) -> Run:
    [run] = load(path)
    return run


def texts(run: Run) -> list[str]:
    return [repr(record) for record in run.records]


# rlwatch's own


def write_run(path: Path, steps: int = 5, **info: Any) -> RunWriter:
    path.mkdir(parents=True)
    writer = RunWriter(path, {"config": {"beta": 0.0}, **info})
    for step in range(1, steps + 1):
        odd = {2: NAN, 3: math.inf, 4: None}.get(step, 0.5)
        writer.append(StepRecord(step, 1e9 + step, {"entropy/mean": odd, "reward/mine": step / 7, "own name": 1.0}))
    return writer


def test_a_run_directory_comes_back_as_it_was(tmp_path: Path) -> None:
    writer = write_run(tmp_path / "night", trainer="GRPOTrainer", framework={"trl": "1.16.0"})
    writer.alert(alert())
    run = one(tmp_path / "night")
    assert (run.name, run.format, run.framework, run.notes) == ("night", "rlwatch", "trl", ())
    assert [record.step for record in run.records] == [1, 2, 3, 4, 5]
    assert math.isnan(run.records[1].metrics["entropy/mean"] or 0.0)
    assert run.records[2].metrics == {"entropy/mean": math.inf, "reward/mine": 3 / 7, "own name": 1.0}
    assert run.records[3].metrics["entropy/mean"] is None
    assert run.info["config"] == {"beta": 0.0}
    assert run.alerts == (alert(),)


def test_of_a_run_directory_any_file_will_do(tmp_path: Path) -> None:
    writer = write_run(tmp_path / "night")
    writer.alert(alert())
    expected = one(tmp_path / "night")
    for name in ("run.json", "metrics.rank0.jsonl", "alerts.jsonl"):
        assert texts(one(tmp_path / "night" / name)) == texts(expected)
    alone = tmp_path / "metrics.rank0.jsonl"
    shutil.copy(tmp_path / "night" / alone.name, alone)
    run = one(alone)
    assert texts(run) == texts(expected)
    assert "no run.json" in run.notes[0]


def test_lines_that_are_none_are_named_and_a_later_layout_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "night")
    with (tmp_path / "night" / "metrics.rank0.jsonl").open("a") as file:
        file.write("what\n" * 9 + '{"step":6,"time":1.0,"met')
    run = one(tmp_path / "night")
    assert len(run.records) == 5
    assert len(run.notes) == 4
    assert "6 more lines" in run.notes[-1]
    (tmp_path / "night" / "run.json").write_text('{"schema": 99}')
    with pytest.raises(UnreadableError, match="version 99"):
        load(tmp_path / "night")
    assert [type(found).__name__ for _, found in load_all([str(tmp_path)])] == ["UnreadableError"]


def test_a_run_that_has_just_begun_is_one(tmp_path: Path) -> None:
    write_run(tmp_path / "night", steps=0)
    assert "no step" in one(tmp_path / "night").notes[0]


def test_a_folder_of_runs_is_as_many(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_run(tmp_path / "runs" / name)
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "runs" / "a")
    (tmp_path / "outside").symlink_to(tmp_path / "runs")
    assert files_of(str(tmp_path)) == [str(tmp_path / "runs" / "a"), str(tmp_path / "runs" / "b")]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "link").symlink_to(tmp_path / "runs" / "a")
    assert files_of(str(elsewhere)) == [str(elsewhere / "link")]


def test_a_file_whose_name_looks_like_a_pattern_is_itself(tmp_path: Path) -> None:
    for name in ("run1.log", "run[1].log"):
        (tmp_path / name).write_text("{'loss': 0.1}")
    assert files_of(str(tmp_path / "run[1].log")) == [str(tmp_path / "run[1].log")]
    assert files_of(str(tmp_path / "run[12].log")) == [str(tmp_path / "run1.log")]


def test_a_long_run_is_read_fast(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.mkdir()
    RunWriter(path, {}).close()
    randoms = random.Random(0)
    with (path / "metrics.rank0.jsonl").open("w") as file:
        for step in range(1, 10_001):
            metrics = {f"own/{index}": randoms.random() for index in range(40)}
            file.write(json.dumps({"step": step, "time": 1e9, "metrics": metrics}, separators=(",", ":")) + "\n")
    begin = time.process_time()
    run = one(path)
    seconds = time.process_time() - begin
    assert len(run.records) == 10_000
    assert seconds < 3, "a tenth of a run of 100,000 steps; without orjson it takes longer than with it"


# trackio


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a project, logged by trackio itself in a process of its own."""
    pytest.importorskip("trackio")
    folder = tmp_path_factory.mktemp("trackio")
    code = """
import math, trackio
for name in ("one", "two"):
    run = trackio.init(project="project", name=name, config={"beta": 0.04, "hf_token": "a-secret", "inner": {"x": 1}})
    for step in range(1, 31):
        odd = {3: math.nan, 4: math.inf, 5: -math.inf, 6: None}.get(step, 1.0)
        table = trackio.Table(dataframe=__import__("pandas").DataFrame({"a": [1]}))
        row = {"train/loss": step / 7, "train/global_step": 2 * step, "odd": odd, "text": "x", "table": table}
        trackio.log({**row, "eval/loss": 0.5} if step == 30 else row)
    trackio.finish()
"""
    environment = {**os.environ, "TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return folder / "project.db"


def test_a_database_of_trackio_comes_back_as_it_was(database: Path) -> None:
    runs = load(database)
    assert [(run.name, run.format) for run in runs] == [("one", "trackio"), ("two", "trackio")]
    for run in runs:
        assert [record.step for record in run.records] == list(range(2, 61, 2))
        assert [record.metrics["loss"] for record in run.records] == [step / 7 for step in range(1, 31)]
        odd = [record.metrics["raw/odd"] for record in run.records]
        assert repr(odd[:6]) == "[1.0, 1.0, nan, inf, -inf, None]"
        assert run.names == ["loss", "raw/odd", "eval/loss"]
        assert run.info["config"] == {"beta": 0.04, "inner.x": 1}
        assert all(abs(record.time - time.time()) < 3600 for record in run.records)


def test_reading_a_database_leaves_its_folder_as_it_is(database: Path, tmp_path: Path) -> None:
    def state() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    copy = Path(shutil.copy(database, tmp_path))
    expected = [texts(run) for run in load(database)]
    before = state()
    assert [texts(run) for run in load(copy)] == expected
    assert state() == before
    # A process that was killed leaves the newest rows in a file beside the database.
    code = f"""
import os, sqlite3
connection = sqlite3.connect({str(copy)!r})
connection.execute("UPDATE metrics SET run_name = 'three' WHERE run_name = 'two'")
connection.commit()
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert (tmp_path / "project.db-wal").stat().st_size
    (tmp_path / "project.db-shm").unlink()
    before = state()
    assert [run.name for run in load(copy)] == ["one", "three"]
    assert state() == before


def test_a_database_that_is_being_written_is_read_too(database: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(database, tmp_path))
    writer = sqlite3.connect(copy)
    writer.execute("UPDATE metrics SET run_name = 'three' WHERE run_name = 'two'")
    writer.commit()
    writer.execute("DELETE FROM metrics")
    assert [run.name for run in load(copy)] == ["one", "three"]
    writer.close()


def test_an_older_database_knows_runs_by_name(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp, run_name, step, metrics)")
        for step in range(3):
            row = ("2026-01-02T03:04:05", "mine", step, json.dumps({"loss": "NaN", "x": step}))
            connection.execute("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?)", row)
        connection.execute("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (1, 'mine', 3, 'what')")
    run = one(path)
    assert [(record.step, record.metrics["raw/x"]) for record in run.records] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert "1 row of the table of metrics" in run.notes[0]


def test_another_database_is_none(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY)")
    with pytest.raises(UnreadableError, match="none of trackio's"):
        load(path)


# Parquet


@pytest.fixture
def table() -> pl.DataFrame:
    steps = range(1, 101)
    columns = {
        "step": list(steps),
        "loss": [NAN if step == 3 else math.inf if step == 4 else step / 7 for step in steps],
        "eval/loss": [0.5 if step % 10 == 0 else None for step in steps],
        "count": list(steps),
        "text": ["x"] * 100,
    }
    return pl.DataFrame(columns).with_columns(timestamp=pl.datetime(2026, 1, 2, 3, 4, pl.col("step") % 60))


def test_a_table_in_parquet_comes_back_as_it_was(table: pl.DataFrame, tmp_path: Path) -> None:
    table.write_parquet(tmp_path / "night.parquet")
    run = one(tmp_path / "night.parquet")
    assert (run.name, run.format) == ("night", "parquet")
    assert run.names == ["loss", "raw/count", "eval/loss"]
    assert [record.step for record in run.records] == list(range(1, 101))
    assert repr([record.metrics["loss"] for record in run.records][:4]) == repr([1 / 7, 2 / 7, NAN, math.inf])
    assert [record.step for record in run.records if "eval/loss" in record.metrics] == list(range(10, 101, 10))
    assert run.records[0].time == 1767323041.0


def test_a_table_of_several_runs_is_as_many(table: pl.DataFrame, tmp_path: Path) -> None:
    both = pl.concat([table.with_columns(run=pl.lit(name)) for name in ("b", "a")])
    both.write_parquet(tmp_path / "both.parquet")
    assert [(run.name, len(run.records)) for run in load(tmp_path / "both.parquet")] == [("b", 100), ("a", 100)]


def test_what_a_run_of_ours_is_as_a_table_is_the_run(tmp_path: Path) -> None:
    write_run(tmp_path / "night")
    run = one(tmp_path / "night")
    run.metrics.write_parquet(tmp_path / "night.parquet")
    back = one(tmp_path / "night.parquet")
    assert [record.step for record in back.records] == [1, 2, 3, 4, 5]
    assert back.records[2].time == run.records[2].time


def test_tables_of_other_things_are_none(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    pl.DataFrame({"prompt": ["a"], "answer": [3]}).write_parquet(path)
    with pytest.raises(UnreadableError, match="not one of metrics"):
        load(path)
    pl.DataFrame({"step": [1], "text": ["a"]}).write_parquet(path)
    with pytest.raises(UnreadableError, match="without a column of numbers"):
        load(path)


# All of them, broken


@pytest.mark.parametrize("kind", ["run", "trackio", "parquet"])
def test_broken_files_are_read_or_refused(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, table: pl.DataFrame
) -> None:
    path = tmp_path / {"run": "night/metrics.rank0.jsonl", "trackio": "project.db", "parquet": "night.parquet"}[kind]
    if kind == "run":
        write_run(path.parent, steps=100)
    elif kind == "trackio":
        shutil.copy(request.getfixturevalue("database"), path)
    else:
        table.write_parquet(path)
    data = path.read_bytes()
    randoms = random.Random(0)
    read = 0
    for cut in [*range(30), *randoms.sample(range(len(data)), 100)]:
        path.write_bytes(data[:cut])
        read += _is_read(path)
    for place in [*range(100), *randoms.sample(range(len(data)), 100)]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xA5]) + data[place + 1 :])
        read += _is_read(path)
    assert read


def _is_read(path: Path) -> bool:
    why = None
    try:
        load(path)
    except UnreadableError as error:
        why = str(error)
    return why is None


def test_settings_are_simple_and_no_secrets() -> None:
    config = {
        "lr": 1e-5,
        "none": None,
        "eos_token_id": 2,
        "hub_token": "x",
        "wandb_api_key": "x",
        "inner": {"password": 1234, "deep": {"x": [1, 2], "keys": {"a": "x"}}},
        "model": "hf_abcdef",
        "url": "https://user:x@example.org",
        "callback": "https://hooks.slack.com/x",
        "long": "x" * 5000,
        "object": object(),
        "many": list(range(1000)),
    }
    assert simple_settings(config) == {"lr": 1e-5, "none": None, "eos_token_id": 2, "inner.deep.x": [1, 2]}
    assert simple_settings([1]) == {}


def test_the_readers_start_without_what_wrote_the_files() -> None:
    code = """
import sys
from importlib import import_module
for name in ("run_directory", "wandb_folder", "wandb_file", "tensorboard", "trackio", "parquet"):
    import_module("rlwatch.readers." + name)
heavy = {"wandb", "torch", "tensorboard", "trackio", "dash", "pandas", "pyarrow", "polars"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
