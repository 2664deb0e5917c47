"""Trains a tiny policy on however many ranks torchrun started; not a test by itself, see test_ranks.py.

Usage: torchrun --nproc_per_node N ranks_script.py OUT sound|faulty|sharded|stopping ..., or OUT deepspeed

Each is a training of its own, in OUT/<its name>; several are made in one start, which takes longer than a training.

However many ranks share them, the completions are the same: what a prompt's k-th completion is depends on nothing else.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from datasets import Dataset
from transformers import Qwen2ForCausalLM
from transformers.distributed import DistributedConfig
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from rlwatch import watch
from rlwatch.capture.trl import TRLListener
from rlwatch.lab.model import make_config, make_model, make_tokenizer
from tiny import PROMPTS, brevity, odd_digit, quiet

ROWS, GROUP = 12, 4  # three groups over one, two or three ranks: with two, the second group straddles them

DEEPSPEED = {
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
}


def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Completions of 1 to 8 digits, some of which never end, and log-probabilities as a sampler might report them."""
    end = trainer.processing_class.eos_token_id
    first = trainer.accelerator.process_index * len(prompts)
    rows, logprobs = [], []
    for offset, prompt in enumerate(prompts):
        number = int(prompt)
        sibling = (first + offset) % GROUP if number % 3 else 0  # a third of the groups are all alike
        digits = [str((number + 3 * sibling + k * k) % 10) for k in range(1 + (5 * number + 2 * sibling) % 8)]
        ids = trainer.processing_class("".join(digits), add_special_tokens=False)["input_ids"]
        rows.append([*ids, end][:8])
        logprobs.append([-3.0 - 0.1 * (k % 3) for k in range(len(rows[-1]))])
    prompt_ids = trainer.processing_class(prompts, add_special_tokens=False)["input_ids"]
    return {"prompt_ids": prompt_ids, "completion_ids": rows, "logprobs": logprobs}


def train(out: Path, how: str) -> None:
    tokenizer = make_tokenizer()
    ranks, model = torch.distributed.get_world_size(), out / "model"
    make_model(make_config(tokenizer), seed=0).save_pretrained(model)  # rank 0 does
    torch.distributed.barrier()
    policy: Any = str(model)  # the reference is loaded from there too
    if how == "sharded":  # FSDP2
        policy = Qwen2ForCausalLM.from_pretrained(model, distributed_config=DistributedConfig(fsdp_size=ranks))
    trainer = GRPOTrainer(
        model=policy,
        reward_funcs=[odd_digit, brevity],
        args=GRPOConfig(
            **quiet(out / "trainer"),
            optim="sgd",
            learning_rate=1e30 if how == "stopping" else 0.5,  # the loss is NaN from step 2 on
            max_steps=6,
            max_completion_length=8,
            reward_weights=[1.0, 0.5],
            num_generations=GROUP,
            num_iterations=2,
            epsilon=0.02,
            beta=0.1,
            per_device_train_batch_size=ROWS // ranks,
            deepspeed=DEEPSPEED if how == "deepspeed" else None,
        ),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=tokenizer,
        rollout_func=rollout,
    )
    trainer.remove_callback(PrinterCallback)
    options: dict[str, Any] = {"stop_on": "critical"} if how == "stopping" else {"counterfactual_every": 3}
    watch(
        trainer, dir=out / "runs", name="run", correct="odd_digit", split_every=2, sample_completions="all", **options
    )
    trainer.train()
    (out / f"steps.rank{torch.distributed.get_rank()}").write_text(str(trainer.state.global_step))


def broken(*_: Any, **__: Any) -> None:
    raise RuntimeError("broken on purpose")


def main() -> None:
    out, *kinds = sys.argv[1:]
    if kinds != ["deepspeed"]:  # which wants to do it itself
        torch.distributed.init_process_group("gloo")
    else:
        import deepspeed

        deepspeed.init_distributed("gloo")
    for how in kinds:
        with contextlib.ExitStack() as patched:
            if how == "faulty" and torch.distributed.get_rank() == 1:  # must not leave the others waiting
                for name in ("_fill", "_saw_tokens"):
                    patched.enter_context(mock.patch.object(TRLListener, name, broken))
            train(Path(out) / how, how)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
