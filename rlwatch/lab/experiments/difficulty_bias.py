"""Difficulty bias: what the advantage is divided by, and which prompts get the update then."""

from __future__ import annotations

from rlwatch.lab.experiment import Arm, Claim, Column, Experiment, Measure
from rlwatch.lab.measures import at_end, at_start, first_step, number

EARLY = 8
"""Steps whose shares of the update are measured: steps are still short, and the policy near the first one."""


EXPECTED_NONE, EXPECTED_GROUP, NEAR = 0.140, 0.218, 0.04
"""What the binomial formula gives for 32 completions and success rates of .95, .5 and .05, and how near is near."""

EXPERIMENT = Experiment(
    name="difficulty-bias",
    title="Difficulty bias",
    question="A third of the prompts is nearly solved (95 % right), a third is even, a third nearly hopeless (5 %). "
    "The arms differ in what the advantage is divided by: the std of its group, that of the batch, nothing. Every "
    "step moves the weights equally far. Which prompts get the update, and which are learnt first?",
    regime="Prompts of different difficulty with wrong answers of their own, groups of 32, one update a rollout, steps "
    "as long in every arm. Where all prompts are equally hard, group scaling is another learning rate, no more.",
    arms=(
        Arm("group", "divided by the std of the group: GRPO", {"scale_rewards": "group"}, quiet=True),
        Arm("none", "not divided: Dr. GRPO", {"scale_rewards": "none"}, quiet=True),
        Arm("batch", "divided by the std of the batch", {"scale_rewards": "batch"}, quiet=True),
        Arm(
            "alike-group",
            "divided by the std of the group, where all prompts are equally hard",
            {"scale_rewards": "group"},
            {"prompts": "alike"},
            quiet=True,
        ),
        Arm(
            "alike-none",
            "not divided, where all prompts are equally hard",
            {"scale_rewards": "none"},
            {"prompts": "alike"},
            quiet=True,
        ),
    ),
    short=("group", "none"),
    steps=60,
    measures=(
        Measure("share of hard groups at first", at_start("weight/hard", EARLY), form=".1%"),
        Measure("hard prompts right at the end", at_end("reward/hard", 10), form=".1%"),
        Measure(
            "hard prompts half right",
            first_step(lambda r: number(r, "reward/hard") >= 0.5, 2),
            "steps",
            is_time=True,
            form=".0f",
        ),
        Measure(
            "even prompts at nine tenths",
            first_step(lambda r: number(r, "reward/even") >= 0.9, 2),
            "steps",
            is_time=True,
            form=".0f",
        ),
    ),
    claims=(
        Claim(
            "under group scaling hard groups have more of the update than without it",
            "more",
            "share of hard groups at first",
            "group",
            "none",
        ),
        Claim(
            "under group scaling it is at most what the formula says, 21.8 %, and 4 points",
            "below",
            "share of hard groups at first",
            "group",
            bound=EXPECTED_GROUP + NEAR,
        ),
        Claim(
            "and at least that less 4 points",
            "above",
            "share of hard groups at first",
            "group",
            bound=EXPECTED_GROUP - NEAR,
        ),
        Claim(
            "without scaling it is at most what the formula says, 14.0 %, and 4 points",
            "below",
            "share of hard groups at first",
            "none",
            bound=EXPECTED_NONE + NEAR,
        ),
        Claim(
            "and at least that less 4 points",
            "above",
            "share of hard groups at first",
            "none",
            bound=EXPECTED_NONE - NEAR,
        ),
        Claim(
            "hard prompts are half right sooner under group scaling",
            "sooner",
            "hard prompts half right",
            "group",
            "none",
        ),
        Claim(
            "even prompts are at nine tenths sooner without it",
            "sooner",
            "even prompts at nine tenths",
            "none",
            "group",
        ),
        Claim(
            "the batch's std is one number for all: nothing changes but the step's length, which is cut",
            "same",
            "hard prompts right at the end",
            "batch",
            "none",
            bound=0.02,
        ),
        Claim(
            "where all prompts are equally hard the shares are alike",
            "same",
            "share of hard groups at first",
            "alike-group",
            "alike-none",
            bound=0.03,
            where=True,
        ),
        Claim(
            "and what is learnt is, too",
            "same",
            "hard prompts right at the end",
            "alike-group",
            "alike-none",
            bound=0.05,
            where=True,
        ),
    ),
    module="rlwatch.lab.difficulty_bias",
    table=(
        Column("hard groups' share, at first", "weight/hard", ("first",), ".1%"),
        Column("easy right first → last", "reward/easy", ("first", "last"), ".0%"),
        Column("even right first → last", "reward/even", ("first", "last"), ".0%"),
        Column("hard right first → last", "reward/hard", ("first", "last"), ".0%"),
    ),
    curves=("reward/hard", "reward/even", "reward/easy", "weight/hard", "weight/easy"),
    watch={"correct": "accuracy_reward"},
    reading=(
        "weight/hard goes by what came of a rollout: at most a quarter of the group right, whatever the prompt. Even "
        "prompts' groups are among them now and then, and hard ones leave them as they are learnt.",
        "With 32 completions the formula is short of √(p(1 − p)): a fifth of the hard groups has no right answer at "
        "all, and no scaling helps there.",
        "All steps are as long in every arm. With a plain learning rate group scaling is a larger step as well.",
    ),
)
