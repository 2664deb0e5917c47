"""TensorBoard's event files, written by torch's SummaryWriter and TensorBoard's own messages, read without either."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import struct
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorboard")

from torch.utils.tensorboard import SummaryWriter

from rlwatch.readers.crc32c import crc32c, crc32c_of_each
from rlwatch.readers.loading import files_of, load
from rlwatch.readers.source import UnreadableError
from rlwatch.runs.records import Run

NAN = math.nan


def one(path: Path) -> Run:
    [run] = load(path)
    return run


def events_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("events.out.tfevents.*"))


def column(run: Run, name: str) -> list[Any]:
    return [(record.step, record.metrics[name]) for record in run.records if name in record.metrics]


def same(one: Run, other: Run) -> bool:
    return [repr(record) for record in one.records] == [repr(record) for record in other.records]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 40 steps with everything that a writer can write."""
    import numpy as np
    import torch

    folder = tmp_path_factory.mktemp("small")
    with SummaryWriter(str(folder)) as writer:
        writer.add_text("args", json.dumps({"loss_type": "dapo", "beta": 0.0, "hub_token": "a-secret"}))
        for step in range(1, 41):
            writer.add_scalar("train/old", step / 7, step)
            writer.add_scalar("train/new", step / 7, step, new_style=True)
            writer.add_scalar("train/double", step / 7, step, new_style=True, double_precision=True)
            writer.add_scalar("odd", {3: NAN, 4: math.inf, 5: -math.inf}.get(step, 1.0), step)
            if step % 10 == 0:
                writer.add_scalar("eval/loss", step / 100, step)
                writer.add_histogram("histogram", np.arange(10), step)
                writer.add_image("image", torch.zeros(3, 8, 8), step)
                writer.add_text("text", "5", step)
                writer.add_pr_curve("curve", np.array([0, 1, 1]), np.array([0.1, 0.5, 0.9]), step)
    return folder


def test_every_step_comes_back_as_it_was(small: Path) -> None:
    run = one(small)
    assert (run.name, run.format, run.notes) == (small.name, "tensorboard", ())
    assert [record.step for record in run.records] == list(range(1, 41))
    for name, exact in (("raw/old", False), ("raw/new", False), ("raw/double", True)):
        for step, value in column(run, name):
            assert value == (step / 7 if exact else pytest.approx(step / 7, rel=1e-7))
    odd = dict(column(run, "raw/odd"))
    assert math.isnan(odd[3])
    assert (odd[4], odd[5], odd[6]) == (math.inf, -math.inf, 1.0)
    assert [step for step, _ in column(run, "eval/loss")] == [10, 20, 30, 40]
    assert set(run.names) == {"raw/old", "raw/new", "raw/double", "raw/odd", "eval/loss"}
    assert all(abs(record.time - time.time()) < 3600 for record in run.records)
    assert run.info["config"] == {"loss_type": "dapo", "beta": 0.0}


def test_it_is_what_tensorboards_own_reader_reads(small: Path) -> None:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    theirs: dict[str, list[Any]] = {}
    for event in EventFileLoader(str(events_of(small)[0])).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name in ("scalars", ""):
                theirs.setdefault(value.tag, []).append((event.step, make_ndarray(value.tensor).item()))
    run = one(small)
    mine = {"train/old": "raw/old", "train/new": "raw/new", "train/double": "raw/double", "odd": "raw/odd"}
    for tag, name in {**mine, "eval/loss": "eval/loss"}.items():
        assert repr(column(run, name)) == repr(theirs[tag])


