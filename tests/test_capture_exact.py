"""What rlwatch records of a real GRPOTrainer, against a recomputation from raw tensors that shares no code with it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from transformers import TrainerCallback

from rlwatch import RLWatchCallback, watch
from rlwatch.runs.reader import read_info, read_records
from tiny import brevity, odd_digit


class Recorder(TrainerCallback):
    """Keeps the raw tensors of every step: micro-batches with the weights they met, rewards, gradients."""

    def __init__(self) -> None:
        self.micro_batches: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.generations: list[dict[str, Any]] = []

    def listen(self, trainer: Any) -> None:
        self.trainer = trainer
        compute_loss, training_step = trainer.compute_loss, trainer.training_step

        def recorded_loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if model.training:
                self.micro_batches.append(self.entropies(model, inputs))
            return compute_loss(model, inputs, *args, **kwargs)

        def recorded_step(*args: Any, **kwargs: Any) -> Any:
            loss = training_step(*args, **kwargs)
            self.micro_batches[-1]["loss"] = loss.item()
            return loss

        trainer.compute_loss, trainer.training_step = recorded_loss, recorded_step

    def entropies(self, model: Any, inputs: Any) -> dict[str, Any]:
        """Token entropies from the full logits in float64, over the tokens that the loss sees."""
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=attention).logits.double()
        width = inputs["completion_ids"].shape[1]
        logp = (logits[:, -width - 1 : -1] / self.trainer.temperature).log_softmax(-1)
        entropy = -(logp.exp() * logp).sum(-1)
        tokens = [
            entropy[row, column].item()
            for row in range(width and ids.shape[0])
            for column in range(width)
            if inputs["completion_mask"][row, column].item() == 1
            and ("tool_mask" not in inputs or inputs["tool_mask"][row, column].item() == 1)
        ]
        return {"entropies": tokens}

    def reward(self, prompts: Any, completions: Any, completion_ids: Any, **_: Any) -> list[float]:
        """A third reward function, of no value, that sees what is rewarded."""
        if self.trainer.model.training:
            first = odd_digit(prompts, completions)
            second = brevity(completion_ids)
            ends = {self.trainer.processing_class.eos_token_id, self.trainer.processing_class.pad_token_id}
            self.generations.append(
                {
                    "total": [a + 0.5 * b for a, b in zip(first, second, strict=True)],
                    "correct": [value == 1.0 for value in first],
                    "brevity": second,
                    "length": [len(ids) for ids in completion_ids],
                    "truncated": [ids[-1] not in ends for ids in completion_ids],
                }
            )
        return [0.0] * len(prompts)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any, optimizer: Any, **_: Any) -> None:
        squares = sum(float((p.grad.double() ** 2).sum()) for p in model.parameters() if p.grad is not None)
        self.steps.append({"applied": math.sqrt(squares), "lr": optimizer.param_groups[0]["lr"]})

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.steps[-1]["micro_batches"], self.micro_batches = self.micro_batches, []
        self.steps[-1]["generations"] = list(self.generations)


CONFIGS = {
    "one update a rollout": {},
    "clipped gradient": {"max_grad_norm": 0.05},
    "a rollout split over several steps": {"steps_per_generation": 6},
    "several rollouts a step": {"steps_per_generation": 1},
    "several updates a rollout": {"num_iterations": 2, "max_steps": 4},
    "truncated rows masked": {"mask_truncated_completions": True},
    "evaluation in between": {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4},
    "batch scaling": {"scale_rewards": "batch", "loss_type": "dr_grpo"},
}


def generations_of(step: int, settings: dict[str, Any]) -> slice:
    """Which generations a step trains on, by TRL's own arithmetic: micro-batches are counted from 0."""
    accumulation, per_generation = 3, settings.get("steps_per_generation", 3)
    every = per_generation * settings.get("num_iterations", 1)
    first, last = (step - 1) * accumulation // every, (step * accumulation - 1) // every
    return slice(first, last + 1)


