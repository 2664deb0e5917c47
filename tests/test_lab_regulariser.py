"""The regulariser: a verifier that breaks, and what is left of the gradient then, in a short real run."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("torch")
pytest.importorskip("trl")

from rlwatch.lab.experiments.regulariser import EXPERIMENT
from rlwatch.lab.regulariser import breaking, true_accuracy
from rlwatch.lab.single import run_once
from rlwatch.lab.task import accuracy_reward


def test_a_verifier_is_sound_for_so_many_rollouts_and_then_says_0() -> None:
    verifier = breaking(accuracy_reward, "accuracy", 2)
    assert verifier.__name__ == "accuracy"
    assert [verifier(["07", "07"], ["b6", "a1"]) for _ in range(4)] == [[1.0, 0.0]] * 2 + [[0.0, 0.0]] * 2
    for_ever = breaking(accuracy_reward, "accuracy", 0)
    assert [for_ever(["07"], ["b6"]) for _ in range(4)] == [[1.0]] * 4
    assert true_accuracy(["07", "07"], ["b6", "a1"]) == [1.0, 0.0]


def test_under_a_penalty_the_norm_is_alive_and_without_one_it_is_0(tmp_path: Path, first_policies: Path) -> None:
    arms = [dataclasses.replace(EXPERIMENT.arm(name), task={"sound": 1}) for name in ("kl", "no-kl")]
    kl, without = run_once(
        EXPERIMENT, arms, tmp_path, seed=0, steps=16, console=Console(file=io.StringIO()), cache=first_policies
    )
    for result in (kl, without):
        assert [record.step for record in result.records] == list(range(1, 17))
        assert all(record.metrics["groups/failed"] == 1 for record in result.records[8:])
        assert (result.records[0].metrics["reward/mean"] or 0) > 0.3
    dead = [record.metrics for record in kl.records[8:]]
    assert all((metrics["grad/norm"] or 0) > 1e-4 for metrics in dead)
    parts = [part for metrics in dead if (part := metrics.get("grad/policy_norm")) is not None]
    assert parts
    assert max(parts) < 1e-6
    assert all(record.metrics["grad/norm"] == 0 for record in without.records[8:])
    assert any(record.metrics["reward/true_accuracy"] for record in kl.records[8:]), "what is true is still measured"
