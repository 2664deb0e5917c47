"""The ratios: PPO's loop against loops by hand, and what is left of four bounds with one update a rollout."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from rich.console import Console  # noqa: E402

from rlwatch.lab.campaign import MARK, Job, train_one  # noqa: E402
from rlwatch.lab.experiments.ratios import EXPERIMENT, cut, largest_fall  # noqa: E402
from rlwatch.lab.first_policy import FirstPolicy  # noqa: E402
from rlwatch.lab.ppo_loop import PPO, clipped_losses, until_end  # noqa: E402
from rlwatch.lab.ratios import build  # noqa: E402
from rlwatch.lab.single import run_once  # noqa: E402
from rlwatch.lab.warm_start import warm_start  # noqa: E402
from rlwatch.runs.reader import read_records  # noqa: E402
from rlwatch.runs.records import AlertState, StepRecord  # noqa: E402


@pytest.fixture(scope="module")
def start(first_policies: Path) -> FirstPolicy:
    return warm_start(0, cache=first_policies)


def test_ppos_loss_and_where_its_gradient_is_cut() -> None:
    generator = torch.Generator().manual_seed(0)
    logps = (-torch.rand(20, 3, generator=generator)).requires_grad_()
    old, advantages = -torch.rand(20, 3, generator=generator), torch.randn(20, generator=generator)
    losses = clipped_losses(logps, old, advantages, 0.2)
    losses.sum().backward()  # type: ignore[no-untyped-call]
    assert logps.grad is not None
    cuts = 0
    for row in range(20):
        a = float(advantages[row])
        for place in range(3):
            r = math.exp(float(logps[row, place].detach() - old[row, place]))
            assert float(losses[row, place].detach()) == pytest.approx(-min(r * a, min(max(r, 0.8), 1.2) * a), rel=1e-5)
            is_cut = (a > 0 and r > 1.2) or (a < 0 and r < 0.8)
            assert float(logps.grad[row, place]) == pytest.approx(0.0 if is_cut else -a * r, rel=1e-5)
            cuts += is_cut
    assert 5 < cuts < 55


def test_what_counts_of_a_completion() -> None:
    generator = torch.Generator().manual_seed(1)
    sampled = torch.randint(0, 4, (50, 4), generator=generator)
    for row, mask in zip(sampled.tolist(), until_end(sampled, end=1).tolist(), strict=True):
        kept = row.index(1) + 1 if 1 in row else 4
        assert mask == [1.0] * kept + [0.0] * (4 - kept)


def test_the_loop_is_watched_where_and_as_it_was_told(start: FirstPolicy, tmp_path: Path) -> None:
    loop = build(EXPERIMENT.arm("ppo-16"), start, seed=0, steps=17, output_dir=tmp_path / "out")
    assert isinstance(loop, PPO)
    loop.watch_as(tmp_path, "mine")
    loop.train()
    assert loop.run_dir == tmp_path / "mine"
    records = read_records(loop.run_dir).items
    assert [record.step for record in records] == list(range(1, 18))
    for step in (0, 16):  # a new rollout: the policy is the one that sampled it
        assert records[step].metrics["ratio/max"] == pytest.approx(1.0, abs=1e-5)
        assert cut([records[step]]) == 0
    assert any(cut([record]) for record in records[1:16])
    kl = [record.metrics["kl/old"] or 0.0 for record in records]
    assert kl[15] > 2 * kl[1] > 0
    assert "groups/zero_std" not in records[0].metrics


def test_the_loop_gives_the_same_numbers_for_the_same_seed(start: FirstPolicy, tmp_path: Path) -> None:
    states: list[dict[str, Any]] = []
    for name, seed in (("one", 5), ("again", 5), ("other", 6)):
        loop = build(EXPERIMENT.arm("ppo-16"), start, seed=seed, steps=2, output_dir=tmp_path / "out")
        loop.watch_as(tmp_path, name)
        loop.train()
        states.append({key: value.clone() for key, value in loop.model.state_dict().items()})
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert not all(torch.equal(states[0][key], states[2][key]) for key in states[0])


def trained(name: str, start: FirstPolicy, folder: Path, steps: int) -> dict[str, Any]:
    trainer = build(EXPERIMENT.arm(name), start, seed=0, steps=steps, output_dir=folder / name)
    trainer.train()
    return dict(trainer.model.state_dict())


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    return math.sqrt(sum(float((one[key] - other[key]).square().sum()) for key in one))


def test_with_one_update_a_rollout_the_ratio_of_a_completion_is_that_of_its_tokens(
    start: FirstPolicy, tmp_path: Path
) -> None:
    token, sequence = (trained(name, start, tmp_path, 2) for name in ("grpo-1", "gspo-1"))
    moved = distance(token, start.state)
    assert moved > 1e-3
    assert distance(token, sequence) < 1e-3 * moved


def test_with_four_updates_it_hardly_moves_any_more_and_the_weights_bound_moves_furthest(
    start: FirstPolicy, tmp_path: Path
) -> None:
    moved = {
        name: distance(trained(name, start, tmp_path, 6), start.state) for name in ("grpo-16", "gspo-16", "cispo-16")
    }
    assert moved["gspo-16"] < 0.8 * moved["grpo-16"]
    assert moved["cispo-16"] > 0.95 * moved["grpo-16"]


def test_the_arms_differ_in_the_updates_of_a_rollout_alone() -> None:
    for name in ("grpo", "gspo", "cispo"):
        off, on = dict(EXPERIMENT.arm(f"{name}-16").settings), dict(EXPERIMENT.arm(f"{name}-1").settings)
        assert (off.pop("num_iterations"), on.pop("num_iterations")) == (16, 1)
        assert off == on
    assert EXPERIMENT.arm("ppo-16").settings == EXPERIMENT.arm("grpo-16").settings


def test_measures() -> None:
    rewards = [0.1, 0.5, 0.3, 0.6, 0.2, 0.4]
    records = [
        StepRecord(i + 1, 0.0, {"reward/mean": r, "clip/low": 0.1, "clip/high": r}) for i, r in enumerate(rewards)
    ]
    assert largest_fall(records) == pytest.approx(0.4)
    assert cut(records) == pytest.approx(0.1 + sum(rewards) / 6)
    assert cut([StepRecord(1, 0.0, {"clip/high": 0.2})]) is None  # CISPO


def test_a_short_run_with_its_alerts_and_a_campaigns_mark(tmp_path: Path, first_policies: Path) -> None:
    arms = [EXPERIMENT.arm("ppo-16"), EXPERIMENT.arm("gspo-16")]
    ppo, gspo = run_once(
        EXPERIMENT, arms, tmp_path, seed=1, steps=24, console=Console(file=io.StringIO()), cache=first_policies
    )
    assert ppo.run_dir == tmp_path / "ratios-ppo-16"
    assert len(ppo.records) == len(gspo.records) == 24
    assert "clip-saturated" in {alert.rule for alert in gspo.alerts if alert.state is AlertState.FIRING}
    one, other = cut(ppo.records), cut(gspo.records)
    assert one is not None
    assert other is not None
    assert other > 0.2
    assert other > one
    train_one(str(tmp_path / "many"), Job("ratios", "ppo-16", 1, 2))
    found = json.loads((tmp_path / "many" / "ratios-ppo-16-seed1" / MARK).read_text())
    assert found["job"]["arm"] == "ppo-16"
