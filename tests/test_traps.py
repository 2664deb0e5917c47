"""Where TRL's own numbers mislead, and ours do not: each on a real training."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rlwatch import watch
from rlwatch.runs.reader import read_records
from tiny import PROMPTS, odd_digit, quiet
from truth import Truth

Train = Callable[..., tuple[list[dict[str, Any]], list[dict[str, Any]]]]


@pytest.fixture
def train(make_trainer: Any, tmp_path: Path) -> Train:
    """Trains and gives, step by step, what TRL logged and what rlwatch recorded."""

    def run(*, before: Callable[[Any], None] | None = None, **settings: Any) -> Any:
        trainer = make_trainer(**settings)
        if before is not None:
            before(trainer)
        watcher = watch(trainer, dir=tmp_path / "runs", split_every=1)
        trainer.train()
        assert watcher.run_dir is not None
        logged = [row for row in trainer.state.log_history if "loss" in row]
        return logged, [dict(record.metrics) for record in read_records(watcher.run_dir).items]

    return run


def by_completion(rewards: Callable[[int], float]) -> Any:
    """A reward that depends on the place in the batch alone: siblings stand side by side."""

    def reward(completions: list[str], **_: Any) -> list[float]:
        return [rewards(index) for index in range(len(completions))]

    return reward


def test_entropy_and_kl_as_a_mean_of_micro_batches(train: Train) -> None:
    truth = Truth()
    settings = {"beta": 0.1, "num_iterations": 2, "max_steps": 4, "learning_rate": 3e-2, "loss_type": "grpo"}
    logged, ours = train(reward_funcs=[odd_digit, truth.reward], callbacks=[truth], before=truth.listen, **settings)
    for mine, true in zip(ours, truth.steps, strict=True):
        assert mine["entropy/mean"] == pytest.approx(true["entropy/mean"], rel=1e-6)
        assert mine["kl/ref"] == pytest.approx(true["kl/ref"], rel=1e-6, abs=1e-9)
    assert max(abs(row["entropy"] - true["entropy/mean"]) for row, true in zip(logged, truth.steps, strict=True)) > 1e-4
    late = list(zip(logged, truth.steps, strict=True))[1:]
    assert max(abs(row["kl"] / true["kl/ref"] - 1) for row, true in late) > 0.01


def test_entropy_with_masked_micro_batches(train: Train) -> None:
    """A micro-batch in which every row is truncated and masked counts as entropy 0 in TRL's mean."""
    truth = Truth()
    logged, ours = train(
        reward_funcs=[odd_digit, truth.reward],
        callbacks=[truth],
        before=truth.listen,
        mask_truncated_completions=True,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=12,
        max_completion_length=3,
    )
    assert min(row["entropy"] for row in logged) < 1.0
    for mine, true in zip(ours, truth.steps, strict=True):
        assert mine["entropy/mean"] == pytest.approx(true["entropy/mean"], rel=1e-6)
        assert mine["entropy/mean"] > 2.5


def test_dead_groups_that_batch_scaling_hides(train: Train) -> None:
    """Two of three groups earn the same throughout; the batch's deviation is not zero."""
    reward = by_completion(lambda i: float(i < 4) if i >= 4 else float(i % 2))
    logged, ours = train(reward_funcs=[reward], scale_rewards="batch")
    assert [row["frac_reward_zero_std"] for row in logged] == [0.0] * 3
    assert [mine["groups/zero_std"] for mine in ours] == [pytest.approx(2 / 3)] * 3


def test_equal_rewards_whose_float32_deviation_is_not_zero(train: Train) -> None:
    logged, ours = train(
        reward_funcs=[by_completion(lambda i: 3.3)],
        num_generations=8,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=1,
    )
    assert logged[0]["frac_reward_zero_std"] == 0.0
    assert [mine["groups/zero_std"] for mine in ours] == [1.0] * 3


