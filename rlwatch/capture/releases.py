"""Which releases of TRL rlwatch knows, what it needs of a trainer, and what differs between releases: the one place.

What it knows is found out by trying: `make compat` compares what is captured under the oldest and the newest release
with brute force. A release outside of the range is not looked into at all, for a number that is nearly right is worse
than none; one inside of it whose trainer lacks something is looked into as far as it goes.
"""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass, field
from typing import Any

OLDEST, TOO_NEW = (0, 29, 1), (2, 0)
"""From this release of TRL on, and up to this one without it; the same as in pyproject.toml."""

RANGE = f"{'.'.join(map(str, OLDEST))} to before {'.'.join(map(str, TOO_NEW))}"


@dataclass(frozen=True)
class Part:
    """A part of what is captured: what a trainer needs to have for it, and the metrics that it gives."""

    methods: tuple[str, ...]
    attributes: tuple[str, ...]
    gives: tuple[str, ...]


ROLLOUTS = Part(
    ("_calculate_rewards", "_generate_and_score_completions"),
    ("num_generations", "reward_func_names", "reward_weights"),
    ("reward/*", "groups/*", "length/*"),
)
LOSS = Part(
    ("_get_per_token_logps_and_entropies", "compute_loss"),
    ("epsilon_low", "epsilon_high", "max_completion_length"),
    (
        "entropy/correct", "entropy/incorrect", "surprisal/*", "cov/*", "ratio/*", "clip/*", "signal/*", "weight/*",
        "kl/*", "sampler/*", "grad/effective_norm", "grad/policy_norm", "grad/regulariser_norm",
    ),
)  # fmt: skip
BACKWARD = Part(("training_step",), (), ("loss",))
NORM = Part(("_get_grad_norm",), (), ("grad/*",))  # transformers has it since 5.3
PARTS = (ROLLOUTS, LOSS, BACKWARD, NORM)


@dataclass(frozen=True)
class Reach:
    """How far a trainer can be looked into.

    Args:
        parts: Those that can be captured.
        absent: The metrics of the others, and why.
        warning: What to tell of a trainer that makes rollouts and cannot be looked into all the way; else empty.
    """

    parts: tuple[Part, ...]
    absent: dict[str, str] = field(default_factory=dict)
    warning: str = ""

    def __contains__(self, part: Part) -> bool:
        return part in self.parts


def reach(trainer: Any) -> Reach:
    """How far this trainer can be looked into, by its release of TRL and by what it has."""
    kind, rollouts = type(trainer).__name__, makes_rollouts(trainer)
    version = installed() if rollouts else ""
    lacks = {part: f"{kind} has no {name}" for part in PARTS if (name := lacking(trainer, part))}
    if version and not known(version):
        lacks |= dict.fromkeys((ROLLOUTS, LOSS), f"TRL {version} is outside of the range that rlwatch knows")
    absent = {name: why for part, why in lacks.items() for name in part.gives}
    inside = [part for part in (ROLLOUTS, LOSS) if part in lacks]
    warning = ""
    if rollouts and inside:
        reasons = " and ".join(dict.fromkeys(lacks[part] for part in inside))
        lost = ", ".join(name for part in inside for name in part.gives)
        warning = (
            f"rlwatch: {reasons} (it knows TRL {RANGE}; this is {version or 'another'}). Not measured: {lost}. "
            "The training goes on; what the trainer logs of these itself is recorded as it is."
        )
    return Reach(tuple(part for part in PARTS if part not in lacks), absent, warning)


def makes_rollouts(trainer: Any) -> bool:
    """It is one of TRL's GRPO or RLOO trainers, or made of one: there is something to look into."""
    return any(owner.__name__.endswith(("GRPOTrainer", "RLOOTrainer")) for owner in type(trainer).__mro__)


def installed() -> str:
    """The version of TRL that is installed; empty where there is none."""
    try:
        return importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        return ""


def known(version: str) -> bool:
    """Whether a release is in the range; a version that is no number says nothing, and what the trainer has decides.

    >>> known("1.16.0"), known("1.17.0.dev0"), known("0.22.2"), known("2.0.0rc1"), known("main")
    (True, True, False, False, True)
    """
    numbers = _numbers(version)
    return not numbers or OLDEST <= numbers < TOO_NEW


def lacking(trainer: Any, part: Part) -> str:
    """The first of what a part needs that a trainer does not have; empty if it has all."""
    for name in part.methods:
        if not callable(getattr(trainer, name, None)):
            return name
    return next((name for name in part.attributes if not hasattr(trainer, name)), "")


def end_tokens(trainer: Any) -> set[int]:
    """The tokens that a completion which was not cut off may end with: the ends of a text, and the padding.

    TRL takes every end that the model's generation config names since 1.14 (`eos_token_ids`), and the tokenizer's alone
    before.
    """
    processing = trainer.processing_class
    tokenizer = getattr(processing, "tokenizer", processing)  # a processor of images holds one
    ends = getattr(trainer, "eos_token_ids", None)
    return {*(ends if ends is not None else [tokenizer.eos_token_id]), tokenizer.pad_token_id}


def counts_a_window() -> bool:
    """The tokens that dapo, cispo and vespo divide by are those of one accumulation window.

    TRL before 1.9.1 divides by those of the whole generation, which is as much only where a step takes one whole.
    """
    numbers = _numbers(installed())
    return not numbers or numbers >= (1, 9, 1)


def divided_again(trainer: Any) -> int:
    """By how much accelerate divides the gradient beyond what the loss says; 1 where all is well.

    transformers 5.3 to 5.5 tell accelerate of the accumulation steps, by which the loss is divided already.
    """
    accelerator = trainer.accelerator
    if "DEEPSPEED" in str(accelerator.distributed_type).upper():
        return 1
    return int(getattr(accelerator, "gradient_accumulation_steps", 1) or 1)


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (1, 17, 0) of 1.17.0.dev0; none where it begins with none."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()
