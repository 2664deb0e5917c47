"""Length bias: what a loss divides by, and what becomes of the length of wrong and right answers."""

from __future__ import annotations

from rlwatch.lab.experiment import Arm, Claim, Column, Experiment, Measure
from rlwatch.lab.measures import at_end, at_start, change

EXPERIMENT = Experiment(
    name="length-bias",
    title="Length bias",
    question="A coin decides whether an answer is right, and no length is better than another: nothing can be learnt. "
    "Four losses differ in what a token's advantage is divided by. Under which of them do wrong answers grow?",
    regime="Correctness that no length can change: a coin writes the letter, which has no loss. Where the policy "
    "writes the letter and learns which one is right, the effect mostly vanishes: few answers stay wrong.",
    arms=(
        Arm("grpo", "a token weighs 1 / the answer's own length", {"loss_type": "grpo"}, fires=("length-bias",)),
        Arm(
            "dr_grpo", "a token weighs 1 / the longest length allowed, a constant", {"loss_type": "dr_grpo"}, quiet=True
        ),
        Arm("dapo", "a token weighs 1 / all tokens of the batch", {"loss_type": "dapo"}, quiet=True),
        Arm("bnpo", "a token weighs 1 / the tokens of the micro-batch", {"loss_type": "bnpo"}, quiet=True),
        Arm(
            "grpo-own-letter", "grpo, where the policy writes the letter too", {"loss_type": "grpo"}, {"letter": "own"}
        ),
    ),
    short=("grpo", "dr_grpo", "dapo", "bnpo"),
    steps=60,
    measures=(
        Measure("gap of wrong to right grew by", change("length/gap"), "tokens", form=".1f"),
        Measure("wrong answers grew by", change("length/incorrect"), "tokens", form=".1f"),
        Measure("right answers grew by", change("length/correct"), "tokens", form=".1f"),
        Measure(
            "weight of the longest quarter at first",
            at_start("weight/length_q4", 5),
            form=".0%",
        ),
        Measure("reward at the end", at_end("reward/mean", 5), form=".2f"),
    ),
    claims=(
        Claim("under grpo the gap of wrong to right answers grows", "above", "gap of wrong to right grew by", "grpo"),
        Claim(
            "it grows more under grpo than under dr_grpo", "more", "gap of wrong to right grew by", "grpo", "dr_grpo"
        ),
        Claim("it grows more under grpo than under dapo", "more", "gap of wrong to right grew by", "grpo", "dapo"),
        Claim("under grpo right answers shrink", "below", "right answers grew by", "grpo"),
        Claim(
            "it moves by less than 3 tokens under dr_grpo and dapo alike",
            "same",
            "gap of wrong to right grew by",
            "dr_grpo",
            "dapo",
            bound=3.0,
        ),
        Claim("it grows more under bnpo than under dapo", "more", "gap of wrong to right grew by", "bnpo", "dapo"),
        Claim(
            "it grows less where the policy writes the letter itself",
            "less",
            "gap of wrong to right grew by",
            "grpo-own-letter",
            "grpo",
            where=True,
        ),
    ),
    module="rlwatch.lab.length_bias",
    table=(
        Column("wrong, tokens first → last", "length/incorrect", ("first", "last"), ".1f"),
        Column("right, tokens first → last", "length/correct", ("first", "last"), ".1f"),
        Column("gap first → last", "length/gap", ("first", "last"), "+.1f"),
        # Later there may be no such quarter: none is longer where a third is as long as an answer may be.
        Column("longest quarter weighs, at first", "weight/length_q4", ("first",), ".0%"),
    ),
    curves=("length/gap", "length/incorrect", "length/correct", "reward/mean"),
    watch={"correct": "right_letter_reward", "counterfactual_every": 5},
    reading=(
        "It is the gap that tells: the length of all answers wanders far under every loss, right and wrong together.",
        "bnpo counts the tokens of a micro-batch of 32 answers here, which is nearly what dapo does; with one answer a "
        "micro-batch it is grpo, by its formula.",
    ),
)
