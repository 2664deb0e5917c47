"""Other trainers, models and precisions, each against brute force; the split, its estimate, and the self-check."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from rlwatch import RLWatchCallback, watch
from rlwatch.runs.reader import read_info, read_records
from test_capture_configs import OFF_POLICY, check
from tiny import PROMPTS, brevity, odd_digit, quiet
from truth import Truth

FREE = {"grad/regulariser_norm"}


async def odd_digit_async(completions: list[str], **_: Any) -> list[float]:
    return odd_digit([], completions)


def run(trainer: Any, truth: Truth, tmp_path: Path, **options: Any) -> Path:
    truth.listen(trainer)
    watcher = watch(trainer, dir=tmp_path / "runs", **{"split_every": 1, "correct": "odd_digit", **options})
    trainer.train()
    assert watcher.run_dir is not None
    return watcher.run_dir


def weighted(make_trainer: Any, truth: Truth, **settings: Any) -> Any:
    settings = {"reward_weights": [1.0, 0.5, 1.0], **settings}
    return make_trainer(reward_funcs=(odd_digit, brevity, truth.reward), callbacks=[truth], **settings)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_rloo(beta: float, tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    from rlwatch.lab.model import make_config, make_model, make_tokenizer

    tokenizer = make_tokenizer()
    make_model(make_config(tokenizer), seed=0).save_pretrained(tmp_path / "model")
    truth = Truth()
    trainer = RLOOTrainer(
        model=str(tmp_path / "model"),
        reward_funcs=[odd_digit, brevity, truth.reward],
        args=RLOOConfig(
            **quiet(tmp_path / "out"),
            max_steps=4,
            num_iterations=2,
            learning_rate=1e-2,
            num_generations=4,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            max_completion_length=8,
            reward_weights=[1.0, 0.5, 1.0],
            beta=beta,
        ),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=tokenizer,
        callbacks=[truth],
    )
    # Its ratio is of sums over a row, which TRL rounds to float32.
    run_dir = run(trainer, truth, tmp_path)
    check(trainer, truth, run_dir, FREE, rel=1e-5)
    assert ("kl/ref" in read_info(run_dir)["absent"]) == (beta > 0), "the KL is in the reward, and not in the loss"


def test_async_rewards(make_trainer: Any, tmp_path: Path) -> None:
    truth = Truth()
    trainer = make_trainer(
        reward_funcs=(odd_digit_async, brevity, truth.reward), callbacks=[truth], reward_weights=[1.0, 0.5, 1.0]
    )
    truth.listen(trainer)
    watcher = watch(trainer, dir=tmp_path / "runs", correct="odd_digit_async", split_every=1)
    trainer.train()
    assert watcher.run_dir is not None
    for step in truth.steps:
        step["reward/odd_digit_async"] = step.pop("reward/odd_digit")
    check(trainer, truth, watcher.run_dir, FREE)


def test_a_sampler_whose_log_probabilities_differ_and_an_environment_that_writes_tokens(
    make_trainer: Any, tmp_path: Path
) -> None:
    """A rollout_func: two of four tokens are the environment's, and the sampler reports other log-probabilities."""

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(len(truth.generations))
        end = trainer.processing_class.eos_token_id
        rows = [[*torch.randint(3, 20, (3,), generator=generator).tolist(), end] for _ in prompts]
        masks = [[1, 0, 0, 1] if index % 2 else [1, 1, 1, 1] for index in range(len(prompts))]
        logprobs = (-3 + torch.rand(len(prompts), 4, generator=generator)).tolist()
        ids = trainer.processing_class(prompts, add_special_tokens=False)["input_ids"]
        return {"prompt_ids": ids, "completion_ids": rows, "logprobs": logprobs, "env_mask": masks}

    truth = Truth()
    trainer = weighted(make_trainer, truth, rollout_func=rollout, loss_type="grpo", **OFF_POLICY)
    run_dir = run(trainer, truth, tmp_path)
    for generation in truth.generations:
        generation["length"] = [2 if index % 2 else 4 for index in range(len(generation["length"]))]
    truth.replay()
    check(trainer, truth, run_dir, FREE)
    assert "sampler/ratio_mean" in truth.steps[0]


