"""What the loops of the examples train on: a language task that a GRU learns in seconds on a CPU.

The prompt is a digit. A completion has up to 6 tokens, digits or an end token, and earns the share of the 6 places that
it fills with digits of the prompt's parity.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.distributions import Categorical

DIGITS, END, LENGTH = 10, 10, 6
"""Tokens 0 to 9 are digits, 10 ends a completion; the longest completion has 6 tokens."""


class Body(nn.Module):
    """A GRU over prompt and completion: (B, T) tokens to (B, T, width) states."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(DIGITS + 1, width)
        self.body = nn.GRU(width, width, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """What is known at each place."""
        return self.body(self.embed(tokens))[0]


@torch.no_grad()
def generate(policy: Callable[[torch.Tensor], Categorical], prompts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompt and completion, (B, 1 + LENGTH), and the mask of the completion's tokens up to its end, (B, LENGTH).

    Args:
        policy: (B, T) tokens to the distributions over the tokens that follow.
        prompts: (B,) digits.
    """
    tokens = prompts[:, None]
    for _ in range(LENGTH):
        tokens = torch.cat([tokens, policy(tokens).sample()[:, -1:]], dim=1)
    ended = (tokens[:, 1:] == END).cumsum(dim=1)
    return tokens, (ended == 0) | ((ended == 1) & (tokens[:, 1:] == END))


def score(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The share of the places that hold a digit of the prompt's parity, (B,)."""
    prompt, completion = tokens[:, :1], tokens[:, 1:]
    right = mask & (completion != END) & (completion % 2 == prompt % 2)
    return right.sum(dim=1) / LENGTH


def cut(tokens: torch.Tensor) -> torch.Tensor:
    """Which completions ran into the length limit, (B,)."""
    return ~(tokens[:, 1:] == END).any(dim=1)
