"""A task without shared skills: each prompt has a letter of its own, and a chance of its own at first.

The prompts are "00" to "08". An answer is one letter, then the end token, so all answers are equally long. The letter
of the prompt's own number (a for "00", b for "01", ...) is right and everything else is wrong; the first policy says
that letter with a probability that is given for each kind of prompt, and else the wrong letter of that kind: j, k or l.
So to give up a wrong letter on the prompts of one kind teaches nothing about those of another.

`expected_weight` is what a group of G completions gets of the update, by its success rate p. With k of G right the
rewards' mean is k/G, and the advantages' sizes add up to

    Σ|r − r̄|        = 2 k (G − k) / G                     expected: 2 (G − 1) p (1 − p)
    Σ|r − r̄| / std  = 2 √(k (G − k) (G − 1) / G)          expected: near 2 √(G (G − 1)) √(p (1 − p)) for large G p

where the second is what scale_rewards="group" does. It is less than that for a small G p, where most groups have k = 0.

Nothing here needs torch but the first policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from rlwatch.lab.task import LETTERS

if TYPE_CHECKING:
    from rlwatch.lab.first_policy import FirstPolicy

PROMPTS = tuple(f"{x:02d}" for x in range(9))
"""All the prompts there are: "00" to "08"."""

KINDS = ("easy", "even", "hard")
"""What kind a prompt is, by its number modulo 3; three prompts are of each."""

DIFFERENT: Mapping[str, float] = {"easy": 0.95, "even": 0.5, "hard": 0.05}
"""The first policy's probability of the right letter, by kind."""

ALIKE: Mapping[str, float] = {"easy": 0.5, "even": 0.5, "hard": 0.5}
"""The same where all prompts are equally hard."""

_SLACK = 1e-4
"""What TRL adds to the std."""


def kind_of(prompt: str) -> str:
    """Easy, even or hard.

    >>> [kind_of(prompt) for prompt in ("00", "01", "02", "03")]
    ['easy', 'even', 'hard', 'easy']
    """
    return KINDS[int(prompt) % 3]


def right_letter(prompt: str) -> str:
    """The letter of the prompt's number.

    >>> right_letter("03")
    'd'
    """
    return LETTERS[int(prompt)]


def wrong_letter(prompt: str) -> str:
    """What the first policy says otherwise: j, k or l, by the prompt's kind.

    >>> wrong_letter("03"), wrong_letter("04"), wrong_letter("05")
    ('j', 'k', 'l')
    """
    return LETTERS[-len(KINDS) :][KINDS.index(kind_of(prompt))]


def accuracy_reward(prompts: Sequence[str], completions: Sequence[str], **_: object) -> list[float]:
    """TRL reward function: 1 for the prompt's own letter and nothing else, 0 otherwise.

    >>> accuracy_reward(["03", "03", "03", "03"], ["d", "e", "dd", ""])
    [1.0, 0.0, 0.0, 0.0]
    """
    return [float(text == right_letter(prompt)) for prompt, text in zip(prompts, completions, strict=True)]


def _of_kind(kind: str, prompts: Sequence[str], completions: Sequence[str]) -> list[float | None]:
    found = accuracy_reward(prompts, completions)
    return [x if kind_of(prompt) == kind else None for prompt, x in zip(prompts, found, strict=True)]


def easy(prompts: Sequence[str], completions: Sequence[str], **_: object) -> list[float | None]:
    """TRL reward function: the accuracy on easy prompts, and nothing on others."""
    return _of_kind("easy", prompts, completions)


def even(prompts: Sequence[str], completions: Sequence[str], **_: object) -> list[float | None]:
    """The same of even ones."""
    return _of_kind("even", prompts, completions)


def hard(prompts: Sequence[str], completions: Sequence[str], **_: object) -> list[float | None]:
    """The same of hard ones."""
    return _of_kind("hard", prompts, completions)


def expected_weight(p: float, size: int, *, scaled: bool, at_most: float = 1.0) -> float:
    """Σ|A| of a group, expected over how many of its completions are right.

    Args:
        p: The success rate.
        size: G, completions of the group.
        scaled: The advantage is divided by the group's std, as TRL does it.
        at_most: Groups of which a larger share is right count as 0.

    >>> round(expected_weight(0.5, 16, scaled=False), 3)  # 2 · 15 · 1/4
    7.5
    """
    total = 0.0
    for k in range(1, size):
        if k > at_most * size:
            break
        summed = 2 * k * (size - k) / size
        std = sqrt(k * (size - k) / (size * (size - 1)))
        total += comb(size, k) * p**k * (1 - p) ** (size - k) * (summed / (std + _SLACK) if scaled else summed)
    return total


def expected_hard_share(chances: Mapping[str, float], size: int, *, scaled: bool) -> float:
    """What `weight/hard` is expected to be: the share of the groups of which at most a quarter is right.

    A ratio of expectations; that of the ratio is nearly the same for many groups.
    """
    found = [expected_weight(chances[kind], size, scaled=scaled, at_most=0.25) for kind in KINDS]
    return sum(found) / sum(expected_weight(chances[kind], size, scaled=scaled) for kind in KINDS)


def first_policy(seed: int, chances: Mapping[str, float], cache: Path | None = None) -> FirstPolicy:
    """The policy of the module's description; the same seed gives the same weights to the bit.

    Args:
        seed: For the first weights.
        chances: The probability of the right letter, by kind.
        cache: A folder in which the weights are kept.
    """
    import torch

    from rlwatch.lab.first_policy import towards
    from rlwatch.lab.model import make_tokenizer

    tokenizer = make_tokenizer()
    answers = [(prompt, letter) for prompt in PROMPTS for letter in (right_letter(prompt), wrong_letter(prompt))]
    tokens = torch.tensor(tokenizer([prompt + letter for prompt, letter in answers])["input_ids"])
    wanted = torch.zeros(len(answers), 2, len(tokenizer))
    for row, (prompt, _) in enumerate(answers):
        p = chances[kind_of(prompt)]
        wanted[row, 0, tokenizer.convert_tokens_to_ids(right_letter(prompt))] = p
        wanted[row, 0, tokenizer.convert_tokens_to_ids(wrong_letter(prompt))] = 1 - p
        wanted[row, 1, tokenizer.eos_token_id] = 1.0
    name = "own-letter-" + "-".join(f"{chances[kind]:g}" for kind in KINDS)
    return towards(name, seed, tokenizer, tokens, wanted, cache=cache)
