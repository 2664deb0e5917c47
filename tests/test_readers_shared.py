"""Logs of real runs, each with its number of records and its first and last step."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from rlwatch.readers import load

RUNS = Path(__file__).parents[2] / "shared" / "runs"
pytestmark = pytest.mark.skipif(not RUNS.exists(), reason="the folder of real logs is not here")

CONSOLE = [f"rho{rho}-seed{seed}" for rho in ("0.10", "0.30", "0.70", "1.50", "3.00") for seed in (42, 43, 44)]
JSON = ["rho0.10-seed42", *(f"rho1.00-seed{seed}" for seed in (42, 43, 44))]
DAPO = ["rho1.0-seed42", "rho1.0-seed43", "rho3.0-seed42"]

EXPECTED: dict[str, list[tuple[int, int, int]]] = {
    "notebook-csv/Advanced_Llama3_1__3B__GRPO_LoRA.csv": [(292, 1, 292)],
    "notebook-csv/Gemma3__1B_-GRPO.csv": [(12, 1, 12)],
    "notebook-csv/Llama3.1__8B_-GRPO.csv": [(250, 1, 250)],
    "notebook-csv/Ministral_3__3B__Reinforcement_Learning_Sudoku_Game.csv": [(200, 1, 200)],
    "notebook-csv/Qwen2.5__3B_-GRPO.csv": [(250, 1, 250)],
    "notebook-csv/Qwen3_5__4B__Vision_GRPO.csv": [(60, 1, 60)],
    "notebook-csv/Qwen3_8B_FP8_GRPO.csv": [(100, 1, 100)],
    "notebook-csv/gpt-oss-_20B_-GRPO.csv": [(100, 1, 100)],
    "notebook-ipynb/Llama3.1__8B_-GRPO.ipynb": [(250, 1, 250)],
    "pasted/all-truncated.txt": [(3, 1, 10)],
    "pasted/function-std-but-reward-std-zero.txt": [(1, 1, 1)],
    "pasted/grad-and-kl-zero.txt": [(1, 2, 2), (2, 1, 2)],
    "pasted/importance-ratio-tiny.txt": [(1, 1, 1)],
    "pasted/loss-zero-but-healthy.txt": [(4, 1, 4)],
    "pasted/nan-at-step-59.txt": [(1, 59, 59)],
    "pasted/swift-string-steps.log": [(6, 1, 6)],
    "tinker-jsonl/rl-leetcode-entropy__llama-3.2-3b__bin3-100f_g.jsonl": [(10, 0, 9)],
    "tinker-jsonl/rl-leetcode__llama-3.2-1b__Easy.jsonl": [(6, 0, 5), (45, 0, 44)],
    "tinker-jsonl/rl-leetcode__llama-3.2-3b__Easy-g-llmjudge.jsonl": [(25, 0, 24), (21, 0, 20)],
    "tinker-jsonl/rl-leetcode__meta-llama__Llama-3.2-3B__100f_g__Hard.jsonl": [(35, 0, 34)],
    "tinker-jsonl/rl-leetcode__meta-llama__Llama-3.2-3B__f_g__Medium.jsonl": [(35, 0, 34)],
    "tinker-jsonl/rl-leetcode__openai__gpt-oss-20b__Easy.jsonl": [(4, 0, 3)],
    "trl-0.14/dead-from-start.txt": [(50, 1, 50)],
    **{f"trl-0.14/g2-{name}.log": [(200, 1, 200)] for name in ("flat-a", "flat-b", "truncated")},
    **{f"trl-console/gsm8k7b-{name}.log": [(40, 5, 200)] for name in CONSOLE},
    **{f"trl-console/gsm8k7b-static-seed{seed}.log": [(40, 5, 200)] for seed in (42, 43)},
    **{f"trl-json/gsm8k9b-{name}.json": [(40, 5, 200)] for name in JSON},
    **{f"trl-json/gsm8k9b-dapo-{name}.json": [(40, 5, 200)] for name in DAPO},
    "trl-markdown/length-entropy-collapse.md": [(49, 10, 490)],
    "verl-console/group-size-one.log": [(300, 1, 300)],
    "verl-console/plateau-grouped.log": [(699, 1, 699)],
    "verl-console/ppo-healthy-nul-bytes.log": [(435, 0, 434)],
    "verl-filelogger/smoke.jsonl": [(2, 1, 2)],
}
"""File → number of records, first and last step of each training in it."""


def test_every_file_is_expected() -> None:
    files = {str(path.relative_to(RUNS)) for path in RUNS.glob("*/*")}
    assert files == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_its_records(name: str) -> None:
    runs = load(RUNS / name)
    assert [(len(run.records), run.records[0].step, run.records[-1].step) for run in runs] == EXPECTED[name]
    for run in runs:
        steps = [record.step for record in run.records]
        assert steps == sorted(set(steps))
        assert "loss" in run.names or "entropy/mean" in run.names


@pytest.mark.parametrize(
    ("name", "index", "metric", "value"),
    [
        ("trl-console/gsm8k7b-rho0.10-seed42.log", 0, "reward/std", 0.10690449476242066),
        ("trl-console/gsm8k7b-rho0.10-seed42.log", 0, "groups/zero_std", 1.0),
        ("trl-json/gsm8k9b-rho0.10-seed42.json", 0, "entropy/mean", 0.24916303604841233),
        ("trl-0.14/g2-flat-a.log", 0, "groups/reward_std", 0.1768),
        ("trl-markdown/length-entropy-collapse.md", -1, "entropy/mean", 0.03762457818083931),
        ("pasted/function-std-but-reward-std-zero.txt", 0, "groups/reward_std", 0.0),
        ("pasted/importance-ratio-tiny.txt", 0, "sampler/ratio_mean", 0.0596),
        ("pasted/all-truncated.txt", 0, "length/truncated", 1.0),
        ("pasted/nan-at-step-59.txt", 0, "loss", math.nan),
        ("pasted/nan-at-step-59.txt", 0, "grad/norm", math.nan),
        ("verl-console/ppo-healthy-nul-bytes.log", 0, "raw/actor/entropy_loss", 0.45),
        ("verl-console/plateau-grouped.log", 0, "loss", -0.00013839505845680833),
        ("notebook-ipynb/Llama3.1__8B_-GRPO.ipynb", 0, "groups/reward_std", 0.117575),
        ("tinker-jsonl/rl-leetcode__openai__gpt-oss-20b__Easy.jsonl", 0, "entropy/mean", 0.5750608211770442),
    ],
)
def test_its_numbers(name: str, index: int, metric: str, value: float) -> None:
    found = load(RUNS / name)[-1].records[index].metrics[metric]
    assert found == value or (found is not None and math.isnan(found) and math.isnan(value))
