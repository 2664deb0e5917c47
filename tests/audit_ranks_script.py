"""Trains on however many ranks torchrun started and writes down dL/dlog p; see test_audit_exact.py.

Usage: torchrun --nproc_per_node 2 audit_ranks_script.py OUT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

BASE: dict[str, Any] = {
    "max_completion_length": 8,
    "num_generations": 4,
    "per_device_train_batch_size": 6,  # three groups a micro-batch: the second straddles the ranks
    "gradient_accumulation_steps": 2,
}

LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo", "sapo", "vespo")

CASES: dict[str, dict[str, Any]] = {
    **{name: {**BASE, "loss_type": name} for name in LOSSES},
    "batch": {**BASE, "loss_type": "dapo", "scale_rewards": "batch"},
    "masked": {**BASE, "loss_type": "dapo", "mask_truncated_completions": True},
    "spg": {**BASE, "loss_type": "dapo", "steps_per_generation": 4},
}


def main() -> None:
    import torch
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    from audit_truth import listen
    from rlwatch.lab.model import make_config, make_model, make_tokenizer
    from tiny import PROMPTS, brevity, odd_digit, quiet

    out = Path(sys.argv[1])
    torch.distributed.init_process_group("gloo")
    for name, settings in CASES.items():
        tokenizer = make_tokenizer()
        trainer = GRPOTrainer(
            model=make_model(make_config(tokenizer), seed=0),
            reward_funcs=[odd_digit, brevity],
            args=GRPOConfig(**quiet(out / name), **settings, learning_rate=0.0, max_steps=2),
            train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
            processing_class=tokenizer,
        )
        trainer.remove_callback(PrinterCallback)
        seen = listen(trainer)
        trainer.train()
        seen.save(out / f"{name}.rank{seen.rank}.npy")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
