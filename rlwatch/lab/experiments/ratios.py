"""Ratios: four ways to bound how far several updates may move on the same rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.lab.experiment import Arm, Claim, Column, Experiment, Measure
from rlwatch.lab.measures import Records, at_end, at_start, mean, mean_of, number, values

UPDATES = 16
"""Optimizer steps on a rollout where there are several."""


def cut(records: Records) -> float | None:
    """The share of tokens, under GSPO of completions, whose gradient is cut off: the mean over a run.

    CISPO cuts none: it bounds a weight, and what `clip/high` counts there keeps its gradient.
    """
    both = [number(r, "clip/low") + number(r, "clip/high") for r in records]
    return mean([x for x in both if x == x])


def largest_fall(records: Records) -> float | None:
    """How far the reward of a rollout was below the best one before it, at most."""
    best, fall = float("-inf"), 0.0
    for _, reward in values(records, "reward/mean"):
        best = max(best, reward)
        fall = max(fall, best - reward)
    return fall if best > float("-inf") else None


_GRPO: Mapping[str, Any] = {"loss_type": "grpo", "num_generations": 8, "epsilon_high": 0.2}
_GSPO: Mapping[str, Any] = {
    **_GRPO, "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4,
}  # fmt: skip
_CISPO: Mapping[str, Any] = {**_GRPO, "loss_type": "cispo", "epsilon_high": 5.0}
_OFF, _ON = {"num_iterations": UPDATES}, {"num_iterations": 1}

EXPERIMENT = Experiment(
    name="ratios",
    title="Ratios",
    question="PPO and GRPO clip each token's ratio to the policy that sampled it, GSPO a whole completion's, CISPO "
    "only bounds a weight. With sixteen updates a rollout, which moves furthest, which hardly moves, and what is left "
    "of the difference with one update?",
    regime="Sixteen updates on each rollout of 128 completions, SGD, rewards for rare right answers. With one update a "
    "rollout every ratio is 1 and no bound acts.",
    arms=(
        Arm("ppo-16", "a loop of its own: value baseline, token ratio, clip 0.2", {**_GRPO, **_OFF}, {"loop": "ppo"}),
        Arm("grpo-16", "group baseline, token ratio, clip 0.2", {**_GRPO, **_OFF}, quiet=True),
        Arm(
            "gspo-16",
            "group baseline, completion ratio, clip 0.0003 and 0.0004",
            {**_GSPO, **_OFF},
            fires=("clip-saturated",),
        ),
        Arm("cispo-16", "group baseline, token weights of 5 at most, nothing cut", {**_CISPO, **_OFF}),
        Arm("grpo-1", "grpo with one update a rollout", {**_GRPO, **_ON}, quiet=True),
        Arm("gspo-1", "gspo with one update a rollout", {**_GSPO, **_ON}, quiet=True),
        Arm("cispo-1", "cispo with one update a rollout", {**_CISPO, **_ON}, quiet=True),
    ),
    short=("ppo-16", "grpo-16", "gspo-16", "cispo-16"),
    steps=128,
    measures=(
        Measure("share of what is cut", cut, form=".3f"),
        Measure("KL to the sampling policy", mean_of("kl/old"), "nats", form=".4f"),
        Measure("largest ratio", mean_of("ratio/max"), form=".2f"),
        Measure("entropy at the end", at_end("entropy/mean", UPDATES), "nats", form=".2f"),
        Measure("reward at the end", at_end("reward/mean", UPDATES), form=".2f"),
        Measure("gradient norm of the first eight updates", at_start("grad/norm", 8), form=".5f"),
        Measure("largest fall of the reward", largest_fall, form=".2f"),
    ),
    claims=(
        Claim("GSPO cuts a larger share than GRPO", "more", "share of what is cut", "gspo-16", "grpo-16"),
        Claim("and moves less from the sampling policy", "less", "KL to the sampling policy", "gspo-16", "grpo-16"),
        Claim("so it earns less after as many updates", "less", "reward at the end", "gspo-16", "grpo-16"),
        Claim(
            "CISPO moves further from the sampling policy than GRPO",
            "more",
            "KL to the sampling policy",
            "cispo-16",
            "grpo-16",
        ),
        Claim("and its reward falls further in between", "more", "largest fall of the reward", "cispo-16", "grpo-16"),
        Claim("PPO cuts as much as GRPO, to 0.1", "same", "share of what is cut", "ppo-16", "grpo-16", bound=0.1),
        Claim(
            "GRPO moves further with sixteen updates a rollout than with one",
            "more",
            "KL to the sampling policy",
            "grpo-16",
            "grpo-1",
        ),
        Claim(
            "with one update a rollout GSPO's and GRPO's gradients are the same",
            "same",
            "gradient norm of the first eight updates",
            "gspo-1",
            "grpo-1",
            bound=1e-5,
            where=True,
        ),
        Claim(
            "and so is what they earn in the end",
            "same",
            "reward at the end",
            "gspo-1",
            "grpo-1",
            bound=0.02,
            where=True,
        ),
        Claim(
            "and CISPO, whose denominator is the batch's, earns the same to 0.1",
            "same",
            "reward at the end",
            "cispo-1",
            "grpo-1",
            bound=0.1,
            where=True,
        ),
    ),
    module="rlwatch.lab.ratios",
    table=(
        Column("reward first → last", "reward/mean", ("first", "last")),
        Column("entropy first → last", "entropy/mean", ("first", "last")),
        Column("largest ratio, last", "ratio/max"),
        Column("cut upwards, last", "clip/high", form=".1%"),
        Column("cut downwards, last", "clip/low", form=".1%"),
    ),
    curves=("reward/mean", "entropy/mean", "ratio/max", "kl/old", "clip/high", "clip/low"),
    watch={"correct": ("graded", 0.5)},
    reading=(
        "With one update a rollout GSPO and GRPO are one method, and yet end apart: after some ten updates the "
        "last digit of a sum decides which token is drawn, and from there on two runs are two runs.",
        "GSPO's share is of completions, the others' of tokens; a dead group's have no advantage and are never cut.",
        "As many updates are compared, so with one update a rollout sixteen times as many completions are generated.",
        "CISPO's epsilon_high is the largest weight itself: with the default of 0.2 every weight would be 0.2.",
    ),
)
