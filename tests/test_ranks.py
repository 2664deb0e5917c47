"""Two real ranks under torchrun with gloo: rank 0 records the numbers of all of them."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rlwatch.runs.reader import read_info, read_records

RANKS = 2


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    here = Path(__file__).parent
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}",
            str(here / "ranks_script.py"), str(folder),
        ],
        env={**os.environ, "PYTHONPATH": str(here), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def raw(out: Path, name: str) -> list[list[dict[str, Any]]]:
    return [json.loads((out / f"{name}.raw{rank}.json").read_text()) for rank in range(RANKS)]


def test_the_numbers_of_all_ranks_equal_a_recomputation(out: Path) -> None:
    records = read_records(out / "runs" / "sound").items
    assert len(records) == 3
    for record, *ranks in zip(records, *raw(out, "sound"), strict=True):
        metrics = record.metrics
        entropies = [e for rank in ranks for e in rank["entropies"]]
        assert metrics["entropy/mean"] == pytest.approx(statistics.fmean(entropies), rel=1e-6)
        assert metrics["loss"] == pytest.approx(statistics.fmean(rank["loss"] for rank in ranks), rel=1e-6)
        assert metrics["grad/applied_norm"] == pytest.approx(ranks[0]["applied"], rel=1e-6)
        rows = {key: [x for rank in ranks for x in rank["generation"][key]] for key in ranks[0]["generation"]}
        groups = [rows["total"][i : i + 4] for i in range(0, len(rows["total"]), 4)]
        assert len(groups) == 2
        assert metrics["reward/mean"] == pytest.approx(statistics.fmean(rows["total"]), rel=1e-6)
        assert metrics["reward/std"] == pytest.approx(statistics.stdev(rows["total"]), rel=1e-6)
        deviations = [statistics.stdev(group) for group in groups]
        assert metrics["groups/reward_std"] == pytest.approx(statistics.fmean(deviations), rel=1e-6)
        assert metrics["groups/zero_std"] == sum(max(g) - min(g) < 1e-6 for g in groups) / len(groups)
        assert metrics["length/mean"] == pytest.approx(statistics.fmean(rows["length"]), rel=1e-6)
        assert metrics["length/truncated"] == pytest.approx(statistics.fmean(rows["truncated"]), rel=1e-6)
        assert metrics["length/share_correct"] == pytest.approx(statistics.fmean(rows["correct"]), rel=1e-6)


def test_the_rollouts_of_all_ranks_are_in_one_table_in_generation_order(out: Path) -> None:
    table = pl.read_parquet(out / "runs" / "sound" / "rollouts" / "step-000001.parquet")
    ranks = [steps[0]["generation"] for steps in raw(out, "sound")]
    assert table["length"].to_list() == [n for rank in ranks for n in rank["length"]]
    assert table["correct"].to_list() == [c for rank in ranks for c in rank["correct"]]


def test_only_rank_0_keeps_a_run(out: Path) -> None:
    assert sorted(p.name for p in (out / "runs").iterdir()) == ["faulty", "sound"]
    assert read_info(out / "runs" / "sound")["world_size"] == RANKS


def test_a_fault_on_one_rank_leaves_no_rank_waiting_and_no_number_wrong(out: Path) -> None:
    records = read_records(out / "runs" / "faulty").items
    assert len(records) == 3
    for record, *ranks in zip(records, *raw(out, "faulty"), strict=True):
        metrics = record.metrics
        assert "length/mean" not in metrics, "half of the lengths is not their mean"
        rewards = [x for rank in ranks for x in rank["generation"]["total"]]
        assert metrics["reward/mean"] == pytest.approx(statistics.fmean(rewards), rel=1e-6)
        assert math.isfinite(metrics["grad/norm"] or math.nan)
        assert "entropy/mean" not in metrics, "half of the tokens is not their mean"
