"""Whatever a file holds, `load` gives runs or says in words why not: nothing else, in bounded memory and time."""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rlwatch.readers import UnreadableError, load
from rlwatch.readers.loading import load_all
from rlwatch.runs.records import Run

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
PIECES = st.sampled_from(
    [
        *"{}[]()'\",:;|\t\n\r \\/=-.%0123\0\x1b\ufeff",
        *("{'loss': 0.1, 'reward': 1, 'epoch': 0.1}", '{"step": 1, "loss": 0.5}', "{'loss': {'a': ", "np.float64(1e5)"),
        *(
            "step:1 - actor/entropy:0.5 - ",
            "(TaskRunner pid=1) ",
            "Step,Training Loss,reward\n",
            "1,2,3\n",
            "nan",
            "-inf",
        ),
        *(
            "| Step | loss |\n",
            "loss 0.5",
            "12%|# | 1/2 [",
            "\x1b[0m",
            '{"cells": [{"outputs": [{"data": {"text/html": "<table>',
        ),
        *('"log_history": [', "1e999", "9" * 400),
        *(
            "{'train_runtime': 1, 'train_steps_per_second': 0.1}",
            '{"loss": [1, 2], "kl": [',
            '{"1": {"loss": 2}',
            "a - loss",
        ),
    ]
)


def runs_or_words(path: Path) -> list[Run]:
    why, runs = "", []
    try:
        runs = load(path)
    except UnreadableError as error:
        why = str(error).strip()
    assert runs or why
    for run in runs:
        steps = [record.step for record in run.records]
        assert steps == sorted(set(steps))
        assert all(name for name in run.names)
        assert run.metrics.height == len(steps)
    return runs


@QUICK
@given(st.binary(max_size=400))
def test_any_bytes(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    runs_or_words(tmp_path / "x")


@QUICK
@given(st.text(max_size=300))
def test_any_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text, encoding="utf-8", errors="surrogatepass")
    runs_or_words(tmp_path / "x")


@settings(QUICK, max_examples=500)
@example("Step,Training Loss,reward\n\0")  # before Python 3.11 the csv module refuses a NUL
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_of_pieces_of_logs(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text, encoding="utf-8", errors="replace")
    runs_or_words(tmp_path / "x")


