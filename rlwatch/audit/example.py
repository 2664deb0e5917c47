"""One batch that is the same for every configuration, and what each of its examples weighs in the update, exactly.

Policies: 32 completions, one generation and one optimizer step, in four prompts of eight: an easy one (7 right), an
even one (4), a hard one (1) and a solved one (8). A short answer is an eighth of the maximum length, a long one half of
it; one wrong answer to the hard prompt is truncated. A reward is 1 or 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rlwatch.audit.advantages import advantages, normalize_then_sum
from rlwatch.audit.config import AuditConfig
from rlwatch.audit.weights import Batch, BoolArray, FloatArray, IntArray, Loss, gradient

GROUP = 8
SHORT, LONG, FULL = 0.125, 0.5, 1.0
LIMIT = 32768
"""Tokens; a longer maximum is shown as this one, which changes no share."""

_POLICY: Sequence[tuple[str, str, int, float, float]] = (
    ("easy, 7 of 8 right", "right, short", 4, SHORT, 1.0),
    ("easy, 7 of 8 right", "right, long", 3, LONG, 1.0),
    ("easy, 7 of 8 right", "wrong, long", 1, LONG, 0.0),
    ("even, 4 of 8 right", "right, short", 2, SHORT, 1.0),
    ("even, 4 of 8 right", "right, long", 2, LONG, 1.0),
    ("even, 4 of 8 right", "wrong, short", 2, SHORT, 0.0),
    ("even, 4 of 8 right", "wrong, long", 2, LONG, 0.0),
    ("hard, 1 of 8 right", "right, long", 1, LONG, 1.0),
    ("hard, 1 of 8 right", "wrong, short", 3, SHORT, 0.0),
    ("hard, 1 of 8 right", "wrong, long", 3, LONG, 0.0),
    ("hard, 1 of 8 right", "wrong, truncated", 1, FULL, 0.0),
    ("solved, 8 of 8 right", "right", 8, SHORT, 1.0),
)
"""Prompt, answer, how many, length as a share of the maximum, reward: group after group."""

_PAIRS = (("short", "short"), ("short", "long"), ("long", "short"), ("long", "long"))
"""Preference data: the chosen answer's length, the rejected one's."""

_TEXTS = ("short", "short", "short", "long", "short", "long", "long", "long")
"""Supervised data: two texts a micro-batch."""


@dataclass(frozen=True)
class Kind:
    """Examples that are alike.

    Args:
        prompt: What they answer, or stand beside.
        answer: What they are.
        count: How many of them are in the batch.
        tokens: Length of one.
        advantage: A of one; 1 or −1 where there are no rewards.
        token: What a token of theirs weighs, where an average token of the batch weighs 1.
        one: Share of the update's weight, Σ |dL/dlog p|, that one of them has, 0 to 1.
        share: What all of them have.
    """

    prompt: str
    answer: str
    count: int
    tokens: int
    advantage: float
    token: float
    one: float
    share: float


@dataclass(frozen=True)
class Example:
    """The batch and its weights.

    Args:
        kinds: A line each.
        contrasts: What stands out, a sentence each, by name.
        batch: The tokens as the loss sees them.
        loss: How the example is averaged: the configuration's loss, on the example's own micro-batches.
        rewards: (R,).
        advantages: (R,).
        labels: (R,), the place of each row's kind in `kinds`.
        truncated: (R,).
        weights: (R, T), |dL/dlog p| as the optimizer gets it.
    """

    kinds: tuple[Kind, ...]
    contrasts: dict[str, str]
    batch: Batch
    loss: Loss
    rewards: FloatArray
    advantages: FloatArray
    labels: IntArray
    truncated: BoolArray
    weights: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """The lines and the sentences, as plain JSON types."""
        return {
            "kinds": [asdict(kind) for kind in self.kinds],
            "contrasts": dict(self.contrasts),
            "micro_batches": self.loss.accumulation,
            "micro_batch_size": len(self.labels) // self.loss.accumulation // self.loss.ranks,
            "ranks": self.loss.ranks,
        }

    def rows(self, prompt: str, answer: str) -> BoolArray:
        """(R,), the rows of the kinds that begin with these words."""
        wanted = [k.prompt.startswith(prompt) and k.answer.startswith(answer) for k in self.kinds]
        return np.asarray(wanted)[self.labels]

    def share(self, prompt: str, answer: str = "") -> float:
        """What all kinds that begin with these words have of the update."""
        return sum(k.share for k in self.kinds if k.prompt.startswith(prompt) and k.answer.startswith(answer))


def example(config: AuditConfig) -> Example:
    """The batch as this configuration weighs it."""
    if config.objective == "supervised":
        return _supervised(config)
    return _policy(config) if config.is_policy else _preference(config)


def _policy(config: AuditConfig) -> Example:
    counts = [count for _, _, count, _, _ in _POLICY]
    labels = np.repeat(np.arange(len(_POLICY)), counts)
    longest = min(config.max_completion_length, LIMIT)
    sizes = np.array([max(1, round(share * longest)) for *_, share, _ in _POLICY])[labels]
    rewards = np.array([reward for *_, reward in _POLICY])[labels]
    truncated = np.array(["truncated" in answer for _, answer, *_ in _POLICY])[labels]
    loss, rank, micro = _lay_out(config, len(labels), config.per_device_train_batch_size)
    batch = Batch(np.arange(longest) < sizes[:, None], rank, micro)
    if config.mask_truncated_completions:
        batch = batch.without(truncated)
    if config.multi_objective_aggregation == "normalize_then_sum":  # of one function: its own std, then the batch's
        gains = normalize_then_sum(rewards[:, None], np.ones(1), GROUP)
    else:
        gains = advantages(rewards, replace(config.scaling, group_size=GROUP))
    weights = np.abs(gradient(loss, batch, gains, applied=True))
    titles = [(prompt, answer) for prompt, answer, *_ in _POLICY]
    found = _made(titles, labels, sizes, batch, loss, rewards, gains, truncated, weights)
    said = _contrasts(found, config)
    if config.scale_rewards == "group":
        other = _policy(replace(config, scale_rewards="none"))
        said["prompts"] = said["prompts"][:-1] + f"; not divided by the std it would be {_by_prompt(other)}."
    return replace(found, contrasts=said)


def _contrasts(found: Example, config: AuditConfig) -> dict[str, str]:
    lines = {(k.prompt[:4], k.answer): k for k in found.kinds}
    long, short = lines["even", "wrong, long"], lines["even", "wrong, short"]
    hard, easy = lines["hard", "right, long"], lines["easy", "right, long"]
    said = {
        "length": "Of two equally wrong answers to one prompt, the one that is "
        f"{long.tokens / short.tokens:.3g} times as long weighs {as_much(long.one, short.one)}; "
        f"a token of it {as_much(long.token, short.token)}.",
        "prompts": f"The update goes to the prompts like this: {_by_prompt(found)}.",
        "difficulty": f"A right answer to the hard prompt weighs {as_much(hard.one, easy.one)} as an equally long "
        "right one to the easy prompt.",
        "wrong": f"Wrong answers have {100 * found.share('', 'wrong'):.0f} % of the update.",
    }
    cut = lines["hard", "wrong, truncated"]
    if config.mask_truncated_completions:
        said["truncated"] = "The truncated answer weighs nothing, and still counts in its group's mean and std."
    else:
        said["truncated"] = f"The truncated answer alone has {100 * cut.one:.1f} % of the update, as a wrong one."
    return said


def _by_prompt(found: Example) -> str:
    return ", ".join(f"{name} {100 * found.share(name):.0f} %" for name in ("easy", "even", "hard", "solved"))


def _supervised(config: AuditConfig) -> Example:
    longest = 1024
    size = min(2, config.per_device_train_batch_size)
    texts = list(_TEXTS)
    loss, rank, micro = _lay_out(replace(config, ranks=1), len(texts), size, shuffled=False)
    sizes = np.array([round((LONG if text == "long" else SHORT) * longest) for text in texts])
    beside = [
        "beside a " + texts[i ^ 1] + " one" if size == 2 else "alone in its micro-batch" for i in range(len(texts))
    ]
    titles = list(dict.fromkeys(zip(beside, texts, strict=True)))
    labels = np.array([titles.index(title) for title in zip(beside, texts, strict=True)])
    batch = Batch(np.arange(longest) < sizes[:, None], rank, micro)
    ones = np.ones(len(texts))
    weights = np.abs(gradient(loss, batch, ones, applied=True))
    found = _made(titles, labels, sizes, batch, loss, ones, ones, ones < 0, weights)
    ranked = sorted(found.kinds, key=lambda kind: kind.token)
    least, most = ranked[0], ranked[-1]
    long = next(k for k in found.kinds if k.answer == "long")
    short = next(k for k in found.kinds if k.answer == "short" and (size == 1 or "long" in k.prompt))
    said = {"length": f"A text of {long.tokens} tokens weighs {as_much(long.one, short.one)} as one of {short.tokens}."}
    if most.token > 1.001 * least.token:
        said["accumulation"] = (
            f"A token of a {most.answer} text {most.prompt} weighs {as_much(most.token, least.token)} as one of a "
            f"{least.answer} text {least.prompt}: which texts share a micro-batch decides."
        )
    else:
        said["accumulation"] = "Every token of the step weighs the same, whatever shares a micro-batch with it."
    return replace(found, contrasts=said)


def _preference(config: AuditConfig) -> Example:
    longest = 1024
    pair = np.repeat(np.arange(len(_PAIRS)), 2)
    answers = [text for lengths in _PAIRS for text in lengths]
    sizes = np.array([round((LONG if text == "long" else SHORT) * longest) for text in answers])
    titles = [(f"chosen {c}, rejected {r}", side) for c, r in _PAIRS for side in ("chosen", "rejected")]
    pairs = min(2, config.per_device_train_batch_size)
    loss, rank, micro = _lay_out(replace(config, ranks=1), len(pair), 2 * pairs, shuffled=False)
    batch = Batch(np.arange(longest) < sizes[:, None], rank, micro)
    if config.loss_type == "sft":  # which learns from the chosen alone
        batch = batch.without(np.tile([False, True], len(_PAIRS)))
    sides = np.tile([1.0, -1.0], len(_PAIRS))
    weights = np.abs(gradient(loss, batch, sides, applied=True))
    if config.ld_alpha is not None:
        shared = np.minimum.reduceat(sizes, np.arange(0, len(sizes), 2))[pair]
        weights = weights * np.where(np.arange(longest) < shared[:, None], 1.0, config.ld_alpha)
    found = _made(titles, np.arange(len(pair)), sizes, batch, loss, sides, sides, sides > 2, weights)
    long, short = found.kinds[-1], found.kinds[1]
    said = {
        "length": f"Of two rejected answers the one that is {long.tokens / short.tokens:.3g} times as long weighs "
        f"{as_much(long.one, short.one)}, a token of it {as_much(long.token, short.token)}."
    } if short.one else {}  # fmt: skip
    said["accumulation"] = "Shown is the first step, on which every pair has the same margin of zero."
    return replace(found, contrasts=said)


def _lay_out(config: AuditConfig, rows: int, size: int, *, shuffled: bool = True) -> tuple[Loss, IntArray, IntArray]:
    """All rows in one optimizer step, in micro-batches and on ranks like the configuration's, as far as they go."""
    ranks = next(n for n in (4, 2, 1) if n <= config.ranks)
    size = next(n for n in (8, 4, 2, 1) if n <= size and n * ranks <= rows)
    place = (np.arange(rows) * 13 + 5) % rows if shuffled else np.arange(rows)  # 13: no divisor of 32, so a permutation
    accumulation = rows // (size * ranks)
    loss = replace(config.loss, ranks=ranks, accumulation=accumulation, steps_per_generation=accumulation)
    return loss, place // size % ranks, place // (size * ranks)


