"""wandb's files and folders, written by wandb itself, read without it."""

from __future__ import annotations

import json
import math
import random
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

wandb = pytest.importorskip("wandb")

from rlwatch import RLWatchCallback  # noqa: E402
from rlwatch.readers import wandb_file  # noqa: E402
from rlwatch.readers.assemble import assemble  # noqa: E402
from rlwatch.readers.loading import Options, files_of, load  # noqa: E402
from rlwatch.readers.rows import Log, Row, numbers  # noqa: E402
from rlwatch.readers.source import Source, UnreadableError  # noqa: E402
from rlwatch.runs.reader import read_records  # noqa: E402
from rlwatch.runs.records import Run  # noqa: E402

NAN = math.nan


def begin(folder: Path, **settings: Any) -> Any:
    folder.mkdir(exist_ok=True)
    return wandb.init(project="rlwatch-tests", dir=folder, mode="offline", settings={"console": "off"}, **settings)


def finish(run: Any) -> Path:
    """Ends a run, and waits until its file is whole: wandb's other process may still be writing it."""
    run.finish()
    path = Path(run.dir).parent / f"run-{run.id}.wandb"
    for _ in range(300):
        try:
            [log] = wandb_file.read(Source(path), Options())
            if "exit_code" in log.info:
                break
        except UnreadableError:
            pass
        time.sleep(0.1)
    return path


