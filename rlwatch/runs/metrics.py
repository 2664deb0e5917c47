"""The one table of metric names: unit, meaning, formula.

The documentation, the dashboard's tooltips and the readers all take their words from here. Notation: a *step* is one
optimizer step over all its micro-batches and all ranks; its *rollouts* are all completions of every generation that the
step trained on; H is a token's entropy, m its loss mask; G is the number of completions a prompt gets.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlwatch.signals.decisions import EXPLAINED, NAMES


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


QUANTILE = "over the tokens of the step, from a histogram of 512 bins of equal ratio: off by at most 1.2 %"

_TABLE = (
    Metric(
        "entropy/mean",
        "nats per token",
        "How undecided the policy is about the tokens that it wrote.",
        "Σ m·H / Σ m over every token that the loss sees, all micro-batches and ranks of the step",
    ),
    Metric("entropy/p10", "nats per token", "The surest tenth of the tokens lies below this.", QUANTILE),
    Metric("entropy/p50", "nats per token", "Half of the tokens lie below this.", QUANTILE),
    Metric("entropy/p90", "nats per token", "The most undecided tenth of the tokens lies above this.", QUANTILE),
    Metric("entropy/top20", "nats per token", "Mean of the most undecided fifth of the tokens.", QUANTILE),
    Metric(
        "entropy/correct", "nats per token", "Entropy in correct completions.", "as entropy/mean, over their tokens"
    ),
    Metric("entropy/incorrect", "nats per token", "Entropy in incorrect ones.", "as entropy/mean, over their tokens"),
    Metric(
        "surprisal/mean",
        "nats per token",
        "How unlikely the policy finds what was sampled: equal to the entropy on average, unless the sampler differs.",
        "−Σ m·log p / Σ m",
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
    Metric(
        "groups/excess",
        "share of groups",
        "Zero-variance groups beyond what chance gives: above 0, siblings are more alike than independent draws.",
        "zero_std − mean of p^G + (1 − p)^G, with p = (correct + ½)/(G + 1) of each group",
    ),
    Metric(
        "groups/unique",
        "share of completions",
        "How many of a group's completions are different from each other.",
        "mean over groups of distinct completions / G",
    ),
    Metric(
        "groups/wasted_tokens",
        "share of tokens",
        "Generated tokens that teach nothing, because their group has no variance.",
        "tokens in zero-variance groups / tokens",
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
    Metric(
        "length/gap",
        "tokens",
        "How much longer incorrect completions are than correct ones to the same prompt.",
        "mean over groups with both of mean incorrect − mean correct length",
    ),
    Metric("length/share_correct", "share of completions", "Completions that are correct.", "correct / rollouts known"),
    Metric(
        "length/truncated",
        "share of completions",
        "Completions that ran into the length limit instead of ending.",
        "rollouts whose last token is neither an end nor a padding token / rollouts",
    ),
    Metric("length/truncated_correct", "share of completions", "The same, of the correct ones.", "as above"),
    Metric("length/truncated_incorrect", "share of completions", "The same, of the incorrect ones.", "as above"),
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
        "clip_coef · ‖g_policy‖: the applied norm while there is no regulariser, else on split steps",
    ),
    Metric(
        "grad/policy_norm",
        "norm",
        "The policy's part of the gradient before clipping.",
        "‖g_policy‖₂, where it is known",
    ),
    Metric(
        "grad/regulariser_norm",
        "norm",
        "The rest of it before clipping: KL term, entropy bonus, auxiliary loss.",
        "‖g − g_policy‖₂ on split steps; 0 while there is none",
    ),
    Metric(
        "grad/effective_estimate",
        "norm",
        "An estimate of the effective norm on the steps between two splits.",
        "clip_coef · ‖∂L_policy/∂log p‖ · (‖g_policy‖ / ‖∂L_policy/∂log p‖ as of the last split)",
    ),
    Metric("update/norm", "norm", "How far the optimizer moved the weights, on every n-th step.", "‖Δθ‖₂"),
    Metric("update/relative", "ratio", "The same against their size.", "‖Δθ‖₂ / ‖θ‖₂"),
    Metric(
        "signal/active_tokens",
        "share of tokens",
        "Tokens that move the policy: with an advantage, and neither clipped nor masked.",
        "tokens with ∂L_policy/∂log p ≠ 0 / tokens",
    ),
    Metric(
        "advantage/mean",
        "advantage",
        "Near 0 where siblings are the baseline, whatever the reward.",
        "mean of A over the tokens",
    ),
    Metric("signal/abs_advantage", "advantage", "Size of the advantage.", "mean of |A| over the step's completions"),
    Metric(
        "signal/ess",
        "share of completions",
        "How many completions the update rests on, as a share of them.",
        "(Σ|w|)² / Σw² / n with |w| = Σ |∂L_policy/∂log p| over a completion's tokens",
    ),
    Metric(
        "weight/incorrect",
        "share of weight",
        "Of all |w|, what lies on incorrect completions.",
        "Σ_incorrect |w| / Σ|w|",
    ),
    Metric(
        "weight/long",
        "share of weight",
        "Of all |w|, what lies on the longer completions.",
        "Σ |w| where length > the generation's median / Σ|w|",
    ),
    Metric(
        "weight/length_q1",
        "share of weight",
        "Of all |w|, what lies on the shortest quarter of the completions.",
        "Σ |w| where length ≤ the generation's first quartile / Σ|w|",
    ),
    Metric("weight/length_q2", "share of weight", "The same, of the second quarter.", "up to the median"),
    Metric("weight/length_q3", "share of weight", "The same, of the third quarter.", "up to the third quartile"),
    Metric("weight/length_q4", "share of weight", "The same, of the longest quarter.", "above the third quartile"),
    Metric(
        "weight/hard",
        "share of weight",
        "Of all |w|, what lies on groups of which at most a quarter is correct.",
        "Σ |w| where the group's success rate ≤ 0.25 / Σ|w| where it is known",
    ),
    Metric(
        "weight/easy",
        "share of weight",
        "Of all |w|, what lies on groups of which at least three quarters are correct.",
        "Σ |w| where the group's success rate ≥ 0.75 / Σ|w| where it is known",
    ),
    Metric(
        "weight/truncated", "share of weight", "Of all |w|, what lies on truncated completions.", "as weight/incorrect"
    ),
    Metric(
        "weight/largest_group",
        "share of weight",
        "Of all |w|, what lies on the group that has most of it; on the first step that trains on a generation.",
        "max over groups of Σ_group |w| / Σ|w|",
    ),
    Metric(
        "weight/top_tenth",
        "share of weight",
        "Of all |w|, what lies on the heaviest tenth of the completions; on the same steps.",
        "Lorenz curve of |w| at 0.1 from above",
    ),
    Metric(
        "weight/half",
        "share of completions",
        "The fewest completions that carry half of the update; on the same steps.",
        "smallest share of completions with Σ|w| ≥ half of all",
    ),
    Metric(
        "weight/length_corr", "correlation", "Whether longer completions weigh more.", "Pearson's r of |w| and length"
    ),
    Metric(
        "ratio/mean",
        "ratio",
        "How far the policy has moved from the one that the ratio is measured from; 1 where it has not.",
        "mean of p/p_old, over tokens; over completions where the loss has one ratio a completion",
    ),
    Metric("ratio/max", "ratio", "The largest of them.", "max of p/p_old"),
    Metric("clip/low", "share", "Tokens whose fall is cut off.", "r < 1 − ε_low and A < 0, of what ratio/mean counts"),
    Metric(
        "clip/high",
        "share",
        "Tokens whose rise is cut off.",
        "r > 1 + ε_high (cispo: ε_high) and A > 0, of what ratio/mean counts",
    ),
    Metric("clip/high_rare", "share of those", "Of these, the ones that were rare.", "p_old < 0.2, of clip/high"),
    Metric(
        "kl/ref",
        "nats per token",
        "Distance to the reference policy.",
        "Σ m·k3 / Σ m, k3 = e^d − d − 1, d = log p_ref − log p",
    ),
    Metric(
        "kl/old", "nats per token", "Distance to the policy that the ratio is measured from.", "mean of r − 1 − log r"
    ),
    Metric(
        "sampler/logp_gap_mean",
        "nats",
        "How far the sampler's log-probabilities are from the trainer's.",
        "mean of |log p − log p_sampler| over tokens that the sampler reported",
    ),
    Metric("sampler/logp_gap_max", "nats", "The largest of them.", "max of |log p − log p_sampler|"),
    Metric(
        "sampler/ratio_mean",
        "ratio",
        "The weight that corrects for the sampler, before any clipping or masking.",
        "mean of p / p_sampler",
    ),
    Metric(
        "cov/logp_advantage",
        "nats",
        "What entropy is about to do: where likely tokens are rewarded, it falls (2505.22617).",
        "covariance of log p and A over tokens",
    ),
    Metric("loss", "loss", "The loss of the step, NaN kept.", "Σ over micro-batches of the loss given to backward"),
    Metric("lr", "per step", "The learning rate that the step used.", "of the optimizer's first parameter group"),
    Metric("step_seconds", "seconds", "Wall time of the step, its generation included.", "step begin to step end"),
    Metric(
        "tokens/total",
        "tokens",
        "Tokens that the policy has written since the run began.",
        "Σ length over the completions of all generations so far, each generation once",
    ),
    Metric(
        "rollouts/age",
        "optimizer steps",
        "How old the step's newest rollouts are: 0 where they were generated for this very step.",
        "step − first step that trained on the newest of its generations",
    ),
)

_COUNTERFACTUAL = tuple(
    metric
    for name in NAMES
    for metric in (
        Metric(
            f"counterfactual/{name}/cosine",
            "cosine",
            f"Whether the update would have gone the same way with this: {EXPLAINED[name]}.",
            "gᵀg_a / (‖g‖·‖g_a‖), gradients of the policy's part over the step's very batch",
        ),
        Metric(
            f"counterfactual/{name}/norm_ratio",
            "factor",
            f"How much larger the gradient would have been with this: {EXPLAINED[name]}.",
            "‖g_a‖ / ‖g‖",
        ),
    )
)

_ASSUMED = tuple(
    Metric(
        f"{family}/{metric.name.partition('/')[2]}",
        metric.unit,
        f"{metric.meaning} As it would be under {loss}: from rollouts alone.",
        f"as {metric.name}, with |w| = {weight}, A by the group's mean and deviation",
    )
    for family, loss, weight in (
        ("weight_grpo", "loss_type grpo", "|A|"),
        ("weight_dapo", "loss_type dapo or dr_grpo", "|A|·length"),
    )
    for metric in _TABLE
    if metric.family == "weight" and metric.name not in ("weight/long", "weight/length_corr")
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in (*_TABLE, *_COUNTERFACTUAL, *_ASSUMED)}
"""Every canonical metric that rlwatch records, by name; `reward/<function>` stands beside them."""


def describe(name: str) -> Metric:
    """The table's row for a name; one made up for `reward/<function>`, and a bare one for a name that is not ours."""
    if name in METRICS:
        return METRICS[name]
    if name.startswith("reward/"):
        function = name.removeprefix("reward/")
        return Metric(name, "reward", f"What the reward function {function} gave.", "mean over its scored rollouts")
    return Metric(name, "", "", "")
