"""What watching costs: the same training, watched and unwatched in turn.

    python benchmarks/overhead.py [--pairs 7] [--steps 24]

Prints, for each size of model, the median over pairs of watched/unwatched, with the smallest and the largest pair. A
ratio, because a step's time depends on the machine; in pairs, because it also depends on the minute. Wall time and
processor time are both of the steps after the first, from step end to step end, generation included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore", category=FutureWarning)

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from transformers import PrinterCallback, Qwen2Config, Qwen2ForCausalLM, TrainerCallback, set_seed  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from rlwatch import RLWatchCallback  # noqa: E402
from rlwatch.lab.model import make_tokenizer  # noqa: E402


@dataclass(frozen=True)
class Size:
    """A model to train."""

    name: str
    hidden: int
    layers: int
    completion: int


SIZES = (Size("tiny", 48, 2, 8), Size("larger", 256, 6, 24))


class Clock(TrainerCallback):
    """Notes wall and processor time at the end of every step, after all other callbacks."""

    def __init__(self) -> None:
        self.ticks: list[tuple[float, float]] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:  # noqa: D102
        self.ticks.append((time.perf_counter(), time.process_time()))


def reward(completions: list[str], **_: Any) -> list[float]:
    return [float(len(set(text)) % 2) for text in completions]


def train(size: Size, steps: int, *, watched: bool, scratch: Path) -> tuple[float, float]:
    """Seconds a step, wall and processor."""
    tokenizer = make_tokenizer()
    set_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=size.hidden,
            intermediate_size=4 * size.hidden,
            num_hidden_layers=size.layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=64,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    clock = Clock()
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[reward],
        args=GRPOConfig(
            output_dir=str(scratch / "trainer"),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            max_steps=steps,
            max_completion_length=size.completion,
            num_generations=8,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,
            logging_steps=steps,
        ),
        train_dataset=Dataset.from_dict({"prompt": [f"{x:02d}" for x in range(64)]}),
        processing_class=tokenizer,
        callbacks=[*([RLWatchCallback(scratch / "runs")] if watched else []), clock],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    (wall_0, cpu_0), (wall_1, cpu_1) = clock.ticks[0], clock.ticks[-1]
    return (wall_1 - wall_0) / (steps - 1), (cpu_1 - cpu_0) / (steps - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=24)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for title in ("model", "parameters", "step unwatched", "wall ×", "(pairs)", "processor ×", "(pairs)"):
        table.add_column(title, justify="left" if title == "model" else "right")
    for size in SIZES:
        walls, cpus, plain = [], [], []
        with tempfile.TemporaryDirectory() as folder:
            train(size, 4, watched=True, scratch=Path(folder))  # warm up
            for pair in range(options.pairs):
                order = (False, True) if pair % 2 else (True, False)
                seconds = {w: train(size, options.steps, watched=w, scratch=Path(folder)) for w in order}
                walls.append(seconds[True][0] / seconds[False][0])
                cpus.append(seconds[True][1] / seconds[False][1])
                plain.append(seconds[False][0])
        config = Qwen2Config(
            vocab_size=25, hidden_size=size.hidden, intermediate_size=4 * size.hidden, num_hidden_layers=size.layers,
            num_attention_heads=4, num_key_value_heads=4,
        )  # fmt: skip
        parameters = sum(p.numel() for p in Qwen2ForCausalLM(config).parameters())
        table.add_row(
            size.name,
            f"{parameters:,}",
            f"{statistics.median(plain) * 1000:.0f} ms",
            f"{statistics.median(walls):.3f}",
            f"{min(walls):.3f} to {max(walls):.3f}",
            f"{statistics.median(cpus):.3f}",
            f"{min(cpus):.3f} to {max(cpus):.3f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
