"""Dumps of completions that are broken, large, or none at all."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dumps import Row, alike, at, by_step, random_rows, read, row, write
from rlwatch.readers import Options, UnreadableError
from rlwatch.readers import rollout_dump as reader
from rlwatch.readers.source import Source

# --- what is broken


def test_broken_lines_are_counted_and_nothing_else_is_lost(tmp_path: Path) -> None:
    rows = random_rows(2)
    path = write(tmp_path / "d.jsonl", rows)
    whole = by_step(read(path))
    lines = path.read_text().splitlines()
    lines.insert(3, "}{ hello")
    lines.insert(9, "[1, 2]")
    lines.insert(20, "")
    lines.append(lines[0][:40])  # torn
    path.write_text("\n".join(lines))
    run = read(path)
    alike(run, whole)
    assert "3 lines passed over: no whole JSON objects" in run.notes


def test_a_block_that_polars_refuses_is_told_apart_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of one group are hashed the same, whichever way their block was read."""
    rows = [row(1, 0, float(i % 2), f'{i % 2} "é∑" \\ \n \u2028') for i in range(40)]
    for r in rows:
        r["prompt"] = [{"role": "user", "content": 'a "quoted" é∑ /'}]
        del r["uid"]
    rows[17]["reward"] = "1.0"
    path = write(tmp_path / "d.jsonl", rows)
    monkeypatch.setattr("rlwatch.readers.rollout_json.BLOCK", 400)
    metrics = read(path).records[0].metrics
    assert metrics["groups/unique"] == 2 / 40
    assert metrics["reward/mean"] == 0.5


def test_nan_none_and_infinity_stay_what_they_are(tmp_path: Path) -> None:
    rewards = [1.0, math.nan, 0.0, None, math.inf, 0.0]
    rows = [row(1 + i // 4, i // 2, r) for i, r in enumerate(rewards)]
    for name in ("d.jsonl", "d.parquet"):
        metrics = by_step(read(write(tmp_path / name, rows)))
        assert metrics[1]["reward/mean"] == 0.5
        assert metrics[1]["groups/zero_std"] == 1.0, "one reward alone has no variance"
        assert metrics[2]["reward/mean"] == math.inf
    rows = [row(1, i // 2, math.nan) for i in range(4)]
    metrics = by_step(read(write(tmp_path / "d.jsonl", rows)))
    assert math.isnan(metrics[1]["reward/mean"])  # type: ignore[arg-type]
    assert "groups/zero_std" not in metrics[1]


@pytest.mark.parametrize(
    "rows",
    [
        [{"step": 1, "loss": 0.1, "reward": 0.5, "entropy": 1.0}],  # metrics
        [{"step": 1, "reward": 0.5, "completion": 120.5, "prompt": 30}],
        [{"prompt": "a", "completion": "b"}],  # nothing is rewarded
        [{"text": "a", "score": 0.5}],  # no prompt, no step, no group
        [{"step": 1, "data": {"actor/entropy": 1.0}}],
    ],
)
@pytest.mark.parametrize("name", ["d.jsonl", "d.json", "d.parquet"])
def test_what_is_no_dump_is_left_alone(tmp_path: Path, rows: list[Row], name: str) -> None:
    assert not reader.sniff(Source(write(tmp_path / name, rows)))


@pytest.mark.parametrize(
    "text", ["{'loss': 0.1}\n", "step:1 - actor/entropy:0.5\n", '{\n  "step": 1\n}\n', "[]", "{", "[[[[", "PAR1", ""]
)
def test_other_text_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert not reader.sniff(Source(path))


def test_a_row_longer_than_the_head_is_recognised(tmp_path: Path) -> None:
    rows = [row(1, 0, i, f"{i}" * 200_000) for i in range(4)]
    for name in ("d.jsonl", "d.json"):
        assert read(write(tmp_path / name, rows)).records[0].metrics["groups/unique"] == 1.0


def test_marks_of_byte_order_and_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    for encoding in ("utf-8-sig", "utf-16"):
        path.write_text("".join(json.dumps(r) + "\n" for r in at(1, 2)), encoding=encoding)
        assert len(read(path).records) == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 3))
def test_no_bytes_make_it_raise_anything_else(tmp_path: Path, noise: bytes, where: int) -> None:
    path = tmp_path / "noise"
    lines = [json.dumps(r).encode() for r in at(1, 2)]
    lines.insert(where, noise)
    for content in (noise, b"PAR1" + noise, b"[" + noise, b"\n".join(lines)):
        path.write_bytes(content)
        try:
            source = Source(path)
            assert len(source.head) >= 0  # compressed, and broken: then no reader is asked
        except UnreadableError:
            continue
        if reader.sniff(source):
            with contextlib.suppress(UnreadableError):
                reader.read(source, Options())


def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlwatch.readers.rollout_json.BLOCK", 1 << 16)
    monkeypatch.setattr("rlwatch.readers.rollout_json.LINE_LIMIT", 1 << 17)
    path = write(tmp_path / "d.jsonl", [*at(1), row(1, 0, 1, "x" * (1 << 19))])
    with pytest.raises(UnreadableError, match="a line of more than"):
        reader.read(Source(path), Options())


# --- size

_MEASURED = """
import resource, sys
import numpy, polars
from rlwatch.readers import Options, load
load(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
runs = load(sys.argv[2])
print(len(runs[0].records), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """150 MB of completions of 6 KB each: what is kept of one is some sixty bytes."""
    path = tmp_path / "d.jsonl"
    text = "a longer completion " * 300
    with path.open("w") as file:
        for step in range(1, 101):
            rows = (row(step, i // 8, i % 3 / 2, text) for i in range(240))
            file.write("".join(json.dumps(r) + "\n" for r in rows))
    assert path.stat().st_size > 140e6
    small = write(tmp_path / "small.jsonl", at(1))
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, "-c", _MEASURED, str(small), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    steps, grown = map(int, done.stdout.split())
    assert steps == 100
    assert grown < 80, f"{grown} MiB more for a file of {path.stat().st_size >> 20} MiB"
