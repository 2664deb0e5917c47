"""What other decisions would have made of a batch: real GRPOTrainers against gradients taken one loss at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from rlwatch import RLWatchCallback
from rlwatch.capture import counterfactual
from rlwatch.capture.counterfactual import compared
from rlwatch.runs.reader import read_info, read_records
from rlwatch.runs.records import StepRecord
from tiny import brevity, odd_digit

Make = Callable[..., Any]


def run(make_trainer: Make, root: Path, every: int = 1, also: Any = (), **config: Any) -> tuple[Any, list[StepRecord]]:
    watcher = RLWatchCallback(root, counterfactual_every=every, correct="odd_digit")
    trainer = make_trainer(reward_funcs=(odd_digit, brevity), callbacks=[*also, watcher], **config)
    trainer.train()
    assert watcher.run_dir is not None
    assert "faults" not in read_info(watcher.run_dir)
    return trainer, read_records(watcher.run_dir).items


class Relive(TrainerCallback):
    """Trains nothing: of the first step's micro-batches, takes the gradient of the trainer's own loss, set otherwise.

    TRL itself computes each loss here, so this shares no formula with rlwatch.
    """

    def __init__(self, otherwise: dict[str, Callable[[Any, dict[str, Any]], None]]) -> None:
        self.otherwise = otherwise
        self.gradients: dict[str, torch.Tensor] = {}
        self.trainer: Any = None

    def listen(self, trainer: Any) -> None:
        self.trainer = trainer
        original = trainer.compute_loss

        def recorded(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if trainer.state.global_step == 0 and model.training:
                for name, change in self.otherwise.items():
                    self._take(name, change, model, dict(inputs), original)
            return original(model, inputs, *args, **kwargs)

        trainer.compute_loss = recorded

    def _take(self, name: str, change: Any, model: Any, inputs: dict[str, Any], compute_loss: Any) -> None:
        saved = {key: getattr(self.trainer, key) for key in ("loss_type", "epsilon_high")}
        metrics = {mode: dict(values) for mode, values in self.trainer._metrics.items()}
        change(self.trainer, inputs)
        try:
            loss = type(self.trainer)._compute_loss(self.trainer, model, inputs)
        finally:
            for key, value in saved.items():
                setattr(self.trainer, key, value)
            for mode, values in metrics.items():
                self.trainer._metrics[mode].clear()
                self.trainer._metrics[mode].update(values)
        parameters = [p for p in model.parameters() if p.requires_grad]
        gradient = torch.cat([g.flatten().double() for g in torch.autograd.grad(loss, parameters)])
        known = self.gradients.get(name)
        self.gradients[name] = gradient if known is None else known + gradient


def loss_type(kind: str) -> Callable[[Any, dict[str, Any]], None]:
    return lambda trainer, _: setattr(trainer, "loss_type", kind)


@pytest.mark.parametrize("kind", ["grpo", "dapo", "bnpo", "dr_grpo"])
def test_other_denominators_give_what_trl_itself_would_give(kind: str, make_trainer: Make, tmp_path: Path) -> None:
    relive = Relive(
        {"actual": lambda *_: None, **{f"denominator-{k}": loss_type(k) for k in ("grpo", "dapo", "bnpo", "dr_grpo")}}
    )
    watcher = RLWatchCallback(tmp_path, counterfactual_every=1, correct="odd_digit")
    trainer = make_trainer(
        reward_funcs=(odd_digit, brevity), callbacks=[relive, watcher], loss_type=kind, max_steps=1, learning_rate=0.5
    )
    relive.listen(trainer)
    trainer.train()
    assert watcher.run_dir is not None
    [record] = read_records(watcher.run_dir).items
    expected = compared(relive.gradients)
    assert expected
    for name, value in expected.items():
        assert record.metrics[name] == pytest.approx(value, rel=1e-4), name
    assert record.metrics[f"counterfactual/denominator-{kind}/cosine"] == pytest.approx(1, abs=1e-6)
    other = "grpo" if kind != "grpo" else "dapo"
    assert record.metrics[f"counterfactual/denominator-{other}/cosine"] < 1 - 1e-4, "uneven lengths tell them apart"


def test_other_scalings_give_what_other_advantages_would_give(make_trainer: Make, tmp_path: Path) -> None:
    _, [record] = run(make_trainer, tmp_path, scale_rewards="group", max_steps=1)
    metrics = record.metrics
    assert metrics["counterfactual/scaling-group/cosine"] == pytest.approx(1, abs=1e-6)
    assert metrics["counterfactual/scaling-group/norm_ratio"] == pytest.approx(1, rel=1e-3)
    none, batch = (metrics[f"counterfactual/scaling-{name}/cosine"] for name in ("none", "batch"))
    assert none == pytest.approx(batch, abs=1e-6), "one divisor for all turns no gradient"
    assert none is not None
    assert none < 1 - 1e-4


@pytest.mark.parametrize("scaling", ["group", "batch", "none"])
def test_scalings_agree_from_whichever_one_starts(scaling: str, make_trainer: Make, tmp_path: Path) -> None:
    """Ratios of norms are transitive: none over group is the same number whichever of them trains."""
    _, [record] = run(make_trainer, tmp_path, scale_rewards=scaling, max_steps=1)
    ratios = {name: record.metrics[f"counterfactual/scaling-{name}/norm_ratio"] for name in ("group", "batch", "none")}
    assert ratios[scaling] == pytest.approx(1, rel=1e-3)
    _, [again] = run(make_trainer, tmp_path / "again", scale_rewards="group", max_steps=1)
    expected = again.metrics["counterfactual/scaling-none/norm_ratio"]
    assert ratios["none"] / ratios["group"] == pytest.approx(expected, rel=1e-3)  # type: ignore[operator]


def test_dead_groups_left_out_change_a_mean_over_tokens_by_a_factor(make_trainer: Make, tmp_path: Path) -> None:
    def some_alike(completions: list[str], target: list[int], **_: Any) -> list[float]:
        return [0.0 if t % 2 else float(len(c)) for c, t in zip(completions, target, strict=True)]

    watcher = RLWatchCallback(tmp_path, counterfactual_every=1)
    trainer = make_trainer(reward_funcs=(some_alike,), callbacks=[watcher], loss_type="dapo", max_steps=1)
    trainer.train()
    assert watcher.run_dir is not None
    [record] = read_records(watcher.run_dir).items
    wasted = record.metrics["groups/wasted_tokens"]
    assert wasted is not None
    assert 0 < wasted < 1
    assert record.metrics["counterfactual/drop-dead/cosine"] == pytest.approx(1, abs=1e-6)
    assert record.metrics["counterfactual/drop-dead/norm_ratio"] == pytest.approx(1 / (1 - wasted), rel=1e-5)


def test_a_wider_clip_changes_nothing_on_policy_and_something_off_it(make_trainer: Make, tmp_path: Path) -> None:
    settings = {"num_iterations": 2, "epsilon": 0.02, "learning_rate": 0.5, "optim": "sgd", "max_steps": 4}
    _, records = run(make_trainer, tmp_path, **settings)
    cosines = [r.metrics.get("counterfactual/clip-higher/cosine") for r in records]
    assert cosines[0] == pytest.approx(1, abs=1e-6)
    assert any(c is not None and c < 1 - 1e-6 for c in cosines[1:])


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_it_changes_nothing_in_the_training(beta: float, make_trainer: Make, tmp_path: Path) -> None:
    weights = []
    for every in (0, 2):
        trainer, records = run(make_trainer, tmp_path / str(every), every, beta=beta, num_iterations=2, max_steps=4)
        weights.append([p.detach().clone() for p in trainer.model.parameters()])
        measured = [r.step for r in records if any(name.startswith("counterfactual/") for name in r.metrics)]
        assert measured == ([1, 3] if every else [])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def test_a_large_model_is_judged_by_its_last_block(
    make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counterfactual, "MOST", 1000)
    _, [record] = run(make_trainer, tmp_path, loss_type="grpo", max_steps=1)
    assert record.metrics["counterfactual/denominator-grpo/cosine"] == pytest.approx(1, abs=1e-6)
    [path] = tmp_path.iterdir()
    assert read_info(path)["counterfactual"] == "gradients of the last block's weights"


def test_a_subclass_with_its_own_advantages_has_no_other_scaling(make_trainer: Make, tmp_path: Path) -> None:
    watcher = RLWatchCallback(tmp_path, counterfactual_every=1)
    trainer = make_trainer(callbacks=[watcher], max_steps=1)
    original = trainer._generate_and_score_completions

    def otherwise(inputs: Any) -> Any:
        result = original(inputs)
        result["advantages"] = result["advantages"].abs() + 0.5
        return result

    trainer._generate_and_score_completions = otherwise
    trainer.train()
    assert watcher.run_dir is not None
    [record] = read_records(watcher.run_dir).items
    names = {name.split("/")[1] for name in record.metrics if name.startswith("counterfactual/")}
    assert "denominator-grpo" in names
    assert not {name for name in names if name.startswith("scaling")}


def test_what_has_no_direction_has_no_cosine() -> None:
    one = torch.tensor([1.0, 0.0])
    found = compared({"actual": one, "same": 2 * one, "other": torch.tensor([0.0, 1.0]), "none": torch.zeros(2)})
    assert found == {
        "counterfactual/same/norm_ratio": 2.0, "counterfactual/same/cosine": 1.0,
        "counterfactual/other/norm_ratio": 1.0, "counterfactual/other/cosine": 0.0,
        "counterfactual/none/norm_ratio": 0.0,
    }  # fmt: skip
    assert compared({"actual": torch.zeros(2), "same": one}) == {}
    assert compared({}) == {}


@pytest.mark.parametrize("value", [-1, 1.5, "often"])
def test_how_often_is_a_count(value: Any) -> None:
    with pytest.raises(ValueError, match="counterfactual_every= takes a number of steps"):
        RLWatchCallback(counterfactual_every=value)


def test_every_loss_has_its_alternatives() -> None:
    from rlwatch.signals.alternatives import Siblings, alternatives
    from rlwatch.signals.losses import KNOWN, LossConfig, TokenBatch

    torch.manual_seed(0)
    mask = torch.tensor([[1.0, 1, 0], [1, 1, 1]])
    batch = TokenBatch(-torch.rand(2, 3), mask, torch.tensor([[1.0], [-1.0]]), items=torch.tensor(5.0))
    siblings = Siblings(*(torch.tensor(c)[:, None] for c in ([0.5, -0.5], [0.5, 0.5], [0.5, 0.5], [1.0, 1.0])), 5.0)  # type: ignore[arg-type]
    for kind in KNOWN:
        config = LossConfig(kind, max_completion_length=3)
        if kind == "rloo":
            found = alternatives(config, replace(batch, old_logps=(batch.logps * mask).sum(1)), siblings, "none")
            assert set(found) <= {"actual", "clip-higher"}
            continue
        found = alternatives(config, batch, siblings, "group")
        assert {"actual", "denominator-dapo", "drop-dead"} <= set(found), kind
        assert all(math.isfinite(float(g.sum())) for g in found.values())
        torch.testing.assert_close(found["drop-dead"], found["actual"])
