"""The examples run, do what they say, and leave a run behind in which everything is there."""

from __future__ import annotations

import runpy
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from rlwatch.runs.metrics import METRICS
from rlwatch.runs.reader import read_alerts, read_info, read_records
from rlwatch.runs.records import AlertState, Severity

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

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an example as `python examples/NAME.py ...` does, in this process, in a folder of its own."""

    def run(script: str, *options: object) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(EXAMPLES))
        monkeypatch.setattr(sys, "argv", [script, *map(str, options)])
        monkeypatch.setenv("RLWATCH_SLACK_WEBHOOK", "")  # what slack.py sets goes away with this again
        runpy.run_path(str(EXAMPLES / script), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_every_example_is_tested() -> None:
    text = Path(__file__).read_text()
    names = [path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh", ".ipynb")]
    assert len(names) == 9
    assert not [name for name in names if name != "toy_task.py" and name.removesuffix(".py") not in text]


@pytest.mark.parametrize(
    ("script", "steps", "reuse", "rows", "also"),
    [
        ("own_loop_ppo", 80, 4, 128, {"value_loss"}),
        ("own_loop_grpo", 40, 2, 128, OF_GROUPS),
    ],
)
def test_a_loop_learns_and_is_watched(
    run: Run, tmp_path: Path, script: str, steps: int, reuse: int, rows: int, also: set[str]
) -> None:
    assert "reward" in run(f"{script}.py", "--steps", steps, "--dir", tmp_path / "out")
    (folder,) = (tmp_path / "out").iterdir()
    records = read_records(folder)
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

    info = read_info(folder)
    assert "faults" not in info
    assert info["ended"] > info["created"]
    assert info["config"]["num_iterations"] == reuse
    assert not [alert for alert in read_alerts(folder).items if alert.severity is not Severity.INFO]
    shards = sorted((folder / "rollouts").glob("*.parquet"))
    assert len(shards) == steps // reuse, "a shard a rollout, not a shard a step"
    table = pl.read_parquet(shards[-1])
    assert len(table) == rows
    assert table["reward"].mean() == pytest.approx(rewards[-1])
    assert table["entropy"].null_count() == table["logprob_sum"].null_count() == 0


def test_grpo_with_trl(run: Run, tmp_path: Path) -> None:
    assert "watching grpo-trl" in run("grpo_trl.py", "--steps", 4, "--dir", tmp_path / "out")
    info, records = read_info(tmp_path / "out" / "grpo-trl"), read_records(tmp_path / "out" / "grpo-trl").items
    assert info["trainer"] == "GRPOTrainer"
    assert "faults" not in info
    assert [record.step for record in records] == [1, 2, 3, 4]
    assert [record.metrics["rollouts/age"] for record in records] == [0, 1, 0, 1]
    assert all({"grad/effective_norm", "groups/stuck", "weight/incorrect"} <= r.metrics.keys() for r in records)


def test_grpo_on_two_ranks(tmp_path: Path) -> None:
    """grpo_two_ranks.sh, with torchrun and gloo."""
    done = subprocess.run(
        ["bash", str(EXAMPLES / "grpo_two_ranks.sh"), "--steps", "2"],
        cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    info, records = read_info(folder), read_records(folder).items
    assert info["world_size"] == 2
    assert "faults" not in info
    assert [record.step for record in records] == [1, 2]
    tokens = [record.metrics["tokens/total"] for record in records]
    assert tokens[0] == 32 * records[0].metrics["length/mean"], "16 completions a rank and step, of both ranks"


def test_slack_gets_the_alert(run: Run, tmp_path: Path) -> None:
    out = run("slack.py", "--steps", 60, "--dir", tmp_path / "out")
    posted = out[out.index("--- Slack would show:") :]
    assert "CRITICAL · reward-collapse · slack-example" in posted
    assert "Since: step 30" in posted
    [fired] = [a for a in read_alerts(tmp_path / "out" / "slack-example").items if a.state is AlertState.FIRING]
    assert fired.message in posted
    assert not list((tmp_path / "out" / "slack-example" / "outbox").glob("*.json")), "nothing waits any more"


def test_wandb_offline_is_read_back(run: Run, tmp_path: Path) -> None:
    run("wandb_offline.py", "--steps", 24, "--dir", tmp_path)
    out = run("analyze_old_logs.py", tmp_path / "wandb", tmp_path / "runs", "--csv", tmp_path / "table.csv")
    assert "wandb-example" in out
    table = pl.read_csv(tmp_path / "table.csv")
    assert sorted(table["format"]) == ["rlwatch", "wandb"]
    assert table["steps"].to_list() == [24, 24]
    assert table["last_reward"].to_list() == pytest.approx([0.44, 0.44]), "0.2 + 24/100, mirrored as it is"


def test_old_logs_come_worst_first_and_what_cannot_be_read_is_said(run: Run, tmp_path: Path) -> None:
    fine = [{"step": n, "reward": 0.5, "entropy": 0.9, "frac_reward_zero_std": 0.1} for n in range(1, 61)]
    bad = [{**row, "reward": 0.5 if row["step"] < 30 else 0.0} for row in fine]
    for name, rows in (("a-fine", fine), ("b-bad", bad)):
        (tmp_path / f"{name}.log").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "c.log").write_text("no log at all\n")
    out = run("analyze_old_logs.py", *(tmp_path / name for name in ("a-fine.log", "b-bad.log", "c.log")))
    assert out.index("b-bad") < out.index("a-fine"), "the worst first"
    assert "reward-collapse" in out
    assert "not read" in out
    with pytest.raises(SystemExit, match="no run"):
        run("analyze_old_logs.py", tmp_path / "c.log")


def test_the_notebook_runs(tmp_path: Path) -> None:
    """notebook.ipynb, in a kernel of its own beside what it imports."""
    for needed in ("nbclient", "ipykernel"):
        pytest.importorskip(needed)
    import nbformat
    from nbclient import NotebookClient

    for name in ("notebook.ipynb", "own_loop_grpo.py", "toy_task.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    book = nbformat.read(tmp_path / "notebook.ipynb", as_version=4)
    assert not [cell for cell in book.cells if cell.get("outputs")], "it is kept without outputs"
    NotebookClient(book, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = "\n".join(str(output) for cell in book.cells for output in cell.get("outputs", ()))
    assert "srcdoc" in said
    assert "healthy" in said
    assert "length-bias" in said
    assert len(read_records(tmp_path / "runs" / "own-loop-grpo").items) == 40