def _made(
    titles: Sequence[tuple[str, str]], labels: IntArray, sizes: IntArray, batch: Batch, loss: Loss,
    rewards: FloatArray, gains: FloatArray, truncated: BoolArray, weights: FloatArray,
) -> Example:  # fmt: skip
    rows = weights.sum(axis=1)
    total = rows.sum() or 1.0
    average = rows.sum() / max(sizes.sum(), 1) or 1.0
    kinds = []
    for place, (prompt, answer) in enumerate(titles):
        here = labels == place
        kinds.append(
            Kind(
                prompt=prompt,
                answer=answer,
                count=int(here.sum()),
                tokens=int(sizes[here][0]),
                advantage=float(gains[here].mean()),
                token=float(rows[here].sum() / sizes[here].sum() / average),
                one=float(rows[here].mean() / total),
                share=float(rows[here].sum() / total),
            )
        )
    return Example(tuple(kinds), {}, batch, loss, rewards, gains, labels, truncated, weights)


def as_much(more: float, less: float) -> str:
    """How many times as much, for a sentence.

    >>> as_much(0.4, 0.1), as_much(0.1, 0.1), as_much(1.0, 0.0)
    ('4 times as much', 'just as much', 'infinitely more')
    """
    if not less:
        return "infinitely more" if more else "just as much"
    return "just as much" if abs(more / less - 1) < 1e-6 else f"{more / less:.3g} times as much"
