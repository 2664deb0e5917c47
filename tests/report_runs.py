"""Made-up runs for the tests of the reports."""

from __future__ import annotations

import math
from typing import Any

from rlwatch.report.analysis import Analysis, analyze_run
from rlwatch.runs.records import Run, StepRecord

EVIL = """<script>alert(1)</script></script><img src=x onerror=alert(2)>"'&<!--"""


def made_run(name: str = "grpo", steps: int = 200, *, dies: int | None = None, seed: int = 0, **info: Any) -> Run:
    """A run with all signals; from the step `dies` on it loses its entropy, its groups and its reward."""
    records = []
    for step in range(1, steps + 1):
        wave, noise = math.sin(step / 6 + seed), math.sin(step * 12.9898 + seed) * 0.5
        gone = 0.0 if dies is None else min(1.0, max(0, step - dies) / 25)
        solved, failed = 0.08 + 0.02 * wave, 0.12 + 0.02 * noise + 0.78 * gone
        metrics: dict[str, float | None] = {
            "entropy/mean": (1.1 + 0.06 * wave + 0.05 * noise) * (1 - 0.97 * gone),
            "groups/zero_std": min(1.0, solved * (1 - gone) + failed + 0.02),
            "groups/solved": solved * (1 - gone),
            "groups/failed": min(0.98, failed),
            "groups/stuck": 0.02,
            "groups/reward_std": 0.4 * (1 - gone),
            "groups/wasted_tokens": min(1.0, solved + failed),
            "reward/mean": (0.35 + 0.001 * min(step, dies or step) + 0.04 * noise) * (1 - 0.95 * gone),
            "reward/accuracy": 0.3 + 0.03 * noise,
            "length/mean": 220 + 12 * wave + 90 * gone,
            "length/correct": None if gone == 1 and step % 3 else 190 + 9 * wave,
            "length/incorrect": 250 + 14 * noise + 80 * gone,
            "length/truncated": 0.05 + 0.3 * gone,
            "grad/norm": abs(0.4 + 0.15 * noise) * (1 - 0.9 * gone),
            "grad/applied_norm": abs(0.4 + 0.15 * noise) * (1 - 0.9 * gone),
            "loss": 0.01 * noise,
            "lr": 1e-6,
            "kl/ref": 0.0004 * step,
            "step_seconds": 31.0,
            "raw/perf/mfu": 0.4,
        }
        records.append(StepRecord(step, 1.7e9 + 31 * step, metrics))
    config = {"learning_rate": 1e-6, "loss_type": "dapo", "num_generations": 8, **info}
    return Run(
        name, f"logs/{name}.jsonl", "trl-console", "trl", records, {"config": config}, ["The steps were inferred."]
    )


def made(name: str = "grpo", steps: int = 200, **more: Any) -> Analysis:
    return analyze_run(made_run(name, steps, **more))


def not_finite() -> Analysis:
    run = made_run("nan", 120)
    for record in run.records[80:90]:
        record.metrics.update({"loss": math.nan, "grad/norm": math.inf})  # type: ignore[attr-defined]
    return analyze_run(run)
