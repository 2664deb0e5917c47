"""The lab's task: a two-digit prompt, a letter to choose, a check digit to work out, and a tempting safe answer.

The prompt is a number x from "00" to "15". An answer is a letter and a digit, for example "d4", then the end token.
The letter is the decision: with r its place in the alphabet (a = 0, ..., l = 11),

    accuracy     1    for r >= 1 that is odd when x is odd and even when x is even
    safe answer  1/2  for the letter "a", whatever x

and either counts only with the right check digit, (5 r + 3 x) mod 10. A policy that always plays it safe earns 1/2; so
does, on average, one that tries any other letter (5 or 6 of the 11 are right). Only a policy that keeps trying letters
long enough to find out which of them are right for this x earns 1. That is the whole trap: the safe answer is where a
policy stops when it stops exploring, and then every answer to a prompt earns the same and nothing is learnt any more.

Nothing here needs torch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LETTERS = "abcdefghijkl"
"""The letters one can answer with; a letter's place in here is its r."""

SAFE_LETTER = LETTERS[0]
"""The letter that always earns [`SAFE_REWARD`][rlwatch.lab.task.SAFE_REWARD]."""

SAFE_REWARD = 0.5
"""What the safe answer earns; a right answer earns 1, everything else 0."""

PROMPTS = tuple(f"{x:02d}" for x in range(16))
"""All the prompts there are: "00" to "15"."""

_ANSWER = re.compile(r"([a-l])([0-9])")


def check_digit(x: int, letter: str) -> int:
    """The digit that must follow `letter` when the prompt is x: (5 r + 3 x) mod 10.

    >>> check_digit(7, "d")  # r = 3: 15 + 21 = 36
    6
    """
    return (5 * LETTERS.index(letter) + 3 * x) % 10


def answer(x: int, letter: str) -> str:
    """The letter with its check digit: what a completion for prompt x should look like.

    >>> answer(7, "d")
    'd6'
    """
    return f"{letter}{check_digit(x, letter)}"


def chosen_letter(x: int, completion: str) -> str | None:
    """The letter of a completion that is one letter and its right check digit and nothing else, else None.

    >>> chosen_letter(7, "d6"), chosen_letter(7, "d5"), chosen_letter(7, "d66")
    ('d', None, None)
    """
    match = _ANSWER.fullmatch(completion)
    if match is None or int(match[2]) != check_digit(x, match[1]):
        return None
    return match[1]


def is_right_letter(x: int, letter: str) -> bool:
    """Whether `letter` is right for x: not the safe one, and r odd if x is odd, even if x is even.

    >>> [letter for letter in LETTERS if is_right_letter(7, letter)]
    ['b', 'd', 'f', 'h', 'j', 'l']
    """
    r = LETTERS.index(letter)
    return r >= 1 and r % 2 == x % 2


def is_correct(x: int, completion: str) -> bool:
    """Whether the completion is exactly right: a right letter with its check digit."""
    letter = chosen_letter(x, completion)
    return letter is not None and is_right_letter(x, letter)


def accuracy_reward(prompts: Sequence[str], completions: Sequence[str], **_: object) -> list[float]:
    """TRL reward function: 1 for a correct completion, else 0. This one says what "correct" means.

    >>> accuracy_reward(["07", "07", "07"], ["b6", "a1", "c1"])
    [1.0, 0.0, 0.0]
    """
    return [float(is_correct(int(p), c)) for p, c in zip(prompts, completions, strict=True)]


def safe_answer_reward(prompts: Sequence[str], completions: Sequence[str], **_: object) -> list[float]:
    """TRL reward function: 1/2 for the safe answer with its check digit, else 0. It is added to the accuracy.

    >>> safe_answer_reward(["07", "07", "07"], ["b6", "a1", "c1"])
    [0.0, 0.5, 0.0]
    """
    return [
        SAFE_REWARD if chosen_letter(int(p), c) == SAFE_LETTER else 0.0
        for p, c in zip(prompts, completions, strict=True)
    ]
