"""The examples run, learn, and leave a run behind in which everything is there."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from rlwatch.runs.metrics import METRICS
from rlwatch.runs.reader import read_alerts, read_info, read_records
from rlwatch.runs.records import Severity

EXAMPLES = Path(__file__).parent.parent / "examples"

EVERY_STEP = {
    "reward/mean", "reward/std", "length/mean", "length/truncated", "length/share_correct", "rollouts/age",
    "entropy/mean", "entropy/p10", "entropy/p50", "entropy/p90", "entropy/top20", "surprisal/mean", "ratio/mean",
    "ratio/max", "clip/low", "clip/high", "kl/old", "cov/logp_advantage", "signal/abs_advantage",
    "signal/active_tokens", "grad/norm", "grad/clip_coef", "grad/applied_norm", "loss", "lr",
}  # fmt: skip
OF_GROUPS = {
    "groups/zero_std", "groups/solved", "groups/failed", "groups/stuck", "groups/excess", "groups/reward_std",
    "groups/unique", "groups/wasted_tokens", "grad/effective_norm",
}  # fmt: skip


@pytest.mark.parametrize(
    ("script", "steps", "reuse", "rows", "also"),
    [
        ("own_loop_ppo", 80, 4, 128, {"value_loss"}),
        ("own_loop_grpo", 40, 2, 128, OF_GROUPS),
    ],
)
def test_an_example_learns_and_is_watched(
    tmp_path: Path, script: str, steps: int, reuse: int, rows: int, also: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{script}.py"), "--steps", str(steps), "--dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "reward" in done.stdout
    (run,) = tmp_path.iterdir()
    records = read_records(run)
    assert not records.skipped
    assert [record.step for record in records.items] == list(range(1, steps + 1))
    for record in records.items:
        assert EVERY_STEP | also <= record.metrics.keys()
        assert record.metrics["rollouts/age"] == (record.step - 1) % reuse
    assert {n for r in records.items for n in r.metrics if n not in METRICS} <= {"value_loss"}
    if "groups/zero_std" not in also:
        assert not [name for record in records.items for name in record.metrics if name.startswith("groups/")]

    rewards = [record.metrics["reward/mean"] or 0.0 for record in records.items]
    first, last = statistics.fmean(rewards[:reuse]), statistics.fmean(rewards[-10:])
    assert last > first + 0.3, f"the reward went from {first:.2f} to {last:.2f}: this is no course in learning"

    info = read_info(run)
    assert "faults" not in info
    assert info["ended"] > info["created"]
    assert info["config"]["num_iterations"] == reuse
    assert not [alert for alert in read_alerts(run).items if alert.severity is not Severity.INFO]
    shards = sorted((run / "rollouts").glob("*.parquet"))
    assert len(shards) == steps // reuse, "a shard a rollout, not a shard a step"
    table = pl.read_parquet(shards[-1])
    assert len(table) == rows
    assert table["reward"].mean() == pytest.approx(rewards[-1])
    assert table["entropy"].null_count() == table["logprob_sum"].null_count() == 0
