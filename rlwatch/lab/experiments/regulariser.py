"""Regulariser: a gradient norm that looks alive while nothing of it comes from the rewards."""

from __future__ import annotations

from rlwatch.lab.experiment import Arm, Claim, Column, Experiment, Measure
from rlwatch.lab.measures import Records, at_end, first_step, mean, number, values

ROLLOUT = 8
"""Optimizer steps on the same completions."""

SOUND = 40
"""Rollouts for which the verifier is sound."""

BROKEN = ROLLOUT * SOUND
"""The last step on a rollout that it judged."""


def share_of_effective(records: Records) -> float | None:
    """‖g_policy‖ as a share of ‖g‖, the mean over the steps after the verifier broke at which both were measured."""
    found = [
        part / whole
        for record in records
        if record.step > BROKEN
        and (part := number(record, "grad/policy_norm")) == part
        and (whole := number(record, "grad/norm")) > 0
    ]
    return mean(found)


def norm_after(records: Records) -> float | None:
    """The mean norm of the gradient in the forty steps after the verifier broke."""
    return mean([x for step, x in values(records, "grad/norm") if BROKEN < step <= BROKEN + 40])


def accuracy_lost(records: Records) -> float | None:
    """The true accuracy in the last rollout before the verifier broke, minus that at the end."""
    before = mean([x for step, x in values(records, "reward/true_accuracy") if BROKEN - ROLLOUT < step <= BROKEN])
    after = at_end("reward/true_accuracy", ROLLOUT)(records)
    return before - after if before is not None and after is not None else None


_CLIP = {"epsilon_high": 1.0}

EXPERIMENT = Experiment(
    name="regulariser",
    title="The regulariser",
    question="A policy learns a task, and then its verifier breaks and returns 0 for everything. Every group is dead. "
    "What does the gradient's norm do, with a KL penalty and without one, and what becomes of what was learnt?",
    regime=f"The failure room's task with the wide clip, so that there is something to lose; the verifier is sound for "
    f"{SOUND} rollouts. It vanishes without a penalty, and with a verifier that stays sound.",
    arms=(
        Arm(
            "kl",
            "a KL penalty, and the verifier breaks",
            {**_CLIP, "beta": 0.02},
            {"sound": SOUND},
            fires=("regulariser-dominates", "dead-groups", "no-gradient", "reward-collapse"),
        ),
        Arm(
            "no-kl",
            "no penalty, and the verifier breaks",
            {**_CLIP, "beta": 0.0},
            {"sound": SOUND},
            fires=("no-gradient", "dead-groups", "reward-collapse"),
        ),
        Arm(
            "kl-sound", "a KL penalty, and the verifier stays sound", {**_CLIP, "beta": 0.02}, {"sound": 0}, quiet=True
        ),
    ),
    short=("kl", "no-kl"),
    steps=480,
    measures=(
        Measure("gradient norm in the 40 steps after", norm_after, form=".3f"),
        Measure("policy's share of the gradient after", share_of_effective, form=".1%"),
        Measure("true accuracy lost after", accuracy_lost, form=".2f"),
        Measure("true accuracy at the end", at_end("reward/true_accuracy"), form=".2f"),
        Measure(
            "all groups dead, none solved",
            first_step(lambda r: number(r, "groups/failed") + number(r, "groups/stuck") >= 0.99, ROLLOUT),
            "steps",
            is_time=True,
            form=".0f",
        ),
    ),
    claims=(
        Claim(
            "with a penalty the gradient's norm stays above 0.01 while every group is dead",
            "above",
            "gradient norm in the 40 steps after",
            "kl",
            bound=0.01,
        ),
        Claim(
            "and less than 1 % of it is the policy's",
            "below",
            "policy's share of the gradient after",
            "kl",
            bound=0.01,
        ),
        Claim(
            "without a penalty the norm is 0",
            "below",
            "gradient norm in the 40 steps after",
            "no-kl",
            bound=1e-6,
        ),
        Claim(
            "with a penalty more of the true accuracy is lost than without",
            "more",
            "true accuracy lost after",
            "kl",
            "no-kl",
        ),
        Claim(
            "with a verifier that stays sound the policy's part is above 10 % of the norm",
            "above",
            "policy's share of the gradient after",
            "kl-sound",
            bound=0.1,
            where=True,
        ),
    ),
    module="rlwatch.lab.regulariser",
    event="all groups dead, none solved",
    table=(
        Column("gradient norm first → last", "grad/norm", ("first", "last"), ".3f"),
        Column("of it the policy's, first → last", "grad/policy_norm", ("first", "last"), ".3f"),
        Column("reward first → last", "reward/mean", ("first", "last")),
        Column("true accuracy first → last", "reward/true_accuracy", ("first", "last")),
    ),
    curves=("grad/norm", "grad/policy_norm", "reward/mean", "reward/true_accuracy", "kl/ref"),
    watch={"correct": "true_accuracy", "split_every": 4},
    reading=(
        "The verifier breaks at once, so no rule can warn before it; what counts is how soon after, and by which name.",
        "The penalty's pull lasts until the policy is its reference again: then the norm falls, too.",
    ),
)
