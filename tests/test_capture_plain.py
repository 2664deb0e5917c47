"""Trainers that make no rollouts: what exists there is right, and what does not is said to be absent."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import Qwen2ForSequenceClassification, Trainer, TrainingArguments
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

from rlwatch import RLWatchCallback
from rlwatch.lab.model import make_config, make_model, make_tokenizer
from rlwatch.runs.reader import read_info, read_records
from rlwatch.signals.histogram import RELATIVE_ERROR
from rlwatch.signals.tokens import entropy_of_logits
from tiny import quiet

EVERYWHERE = {"loss", "grad/norm", "grad/clip_coef", "grad/applied_norm", "lr", "step_seconds"}
SAMPLED = {"update/norm", "update/relative"}
ENTROPY = {"entropy/mean", "entropy/p10", "entropy/p50", "entropy/p90", "entropy/top20"}
TEXTS = ["01a1", "02b22c3", "03", "04d4e5"] * 6


def sft(out: Path, **options: Any) -> Any:
    settings = {"max_steps": 3, "max_length": 16, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    return SFTTrainer(
        model=make_model(make_config(make_tokenizer()), seed=0),
        args=SFTConfig(**quiet(out, **settings)),
        train_dataset=Dataset.from_dict({"text": TEXTS}),
        eval_dataset=Dataset.from_dict({"text": TEXTS[:4]}),
        processing_class=make_tokenizer(),
        **options,
    )


def dpo(out: Path, **options: Any) -> Any:
    model = out / "model"
    make_model(make_config(make_tokenizer()), seed=0).save_pretrained(model)
    pairs = {"prompt": ["01", "02", "03", "04"] * 4, "chosen": ["a1", "b2", "c3", "4"] * 4, "rejected": ["9", "8b"] * 8}
    return DPOTrainer(
        model=str(model),
        args=DPOConfig(**quiet(out, max_steps=2, per_device_train_batch_size=2, gradient_accumulation_steps=2)),
        train_dataset=Dataset.from_dict(pairs),
        processing_class=make_tokenizer(),
        **options,
    )


def causal(out: Path, **options: Any) -> Any:
    ids = [[1 + (i + k) % 9 for k in range(6)] for i in range(16)]
    labels = [[-100, -100, *row[2:]] for row in ids]
    return Trainer(
        model=make_model(make_config(make_tokenizer()), seed=0),
        args=TrainingArguments(**quiet(out, max_steps=3, per_device_train_batch_size=4)),
        train_dataset=Dataset.from_dict({"input_ids": ids, "labels": labels}),
        **options,
    )


def entropies(model: Any, ids: torch.Tensor, labels: torch.Tensor, attention: Any) -> list[float]:
    """Of every token that the loss counts, one at a time."""
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=attention).logits.double()
    found = []
    for row in range(ids.shape[0]):
        for place in range(ids.shape[1] - 1):
            if labels[row, place + 1] != -100:
                p = torch.softmax(logits[row, place], dim=-1).tolist()
                found.append(-sum(x * math.log(x) for x in p if x > 0))
    return found


def watch_the_truth(trainer: Any) -> list[list[float]]:
    """What each step's entropies are, computed from a forward pass of its own."""
    steps: list[list[float]] = []
    inner = trainer.compute_loss

    def compute_loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if model.training:
            labels = inputs.get("labels")
            if labels is None:  # DPO's own form
                labels = inputs["input_ids"].masked_fill(inputs["completion_mask"] == 0, -100)
            if len(steps) <= trainer.state.global_step:
                steps.append([])
            model.eval()
            steps[-1] += entropies(model, inputs["input_ids"], labels, inputs.get("attention_mask"))
            model.train()
        return inner(model, inputs, *args, **kwargs)

    trainer.compute_loss = compute_loss
    return steps


@pytest.mark.parametrize("make", [sft, dpo, causal])
def test_the_entropy_of_what_is_trained_on(make: Any, tmp_path: Path) -> None:
    watcher = RLWatchCallback(tmp_path / "runs", split_every=1)
    trainer = make(tmp_path, callbacks=[watcher])
    steps = watch_the_truth(trainer)
    trainer.train()
    assert watcher.run_dir is not None
    assert "faults" not in read_info(watcher.run_dir)
    records = read_records(watcher.run_dir).items
    assert len(records) == len(steps) >= 2
    for record, truth in zip(records, steps, strict=True):
        assert set(record.metrics) == EVERYWHERE | SAMPLED | ENTROPY
        assert record.metrics["entropy/mean"] == pytest.approx(statistics.fmean(truth), rel=1e-6)
        assert record.metrics["entropy/p90"] == pytest.approx(
            sorted(truth)[math.ceil(0.9 * len(truth)) - 1], rel=RELATIVE_ERROR
        )


def test_logits_are_looked_at_on_sampled_steps_alone(tmp_path: Path) -> None:
    watcher = RLWatchCallback(tmp_path / "runs", split_every=2)
    causal(tmp_path, callbacks=[watcher]).train()
    assert watcher.run_dir is not None
    seen = ["entropy/mean" in record.metrics for record in read_records(watcher.run_dir).items]
    assert seen == [True, False, True]


def test_what_a_trainer_without_rollouts_cannot_give_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = RLWatchCallback(tmp_path / "runs")
    sft(tmp_path, callbacks=[watcher]).train()
    assert watcher.run_dir is not None
    absent = read_info(watcher.run_dir)["absent"]
    assert absent["groups/*"] == "SFTTrainer has no _calculate_rewards"
    assert "not made of rewards" in absent["grad/effective_norm"]
    assert "entropy/mean" not in absent
    assert (
        "reward/*, groups/*, length/* will be absent: SFTTrainer has no _calculate_rewards" in capsys.readouterr().out
    )


def test_a_model_that_gives_no_tokens_is_said_to_give_none(tmp_path: Path) -> None:
    config = make_config(make_tokenizer())
    config.num_labels = 2
    watcher = RLWatchCallback(tmp_path / "runs")
    Trainer(
        model=Qwen2ForSequenceClassification(config),
        args=TrainingArguments(**quiet(tmp_path, max_steps=2, per_device_train_batch_size=1)),
        train_dataset=Dataset.from_dict({"input_ids": [[1, 2, 3], [4, 5, 6]], "labels": [0, 1]}),
        callbacks=[watcher],
    ).train()
    assert watcher.run_dir is not None
    info = read_info(watcher.run_dir)
    assert "faults" not in info
    assert info["absent"]["entropy/mean"] == "Trainer's model gives neither entropies nor logits beside labels"
    assert set(read_records(watcher.run_dir).items[1].metrics) == EVERYWHERE


@pytest.mark.parametrize("make", [sft, causal])
def test_watching_changes_nothing(make: Any, tmp_path: Path) -> None:
    plain, watched = make(tmp_path), make(tmp_path, callbacks=[RLWatchCallback(tmp_path / "runs", split_every=1)])
    plain.train()
    watched.train()
    assert not watched.model._forward_hooks, "a hook was left behind"
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(tensor, watched.model.state_dict()[name]), name


def test_entropy_of_logits_in_chunks_and_where_a_token_is_impossible() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 7, 11)
    logits[0, 0, 1:] = -math.inf
    expected = torch.distributions.Categorical(logits=logits.double().clamp(min=-1e9)).entropy()
    assert torch.allclose(entropy_of_logits(logits, chunk=4).double(), expected, atol=1e-6)
    assert entropy_of_logits(logits)[0, 0] == 0
