"""Interactions: three of DAPO's changes, each with and without the others. Do their effects add up?

With y the reward of a seed in each of the 2·2·2 arms and s = ±1 for a factor that is changed or not, the effect of a
factor is Σ s·y/4 and the interaction of two Σ s·s'·y/4: contrasts of all eight arms, one number a seed, judged by their
interval and the exact test like any paired difference. The training is that of
[`dynamic_sampling`][rlwatch.lab.dynamic_sampling]; what twelve seeds showed is in docs/lab/interactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from rlwatch.lab.experiment import Arm, Claim, Column, Experiment, Measure
from rlwatch.lab.experiments.dynamic_sampling import REWARD, ROLLOUT
from rlwatch.lab.measures import at_end

FACTORS = ("clip", "sampling", "denominator")
"""What is changed: the upper clip, whether dead groups are drawn anew, what a token's loss is divided by."""

_NAMES = (("tight", "wide"), ("plain", "resampled"), ("grpo", "dapo"))
_LEVELS = tuple(product((0, 1), repeat=len(FACTORS)))


def _name(levels: tuple[int, ...]) -> str:
    return "-".join(names[level] for names, level in zip(_NAMES, levels, strict=True))


def _arm(levels: tuple[int, ...]) -> Arm:
    clip, sampling, denominator = levels
    return Arm(
        _name(levels),
        f"{'a wide' if clip else 'a symmetric'} clip, {'up to 8 draws' if sampling else 'one draw'}, "
        f"loss_type {_NAMES[2][denominator]}",
        {"epsilon_high": (0.2, 1.0)[clip], "loss_type": _NAMES[2][denominator]},
        {"draws": (1, 8)[sampling]},
        quiet=True,
    )


def effect_of(*factors: str) -> Mapping[str, float]:
    """The weights of a main effect, or with several factors of their interaction: ±1/4 of each of the eight arms.

    The sign is the product over the factors of +1 where it is changed and −1 where it is not. So a main effect is the
    mean difference that the change makes, and an interaction half of how much more it makes where the other is made.

    >>> effect_of("clip")["wide-plain-grpo"], effect_of("clip", "sampling")["wide-plain-grpo"]
    (0.25, -0.25)
    """
    weights = {}
    for levels in _LEVELS:
        sign = 1.0
        for factor in factors:
            sign *= 1.0 if levels[FACTORS.index(factor)] else -1.0
        weights[_name(levels)] = sign / 4
    return weights


_END = "reward at the end"

EXPERIMENT = Experiment(
    name="interactions",
    title="Interactions",
    question="A wider upper clip, dynamic sampling and the batch's token count as denominator came together in DAPO. "
    "What is each worth without the others, and is the whole the sum of its parts?",
    regime="Rare right answers, groups of 4, eight updates a rollout, SGD, 60 rollouts. All answers are about as long, "
    "so the denominator has nothing to do here.",
    arms=tuple(_arm(levels) for levels in _LEVELS),
    short=(_name((0, 0, 0)), _name((1, 1, 1))),
    steps=480,
    measures=(
        Measure(_END, at_end(REWARD, 4 * ROLLOUT), form=".2f"),
        Measure("entropy at the end", at_end("entropy/mean", 4 * ROLLOUT), "nats", form=".2f"),
        Measure("tokens generated", at_end("reward/generated_tokens", 1), "tokens", form=".0f"),
    ),
    claims=(
        Claim("a wider clip earns more, whatever the others are", "more", _END, weights=effect_of("clip")),
        Claim("dynamic sampling earns more", "more", _END, weights=effect_of("sampling")),
        Claim(
            "the two add up, to 0.1: their interaction is small",
            "same",
            _END,
            bound=0.1,
            weights=effect_of("clip", "sampling"),
        ),
        Claim(
            "no clip and denominator interaction above 0.1",
            "same",
            _END,
            bound=0.1,
            weights=effect_of("clip", "denominator"),
        ),
        Claim(
            "no sampling and denominator interaction above 0.1",
            "same",
            _END,
            bound=0.1,
            weights=effect_of("sampling", "denominator"),
        ),
        Claim("and none of all three", "same", _END, bound=0.1, weights=effect_of(*FACTORS)),
        Claim("a wider clip keeps more entropy", "more", "entropy at the end", weights=effect_of("clip")),
        Claim("dynamic sampling generates more tokens", "more", "tokens generated", weights=effect_of("sampling")),
        Claim(
            "where all answers are as long, the denominator changes the reward by less than 0.1",
            "same",
            _END,
            bound=0.1,
            where=True,
            weights=effect_of("denominator"),
        ),
    ),
    module="rlwatch.lab.dynamic_sampling",
    table=(
        Column("reward as drawn, first → last", REWARD, ("first", "last")),
        Column("entropy first → last", "entropy/mean", ("first", "last")),
        Column("tokens generated", "reward/generated_tokens", form=".0f"),
    ),
    curves=(REWARD, "entropy/mean", "reward/generated_tokens"),
    watch={"correct": ("graded", 0.5)},
    reading=(
        "With 120 steps no factor moves the reward (clip -0.01, sampling +0.01; seeds 1 to 5): effects that are not "
        "there tell nothing of how they add up. 480 were chosen on these five seeds, which could not show the two main "
        "effects (+0.07 and +0.11, p = 0.062 each) and said that twelve would; to ask that, take other seeds.",
        "A main effect is the mean over the four settings of the others; an interaction of two is half of how much "
        "more the one is worth where the other is there. Each is a contrast of all eight arms in one seed.",
        "Rewards are those of the first draw, which dynamic sampling does not filter.",
        "A reward cannot be above 1: what is near it cannot show effects that add up.",
    ),
)
