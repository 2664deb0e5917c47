"""Which loss makes wrong answers grow: predicted from the configuration and the first steps, held against outcomes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from rich.console import Console  # noqa: E402

from rlwatch.audit.drift import drift_of, measured_drift  # noqa: E402
from rlwatch.audit.read import read  # noqa: E402
from rlwatch.lab.experiments.length_bias import EXPERIMENT  # noqa: E402
from rlwatch.lab.lengths_task import first_policy  # noqa: E402
from rlwatch.lab.single import run_arm  # noqa: E402
from rlwatch.readers import load  # noqa: E402
from rlwatch.report.audit_measured import FIRST, first_drift  # noqa: E402

GREW = 2.5
"""Tokens: of five seeds each, in 30 steps the gap grew by 3.8 to 17.0 under grpo and by −0.7 to 1.1 under dr_grpo."""


@pytest.mark.parametrize(
    ("loss_type", "elasticity"),
    [("grpo", -1.0), ("sapo", -1.0), ("dapo", 0.0), ("dr_grpo", 0.0), ("bnpo", 0.0), ("luspo", 0.0), ("cispo", 0.0)],
)
def test_the_configuration_alone_says_it(loss_type: str, elasticity: float) -> None:
    found = drift_of(read({"num_generations": 8, "loss_type": loss_type}))
    assert found.elasticity == pytest.approx(elasticity, abs=1e-9)
    assert found.wrong_answers_grow == (elasticity < 0)


@given(st.floats(-1.5, 0.5), st.integers(0, 1000))
def test_the_slope_is_found_again(elasticity: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths, advantages = rng.integers(2, 200, 60).astype(float), rng.normal(size=60) + 0.01
    weights = np.abs(advantages) * lengths * lengths**elasticity
    found = measured_drift(weights, advantages, lengths)
    assert found is not None
    assert found.elasticity == pytest.approx(elasticity, abs=1e-6)


def test_it_is_silent_where_it_cannot_know() -> None:
    many = np.full(50, 7.0)
    assert measured_drift(many, many, many) is None, "one length"
    few = np.arange(1.0, 11.0)
    assert measured_drift(few, few, few) is None
    assert measured_drift(np.zeros(50), np.ones(50), np.arange(1.0, 51.0)) is None


@pytest.mark.parametrize("arm", ["grpo", "dr_grpo"])
def test_in_the_lab_it_comes_as_predicted(arm: str, tmp_path: Path, first_policies: Path) -> None:
    """The prediction sees the configuration and the first five steps; the outcome is the gap 30 steps on."""
    torch.set_num_threads(1)
    quiet = Console(quiet=True)
    start = first_policy(0, cache=first_policies)
    result = run_arm(EXPERIMENT, EXPERIMENT.arm(arm), start, tmp_path, seed=0, steps=30, console=quiet)
    (run,) = load(result.run_dir)
    from_first_steps, from_config = first_drift(run), drift_of(read(result.run_dir))
    shards = sorted((result.run_dir / "rollouts").glob("*.parquet"))
    assert len(shards) > FIRST, "it does not see what comes later"
    assert pl.read_parquet(shards[0]).height > 0
    gaps = [r.metrics["length/gap"] for r in run.records if r.metrics.get("length/gap") is not None]
    grew = sum(gaps[-5:]) / 5 - sum(gaps[:5]) / 5 > GREW  # type: ignore[arg-type]
    assert from_first_steps is not None
    assert from_first_steps.wrong_answers_grow == grew, from_first_steps
    assert from_config.wrong_answers_grow == grew
    assert from_first_steps.elasticity == pytest.approx(from_config.elasticity, abs=0.05)