@pytest.mark.parametrize(
    ("dtype", "value", "field"),
    [
        ("DT_FLOAT", 0.5, "float_val"),
        ("DT_DOUBLE", 0.1, "double_val"),
        ("DT_INT32", -7, "int_val"),
        ("DT_INT64", -(2**40), "int64_val"),
        ("DT_HALF", 0.5, "half_val"),
        ("DT_BFLOAT16", 0.5, "half_val"),
        ("DT_UINT8", 200, "int_val"),
    ],
)
@pytest.mark.parametrize("as_bytes", [True, False])
def test_scalars_in_tensors_of_every_type(tmp_path: Path, dtype: str, value: float, field: str, as_bytes: bool) -> None:
    from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2

    form = {"DT_FLOAT": "f", "DT_DOUBLE": "d", "DT_INT32": "i", "DT_INT64": "q", "DT_HALF": "e", "DT_UINT8": "B"}
    tensor = tensor_pb2.TensorProto(dtype=getattr(types_pb2, dtype), tensor_shape=tensor_shape_pb2.TensorShapeProto())
    bfloat16 = struct.pack("<f", value)[2:] if dtype == "DT_BFLOAT16" else b""
    content = bfloat16 or struct.pack("<" + form[dtype], value)
    if as_bytes:
        tensor.tensor_content = content
    else:
        bits = int.from_bytes(content, "little") if field == "half_val" else value
        getattr(tensor, field).append(bits)
    plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="scalars")
    metadata = summary_pb2.SummaryMetadata(plugin_data=plugin)
    with SummaryWriter(str(tmp_path)) as writer:
        for step in (1, 2):
            one_value = summary_pb2.Summary.Value(tag="x", tensor=tensor, metadata=metadata if step == 1 else None)
            summary = summary_pb2.Summary(value=[one_value])
            writer._get_file_writer().add_event(event_pb2.Event(summary=summary, wall_time=1e9), step)
    assert column(one(tmp_path), "raw/x") == [(1, value), (2, value)]


def test_what_is_no_scalar_is_none_here(tmp_path: Path) -> None:
    import torch

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_tensor("vector", torch.arange(3.0), 1)
        writer.add_hparams({"lr": 0.1}, {"metric": 1.0}, run_name="inner")
        writer.add_scalars("several", {"a": 1.0, "b": 2.0}, 1)
        writer.add_scalar("x", 1.0, 1)
    run = one(tmp_path)
    assert run.names == ["raw/x"]
    assert "inner, several_a, several_b is left out" in run.notes[0]
    assert files_of(str(tmp_path)) == [str(tmp_path)]
    [inner] = load(tmp_path / "inner")
    assert inner.names == ["raw/metric"]


def test_a_resumed_run_is_one_run_without_what_was_done_twice(tmp_path: Path) -> None:
    for start, value in ((1, 1.0), (6, 2.0), (9, 3.0)):
        with SummaryWriter(str(tmp_path), filename_suffix=f".{start}") as writer:
            for step in range(start, 11):
                writer.add_scalar("train/loss", value, step)
                writer.add_scalar("train/grad_norm", value, step)
        [new] = [path for path in events_of(tmp_path) if path.name.endswith(f".{start}")]
        new.rename(tmp_path / f"events.out.tfevents.{1_700_000_000 + start}.host.{start}")
    run = one(tmp_path)
    assert column(run, "loss") == [(s, 1.0 if s < 6 else 2.0 if s < 9 else 3.0) for s in range(1, 11)]
    assert any("resumed" in note for note in run.notes)


def test_a_writer_that_purges_takes_back_what_it_says(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(1, 11):
            writer.add_scalar("x", 1.0, step)
    [first] = events_of(tmp_path)
    first.rename(tmp_path / "events.out.tfevents.1000.host")
    with SummaryWriter(str(tmp_path), purge_step=5) as writer:
        writer.add_scalar("x", 2.0, 7)
    run = one(tmp_path)
    assert column(run, "raw/x") == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0), (7, 2.0)]
    assert any("starts again at step 5" in note for note in run.notes)


