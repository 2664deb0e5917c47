"""Mismatch: a sampler that is not the policy that is trained, with and without a correction for it."""

from __future__ import annotations

from rlwatch.lab.experiment import Arm, Claim, Column, Experiment, Measure
from rlwatch.lab.measures import Records, at_end

LAST = 10
"""Steps of which `at the end` is the mean."""

NOISE = 2.0
"""Standard deviation of the reported log-probabilities, in nats: the mean weight is then e^(2²/2) = 7.4."""

HOT = 2.0
"""The temperature of the sampler that is hotter than the policy."""


def _unseen(records: Records) -> float | None:
    own, sampled = at_end("reward/policy_accuracy", LAST)(records), at_end("reward/mean", LAST)(records)
    return own - sampled if own is not None and sampled is not None else None


EXPERIMENT = Experiment(
    name="mismatch",
    title="The sampler is not the trainer",
    question="One sampler reports log-probabilities that are off by noise, another one samples at twice the "
    "temperature and says so truthfully. TRL can weigh each token by p / p_sampler. Which of the two does that help, "
    "which does it harm, and which of them does the mean of that weight give away?",
    regime="Noise of 2 nats, a temperature of 2: far more than kernels differ by, what a wrong setting or a stale copy "
    "does. Without noise the weights are 1 and the corrected run is the plain one.",
    arms=(
        Arm("same", "the sampler is the policy", quiet=True),
        Arm(
            "same-corrected",
            "the sampler is the policy, and is corrected for: all weights are 1",
            {"vllm_importance_sampling_clip_max": 2.0},
            {"corrected": True},
            quiet=True,
        ),
        Arm(
            "noise",
            "what the sampler reports is off by noise, and weights may be as large as they like",
            {"vllm_importance_sampling_clip_max": 1e6},
            {"noise": NOISE, "corrected": True},
            fires=("sampler-mismatch",),
        ),
        Arm(
            "noise-truncated",
            "the same noise, and no weight is above 2",
            {"vllm_importance_sampling_clip_max": 2.0},
            {"noise": NOISE, "corrected": True},
            fires=("sampler-mismatch",),
        ),
        Arm("hot", "a sampler at temperature 2, not corrected for", {}, {"temperature": HOT}),
        Arm(
            "hot-corrected",
            "a sampler at temperature 2, with weights up to 2",
            {"vllm_importance_sampling_clip_max": 2.0},
            {"temperature": HOT, "corrected": True},
        ),
    ),
    short=("same", "noise", "noise-truncated"),
    steps=40,
    measures=(
        Measure("mean weight", at_end("sampler/ratio_mean", LAST), form=".2f"),
        Measure("gap of log-probabilities", at_end("sampler/logp_gap_mean", LAST), "nats", form=".2f"),
        Measure("the policy's own accuracy at the end", at_end("reward/policy_accuracy", LAST), form=".3f"),
        Measure("what the policy earns beyond what was sampled", _unseen, form=".3f"),
        Measure("gradient at the end", at_end("grad/norm", LAST), form=".2f"),
        Measure("entropy at the end", at_end("entropy/mean", LAST), "nats", form=".3f"),
    ),
    claims=(
        Claim("noise makes the mean weight e^(2²/2) = 7.4, above 5", "above", "mean weight", "noise", bound=5.0),
        Claim(
            "with noise in its weights the policy ends with less accuracy",
            "less",
            "the policy's own accuracy at the end",
            "noise",
            "same",
        ),
        Claim(
            "truncated weights mend that",
            "more",
            "the policy's own accuracy at the end",
            "noise-truncated",
            "noise",
        ),
        Claim(
            "a hot sampler's reward is what the sampler earns: the policy earns 5 points more",
            "above",
            "what the policy earns beyond what was sampled",
            "hot",
            bound=0.05,
        ),
        Claim(
            "a truthful sampler's mean weight is 1, however hot: above 0.8", "above", "mean weight", "hot", bound=0.8
        ),
        Claim("and below 1.25", "below", "mean weight", "hot", bound=1.25),
        Claim(
            "under a hot sampler the gradient stays larger",
            "more",
            "gradient at the end",
            "hot",
            "same",
        ),
        Claim(
            "and entropy ends lower",
            "less",
            "entropy at the end",
            "hot",
            "same",
        ),
        Claim(
            "the correction makes that gradient smaller",
            "less",
            "gradient at the end",
            "hot-corrected",
            "hot",
        ),
        Claim(
            "without noise the corrected run is the plain one",
            "same",
            "the policy's own accuracy at the end",
            "same-corrected",
            "same",
            bound=0.001,
            where=True,
        ),
    ),
    module="rlwatch.lab.mismatch",
    table=(
        Column("mean weight at the end", "sampler/ratio_mean"),
        Column("sampled accuracy first → last", "reward/accuracy_reward", ("first", "last")),
        Column("the policy's own first → last", "reward/policy_accuracy", ("first", "last")),
        Column("gradient first → last", "grad/norm", ("first", "last")),
    ),
    curves=("reward/policy_accuracy", "reward/mean", "sampler/ratio_mean", "sampler/logp_gap_mean", "grad/norm"),
    watch={"correct": "accuracy_reward"},
    reading=(
        "A mean weight of 1 is no proof of a good sampler: drawn from the sampler its expectation is 1, whatever the "
        "two are, if what is reported is true. The gap of log-probabilities shows a hot sampler; the mean weight "
        "shows a report that is not true.",
        "No vLLM runs here: the sampler is a stand-in, and TRL's own correction is switched on beside it.",
    ),
)