KEYS = st.sampled_from(["loss", "step", "reward", "1", "data", "history", "columns", "epoch", ""])
JSON = st.recursive(
    st.none() | st.floats() | st.integers() | st.text(max_size=5) | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@QUICK
@given(JSON)
def test_any_json(tmp_path: Path, value: object) -> None:
    (tmp_path / "x").write_text(json.dumps(value))
    runs_or_words(tmp_path / "x")


SOUND = {
    "log": "".join(f"{{'loss': 0.1, 'reward': {n}, 'reward_std': nan, 'epoch': {n / 9}}}\n" for n in range(30)),
    "jsonl": "".join(json.dumps({"step": n, "loss": 0.1, "reward": n}) + "\n" for n in range(30)),
    "json": json.dumps({"log_history": [{"step": n, "loss": 0.1} for n in range(30)], "max_steps": 9}, indent=1),
    "csv": "Step,Training Loss,reward\n" + "".join(f"{n},0.1,{n}\n" for n in range(30)),
    "verl": "".join(f"(TaskRunner pid=1) step:{n} - actor/entropy:0.5 - critic/score/mean:{n}\n" for n in range(30)),
    "ipynb": json.dumps({"cells": [{"outputs": [{"text": ["{'loss': 0.1, 'epoch': 1}\n"] * 9}]}], "nbformat": 4}),
}


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_file_that_is_torn_or_damaged_anywhere(tmp_path: Path, kind: str) -> None:
    data = SOUND[kind].encode()
    path = tmp_path / f"x.{kind}"
    path.write_bytes(data)
    assert runs_or_words(path)
    chance = random.Random(0)
    for _ in range(40):
        cut = chance.randrange(len(data))
        path.write_bytes(data[:cut])
        runs_or_words(path)
        place = chance.randrange(len(data) - 9)
        path.write_bytes(data[:place] + chance.randbytes(8) + data[place + chance.randrange(9) :])
        runs_or_words(path)
        packed = gzip.compress(data)
        path.write_bytes(packed[: cut % len(packed)])
        runs_or_words(path)


BROKEN = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "binary": bytes(range(256)) * 100,
    "nul": b"\0" * 100_000,
    "utf-16 without a mark": "{'loss': 0.1, 'reward': 1}".encode("utf-16-le") * 10,
    "half a character": "{'loss': 0.1, 'reward': 1} \u20ac".encode()[:-1] + b"\xff\xfe",
    "torn json": b'{"log_history": [{"loss": 0.1, ',
    "deep json": b"[" * 100_000,
    "deep json, ended": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep rows": b'{"loss": 1}\n' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep log_history": b'{"log_history":' + b"[" * 100_000,
    "deep python": b"{'loss': 0.1, 'a': " + b"{'b': " * 100_000 + b"}" * 100_000,
    "long integer": b'{"loss": ' + b"9" * 10_000 + b', "step": ' + b"9" * 10_000 + b"}",
    "long line": b"x" * 10_000_000,
    "long line of braces": b"{" * 10_000_000,
    "long line of digits": b"loss " + b"1" * 5_000_000 + b"%|",
    "long line of dicts that never end": b"{'a': [" * 1_000_000,
    "long line of spaces": b"loss" + b" " * 10_000_000 + b"/ 1",
    "escapes without end": b"\x1b]" * 1_000_000 + b"{'a",
    "quotes": b"a,b\n" + b'"' * 1_000_001,
    "nothing but a mark": b"\xef\xbb\xbf",
    "no header": b"1,2,3\n4,5,6\n",
    "header alone": b"Step,Training Loss,reward\n",
    "gzip of nothing": gzip.compress(b""),
    "gzip, torn": gzip.compress(b"{'loss': 0.1}" * 1000)[:40],
    "zstd, torn": b"\x28\xb5\x2f\xfd\x00\x00",
    "sqlite, torn": b"SQLite format 3\0" + b"\1" * 50,
    "parquet, torn": b"PAR1" + b"\1" * 50,
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_files(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(BROKEN[what])
    begin = time.process_time()
    assert [len(run.records) for run in runs_or_words(path)] in ([], [1])
    assert time.process_time() - begin < 20  # a second or two, on a machine that is not shared


def test_ten_thousand_columns(tmp_path: Path) -> None:
    names = [f"rewards/f{n}/mean" for n in range(10_000)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(["step", *names]), *(",".join([str(n), *["0.5"] * 10_000]) for n in range(5))]))
    begin = time.process_time()
    (run,) = load(path)
    assert (len(run.records), len(run.names)) == (5, 10_000)
    assert time.process_time() - begin < 10


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    row = b'{"step": 1, "loss": 0.1}'
    for name, piece in (
        ("rows", row + b"\n"),
        ("list", b"[" + row + b","),
        ("spaces", b"{'loss': 0.1}" + b" " * 100),
        ("nul", b"\0"),
    ):
        block = gzip.compress((piece * (1 << 20))[: 1 << 20])
        (tmp_path / f"{name}.gz").write_bytes(block * 300)  # members one after the other are one file
    script = (
        "import sys, resource\nfrom pathlib import Path\nfrom rlwatch.readers import load, UnreadableError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in sorted(Path(sys.argv[1]).glob('*.gz')):\n"
        "    try:\n        load(path)\n    except UnreadableError as error:\n        print(path.name, error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=250
    )
    *words, grown = done.stdout.split("\n")[:-1]
    assert len(words) == 4, done.stdout
    assert int(grown) < 1500, done.stdout  # MiB, where each of the four unpacks to 300


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("loop", "gone", "missing", "folder", "pipe", "x" * 5000):
        assert not runs_or_words(tmp_path / name)
    assert all(
        isinstance(found, UnreadableError) for _, found in load_all([str(tmp_path / "loop"), str(tmp_path / "no*")])
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("{'loss': 0.1}")
    (tmp_path / "x").chmod(0)
    assert not runs_or_words(tmp_path / "x")


def test_memory_of_a_large_log_is_of_its_size(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with path.open("w") as file:
        for step in range(20_000):
            file.write(json.dumps({"step": step, **{f"rewards/f{n}/mean": step / 7 for n in range(40)}}) + "\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (run,) = load(path)
    assert len(run.records) == 20_000
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 8 * path.stat().st_size
