"""Dynamic sampling: what it is worth to throw groups without variance away and to draw others."""

from __future__ import annotations

from rlwatch.lab.experiment import Arm, Claim, Column, Experiment, Measure
from rlwatch.lab.measures import Of, Records, at_end, mean_of, values

ROLLOUT = 8
"""Optimizer steps on the same completions."""

TOKENS = 5000
"""Generated tokens after which the arms are compared: a little fewer than the plain arm has at its end."""

SECONDS = 6
"""CPU seconds of the training's process after which the arms are compared."""

REWARD = "reward/first_draw"


def reward_when(counter: str, reaches: float, rollouts: int = 4) -> Of:
    """The reward of the first draws, the mean of the last rollouts before a counter goes above a number."""

    def of(records: Records) -> float | None:
        before = [r for r in records if (x := r.metrics.get(counter)) is not None and x <= reaches]
        return at_end(REWARD, rollouts * ROLLOUT)(before)

    return of


def at_half(records: Records) -> float | None:
    """The same at half of the optimizer steps."""
    return at_end(REWARD, 4 * ROLLOUT)(records[: len(records) // 2])


def tokens_of_late_rollouts(records: Records) -> float | None:
    """Tokens of a rollout in the last sixth of a run, as a multiple of those of the first draw's 64 completions."""
    found = [tokens for _, tokens in values(records, "reward/generated_tokens")]
    rollouts, length = len(records) // 6 // ROLLOUT, mean_of("length/mean")(records)
    if not rollouts or not length:
        return None
    return (found[-1] - found[-1 - rollouts * ROLLOUT]) / rollouts / (64 * length)


EXPERIMENT = Experiment(
    name="dynamic-sampling",
    title="Dynamic sampling",
    question="Groups without variance teach nothing. One trainer throws them away and draws others until its batch is "
    "full (DAPO), at most eight times; another keeps them. Which earns more after as many gradient steps, after as "
    "many generated tokens, and after as much time?",
    regime="Groups of 4 and a prior of 0.05 on the right answers: at first most groups have no variance (failed), at "
    "the end as well (solved). Eight updates a rollout, SGD. It vanishes where a grader's noise leaves no group dead.",
    arms=(
        Arm("plain", "what was drawn is trained on", {}, {"draws": 1}, quiet=True),
        Arm("resampled", "dead groups are thrown away, up to 8 draws a rollout", {}, {"draws": 8}, quiet=True),
        Arm("plain-noisy", "as plain, with a grader whose noise tells all completions apart", {}, {"noise": 0.05}),
        Arm("resampled-noisy", "up to 8 draws with that grader", {}, {"draws": 8, "noise": 0.05}),
    ),
    short=("plain", "resampled"),
    steps=240,
    measures=(
        Measure("reward at the end", at_end(REWARD, 4 * ROLLOUT), form=".2f"),
        Measure("reward at half the steps", at_half, form=".2f"),
        Measure(f"reward at {TOKENS} tokens", reward_when("reward/generated_tokens", TOKENS), form=".2f"),
        Measure(f"reward at {SECONDS} CPU seconds", reward_when("reward/cpu_seconds", SECONDS), form=".2f"),
        Measure("tokens generated", at_end("reward/generated_tokens", 1), "tokens", form=".0f"),
        Measure("tokens of a late rollout", tokens_of_late_rollouts, "times one draw", form=".1f"),
        Measure("zero-std share as trained on", mean_of("groups/zero_std"), form=".0%"),
        Measure("zero-std share as drawn", mean_of("reward/first_draw_dead"), form=".0%"),
        Measure("CPU seconds", at_end("reward/cpu_seconds", 1), "s", form=".1f"),
    ),
    claims=(
        Claim(
            "after resampling, less than a tenth of the groups that are trained on have no variance",
            "below",
            "zero-std share as trained on",
            "resampled",
            bound=0.1,
        ),
        Claim(
            "after as many gradient steps the resampling arm earns more",
            "more",
            "reward at the end",
            "resampled",
            "plain",
        ),
        Claim("at half of the steps, too", "more", "reward at half the steps", "resampled", "plain"),
        Claim(
            "after as many generated tokens the two earn the same, to 0.15: a token buys as many live groups in both",
            "same",
            f"reward at {TOKENS} tokens",
            "resampled",
            "plain",
            bound=0.15,
        ),
        Claim(
            "after as many CPU seconds it earns more: here most of a step is the update",
            "more",
            f"reward at {SECONDS} CPU seconds",
            "resampled",
            "plain",
        ),
        Claim("it generates more tokens", "more", "tokens generated", "resampled", "plain"),
        Claim(
            "late, when most groups are solved, its rollouts cost more than 3 times the tokens of one draw",
            "above",
            "tokens of a late rollout",
            "resampled",
            bound=3.0,
        ),
        Claim(
            "where no group is dead the two are the same run",
            "same",
            "reward at the end",
            "resampled-noisy",
            "plain-noisy",
            bound=0.001,
            where=True,
        ),
    ),
    module="rlwatch.lab.dynamic_sampling",
    table=(
        Column("reward as drawn, first → last", REWARD, ("first", "last")),
        Column("reward as trained on, last", "reward/mean"),
        Column("zero-std as drawn, last", "reward/first_draw_dead", form=".0%"),
        Column("zero-std as trained on, last", "groups/zero_std", form=".0%"),
        Column("tokens generated", "reward/generated_tokens", form=".0f"),
    ),
    curves=(REWARD, "reward/mean", "reward/first_draw_dead", "groups/zero_std", "reward/generated_tokens"),
    watch={"correct": ("graded", 0.5)},
    reading=(
        "What a monitor sees after resampling is the batch that was kept: zero-std shares are near 0, no group is ever "
        "solved, and reward/mean is that of groups with variance, not the policy's. The policy's stands here as "
        "reward/first_draw, the mean over the first draw of each rollout.",
        "Tokens count every draw, those that were thrown away too; CPU seconds are those of the one process.",
        "What a token costs against an update is another matter in a large model, where tokens are most of the time.",
    ),
)
