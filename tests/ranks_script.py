"""Trains a tiny policy on however many ranks torchrun started; not a test by itself, see test_ranks.py.

Usage: torchrun --nproc_per_node N ranks_script.py OUT
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from rlwatch import watch
from rlwatch.capture.trl import TRLListener
from rlwatch.lab.model import make_config, make_model, make_tokenizer
from test_capture_exact import Recorder
from tiny import PROMPTS, brevity, odd_digit, quiet


def train(out: Path, name: str) -> None:
    tokenizer = make_tokenizer()
    recorder = Recorder()
    trainer = GRPOTrainer(
        model=make_model(make_config(tokenizer), seed=0),
        reward_funcs=[odd_digit, brevity, recorder.reward],
        args=GRPOConfig(
            **quiet(out / "trainer"),
            max_steps=3,
            learning_rate=1e-2,
            max_completion_length=8,
            reward_weights=[1.0, 0.5, 1.0],
            num_generations=4,  # a group of 4 in batches of 2 a rank: groups straddle ranks
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
        ),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=tokenizer,
        callbacks=[recorder],
    )
    trainer.remove_callback(PrinterCallback)
    recorder.listen(trainer)
    watch(trainer, dir=out / "runs", name=name, correct="odd_digit")
    trainer.train()
    steps = [
        {
            "applied": step["applied"],
            "entropies": [e for batch in step["micro_batches"] for e in batch["entropies"]],
            "loss": math.fsum(batch["loss"] for batch in step["micro_batches"]),
            "generation": step["generations"][index],
        }
        for index, step in enumerate(recorder.steps)
    ]
    rank = trainer.accelerator.process_index
    (out / f"{name}.raw{rank}.json").write_text(json.dumps(steps))


def main() -> None:
    out = Path(sys.argv[1])
    train(out, "sound")
    if torch.distributed.get_rank() == 1:  # a fault on one rank must not leave the others waiting

        def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("broken on purpose")

        TRLListener._fill = TRLListener._saw_tokens = broken  # type: ignore[method-assign]
    train(out, "faulty")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