def test_rloo_tests_for_zero_variance_after_folding_the_kl_in(tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    from rlwatch.lab.model import make_config, make_model, make_tokenizer

    tokenizer = make_tokenizer()
    make_model(make_config(tokenizer), seed=0).save_pretrained(tmp_path / "model")
    config = RLOOConfig(
        **quiet(tmp_path / "out"),
        max_steps=3,
        beta=0.5,
        learning_rate=1e-1,
        optim="sgd",
        num_generations=4,
        per_device_train_batch_size=8,
        max_completion_length=8,
        reward_weights=[1.0],
    )
    calls: list[int] = []

    def dead_from_the_second_batch_on(completions: list[str], **_: Any) -> list[float]:
        calls.append(1)
        return odd_digit([], completions) if len(calls) == 1 else [0.0] * len(completions)

    trainer = RLOOTrainer(
        model=str(tmp_path / "model"),
        reward_funcs=[dead_from_the_second_batch_on],
        args=config,
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=tokenizer,
    )
    watcher = watch(trainer, dir=tmp_path / "runs")
    trainer.train()
    assert watcher.run_dir is not None
    logged = [row["frac_reward_zero_std"] for row in trainer.state.log_history if "frac_reward_zero_std" in row]
    ours = [record.metrics["groups/zero_std"] for record in read_records(watcher.run_dir).items]
    assert logged[1:] == [0.0, 0.0]
    assert ours[1:] == [1.0, 1.0]


def test_reward_std_of_the_batch_where_every_group_is_dead(train: Train) -> None:
    logged, ours = train(reward_funcs=[by_completion(lambda i: float(i // 4 == 0))])
    for row, mine in zip(logged, ours, strict=True):
        assert row["reward_std"] > 0.45
        assert mine["reward/std"] == pytest.approx(row["reward_std"], rel=1e-5)
        assert mine["groups/reward_std"] == 0.0
        assert mine["groups/zero_std"] == 1.0
        assert mine["grad/norm"] == 0.0


def test_the_gradient_norm_of_the_last_step_of_a_window(train: Train) -> None:
    calls: list[int] = []

    def dead_every_fourth_time(completions: list[str], **_: Any) -> list[float]:
        calls.append(1)
        return [0.0] * len(completions) if len(calls) % 4 == 0 else [float(i % 2) for i in range(len(completions))]

    logged, ours = train(reward_funcs=[dead_every_fourth_time], max_steps=4, logging_steps=4)
    assert [row["grad_norm"] for row in logged] == [0.0]
    norms = [mine["grad/norm"] for mine in ours]
    assert min(norms[:3]) > 0.1
    assert norms[3] == 0.0


def test_cispo_with_the_default_ceiling_cuts_every_weight_to_a_fifth(train: Train) -> None:
    settings = {"loss_type": "cispo", "max_steps": 1, "reward_funcs": [by_completion(lambda i: float(i % 2))]}
    _, (cut,) = train(**settings)
    _, (whole,) = train(epsilon_high=5.0, **settings)
    assert cut["ratio/max"] == 1.0, "the ratio is exactly 1"
    assert cut["clip/high"] > 0.3, "and yet every token with a positive advantage is over the ceiling"
    assert whole["clip/high"] == 0.0
    assert cut["grad/policy_norm"] / whole["grad/policy_norm"] == pytest.approx(0.2, rel=1e-5)


def test_a_clip_that_is_inert_shows_as_a_ratio_of_exactly_one(train: Train) -> None:
    logged, ours = train(epsilon=1e-6)
    for row, mine in zip(logged, ours, strict=True):
        assert row["clip_ratio/region_mean"] == 0.0  # as if nothing had come near the clip
        assert mine["clip/high"] == mine["clip/low"] == 0.0
        assert mine["ratio/mean"] == mine["ratio/max"] == 1.0
        assert mine["kl/old"] == 0.0


def test_the_samplers_ratio_before_it_is_masked(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL's vLLM path, with vLLM's answers from a rollout_func: there is no vLLM on a CPU."""

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        end = trainer.processing_class.eos_token_id
        generator = torch.Generator().manual_seed(trainer.state.global_step)
        rows = [[*torch.randint(3, 20, (3,), generator=generator).tolist(), end] for _ in prompts]
        logprobs = (-5 + 3 * torch.rand(len(rows), 4, generator=generator)).tolist()
        ids = trainer.processing_class(prompts, add_special_tokens=False)["input_ids"]
        return {"prompt_ids": ids, "completion_ids": rows, "logprobs": logprobs}

    def as_with_vllm(trainer: Any) -> None:
        class Weights:
            def sync_weights(self) -> None:
                pass

        trainer.use_vllm, trainer.vllm_generation, trainer._last_loaded_step = True, Weights(), -1
        trainer.vllm_importance_sampling_mode = "token_mask"
        trainer.vllm_importance_sampling_clip_max = 2.0

    logged, ours = train(rollout_func=rollout, before=as_with_vllm, max_steps=2)
    for row, mine in zip(logged, ours, strict=True):
        assert row["sampling/importance_sampling_ratio/max"] <= 2.0
        assert row["sampling/importance_sampling_ratio/mean"] < mine["sampler/ratio_mean"]
        assert mine["sampler/ratio_mean"] > 1.2
        assert mine["sampler/logp_gap_max"] == pytest.approx(row["sampling/sampling_logp_difference/max"], rel=1e-5)


def test_the_steps_that_use_a_generation_again_have_its_numbers(train: Train) -> None:
    logged, ours = train(num_iterations=2, max_steps=4)
    assert [("reward" in row) for row in logged] == [True, False, True, False]
    assert [mine["reward/mean"] for mine in ours] == [pytest.approx(logged[index]["reward"]) for index in (0, 0, 2, 2)]
    assert [mine["rollouts/age"] for mine in ours] == [0, 1, 0, 1]


def test_where_everything_is_truncated_lengths_are_not_zero(train: Train) -> None:
    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        ids = trainer.processing_class(prompts, add_special_tokens=False)["input_ids"]
        rows = [[5, 6, 7, 8] for _ in prompts]
        return {"prompt_ids": ids, "completion_ids": rows, "logprobs": [[-1.0] * 4 for _ in rows]}

    logged, ours = train(rollout_func=rollout, reward_funcs=[by_completion(lambda i: float(i % 2))])
    for row, mine in zip(logged, ours, strict=True):
        assert row["completions/mean_terminated_length"] == 0.0
        assert mine["length/mean"] == 4.0
        assert mine["length/truncated"] == 1.0


def test_a_near_tie_is_a_full_advantage(train: Train) -> None:
    logged, ours = train(reward_funcs=[by_completion(lambda i: 0.5 + 1e-3 * (i % 4 == 0))])
    for row, mine in zip(logged, ours, strict=True):
        assert row["frac_reward_zero_std"] == mine["groups/zero_std"] == 0.0
        assert mine["groups/reward_std"] == pytest.approx(5e-4, rel=1e-3), "next to nothing sets siblings apart"
        assert mine["signal/abs_advantage"] > 0.5, "and the update is as large as ever"
    assert statistics.fmean(mine["grad/effective_norm"] for mine in ours) > 0.1