def test_peft(make_trainer: Any, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    truth = Truth()
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_alpha=8)
    trainer = weighted(make_trainer, truth, peft_config=config, **OFF_POLICY)
    check(trainer, truth, run(trainer, truth, tmp_path), FREE)


def test_bf16(make_trainer: Any, tmp_path: Path) -> None:
    truth = Truth()
    trainer = weighted(make_trainer, truth, bf16=True, **OFF_POLICY)
    check(trainer, truth, run(trainer, truth, tmp_path), FREE)


def test_torch_compile(make_trainer: Any, tmp_path: Path) -> None:
    """The second forward pass of the truth and the trainer's own may round differently once compiled."""
    truth = Truth()
    trainer = weighted(make_trainer, truth, torch_compile=True, torch_compile_backend="aot_eager", max_steps=2)
    check(trainer, truth, run(trainer, truth, tmp_path), FREE, rel=1e-5)


def test_a_dynamic_sampling_subclass_that_drops_dead_groups_after_the_fact(tmp_path: Path, make_trainer: Any) -> None:
    """Rows keep their tags through a subclass's own filtering of the generation."""
    truth = Truth()
    trainer = weighted(
        make_trainer, truth, num_iterations=1, gradient_accumulation_steps=2, per_device_train_batch_size=8
    )
    generate = trainer._generate_and_score_completions

    def reversed_rows(*args: Any, **kwargs: Any) -> Any:
        output = generate(*args, **kwargs)
        return {k: v.flip(0) if isinstance(v, torch.Tensor) and v.dim() else v for k, v in output.items()}

    truth.listen(trainer)
    watcher = RLWatchCallback(tmp_path / "runs", correct="odd_digit", split_every=1)
    watcher.attach(trainer)
    trainer.add_callback(watcher)

    class FlipAfterWatching(RLWatchCallback):
        """Wraps the trainer's method after rlwatch has: what a subclass does with its own result."""

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            nonlocal generate
            generate = trainer._generate_and_score_completions
            trainer._generate_and_score_completions = reversed_rows

    trainer.add_callback(FlipAfterWatching(tmp_path / "unused"))
    trainer.train()
    assert watcher.run_dir is not None
    check(trainer, truth, watcher.run_dir, FREE)


def test_with_dead_groups_and_kl_the_gradient_is_alive_and_its_effective_part_is_dead(
    make_trainer: Any, tmp_path: Path
) -> None:
    calls: list[int] = []

    def verifier_that_breaks(completions: list[str], **_: Any) -> list[float]:
        calls.append(1)
        return odd_digit([], completions) if len(calls) <= 2 else [0.0] * len(completions)

    watcher = RLWatchCallback(tmp_path / "runs", split_every=1)
    make_trainer(
        reward_funcs=[verifier_that_breaks], callbacks=[watcher], beta=0.5, max_steps=5, learning_rate=3e-2
    ).train()
    assert watcher.run_dir is not None
    for record in read_records(watcher.run_dir).items[2:]:
        assert (record.metrics["grad/norm"] or 0) > 1e-4
        assert record.metrics["grad/regulariser_norm"] == pytest.approx(record.metrics["grad/norm"], rel=1e-5)
        assert record.metrics["grad/effective_norm"] < 1e-6 * (record.metrics["grad/norm"] or 0)
        assert record.metrics["signal/active_tokens"] == 0


def test_between_splits_there_is_an_estimate_and_it_is_marked_as_one(make_trainer: Any, tmp_path: Path) -> None:
    truth = Truth()
    trainer = weighted(make_trainer, truth, beta=0.1, num_iterations=2, max_steps=8, learning_rate=3e-3)
    run_dir = run(trainer, truth, tmp_path, split_every=4)
    records = read_records(run_dir).items
    exact = [record.step for record in records if "grad/effective_norm" in record.metrics]
    estimated = [record for record in records if "grad/effective_estimate" in record.metrics]
    assert exact == [1, 5]
    assert [record.step for record in estimated] == [2, 3, 4, 6, 7, 8]
    assert [record.step for record in records if "update/norm" in record.metrics] == [1, 5]
    errors = []
    for record in estimated:
        true = truth.steps[record.step - 1]["grad/effective_norm"]
        errors.append(abs(math.log((record.metrics["grad/effective_estimate"] or 0) / true)))
    assert statistics.median(errors) < math.log(1.5), errors


