"""An audit's weights are dL/dlog p of the real trainer, for each loss type and scaling of TRL 1.16, on policy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit_truth import Seen, largest_error, listen
from rlwatch.audit.read import read
from rlwatch.audit.weights import LOSS_TYPES, Batch, gradient
from tiny import PROMPTS, brevity, odd_digit, quiet
from torchrun import torchrun

TOLERANCE = 1e-5
GRPO = [name for name in LOSS_TYPES if name != "rloo"]

Error = Callable[..., float]


def unsure(prompts: list[str], completions: list[str], **_: Any) -> list[float | None]:
    """No verdict on some of the completions."""
    return [None if len(text) % 3 == 1 else float(len(text)) for text in completions]


@pytest.fixture(scope="module")
def error(make_trainer: Callable[..., Any]) -> Error:
    """Trains with a learning rate of 0, so that every step is on policy, and gives the largest relative error."""

    def of(reward_funcs: Any = (odd_digit, brevity), **config: Any) -> float:
        settings: dict[str, Any] = {"max_steps": 1, "learning_rate": 0.0, "gradient_accumulation_steps": 2}
        settings |= {"per_device_train_batch_size": 8, "max_completion_length": 16, **config}
        trainer = make_trainer(reward_funcs=reward_funcs, **settings)
        seen = listen(trainer)
        trainer.train()
        worst, tokens = largest_error(read(trainer), [seen], settings.get("reward_weights"))
        assert tokens > 10, "hardly any token had a gradient: nothing was compared"
        print(f"{config}: {worst:.1e} over {tokens} tokens")
        return worst

    return of


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("loss_type", GRPO)
def test_each_loss_type_and_scaling_under_accumulation(loss_type: str, scale: str, error: Error) -> None:
    assert error(loss_type=loss_type, scale_rewards=scale) <= TOLERANCE


@pytest.mark.parametrize("loss_type", GRPO)
def test_with_truncated_answers_masked(loss_type: str, error: Error) -> None:
    assert (
        error(loss_type=loss_type, mask_truncated_completions=True, gradient_accumulation_steps=3, seed=1) <= TOLERANCE
    )


@pytest.mark.parametrize("loss_type", GRPO)
def test_with_one_ratio_a_sequence(loss_type: str, error: Error) -> None:
    assert error(loss_type=loss_type, importance_sampling_level="sequence") <= TOLERANCE


@pytest.mark.parametrize("loss_type", ["dapo", "cispo", "vespo", "grpo"])
@pytest.mark.parametrize(("generation", "accumulation", "steps"), [(4, 2, 2), (2, 4, 1)])
def test_generations_of_another_size_than_steps(
    loss_type: str, generation: int, accumulation: int, steps: int, error: Error
) -> None:
    settings = {"steps_per_generation": generation, "gradient_accumulation_steps": accumulation, "max_steps": steps}
    assert error(loss_type=loss_type, epsilon_high=5.0, **settings) <= TOLERANCE


@pytest.mark.parametrize(
    "settings",
    [
        {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": [1.0, 0.3]},
        {"reward_funcs": (unsure,)},
        {"reward_funcs": (unsure, brevity), "multi_objective_aggregation": "normalize_then_sum"},
        {"top_entropy_quantile": 0.5},
        {"top_entropy_quantile": 0.5, "importance_sampling_level": "sequence", "loss_type": "grpo"},
        {"top_entropy_quantile": 0.5, "importance_sampling_level": "sequence", "loss_type": "cispo"},
        {"top_entropy_quantile": 0.5, "importance_sampling_level": "sequence", "loss_type": "luspo"},
        {"loss_type": "cispo", "epsilon_high": 5.0},
        {"loss_type": "grpo", "delta": 0.5},
        {"loss_type": "dapo", "delta": 0.5, "importance_sampling_level": "sequence"},
        {"loss_type": "dapo", "delta": 2.0},
        {"num_iterations": 2, "max_steps": 2},
        {"beta": 0.1},
        {"off_policy_mask_threshold": 0.5},
        {"per_device_train_batch_size": 6, "num_generations": 3, "loss_type": "bnpo", "gradient_accumulation_steps": 1},
    ],
    ids=lambda settings: re.sub(r"<function (\w+) at \w+>", r"\1", str(settings)),  # the same in every process
)
def test_what_else_changes_a_weight(settings: dict[str, Any], error: Error) -> None:
    assert error(**settings) <= TOLERANCE


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_rloo(normalize: bool, masked: bool, tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    from rlwatch.lab.model import make_config, make_model, make_tokenizer

    tokenizer = make_tokenizer()
    trainer = RLOOTrainer(
        model=make_model(make_config(tokenizer), seed=0),
        reward_funcs=[odd_digit, brevity],
        args=RLOOConfig(
            **quiet(tmp_path),
            max_steps=1,
            learning_rate=0.0,
            max_completion_length=8,
            num_generations=4,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=3,
            beta=0.0,
            normalize_advantages=normalize,
            mask_truncated_completions=masked,
        ),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=tokenizer,
    )
    seen = listen(trainer)
    trainer.train()
    worst, tokens = largest_error(read(trainer), [seen])
    print(f"rloo normalize={normalize} masked={masked}: {worst:.1e} over {tokens} tokens")
    assert tokens > 10
    assert worst <= TOLERANCE


def of_labels(trainer: Any) -> list[tuple[Any, Any]]:
    """(dL/dlog p, mask) of each micro-batch of a trainer that learns from examples, from now on."""
    seen: list[Any] = []

    def hook(_: Any, __: Any, kwargs: Any, output: Any) -> None:
        if getattr(output, "log_probs", None) is not None and output.log_probs.requires_grad:
            place = len(seen)
            seen.append([None, output.label_mask.bool().numpy()])
            output.log_probs.register_hook(lambda g: seen[place].__setitem__(0, g.double().numpy()))

    trainer.model.register_forward_hook(hook, with_kwargs=True)
    return seen


def rows_of(seen: list[Any]) -> tuple[Batch, Any]:
    """Those as one batch on one rank, and the gradients beside it."""
    width = max(mask.shape[1] for _, mask in seen)
    masks = [np.pad(mask, ((0, 0), (0, width - mask.shape[1]))) for _, mask in seen]
    # where no label is, log p is a constant 0, and its gradient goes nowhere
    gradients = [np.pad(g * mask, ((0, 0), (0, width - g.shape[1]))) for g, mask in seen]
    micro = np.repeat(np.arange(len(seen)), [len(mask) for mask in masks])
    return Batch(np.concatenate(masks), np.zeros_like(micro), micro), np.concatenate(gradients)


TEXTS = ["0123456789" * (1 + k % 3) for k in range(8)]


def test_sft(tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from rlwatch.lab.model import make_config, make_model, make_tokenizer

    tokenizer = make_tokenizer()
    trainer = SFTTrainer(
        model=make_model(make_config(tokenizer), seed=0),
        args=SFTConfig(**quiet(tmp_path), max_steps=1, per_device_train_batch_size=2, gradient_accumulation_steps=3),
        train_dataset=Dataset.from_dict({"text": TEXTS}),
        processing_class=tokenizer,
    )
    seen = of_labels(trainer)
    trainer.train()
    batch, got = rows_of(seen)
    assert len(set(batch.lengths)) > 1
    config = read(trainer)
    assert config.aggregation == "step-tokens"
    want = gradient(config.loss, batch, np.ones(len(batch.mask)))
    assert np.abs(got - want).max() <= TOLERANCE * np.abs(want).max()


@pytest.mark.parametrize("loss_type", ["sigmoid", "ipo", "sigmoid_norm", "hinge", "sft"])
def test_dpo(loss_type: str, tmp_path: Path) -> None:
    """But for a factor that all tokens share."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    from rlwatch.lab.model import make_config, make_model, make_tokenizer

    tokenizer = make_tokenizer()
    make_model(make_config(tokenizer), seed=0).save_pretrained(tmp_path / "model")
    trainer = DPOTrainer(
        model=str(tmp_path / "model"),
        args=DPOConfig(
            **quiet(tmp_path),
            max_steps=1,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=3,
            loss_type=[loss_type],
        ),
        train_dataset=Dataset.from_dict({"prompt": ["01"] * 8, "chosen": TEXTS, "rejected": TEXTS[1:] + TEXTS[:1]}),
        processing_class=tokenizer,
    )
    seen = of_labels(trainer)
    trainer.train()
    batch, got = rows_of(seen)
    rejected = np.tile([False, False, True, True], 3)
    if loss_type == "sft":
        batch = batch.without(rejected)
    want = gradient(read(trainer).loss, batch, np.where(rejected, -1.0, 1.0))
    ratio = got[want != 0] / want[want != 0]
    assert ratio.size > 50
    assert np.abs(ratio / ratio[0] - 1).max() <= 1e-4  # the margin is zero to float error, not exactly
    assert not got[want == 0].any()


def test_the_comparison_can_fail(make_trainer: Callable[..., Any]) -> None:
    trainer = make_trainer(reward_funcs=(odd_digit, brevity), max_steps=1, learning_rate=0.0, loss_type="grpo")
    seen = listen(trainer)
    trainer.train()
    other = read({**vars(trainer.args), "world_size": 1, "loss_type": "dapo", "scale_rewards": "group"})
    assert largest_error(other, [seen])[0] > 0.05


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All loss types on two ranks under torchrun and gloo, one after the other, in one start."""
    out = tmp_path_factory.mktemp("audit-ranks")
    torchrun(2, "audit_ranks_script.py", out)
    return out


@pytest.mark.parametrize("name", [*GRPO, "batch", "masked", "spg"])
def test_two_ranks(name: str, two_ranks: Path) -> None:
    from audit_ranks_script import CASES

    config = read({**CASES[name], "world_size": 2})
    assert config.ranks == 2
    ranks = [Seen.load(two_ranks / f"{name}.rank{rank}.npy") for rank in (0, 1)]
    worst, tokens = largest_error(config, ranks)
    print(f"two ranks, {name}: {worst:.1e} over {tokens} tokens")
    assert tokens > 10
    assert worst <= TOLERANCE
