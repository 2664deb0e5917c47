"""Dynamic sampling as a trainer: what is drawn, graded once, kept, and counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from trl import GRPOTrainer

from rlwatch.lab.task import accuracy_reward

Reward = Callable[..., list[float]]


@dataclass
class Ledger:
    """What was really drawn, of which the batch that is trained on shows only the part that was kept.

    Args:
        tokens: Tokens that were generated so far, in groups that were thrown away too.
        reward: The mean reward of the last rollout's first draw: every prompt once, nothing filtered.
        dead: The share of that draw's groups that had no variance.
        draws: Draws of the last rollout.
        began: The process's CPU seconds when the training began.
    """

    tokens: int = 0
    reward: float = 0.0
    dead: float = 0.0
    draws: int = 0
    began: float = field(default_factory=time.process_time)

    def columns(self) -> list[Reward]:
        """Reward functions of no weight, by which these numbers reach the run's records."""

        def generated_tokens(completions: Sequence[str], **_: object) -> list[float]:
            return [float(self.tokens)] * len(completions)

        def first_draw(completions: Sequence[str], **_: object) -> list[float]:
            return [self.reward] * len(completions)

        def first_draw_dead(completions: Sequence[str], **_: object) -> list[float]:
            return [self.dead] * len(completions)

        def cpu_seconds(completions: Sequence[str], **_: object) -> list[float]:
            return [time.process_time() - self.began] * len(completions)

        return [generated_tokens, first_draw, first_draw_dead, cpu_seconds]


class Grader:
    """Gives each completion its rewards, once; with noise, if asked for, from a generator of its own.

    Args:
        noise: Its standard deviation.
        seed: Of the noise.
    """

    def __init__(self, noise: float, seed: int) -> None:
        self._noise, self._generator = noise, torch.Generator().manual_seed(seed)
        self.kept: list[float] | None = None

    def grade(self, prompts: Sequence[str], completions: Sequence[str]) -> list[float]:
        """What the completions earn, the noise included."""
        noise = (self._noise * torch.randn(len(prompts), generator=self._generator)).tolist()
        return [right + extra for right, extra in zip(accuracy_reward(prompts, completions), noise, strict=True)]

    def graded(self, completions: Sequence[str], **_: object) -> list[float]:
        """The reward function: what the kept completions were given when they were drawn."""
        assert self.kept is not None
        return self.kept


class Resampling(GRPOTrainer):  # type: ignore[misc]  # TRL is untyped here
    """TRL's trainer with DAPO's dynamic sampling: groups without variance are thrown away and others drawn.

    The first draw has every prompt of the batch. For as many groups as have no variance in it, as many prompts are
    drawn from the dataset, and their groups kept if they have some; until none is open, or after so many draws. What is
    still open then keeps its dead group.
    """

    draws = 1
    """At most; with 1 it is TRL's own trainer."""

    grader: Grader
    ledger: Ledger
    _drawn: tuple[Any, ...] | None = None

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """See the class."""
        size, ledger = self.num_generations, self.ledger
        inputs, columns, rewards = list(inputs), [], []
        open_slots, ledger.draws = list(range(len(inputs) // size)), 0
        while open_slots and ledger.draws < self.draws:
            if ledger.draws:
                picked = torch.randperm(len(self.train_dataset))[: len(open_slots)].tolist()
                new = [self.train_dataset[place] for place in picked for _ in range(size)]
            else:
                new = inputs
            prompts = [row["prompt"] for row in new]
            drawn = super()._generate(prompts)
            earned = self.grader.grade(prompts, drawn[3])
            ledger.tokens += sum(map(len, drawn[1]))
            ledger.draws += 1
            alive = alive_groups(earned, size)
            if ledger.draws == 1:
                columns, rewards = [list(drawn[at]) for at in (0, 1, 3)], list(earned)
                ledger.reward, ledger.dead = sum(earned) / len(earned), 1 - sum(alive) / len(alive)
            else:
                for place, slot in enumerate(open_slots):
                    if alive[place]:
                        there, here = slice(slot * size, (slot + 1) * size), slice(place * size, (place + 1) * size)
                        inputs[there], rewards[there] = new[here], earned[here]
                        for column, at in zip(columns, (0, 1, 3), strict=True):
                            column[there] = drawn[at][here]
            open_slots = [slot for slot, is_alive in zip(open_slots, alive, strict=True) if not is_alive]
        # Nothing else of what _generate gives is used here: no tools, no images, no inference engine.
        self._drawn = (columns[0], columns[1], None, columns[2], None, {}, None, [])
        self.grader.kept = rewards
        return super()._generate_and_score_completions(inputs)  # type: ignore[no-any-return]

    def _generate(self, prompts: list[str]) -> tuple[Any, ...]:
        """What was drawn already."""
        drawn, self._drawn = self._drawn, None
        assert drawn is not None
        return drawn


def alive_groups(rewards: Sequence[float], size: int) -> list[bool]:
    """Whether the completions of each group, side by side, earned different rewards.

    >>> alive_groups([0.5, 0.5, 0.5, 1.0, 0.0, 0.0], 2)
    [False, True, False]
    """
    return [len(set(rewards[at : at + size])) > 1 for at in range(0, len(rewards), size)]