def one(path: Path) -> Run:
    [run] = load(path)
    return run


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 30 rows, with everything that a row may hold, of a few blocks."""
    assert wandb.run is None
    config = {
        "beta": 0.04,
        "loss_type": "dapo",
        "nested": {"lr": 1e-5, "api_key": "a-secret"},
        "hf_token": "a-secret",
        "url": "https://hooks.slack.com/services/a-secret",
        "max_tokens": 512,
        "weights": [1.0, 2.0],
    }
    run = begin(tmp_path_factory.mktemp("small"), name="night run", config=config)
    run.config.update({"late": True})
    for step in range(30):
        row = {"mine": step / 7, "odd": NAN if step == 3 else math.inf if step == 4 else -math.inf, "none": None}
        other = {"text": "5", "flag": True, "deep": {"er": {"x": step}}, "long": "x" * (4000 if step % 7 == 0 else 1)}
        media = {"histogram": wandb.Histogram([1, 2, 3]), "list": [1, 2], "ein Name, länger als sonst " * 8: step}
        run.log({**row, **other, **media}, step=3 * step)
    return finish(run)


def test_every_row_comes_back_as_it_was(small: Path) -> None:
    run = one(small)
    assert (run.name, run.format) == ("night run", "wandb")
    assert not run.notes
    assert [record.step for record in run.records] == list(range(0, 90, 3))
    name = "raw/" + ("ein Name, länger als sonst " * 8).strip()
    for index, record in enumerate(run.records):
        odd = record.metrics["raw/odd"]
        assert odd is not None
        assert record.metrics["raw/mine"] == index / 7
        assert math.isnan(odd) if index == 3 else odd == (math.inf if index == 4 else -math.inf)
        assert record.metrics["raw/none"] is None
        assert record.metrics["raw/deep.er.x"] == index
        assert record.metrics[name] == index
        assert abs(record.time - time.time()) < 3600
    assert set(run.names) == {"raw/mine", "raw/odd", "raw/none", "raw/text", "raw/deep.er.x", name}


def test_settings_come_without_what_may_be_a_secret(small: Path) -> None:
    info = one(small).info
    expected = {"beta": 0.04, "loss_type": "dapo", "nested.lr": 1e-5, "max_tokens": 512, "weights": [1.0, 2.0]}
    assert info["config"] == {**expected, "late": True}
    assert info["project"] == "rlwatch-tests"
    assert "a-secret" not in json.dumps(info)


def test_it_is_what_wandbs_own_reader_reads(small: Path) -> None:
    command = [str(Path(sys.executable).parent / "wandb"), "leet", "inspect", "--json", str(small)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    theirs = [json.loads(line) for line in done.stdout.splitlines() if '"type":"history"' in line]
    assert [row["history"]["item"]["mine"] for row in theirs] == [r.metrics["raw/mine"] for r in one(small).records]


def test_a_file_cut_anywhere_gives_what_is_whole(small: Path, tmp_path: Path) -> None:
    data = small.read_bytes()
    whole = one(small).records
    path = tmp_path / small.name
    cuts = sorted({*range(40), *random.Random(0).sample(range(len(data)), 300), *range(32760, 32780)})
    counts = []
    for cut in cuts:
        path.write_bytes(data[:cut])
        try:
            [run] = load(path)
        except UnreadableError:
            counts.append(0)
            continue
        assert [repr(r) for r in run.records] == [repr(r) for r in whole[: len(run.records)]]
        counts.append(len(run.records))
    assert counts == sorted(counts)
    assert counts[-1] >= 25


def test_a_torn_file_says_so(small: Path, tmp_path: Path) -> None:
    path = tmp_path / small.name
    path.write_bytes(small.read_bytes()[:-200])
    assert [note for note in one(path).notes if "torn" in note and "killed" in note]
    path.write_bytes(small.read_bytes() + bytes(5000))
    assert not one(path).notes


def test_nothing_after_a_broken_checksum_is_read(small: Path, tmp_path: Path) -> None:
    data = small.read_bytes()
    whole = one(small).records
    path = tmp_path / small.name
    for place in random.Random(1).sample(range(7, len(data)), 200):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            [run] = load(path)
        except UnreadableError:
            continue
        assert [repr(r) for r in run.records] == [repr(r) for r in whole[: len(run.records)]]
        assert run.notes or len(run.records) == len(whole)  # in the padding at a block's end, nothing is lost


def test_a_record_of_nonsense_with_a_right_checksum_ends_it(small: Path, tmp_path: Path) -> None:
    piece = b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
    header = struct.pack("<IHB", zlib.crc32(piece, zlib.crc32(b"\x01")), len(piece), 1)
    path = tmp_path / small.name
    path.write_bytes(b":W&B\xe1\xbe\x00" + header + piece)
    with pytest.raises(UnreadableError, match="no metrics"):
        load(path)


def test_a_version_that_is_not_known_is_left_to_wandb(small: Path, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / small.name
    path.write_bytes(b":W&B\xe1\xbe\x01" + small.read_bytes()[7:])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnreadableError, match="version"):
        load(path)
    stub = tmp_path / "wandb"
    item = {"_step": 4, "_timestamp": 5.0, "mine": "NaN", "deep": {"er": 1}}
    stub.write_text(f"#!{sys.executable}\nprint('''{json.dumps({'type': 'history', 'history': {'item': item}})}''')\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    run = one(path)
    assert [record.step for record in run.records] == [4]
    assert set(run.names) == {"raw/mine", "raw/deep.er"}
    assert "wandb command" in run.notes[0]
    stub.write_text(f"#!{sys.executable}\nraise SystemExit(1)\n")
    with pytest.raises(UnreadableError, match="neither rlwatch nor wandb"):
        load(path)


def test_a_folder_of_runs_has_each_once(tmp_path: Path) -> None:
    for name in ("first", "second"):
        run = begin(tmp_path, name=name)
        run.log({"loss": 1.0})
        finish(run)
    assert (tmp_path / "wandb" / "latest-run").is_symlink()
    for root in (tmp_path, tmp_path / "wandb"):
        files = files_of(str(root))
        assert sorted(one(Path(file)).name for file in files) == ["first", "second"]
    folder = next(tmp_path.glob("wandb/offline-run-*"))
    (folder / "files" / "wandb-metadata.json").write_text('{"gpu": "NVIDIA H100", "gpu_count": 8, "email": "me@x.y"}')
    info = one(folder).info
    assert (info["gpu"], info["gpu_count"], "email" in info) == ("NVIDIA H100", 8, False)
    assert one(tmp_path / "wandb" / "latest-run").name == "second"


def history(trainer: Any) -> Run:
    """What transformers' own log_history says."""
    rows = [
        Row(numbers({k: v for k, v in row.items() if k != "step"}), row["step"]) for row in trainer.state.log_history
    ]
    [run] = assemble(Log(rows, format="history"), name="history", path="")
    return run


