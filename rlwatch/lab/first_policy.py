"""The policy that all arms of an experiment start from: made by a supervised warm start, kept, copied for each arm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from rlwatch.lab.kept import State, kept
from rlwatch.lab.model import make_config, make_model

STEPS = 250
"""Optimizer steps of a warm start, where the task does not say otherwise."""

LEARNING_RATE = 5e-3
"""AdamW's, for the first 60 % of the steps; a fifth of it for the rest, so that the probabilities settle."""


@dataclass(frozen=True)
class FirstPolicy:
    """Where every arm starts from.

    Args:
        seed: What the first weights were drawn with.
        config: The model's shape.
        state: The weights, by name.
        tokenizer: The tokenizer that belongs to them.
    """

    seed: int
    config: Qwen2Config
    state: State
    tokenizer: PreTrainedTokenizerFast

    def model(self) -> Qwen2ForCausalLM:
        """A new model with these weights; training it leaves them as they are."""
        model = make_model(self.config, seed=self.seed)
        model.load_state_dict(self.state)
        return model


def learn(
    name: str,
    seed: int,
    tokenizer: PreTrainedTokenizerFast,
    loss: Callable[[Qwen2ForCausalLM], torch.Tensor],
    *,
    positions: int = 0,
    steps: int = STEPS,
    console: Console | None = None,
    cache: Path | None = None,
) -> FirstPolicy:
    """Train a new model towards a loss; the same seed gives the same weights to the bit.

    Args:
        name: What the weights are kept as, with the steps and the seed.
        seed: For the first weights. torch's own random state is neither used nor changed.
        tokenizer: The policy's.
        loss: What is made small: of the model as it is, a scalar. All demonstrations go into each step, so that what is
            learnt does not hang on a sample.
        positions: Tokens that prompt and answer may have together, if more than the lab's model has by itself.
        steps: Optimizer steps.
        console: Where the progress bar goes; by default the standard error, and nowhere if that is no terminal.
        cache: A folder in which the weights are kept.
    """
    console = Console(stderr=True) if console is None else console
    config = make_config(tokenizer)
    config.max_position_embeddings = max(config.max_position_embeddings, positions)

    def learnt() -> State:
        model = make_model(config, seed=seed)
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
        model.train()
        for step in track(
            range(steps), description="warm start", console=console, transient=True, disable=not console.is_terminal
        ):
            if step == int(0.6 * steps):
                optimizer.param_groups[0]["lr"] = LEARNING_RATE / 5
            value = loss(model)
            optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return {key: tensor.detach().clone() for key, tensor in model.state_dict().items()}

    return FirstPolicy(seed, config, kept(cache, f"{name}-{steps}-seed{seed}", learnt), tokenizer)


def towards(
    name: str,
    seed: int,
    tokenizer: PreTrainedTokenizerFast,
    tokens: torch.Tensor,
    wanted: torch.Tensor,
    *,
    cache: Path | None = None,
) -> FirstPolicy:
    """Train a new model to give probabilities that are written down for every place of every text.

    Args:
        name: As in `learn`, and so are `seed`, `tokenizer` and `cache`.
        seed: See there.
        tokenizer: See there.
        tokens: (texts, T), prompts with answers.
        wanted: (texts, P, V), the next token's probabilities at the last P places of the texts; a place whose
            probabilities are all 0 is not learnt.
        cache: See there.
    """

    def loss(model: Qwen2ForCausalLM) -> torch.Tensor:
        log_p: torch.Tensor = model(input_ids=tokens).logits[:, -wanted.shape[1] :].log_softmax(-1)
        return -(wanted * log_p).sum() / wanted.sum()

    return learn(name, seed, tokenizer, loss, positions=2 * tokens.shape[1], cache=cache)
