"""GRPO with TRL, watched: `python examples/grpo_trl.py`, and in another terminal `rlwatch dashboard runs`.

Without --model it trains a policy of 49,000 random parameters, which needs no download and takes seconds on a CPU;
`--model Qwen/Qwen3-0.6B` trains that one. The reward is 1 for a completion that starts with an odd digit.
"""

from __future__ import annotations

import argparse

import torch
from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from rlwatch import RLWatchCallback
from rlwatch.lab.model import make_config, make_model, make_tokenizer


def starts_odd(completions: list[str], **_: object) -> list[float]:
    """1 where the first character is an odd digit, else 0."""
    return [float(text.strip()[:1] in ("1", "3", "5", "7", "9")) for text in completions]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", help="a model's name or path")
parser.add_argument("--steps", type=int, default=60, help="optimizer steps")
parser.add_argument("--dir", default="runs", help="the folder for the run")
options = parser.parse_args()

gpu = torch.cuda.is_available()
tokenizer = AutoTokenizer.from_pretrained(options.model) if options.model else make_tokenizer()
trainer = GRPOTrainer(
    model=options.model or make_model(make_config(tokenizer), seed=0),
    reward_funcs=starts_odd,
    args=GRPOConfig(
        output_dir="trainer_output",
        max_steps=options.steps,
        num_generations=8,
        per_device_train_batch_size=16,
        num_iterations=2,
        epsilon_high=0.28,
        max_completion_length=8,
        learning_rate=1e-6 if options.model else 1e-2,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        use_cpu=not gpu,
        bf16=gpu,
    ),
    train_dataset=Dataset.from_dict({"prompt": [f"{number:02d}" for number in range(64)]}),
    processing_class=tokenizer,
    callbacks=[RLWatchCallback(options.dir, name="grpo-trl")],  # all that watching takes
)
trainer.train()
