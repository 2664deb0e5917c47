"""A warm start towards probabilities that are written down for every place of every text, not towards samples."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from transformers import PreTrainedTokenizerFast

from rlwatch.lab.kept import State, kept
from rlwatch.lab.lengths_task import FirstPolicy
from rlwatch.lab.model import make_config, make_model

STEPS = 250
"""Optimizer steps of the warm start."""

LEARNING_RATE = 5e-3
"""AdamW's, for the first 60 % of the steps; a fifth of it for the rest, so that the probabilities settle."""


def soft_start(
    name: str,
    seed: int,
    tokenizer: PreTrainedTokenizerFast,
    tokens: torch.Tensor,
    wanted: torch.Tensor,
    *,
    cache: Path | None = None,
    steps: int = STEPS,
) -> FirstPolicy:
    """Train a new model to give these probabilities; the same seed gives the same weights to the bit.

    Args:
        name: What the weights are kept as, with the seed and the steps.
        seed: For the first weights. torch's own random state is neither used nor changed.
        tokenizer: The policy's.
        tokens: (texts, T), prompts with answers.
        wanted: (texts, P, V), the next token's probabilities at the last P places of the texts; a place whose
            probabilities are all 0 is not learnt.
        cache: A folder in which the weights are kept.
        steps: Optimizer steps.
    """
    config = make_config(tokenizer)
    config.max_position_embeddings = max(config.max_position_embeddings, 2 * tokens.shape[1])
    model = make_model(config, seed=seed)

    def learnt() -> State:
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
        model.train()
        console = Console(stderr=True)
        for step in track(
            range(steps), description="warm start", console=console, transient=True, disable=not console.is_terminal
        ):
            if step == int(0.6 * steps):
                optimizer.param_groups[0]["lr"] = LEARNING_RATE / 5
            log_p = model(input_ids=tokens).logits[:, -wanted.shape[1] :].log_softmax(-1)
            loss = -(wanted * log_p).sum() / wanted.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return {key: tensor.detach().clone() for key, tensor in model.state_dict().items()}

    return FirstPolicy(seed, config, kept(cache, f"{name}-{steps}-seed{seed}", learnt), tokenizer)
