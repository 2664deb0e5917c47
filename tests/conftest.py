"""What several tests share: a tiny real model, and a trainer made of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

# Tests reach nothing but this machine, and say nothing to anybody.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB_SILENT", "true")


def pytest_configure(config: pytest.Config) -> None:
    """One thread a process, set before torch starts any: two would fight over two cores with the browser."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def odd_digit(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """1 where the completion's first character is an odd digit: two values, so it is what counts as correct."""
    return [1.0 if text[:1] in ("1", "3", "5", "7", "9") else 0.0 for text in completions]


def brevity(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """A reward of many values."""
    return [1.0 / (1 + len(ids)) for ids in completion_ids]


@pytest.fixture(scope="session")
def make_trainer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Makes a real GRPOTrainer over a random Qwen2 of 49,000 parameters whose completions are 1 to 8 tokens long."""

    def make(
        *,
        reward_funcs: Any = (odd_digit,),
        callbacks: Any = (),
        seed: int = 0,
        rollout_func: Any = None,
        **config: Any,
    ) -> Any:
        from datasets import Dataset
        from transformers.trainer_callback import PrinterCallback
        from trl import GRPOConfig, GRPOTrainer

        from rlwatch.lab.model import make_config, make_model, make_tokenizer

        tokenizer = make_tokenizer()
        settings: dict[str, Any] = {
            "output_dir": str(tmp_path_factory.mktemp("out") / "trainer"),
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "report_to": "none",
            "save_strategy": "no",
            "disable_tqdm": True,
            "logging_steps": 1,
            "seed": seed,
            "max_steps": 3,
            "learning_rate": 1e-2,
            "max_completion_length": 8,
            "num_generations": 4,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 3,
            **config,
        }
        prompts = [f"{x:02d}" for x in range(24)]
        trainer = GRPOTrainer(
            model=make_model(make_config(tokenizer), seed=seed),
            reward_funcs=list(reward_funcs),
            args=GRPOConfig(**settings),
            train_dataset=Dataset.from_dict({"prompt": prompts, "target": list(range(24))}),
            eval_dataset=Dataset.from_dict({"prompt": prompts[:4], "target": list(range(4))}),
            processing_class=tokenizer,
            callbacks=list(callbacks),
            rollout_func=rollout_func,
        )
        trainer.remove_callback(PrinterCallback)
        return trainer

    return make