def values(run: Run, without: str = "raw/profiling/") -> list[tuple[int, dict[str, float | None]]]:
    return [
        (record.step, {name: value for name, value in record.metrics.items() if not name.startswith(without)})
        for record in run.records
    ]


@pytest.fixture
def active(tmp_path: Path) -> Iterator[Any]:
    assert wandb.run is None
    yield begin(tmp_path)
    if wandb.run is not None:
        wandb.finish()


@pytest.mark.parametrize("every", [1, 3])
def test_a_grpo_training_is_the_same_in_wandb_in_tensorboard_and_in_its_history(
    active: Any, make_trainer: Any, tmp_path: Path, monkeypatch: Any, every: int
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    kinds = {"report_to": ["wandb", "tensorboard"], "eval_strategy": "steps", "eval_steps": 3}
    trainer = make_trainer(max_steps=6, logging_steps=every, **kinds)
    trainer.train()
    of_history, of_wandb, of_events = history(trainer), one(finish(active)), one(tmp_path / "events")
    assert of_history.framework == of_wandb.framework == of_events.framework == "trl"
    assert [record.step for record in of_history.records] == list(range(every, 7, every))
    for (step, expected), (one_step, by_wandb), (other, by_events) in zip(
        values(of_history), values(of_wandb), values(of_events), strict=True
    ):
        assert step == one_step == other
        assert {"loss", "entropy/mean", "grad/norm", "lr", "raw/epoch"} <= expected.keys()
        assert by_wandb == pytest.approx(expected, rel=1e-12)
        assert by_events == pytest.approx(expected, rel=1e-6)
    assert any("eval/loss" in record.metrics for record in of_wandb.records)
    for run in (of_wandb, of_events):
        config = run.info["config"]
        assert (config["max_steps"], config["loss_type"], config["learning_rate"]) == (6, "dapo", 1e-2)
        assert not any("hub_token" in name for name in config)


@pytest.mark.parametrize("every", [1, 3])
def test_what_rlwatch_mirrored_comes_back_as_what_it_is(
    active: Any, make_trainer: Any, tmp_path: Path, every: int
) -> None:
    watcher = RLWatchCallback(tmp_path / "runs")
    make_trainer(callbacks=[watcher], report_to="wandb", max_steps=6, logging_steps=every).train()
    assert watcher.run_dir is not None
    ours = read_records(watcher.run_dir).items
    read = one(finish(active)).records
    assert [record.step for record in read] == [record.step for record in ours] == [1, 2, 3, 4, 5, 6]
    for record, expected in zip(read, ours, strict=True):
        mine = {name: record.metrics.get(name) for name in expected.metrics}
        assert mine == pytest.approx(dict(expected.metrics))
    assert any("raw/entropy" in record.metrics for record in read), "what the trainer calls so stays as it is"


def test_numbers_without_a_step_are_of_the_step_that_is_logged_next(active: Any) -> None:
    for step in (10, 20):
        for index in range(3):
            active.log({"mine/index": index, "mine/once": step} if index == 0 else {"mine/index": index})
        active.log({"train/loss": step / 10, "train/global_step": step})
    active.log({"eval/loss": 0.5})
    active.log({"mine/after": 1.0})
    run = one(finish(active))
    assert [(r.step, r.metrics["raw/mine/index"], r.metrics["raw/mine/once"]) for r in run.records] == [
        (10, 2.0, 10.0),
        (20, 2.0, 20.0),
    ]
    assert run.records[-1].metrics["raw/mine/after"] == 1.0
    assert run.records[-1].metrics["eval/loss"] == 0.5
    assert any("4 values without a step" in note for note in run.notes)


def test_where_the_counter_is_the_step_it_is_so_in_every_row(active: Any) -> None:
    active.log({"val-core/math/mean@1": 0.1}, step=0)
    for step in (1, 2):
        active.log({"actor/entropy": 1.0, "critic/score/mean": 0.5, "training/global_step": step}, step=step)
    run = one(finish(active))
    assert run.framework == "verl"
    assert [record.step for record in run.records] == [0, 1, 2]
    assert run.records[2].metrics["entropy/mean"] == 1.0
    assert "raw/training/global_step" not in run.names
