"""What several tests share: a tiny real model, and a trainer made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from chromium import CHROMIUM, FLAGS
from tiny import PROMPTS, odd_digit, quiet

# Tests reach nothing but this machine, and say nothing to anybody.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB_SILENT", "true")
for name in (
    "RLWATCH_SLACK_WEBHOOK",
    "SLACK_WEBHOOK_URL",
    "RLWATCH_ALERT_COMMAND",
    "RLWATCH_APPRISE_URLS",
    "RLWATCH_PAGE_URL",
):
    os.environ.pop(name, None)

# The same examples each time; `make fuzz` looks for new ones.
settings.register_profile("fixed", derandomize=True)
settings.register_profile("fuzz", print_blob=True)
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """One thread a process, set before torch starts any: two would fight over two cores with the browser."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")  # not longer: its event loop would be in the way of async reward functions
def browser() -> Iterator[Any]:
    """A real Chromium; pages are opened in it and closed by the tests."""
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield chromium
        finally:
            chromium.close()


@pytest.fixture(scope="session")
def first_policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lab's first policies are kept: one folder for all processes of this run."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "first-policies"


@pytest.fixture(scope="session")
def make_trainer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Makes a real GRPOTrainer over a random Qwen2 of 49,000 parameters whose completions are 1 to 8 tokens long."""

    def make(
        *,
        reward_funcs: Any = (odd_digit,),
        callbacks: Any = (),
        seed: int = 0,
        rollout_func: Any = None,
        peft_config: Any = None,
        **config: Any,
    ) -> Any:
        from datasets import Dataset
        from transformers.trainer_callback import PrinterCallback
        from trl import GRPOConfig, GRPOTrainer

        from rlwatch.lab.model import make_config, make_model, make_tokenizer

        tokenizer = make_tokenizer()
        model: Any = make_model(make_config(tokenizer), seed=seed)
        if config.get("beta"):  # the reference is loaded again from where the policy came from
            folder = tmp_path_factory.mktemp("model")
            model.save_pretrained(folder)
            model = str(folder)
        settings = {
            "seed": seed,
            "max_steps": 3,
            "learning_rate": 1e-2,
            "max_completion_length": 8,
            "num_generations": 4,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 3,
            **config,
        }
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=list(reward_funcs),
            args=GRPOConfig(**quiet(tmp_path_factory.mktemp("out"), **settings)),
            train_dataset=Dataset.from_dict({"prompt": PROMPTS, "target": list(range(24))}),
            eval_dataset=Dataset.from_dict({"prompt": PROMPTS[:4], "target": list(range(4))}),
            processing_class=tokenizer,
            callbacks=list(callbacks),
            rollout_func=rollout_func,
            peft_config=peft_config,
        )
        trainer.remove_callback(PrinterCallback)
        return trainer

    return make
