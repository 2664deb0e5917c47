"""The failure room: how far rare tokens may rise against how far they may fall, and what becomes of a policy then."""

from __future__ import annotations

from rlwatch.lab.experiment import Arm, Claim, Column, Experiment, Measure
from rlwatch.lab.measures import AT_END, Records, at_end, falls_to, first_step, mean, number, reaches
from rlwatch.runs.records import StepRecord

ROLLOUT = 8
"""Optimizer steps on the same completions."""

DEAD = 0.75
"""The share of groups that are dead and not solved from which a run has failed."""


def unsolved(record: StepRecord) -> float:
    """The share of groups that are dead and not solved."""
    return number(record, "groups/failed") + number(record, "groups/stuck")


def _unsolved_at_end(records: Records) -> float | None:
    return mean([x for record in records[-AT_END:] if (x := unsolved(record)) == x])


def _clipped(record: StepRecord) -> bool:
    return number(record, "clip/high_rare") > 0


_TIGHT, _SYMMETRIC, _HIGHER, _WIDE = 0.05, 0.2, 0.28, 1.0

_DYING = ("entropy-collapse", "dead-groups")
"""The rules that are right wherever the policy settles on the safe answer."""

EXPERIMENT = Experiment(
    name="failure-room",
    title="The failure room",
    question="Four policies differ in one number, epsilon_high: how far the probability of a token with a positive "
    "advantage may rise before its gradient is cut off. Which of them stop learning, and what would you see first: "
    "the loss, the reward, or something that TRL does not log?",
    regime="Eight updates a rollout, a prior of 0.9 on a safe answer that earns half, eleven rare answers, small "
    "steps. With one update a rollout the ratio is 1, the clip never acts, and the four arms are one run.",
    arms=(
        Arm(
            "tight",
            "a tight upper clip: the policy settles on the safe answer and stops learning",
            {"epsilon_high": _TIGHT},
            fires=_DYING,
        ),
        Arm("symmetric", "the clip of PPO and GRPO, as far up as down", {"epsilon_high": _SYMMETRIC}, fires=_DYING),
        Arm("clip-higher", "the clip of DAPO", {"epsilon_high": _HIGHER}, fires=_DYING),
        Arm(
            "wide",
            "a wide upper clip: rare right answers may grow, the policy learns the task",
            {"epsilon_high": _WIDE},
            quiet=True,
        ),
        Arm(
            "one-update-tight",
            "the tight clip with one update a rollout, where no clip acts",
            {"epsilon_high": _TIGHT, "num_iterations": 1},
            fires=_DYING,
            steps=120,
        ),
        Arm(
            "one-update-wide",
            "the wide clip with one update a rollout",
            {"epsilon_high": _WIDE, "num_iterations": 1},
            fires=_DYING,
            steps=120,
        ),
    ),
    short=("wide", "tight"),
    steps=480,
    measures=(
        Measure("reward at the end", at_end("reward/mean"), form=".2f"),
        Measure("groups dead and not solved at the end", _unsolved_at_end, form=".0%"),
        Measure("rare tokens clipped up", first_step(_clipped), "steps", is_time=True, form=".0f"),
        Measure("entropy halved", falls_to("entropy/mean", 0.5), "steps", is_time=True, form=".0f"),
        Measure("completions alike", falls_to("groups/unique", 0.5), "steps", is_time=True, form=".0f"),
        Measure("groups dead", reaches(unsolved, DEAD), "steps", is_time=True, form=".0f"),
        Measure("advantage gone", falls_to("signal/abs_advantage", 0.25), "steps", is_time=True, form=".0f"),
        Measure("loss looks converged", falls_to("loss", 0.25), "steps", is_time=True, form=".0f"),
        # For two rollouts on end.
        Measure("failed", first_step(lambda r: unsolved(r) >= DEAD, 2 * ROLLOUT), "steps", is_time=True, form=".0f"),
    ),
    claims=(
        Claim(
            "the tight clip halves entropy sooner than the symmetric one",
            "sooner",
            "entropy halved",
            "tight",
            "symmetric",
        ),
        Claim(
            "the tight clip kills the groups sooner than the symmetric one",
            "sooner",
            "failed",
            "tight",
            "symmetric",
        ),
        Claim("the symmetric clip kills the groups sooner than the wide one", "sooner", "failed", "symmetric", "wide"),
        Claim("the tight clip earns less than the symmetric one", "less", "reward at the end", "tight", "symmetric"),
        Claim("the symmetric clip earns less than DAPO's", "less", "reward at the end", "symmetric", "clip-higher"),
        Claim("DAPO's clip earns less than the wide one", "less", "reward at the end", "clip-higher", "wide"),
        Claim(
            "with one update a rollout the tight and the wide clip are the same run",
            "same",
            "reward at the end",
            "one-update-tight",
            "one-update-wide",
            bound=0.02,
            where=True,
        ),
    ),
    module="rlwatch.lab.failure_room",
    chain=(
        "rare tokens clipped up",
        "entropy halved",
        "completions alike",
        "groups dead",
        "advantage gone",
        "loss looks converged",
    ),
    event="failed",
    table=(
        Column("reward at the end", "reward/mean"),
        Column("entropy first → last", "entropy/mean", ("first", "last"), ".3f"),
        Column("zero-std share", "groups/zero_std", form=".0%"),
        Column("stuck", "groups/stuck", form=".0%"),
        Column("failed", "groups/failed", form=".0%"),
        Column("loss at the end", "loss", form="+.4f"),
    ),
    curves=("entropy/mean", "groups/unique", "reward/mean", "signal/abs_advantage", "loss"),
    watch={"correct": "accuracy_reward", "counterfactual_every": 25},
    reading=(
        "The share of zero-variance groups is high in the arms that learn, too: there they are solved.",
        "Between the tight and the wide clip it is the seed that decides whether a run learns the task, half or none.",
        "So small a task needs a far wider clip than the 0.28 that DAPO uses: no number here carries over.",
        "The safe answer pays half of the right one and takes its place: where reward-hacking says so, it is right.",
    ),
)
