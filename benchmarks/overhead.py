"""What watching costs: the same training, watched and unwatched in turn.

    python benchmarks/overhead.py [--trainings 7] [--steps 40]

Within each training one of every two steps is watched, drawn by lot, so a pair is two steps that follow each other: the
speed of a shared machine drifts by tens of percent within seconds, and whole trainings that follow each other cannot be
compared. A training's ratio is the median over its pairs, from step end to step end, generation included. Printed are
the median training and the smallest and largest.

What is measured on every n-th step alone is forced on every watched step and told by itself; the last columns put both
together as the default does, one such step in twenty.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import statistics
import tempfile
import time
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore", category=FutureWarning)

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from transformers import PrinterCallback, Qwen2Config, Qwen2ForCausalLM, set_seed  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from rlwatch import RLWatchCallback  # noqa: E402
from rlwatch.lab.model import make_tokenizer  # noqa: E402

EVERY = 20  # the default of split_every=


@dataclass(frozen=True)
class Size:
    """A model to train."""

    name: str
    hidden: int
    layers: int
    completion: int
    batch: int

    def model(self) -> Any:
        """A fresh one."""
        tokenizer = make_tokenizer()
        return Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=len(tokenizer),
                hidden_size=self.hidden,
                intermediate_size=4 * self.hidden,
                num_hidden_layers=self.layers,
                num_attention_heads=4,
                num_key_value_heads=4,
                max_position_embeddings=64,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=tokenizer.eos_token_id,
            )
        )


SIZES = (Size("tiny", 56, 2, 8, 16), Size("larger", 224, 6, 16, 8))
SITUATIONS: dict[str, tuple[dict[str, Any], int]] = {
    "an ordinary step": ({}, 0),
    "with the update's norm": ({}, 1),
    "with the split of the gradient, too": ({"entropy_coef": 0.01}, 1),
}
"""Settings of the training, and split_every."""


class OneOfTwo(RLWatchCallback):
    """Watches one step of each pair, and notes wall and processor time at the end of each."""

    def __init__(self, runs: str, split_every: int, seed: int) -> None:
        super().__init__(runs, split_every=split_every)
        self.ticks: list[tuple[float, float]] = []
        self.watched: list[bool] = []
        self._lots = random.Random(seed)
        self._on = True

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:  # noqa: D102
        self._on = not self._on if len(self.watched) % 2 else self._lots.random() < 0.5
        self.watched.append(self._on)
        self._steps.listener._hooks._active = self._on
        if self._on:
            super().on_step_begin(*args, **kwargs)

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:  # noqa: D102
        if self._on:
            super().on_pre_optimizer_step(*args, **kwargs)

    def on_optimizer_step(self, *args: Any, **kwargs: Any) -> None:  # noqa: D102
        if self._on:
            super().on_optimizer_step(*args, **kwargs)

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:  # noqa: D102
        if self._on:
            super().on_step_end(*args, **kwargs)
        self.ticks.append((time.perf_counter(), time.process_time()))

    def pairs(self, clock: int) -> list[tuple[float, float]]:
        """Seconds of the watched and the unwatched step of each pair but the first two; wall (0) or processor (1)."""
        seconds = [after[clock] - before[clock] for before, after in pairwise(self.ticks)]
        both = zip(seconds[3::2], seconds[4::2], self.watched[4::2], strict=False)
        return [(first, second) if first_is_watched else (second, first) for first, second, first_is_watched in both]


def reward(completions: list[str], **_: Any) -> list[float]:
    return [float(len(set(text)) % 2) for text in completions]


def train(size: Size, steps: int, settings: dict[str, Any], split_every: int, seed: int = 0) -> OneOfTwo:
    """One training."""
    set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        watcher = OneOfTwo(f"{folder}/runs", split_every, seed)
        trainer = GRPOTrainer(
            model=size.model(),
            reward_funcs=[reward],
            args=GRPOConfig(
                output_dir=folder,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                max_steps=steps,
                max_completion_length=size.completion,
                num_generations=8,
                per_device_train_batch_size=size.batch,
                gradient_accumulation_steps=2,
                logging_steps=steps,
                **settings,
            ),
            train_dataset=Dataset.from_dict({"prompt": ["07"] * 64}),  # the same work at each step
            processing_class=make_tokenizer(),
            callbacks=[watcher],
        )
        trainer.remove_callback(PrinterCallback)
        with contextlib.redirect_stdout(io.StringIO()):  # what it says is not part of the table
            trainer.train()
    return watcher


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainings", type=int, default=7)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    titles = (
        "model",
        "step",
        "unwatched",
        "wall ×",
        "(trainings)",
        "processor ×",
        "(trainings)",
        f"1 in {EVERY}: wall ×",
        "processor ×",
    )
    for title in titles:
        table.add_column(title, justify="left" if title in ("model", "step") else "right")
    for size in SIZES:
        ordinary = (1.0, 1.0)
        for name, (settings, every) in SITUATIONS.items():
            ratios: tuple[list[float], list[float]] = ([], [])
            plain = []
            train(size, 4, settings, every)  # warm up
            for seed in range(options.trainings):
                watcher = train(size, options.steps, settings, every, seed)
                for clock in (0, 1):
                    pairs = watcher.pairs(clock)
                    ratios[clock].append(statistics.median(watched / unwatched for watched, unwatched in pairs))
                plain.append(statistics.median(unwatched for _, unwatched in watcher.pairs(0)))
            wall, processor = (statistics.median(r) for r in ratios)
            if every == 0:
                ordinary = (wall, processor)
            together = [(o * (EVERY - 1) + r) / EVERY for o, r in zip(ordinary, (wall, processor), strict=True)]
            table.add_row(
                f"{size.name}, {sum(p.numel() for p in size.model().parameters()):,} parameters" if every == 0 else "",
                name,
                f"{statistics.median(plain) * 1000:.0f} ms",
                f"{wall:.3f}",
                f"{min(ratios[0]):.3f} to {max(ratios[0]):.3f}",
                f"{processor:.3f}",
                f"{min(ratios[1]):.3f} to {max(ratios[1]):.3f}",
                *(["", ""] if every == 0 else [f"{x:.3f}" for x in together]),
            )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
