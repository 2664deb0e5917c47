"""What a tiny training is made of: settings, prompts and reward functions that several tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PROMPTS = [f"{x:02d}" for x in range(24)]


def quiet(output_dir: Path, **settings: Any) -> dict[str, Any]:
    """Arguments of any trainer's config: on the CPU, with nothing printed, reported or saved."""
    return {
        "output_dir": str(output_dir),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
        **settings,
    }


def odd_digit(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """1 where the completion's first character is an odd digit: two values, so it is what counts as correct."""
    return [1.0 if text[:1] in ("1", "3", "5", "7", "9") else 0.0 for text in completions]


def brevity(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """A reward of many values."""
    return [1.0 / (1 + len(ids)) for ids in completion_ids]