def test_split_every_0_never_splits_and_says_so(
    make_trainer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = RLWatchCallback(tmp_path / "runs", split_every=0)
    make_trainer(callbacks=[watcher], entropy_coef=0.01).train()
    assert watcher.run_dir is not None
    for record in read_records(watcher.run_dir).items:
        assert not {"grad/effective_norm", "grad/effective_estimate", "update/norm"} & set(record.metrics)
    why = read_info(watcher.run_dir)["absent"]["grad/effective_norm"]
    assert why == "the loss also holds an entropy bonus, and split_every=0 never splits it off"
    assert f"will be absent: {why}" in capsys.readouterr().out


def test_reentrant_checkpointing_forbids_the_split_and_the_run_says_why(
    make_trainer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = RLWatchCallback(tmp_path / "runs")
    settings = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}}
    make_trainer(callbacks=[watcher], beta=0.1, **settings).train()
    assert watcher.run_dir is not None
    assert "faults" not in read_info(watcher.run_dir)
    assert "does not allow a second backward pass" in read_info(watcher.run_dir)["absent"]["grad/effective_norm"]
    assert "grad/effective_norm" not in read_records(watcher.run_dir).items[0].metrics
    assert "grad/effective_norm, grad/policy_norm, grad/regulariser_norm will be absent" in capsys.readouterr().out


def test_a_loss_that_is_not_what_the_configuration_says_is_found_out(
    make_trainer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make_trainer()
    compute_loss = trainer._compute_loss
    trainer._compute_loss = lambda *args, **kwargs: 2 * compute_loss(*args, **kwargs)
    watcher = watch(trainer, dir=tmp_path / "runs", counterfactual_every=1)
    trainer.train()
    assert watcher.run_dir is not None
    out = capsys.readouterr().out
    assert out.count("trains on something else than its configuration says") == 1
    info = read_info(watcher.run_dir)
    assert "faults" not in info
    assert "trains on something else" in info["absent"]["clip/*"]
    assert "trains on something else" in info["absent"]["grad/effective_norm"]
    assert "trains on something else" in info["absent"]["counterfactual/*"]
    for record in read_records(watcher.run_dir).items:
        assert not {"clip/high", "ratio/mean", "signal/ess", "weight/long", "advantage/mean"} & set(record.metrics)
        assert not {"grad/effective_norm", "grad/policy_norm"} & set(record.metrics), "nobody knows what it is made of"
        assert not [name for name in record.metrics if name.startswith(("weight/", "counterfactual/"))]
        assert {"entropy/mean", "groups/zero_std", "length/mean", "grad/norm"} <= set(record.metrics)


def test_a_sound_loss_passes_the_self_check(make_trainer: Any, tmp_path: Path) -> None:
    watcher = RLWatchCallback(tmp_path / "runs")
    make_trainer(callbacks=[watcher]).train()
    assert watcher.run_dir is not None
    assert "clip/*" not in read_info(watcher.run_dir)["absent"]


def test_text_is_kept_for_as_many_groups_as_asked_for(make_trainer: Any, tmp_path: Path) -> None:
    seen: list[str] = []

    def remember(completions: list[str], **_: Any) -> list[float]:
        seen.extend(completions)
        return odd_digit([], completions)

    for wanted, rows in ((0, 0), (2, 8), ("all", 12)):
        seen.clear()
        watcher = RLWatchCallback(tmp_path / "runs", sample_completions=wanted)
        make_trainer(reward_funcs=[remember], callbacks=[watcher], max_steps=1).train()
        assert watcher.run_dir is not None
        table = pl.read_parquet(watcher.run_dir / "rollouts" / "step-000001.parquet")
        assert table["completion"].to_list() == seen[:rows] + [None] * (12 - rows)
        assert table["prompt"].drop_nulls().n_unique() == rows // 4
        assert table["prompt_id"].n_unique() == 3
        assert table["weight"].sum() == pytest.approx(1.0)
        assert table["entropy"].is_not_null().all()


def test_wrong_options_are_errors_at_once() -> None:
    with pytest.raises(ValueError, match="split_every= takes a number of steps, or 0 for never, not -1"):
        RLWatchCallback(split_every=-1)
    with pytest.raises(ValueError, match='sample_completions= takes a number of groups or "all"'):
        RLWatchCallback(sample_completions="some")