def test_events_without_steps_are_counted(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        for index in range(4):
            writer.add_scalar("train/loss", float(index))
            writer.add_scalar("train/grad_norm", float(index))
    run = one(tmp_path)
    assert column(run, "loss") == [(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)]


def test_values_that_come_late_are_of_their_step(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        for step in (1, 2, 3):
            writer.add_scalar("train/loss", 1.0, step)
        writer.add_scalar("train/grad_norm", 5.0, 2)
    run = one(tmp_path)
    assert column(run, "loss") == [(1, 1.0), (2, 1.0), (3, 1.0)]
    assert column(run, "grad/norm") == [(2, 5.0)]


def test_a_file_cut_anywhere_gives_what_is_whole(small: Path, tmp_path: Path) -> None:
    [source] = events_of(small)
    data = source.read_bytes()
    whole = one(source)
    path = tmp_path / source.name
    counts = []
    for cut in sorted({*range(60), *random.Random(0).sample(range(len(data)), 300), len(data)}):
        path.write_bytes(data[:cut])
        try:
            run = one(path)
        except UnreadableError:
            counts.append(0)
            continue
        assert [repr(r) for r in run.records[:-1]] == [repr(r) for r in whole.records[: len(run.records) - 1]]
        assert all("torn" in note for note in run.notes)
        counts.append(len(run.records))
    assert counts == sorted(counts)
    assert counts[-1] == 40


def test_nothing_after_a_broken_checksum_is_read(small: Path, tmp_path: Path) -> None:
    [source] = events_of(small)
    data = source.read_bytes()
    whole = one(source)
    path = tmp_path / source.name
    for place in random.Random(1).sample(range(len(data)), 300):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            run = one(path)
        except UnreadableError:
            continue
        assert [repr(r) for r in run.records[:-1]] == [repr(r) for r in whole.records[: len(run.records) - 1]]
        assert any("checksum" in note or "torn" in note for note in run.notes) or same(run, whole)


def test_a_length_that_claims_the_world_takes_no_memory(small: Path, tmp_path: Path) -> None:
    [source] = events_of(small)
    path = tmp_path / source.name
    path.write_bytes(source.read_bytes() + struct.pack("<Q", 1 << 60) + os.urandom(100))
    run = one(path)
    assert same(run, one(source))
    assert any("checksum" in note for note in run.notes)


def test_noise_is_no_event_file(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.host"
    for seed in range(50):
        path.write_bytes(random.Random(seed).randbytes(400))
        with pytest.raises(UnreadableError):
            load(path)
    with pytest.raises(UnreadableError, match="no event file"):
        load(tmp_path)


def test_compressed_it_is_read_too(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(1, 20_000):
            writer.add_scalar("x", random.random(), step)
    [source] = events_of(tmp_path)
    path = tmp_path / f"{source.name}.gz"
    path.write_bytes(gzip.compress(source.read_bytes()))
    assert same(one(path), one(source))
    path.write_bytes(path.read_bytes()[:-3000])
    assert any("compression is broken" in note for note in one(path).notes)


def test_a_folder_of_folders_has_each_run_once(small: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        with SummaryWriter(str(tmp_path / "runs" / name)) as writer:
            writer.add_scalar("x", 1.0, 1)
            writer.flush()
        with SummaryWriter(str(tmp_path / "runs" / name), filename_suffix=".again") as writer:
            writer.add_scalar("x", 1.0, 2)
    assert files_of(str(tmp_path)) == [str(tmp_path / "runs" / "a"), str(tmp_path / "runs" / "b")]
    (tmp_path / "runs" / "a" / "notes.txt").write_text("mine")
    assert len(files_of(str(tmp_path / "runs" / "a"))) == 3, "other files in it are not hidden by the events"


def test_runs_under_a_folder_with_events_of_its_own_are_not_hidden(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "inner"):
        with SummaryWriter(str(folder)) as writer:
            writer.add_scalar("x", 1.0, 1)
            writer.add_scalar("y", 1.0, 1)
    [own] = events_of(tmp_path)
    assert files_of(str(tmp_path)) == [str(tmp_path / "inner"), str(own)]


def test_the_checksum_is_right_for_pieces_of_every_length() -> None:
    randoms = random.Random(0)
    lengths = [0, 1, 3, 4, 5, 8, 31, 32, 33, 64, 255, 256, 257, 1000, 5000]
    pieces = [randoms.randbytes(randoms.choice(lengths)) for _ in range(3000)]
    assert crc32c_of_each(pieces) == [crc32c(piece) for piece in pieces]
    assert crc32c(b"123456789") == 0xE3069283
