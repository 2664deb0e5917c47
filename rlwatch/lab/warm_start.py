"""The supervised warm start: what pre-training and instruction tuning are to a large model, in a few seconds.

Reinforcement learning needs a policy that already answers in the right form, and this failure needs one with a strong
habit. So the model first learns, from demonstrations, to write a letter, its check digit and the end token; the safe
letter has nine tenths of the weight and each of the eleven others the same share of the rest. What comes out is the
peaked prior of a fine-tuned model: one answer with p = 0.9 and eleven rare ones with p = 0.009 each. Rare tokens are
where a tight upper clip bites: one that has gained a factor 1 + epsilon_high since the rollout is pushed no further
(DAPO, arXiv:2503.14476, section 3.1).

There are only 16 prompts x 12 letters = 192 demonstrations, so each step sees all of them, weighted, rather than a
sample. That makes the prior of every prompt and letter the promised one to a few per cent whatever the seed; with
sampled demonstrations some letters start half as likely as others, or without their check digit, and a run's fate then
hangs on that luck.

Every arm of an experiment starts from the same policy, so that what differs between two arms is their configuration and
nothing else.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from rlwatch.lab.first_policy import STEPS, FirstPolicy, learn
from rlwatch.lab.model import make_tokenizer
from rlwatch.lab.task import LETTERS, PROMPTS, SAFE_LETTER, answer

SAFE_PROBABILITY = 0.9
"""The share of the demonstrations that give the safe answer, and so, about, the policy's p(safe) when RL starts."""


def warm_start(
    seed: int, *, steps: int = STEPS, console: Console | None = None, cache: Path | None = None
) -> FirstPolicy:
    """Train a new model on demonstrations; the same seed gives the same weights to the bit.

    Args:
        seed: For the first weights. torch's own random state is neither used nor changed.
        steps: Optimizer steps; from about 200 on, every check digit is right with p > 0.97.
        console: Where the progress bar goes; by default the standard error, and nowhere if that is no terminal.
        cache: A folder in which the weights are kept.
    """
    tokenizer = make_tokenizer()
    tokens, weight = _demonstrations(tokenizer)
    prompt_length = len(PROMPTS[0])

    def loss(model: Qwen2ForCausalLM) -> torch.Tensor:
        logits = model(input_ids=tokens[:, :-1]).logits[:, prompt_length - 1 :]  # those that predict the answer
        surprisal = F.cross_entropy(logits.transpose(1, 2), tokens[:, prompt_length:], reduction="none")
        return (weight * surprisal.mean(dim=1)).sum()

    return learn("warm-start", seed, tokenizer, loss, steps=steps, console=console, cache=cache)


def safe_probability(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> float:
    """p(first token is the safe letter), the mean over all prompts."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(tokenizer(list(PROMPTS))["input_ids"])).logits[:, -1]
    safe = tokenizer.convert_tokens_to_ids(SAFE_LETTER)
    return float(logits.softmax(-1)[:, safe].mean())


def _demonstrations(tokenizer: PreTrainedTokenizerFast) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids of every prompt with every answer and the end token, (192, 5), and their weights, (192,), sum 1."""
    rare = (1 - SAFE_PROBABILITY) / (len(LETTERS) - 1)
    texts, weights = [], []
    for prompt in PROMPTS:
        for letter in LETTERS:
            texts.append(prompt + answer(int(prompt), letter) + tokenizer.eos_token)
            weights.append((SAFE_PROBABILITY if letter == SAFE_LETTER else rare) / len(PROMPTS))
    return torch.tensor(tokenizer(texts)["input_ids"]), torch.tensor(weights)
