"""The task of the length bias: a letter that is right or wrong, then dots that mean nothing, and a policy that does it.

An answer is a letter and dots, for example "b....", then the end token. The letter decides alone: "a" is right and
everything else is wrong, whatever the prompt and however many dots follow. So no number of dots is better than another,
and what becomes of the lengths is the loss's doing and not the reward's.

The first policy says "a" with p = 0.4 and "b" else, and after each token ends with p = 1/8: a geometric length of 8
tokens after the letter (the end token counted), for right and wrong answers alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from rlwatch.lab.first_policy import FirstPolicy, learn
from rlwatch.lab.model import make_tokenizer
from rlwatch.lab.task import PROMPTS

RIGHT, WRONG, DOT = "a", "b", "."
"""The letter that is right, the one that is not, and what an answer is filled up with."""

P_RIGHT = 0.4
"""The first policy's probability of the right letter."""

P_END = 1 / 8
"""The first policy's probability of ending the answer, after the letter and after every dot."""

MOST_TOKENS = 32
"""Tokens that an answer may have, the letter and the end token among them."""

STEPS = 200
"""Optimizer steps of the warm start."""


def right_letter_reward(completions: Sequence[str], **_: object) -> list[float]:
    """TRL reward function: 1 for an answer that begins with the right letter, else 0. This one says what is correct.

    >>> right_letter_reward(["a...", "b...", "a", "", ".a"])
    [1.0, 0.0, 1.0, 0.0, 0.0]
    """
    return [float(text.startswith(RIGHT)) for text in completions]


def first_policy(
    seed: int, *, steps: int = STEPS, console: Console | None = None, cache: Path | None = None
) -> FirstPolicy:
    """Train a new model to answer as the module says; the same seed gives the same weights to the bit.

    There are only 16 prompts x 2 letters, and where an answer ends is known for every place in it. So each step sees
    all of them, against the probabilities themselves rather than samples.

    Args:
        seed: For the first weights. torch's own random state is neither used nor changed.
        steps: Optimizer steps; the default is what the promised probabilities need.
        console: Where the progress bar goes; by default the standard error, and nowhere if that is no terminal.
        cache: A folder in which the weights are kept.
    """
    tokenizer = make_tokenizer()
    tokenizer.add_tokens([DOT])
    tokens, wanted = _demonstrations(tokenizer)
    first = len(PROMPTS[0]) - 1  # the place that predicts the letter

    def loss(model: Qwen2ForCausalLM) -> torch.Tensor:
        log_p: torch.Tensor = model(input_ids=tokens).logits[:, first:].log_softmax(-1)
        return -(wanted * log_p).sum(dim=-1).mean()

    return learn(
        "first-policy",
        seed,
        tokenizer,
        loss,
        positions=2 * MOST_TOKENS,
        steps=steps,
        console=console,
        cache=cache,
    )


def _demonstrations(tokenizer: PreTrainedTokenizerFast) -> tuple[torch.Tensor, torch.Tensor]:
    """Every prompt with each letter and as many dots as fit, and the next token's probabilities from the letter on.

    (32, 2 + T) token ids and (32, 1 + T, V) probabilities; T is `MOST_TOKENS`.
    """
    texts = [prompt + letter + DOT * (MOST_TOKENS - 1) for prompt in PROMPTS for letter in (RIGHT, WRONG)]
    tokens = torch.tensor(tokenizer(texts)["input_ids"])
    right, wrong, dot = tokenizer.convert_tokens_to_ids([RIGHT, WRONG, DOT])
    wanted = torch.zeros(len(texts), 1 + MOST_TOKENS, len(tokenizer))
    wanted[:, 0, right], wanted[:, 0, wrong] = P_RIGHT, 1 - P_RIGHT
    wanted[:, 1:, tokenizer.eos_token_id], wanted[:, 1:, dot] = P_END, 1 - P_END
    return tokens, wanted
