"""The decisions in a loss that could have been made otherwise, by name and in words."""

from __future__ import annotations

from collections.abc import Mapping

DENOMINATORS = ("grpo", "dr_grpo", "dapo", "bnpo")
SCALINGS = ("group", "batch", "none")

WIDER = 2.0
"""What `clip-higher` multiplies epsilon_high by: so wide that it shows whether the upper clip matters at all."""

NAMES = (
    *(f"denominator-{name}" for name in DENOMINATORS),
    *(f"scaling-{name}" for name in SCALINGS),
    "clip-higher",
    "drop-dead",
)
"""All alternatives; which of them there are depends on the loss."""

EXPLAINED: Mapping[str, str] = {
    "denominator-grpo": "mean over each completion's tokens, then over completions (loss_type grpo)",
    "denominator-dr_grpo": "sum over tokens, divided by a constant (loss_type dr_grpo)",
    "denominator-dapo": "sum over tokens, divided by all tokens of the batch (loss_type dapo)",
    "denominator-bnpo": "sum over tokens, divided by those of the micro-batch (loss_type bnpo)",
    "scaling-group": "advantages divided by their group's deviation (scale_rewards group)",
    "scaling-batch": "advantages divided by the batch's deviation (scale_rewards batch)",
    "scaling-none": "advantages not divided by any deviation (scale_rewards none)",
    "clip-higher": "epsilon_high twice as wide",
    "drop-dead": "groups without variance left out before anything is divided",
}
