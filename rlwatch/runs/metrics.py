"""The one table of metric names: unit, meaning, formula.

The documentation, the dashboard's tooltips and the readers all take their words from here. Notation: a *step* is one
optimizer step over all its micro-batches and all ranks; its *rollouts* are all completions of every generation that the
step trained on; H is a token's entropy, m its loss mask; G is the number of completions a prompt gets.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One row of the table."""

    name: str
    unit: str
    meaning: str
    formula: str

    @property
    def family(self) -> str:
        """What comes before the slash, or the name itself."""
        return self.name.partition("/")[0]


_TABLE = (
    Metric(
        "entropy/mean",
        "nats per token",
        "How undecided the policy is about the tokens that it wrote.",
        "Σ m·H / Σ m over every token that the loss sees, all micro-batches and ranks of the step",
    ),
    Metric(
        "groups/zero_std",
        "share of groups",
        "Groups whose completions all earned the same: their advantage, and so their gradient, is zero.",
        "groups with max r − min r = 0 (to float error) / groups with a reward, whatever the scaling of rewards",
    ),
    Metric(
        "groups/solved",
        "share of groups",
        "Zero-variance groups in which every completion earned the best reward seen so far in the run.",
        "zero_std groups with r = best / groups",
    ),
    Metric(
        "groups/failed",
        "share of groups",
        "Zero-variance groups in which every completion earned the worst reward seen so far in the run.",
        "zero_std groups with r = worst / groups (while one reward is all that was seen: solved if > 0, else failed)",
    ),
    Metric(
        "groups/stuck",
        "share of groups",
        "Zero-variance groups in between: all alike, and neither the best nor the worst.",
        "zero_std − solved − failed",
    ),
    Metric(
        "groups/reward_std",
        "reward",
        "How far apart the siblings of a group are: what the advantage is made of.",
        "mean over groups of √(Σ(r − r̄)² / (G − 1))",
    ),
    Metric("reward/mean", "reward", "The weighted reward of a completion.", "mean of Σ_f w_f·r_f over the rollouts"),
    Metric(
        "reward/std",
        "reward",
        "Spread of the reward over all rollouts, between groups and within them.",
        "√(Σ(r − r̄)² / (N − 1)) over the rollouts",
    ),
    Metric("length/mean", "tokens", "Tokens that the policy wrote, per completion.", "mean length of the rollouts"),
    Metric("length/correct", "tokens", "The same, over correct completions.", "mean length where correct"),
    Metric("length/incorrect", "tokens", "The same, over incorrect completions.", "mean length where not correct"),
    Metric("length/share_correct", "share of completions", "Completions that are correct.", "correct / rollouts known"),
    Metric(
        "length/truncated",
        "share of completions",
        "Completions that ran into the length limit instead of ending.",
        "rollouts whose last token is neither an end nor a padding token / rollouts",
    ),
    Metric("grad/norm", "norm", "The gradient before clipping.", "‖g‖₂"),
    Metric(
        "grad/clip_coef",
        "factor",
        "What clipping multiplied the gradient by.",
        "min(1, max_grad_norm / (‖g‖ + 1e-6)); 1 where clipping is off",
    ),
    Metric("grad/applied_norm", "norm", "The gradient that the optimizer got.", "clip_coef · ‖g‖"),
    Metric(
        "grad/effective_norm",
        "norm",
        "The part of the applied gradient that comes from the rewards.",
        "clip_coef · ‖g_policy‖; the applied norm while no KL term, entropy bonus or auxiliary loss is on, else absent",
    ),
    Metric("loss", "loss", "The loss of the step, NaN kept.", "Σ over micro-batches of the loss given to backward"),
    Metric("lr", "per step", "The learning rate that the step used.", "of the optimizer's first parameter group"),
    Metric("step_seconds", "seconds", "Wall time of the step, its generation included.", "step begin to step end"),
    Metric(
        "rollouts/age",
        "optimizer steps",
        "How old the step's newest rollouts are: 0 where they were generated for this very step.",
        "step − first step that trained on the newest of its generations",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}
"""Every canonical metric that rlwatch records, by name; `reward/<function>` stands beside them."""


def describe(name: str) -> Metric:
    """The table's row for a name; one made up for `reward/<function>`, and a bare one for a name that is not ours."""
    if name in METRICS:
        return METRICS[name]
    if name.startswith("reward/"):
        function = name.removeprefix("reward/")
        return Metric(name, "reward", f"What the reward function {function} gave.", "mean over its scored rollouts")
    return Metric(name, "", "", "")
