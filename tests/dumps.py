"""What dumps of completions are made of in tests: rows, files of them in any format, and what is read of them."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rlwatch.readers import Options
from rlwatch.readers import rollout_dump as reader
from rlwatch.readers.source import Source
from rlwatch.runs.records import Run

Row = dict[str, Any]


def read(path: Path, **options: Any) -> Run:
    assert reader.sniff(Source(path))
    [run] = reader.read(Source(path), Options(**options))
    return run


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """In the format that the name asks for."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if path.name.endswith(".parquet"):
        pl.DataFrame(list(rows), infer_schema_length=None).write_parquet(path)
    elif path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(lines.encode()))
    elif path.name.endswith(".json"):
        path.write_text(json.dumps(list(rows), indent=1))
    else:
        path.write_text(lines)
    return path


def row(step: int, group: Any, reward: float | None, text: str = "", **more: Any) -> Row:
    return {"step": step, "uid": f"{step}-{group}", "prompt": f"p{group}", "completion": text, "reward": reward, **more}


def by_step(run: Run) -> dict[int, Mapping[str, float | None]]:
    return {record.step: record.metrics for record in run.records}


def same(found: Mapping[str, float | None], expected: Mapping[str, float | None]) -> None:
    assert dict(found) == pytest.approx(dict(expected), nan_ok=True)


# --- brute force


def alike(found: Run, expected: Mapping[int, Mapping[str, float | None]]) -> None:
    assert by_step(found).keys() == expected.keys()
    for step, metrics in by_step(found).items():
        same(metrics, expected[step])


def random_rows(seed: int, steps: int = 6) -> list[Row]:
    generator = random.Random(seed)
    rows = []
    for step in range(1, steps + 1):
        for group in range(5):
            ease = generator.choice([0.0, 0.3, 0.8, 1.0])
            for _ in range(generator.choice([2, 3, 3, 5])):
                right = generator.random() < ease
                score = None if generator.random() < 0.1 else float(right) + generator.choice([0, 0, 0.5])
                length = generator.randint(1, 40)
                more = {
                    "length": length,
                    "truncated": length > 30,
                    "is_correct": right,
                    "reward/accuracy": float(right),
                }
                rows.append(row(step, group, score, generator.choice("abcdefgh"), **more))
    return rows


def at(*steps: int) -> list[Row]:
    return [row(step, i // 2, i % 2) for step in steps for i in range(4)]