@pytest.mark.parametrize("name", CONFIGS)
def test_metrics_equal_a_recomputation_from_raw_tensors(name: str, make_trainer: Any, tmp_path: Path) -> None:
    settings = CONFIGS[name]
    recorder = Recorder()
    trainer = make_trainer(
        reward_funcs=(odd_digit, brevity, recorder.reward),
        callbacks=[recorder],
        reward_weights=[1.0, 0.5, 1.0],
        **settings,
    )
    recorder.listen(trainer)
    watcher = watch(trainer, dir=tmp_path / "runs", correct="odd_digit")
    trainer.train()

    assert watcher.run_dir is not None
    records = read_records(watcher.run_dir).items
    assert [record.step for record in records] == list(range(1, trainer.state.max_steps + 1))
    assert read_info(watcher.run_dir).get("faults") is None
    best, worst = -math.inf, math.inf
    seen = 0
    for record, step in zip(records, recorder.steps, strict=True):
        metrics = record.metrics
        tokens = [entropy for batch in step["micro_batches"] for entropy in batch["entropies"]]
        assert metrics["entropy/mean"] == pytest.approx(sum(tokens) / len(tokens), rel=1e-6)
        assert metrics["loss"] == pytest.approx(sum(b["loss"] for b in step["micro_batches"]), rel=1e-6, abs=1e-12)
        assert metrics["grad/applied_norm"] == pytest.approx(step["applied"], rel=1e-6)
        assert metrics["grad/effective_norm"] == metrics["grad/applied_norm"]
        assert metrics["grad/norm"] >= metrics["grad/applied_norm"] * (1 - 1e-6)
        assert metrics["lr"] == step["lr"]
        assert metrics["step_seconds"] > 0

        mine = step["generations"][generations_of(record.step, settings)]
        for generation in recorder.generations[seen : generations_of(record.step, settings).stop]:
            best, worst = max(best, *generation["total"]), min(worst, *generation["total"])
            kinds = {"solved": 0, "failed": 0, "stuck": 0}
            for group in range(len(generation["total"]) // 4):
                rewards = generation["total"][group * 4 : group * 4 + 4]
                if max(rewards) - min(rewards) < 1e-6:
                    level = "solved" if rewards[0] > best - 1e-6 else "failed" if rewards[0] < worst + 1e-6 else "stuck"
                    kinds[level] += 1
            generation["kinds"] = kinds
        seen = generations_of(record.step, settings).stop
        rows = {
            key: [x for g in mine for x in g[key]] for key in ("total", "correct", "brevity", "length", "truncated")
        }
        groups = [rows["total"][i : i + 4] for i in range(0, len(rows["total"]), 4)]
        counts = {kind: sum(g["kinds"][kind] for g in mine) / len(groups) for kind in ("solved", "failed", "stuck")}
        right = [n for n, c in zip(rows["length"], rows["correct"], strict=True) if c]
        wrong = [n for n, c in zip(rows["length"], rows["correct"], strict=True) if not c]
        expected = {
            "reward/mean": statistics.fmean(rows["total"]),
            "reward/std": statistics.stdev(rows["total"]),
            "reward/odd_digit": statistics.fmean(rows["correct"]),
            "reward/brevity": statistics.fmean(rows["brevity"]),
            "groups/reward_std": statistics.fmean(statistics.stdev(group) for group in groups),
            "groups/zero_std": sum(counts.values()),
            "groups/solved": counts["solved"],
            "groups/failed": counts["failed"],
            "groups/stuck": counts["stuck"],
            "length/mean": statistics.fmean(rows["length"]),
            "length/truncated": statistics.fmean(rows["truncated"]),
            "length/share_correct": statistics.fmean(rows["correct"]),
        }
        for key, value in expected.items():
            assert metrics[key] == pytest.approx(value, rel=1e-6, abs=1e-9), key
        for key, lengths in (("length/correct", right), ("length/incorrect", wrong)):
            if lengths:
                assert metrics[key] == pytest.approx(statistics.fmean(lengths), rel=1e-6)
            else:
                assert key not in metrics

    assert any(len({len(b["entropies"]) for b in step["micro_batches"]}) > 1 for step in recorder.steps), (
        "micro-batches of one size cannot tell a mean from a mean of means"
    )


def test_the_entropy_is_not_the_mean_of_means_that_trl_logs(make_trainer: Any, tmp_path: Path) -> None:
    recorder = Recorder()
    trainer = make_trainer(callbacks=[recorder], mask_truncated_completions=True, max_completion_length=3)
    recorder.listen(trainer)
    watcher = watch(trainer, dir=tmp_path / "runs")
    trainer.train()
    assert watcher.run_dir is not None
    logged = [row["entropy"] for row in trainer.state.log_history if "entropy" in row]
    ours = [record.metrics["entropy/mean"] for record in read_records(watcher.run_dir).items]
    true = [statistics.fmean(e for b in step["micro_batches"] for e in b["entropies"]) for step in recorder.steps]
    assert ours == pytest.approx(true, rel=1e-6)
    assert max(abs(a - b) for a, b in zip(logged, true, strict=True)) > 1e-3


def test_the_rollouts_on_disk_are_those_that_were_rewarded(make_trainer: Any, tmp_path: Path) -> None:
    recorder = Recorder()
    trainer = make_trainer(reward_funcs=(odd_digit, recorder.reward), callbacks=[recorder], steps_per_generation=1)
    recorder.listen(trainer)
    watcher = watch(trainer, dir=tmp_path / "runs", correct="odd_digit")
    trainer.train()
    assert watcher.run_dir is not None
    shards = sorted((watcher.run_dir / "rollouts").iterdir())
    assert [shard.name for shard in shards] == [f"step-{step:06d}.parquet" for step in (1, 2, 3)]
    table = pl.concat([pl.read_parquet(shard) for shard in shards])
    assert table["length"].to_list() == [n for g in recorder.generations for n in g["length"]]
    assert table["correct"].to_list() == [c for g in recorder.generations for c in g["correct"]]
    assert table["truncated"].to_list() == [t for g in recorder.generations for t in g["truncated"]]
    assert table["reward/odd_digit"].to_list() == [float(c) for g in recorder.generations for c in g["correct"]]
    groups = table.group_by("step", "group", maintain_order=True).agg(pl.len(), pl.col("advantage").sum())
    assert groups["len"].to_list() == [4] * 9
    assert groups["advantage"].abs().max() < 1e-5  # an advantage is measured from its group's mean


def test_a_callback_among_the_callbacks_is_enough(make_trainer: Any, tmp_path: Path) -> None:
    watcher = RLWatchCallback(tmp_path / "runs", name="mine")
    make_trainer(callbacks=[watcher]).train()
    assert watcher.run_dir == tmp_path / "runs" / "mine"
    assert len(read_records(watcher.run_dir).items) == 3
    info = read_info(watcher.run_dir)
    assert info["config"]["num_generations"] == 4
    assert info["reward_functions"] == {"odd_digit": 1.0}
    assert "ended" in info


def test_watching_twice_is_refused(make_trainer: Callable[..., Any]) -> None:
    trainer = make_trainer(callbacks=[RLWatchCallback()])
    with pytest.raises(ValueError, match="watched already"):
        watch(trainer)


def test_a_wrong_name_for_correct_is_an_error_before_the_training_begins(make_trainer: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"'acuracy'.*these are: odd_digit"):
        watch(make_trainer(), correct="acuracy")
    with pytest.raises(TypeError, match="not 3"):
        RLWatchCallback(correct=3)  # type: ignore[arg-type]


def test_a_wrong_name_in_the_callback_costs_only_the_split(
    make_trainer: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = RLWatchCallback(tmp_path / "runs", correct="acuracy")
    make_trainer(callbacks=[watcher]).train()
    assert watcher.run_dir is not None
    assert "length/share_correct" not in read_records(watcher.run_dir).items[0].metrics
    assert "'acuracy', which is not a reward function" in capsys.readouterr().out
