"""Every place where something is divided or averaged: the formula, whom it favours, and what changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rlwatch.audit.advantages import divisors
from rlwatch.audit.config import AuditConfig
from rlwatch.audit.example import GROUP, Example, as_much
from rlwatch.audit.weights import FloatArray, factors, token_weights
from rlwatch.audit.words import WORDS, Words


@dataclass(frozen=True)
class Place:
    """One place.

    Args:
        name: What is divided by, or averaged over.
        code: How the trainer writes it.
        maths: The same as a formula.
        effect: `long`, `short`, `hard` and `easy` → what this place alone makes of the weight of a token of such an
            example, where an average one has 1. Long and short are wrong answers to the even prompt; hard and easy are
            equally long right answers.
        sentence: What that comes to, in plain words.
        against: Papers that argue against it.
        setting: What changes it.
        value: What that is now.
    """

    name: str
    code: str
    maths: str
    effect: Mapping[str, float]
    sentence: str
    against: tuple[str, ...]
    setting: str
    value: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**asdict(self), "effect": dict(self.effect), "against": list(self.against)}


def places(config: AuditConfig, shown: Example) -> list[Place]:
    """All places of a configuration, in the order in which a token's weight is made.

    Args:
        config: The configuration.
        shown: Its example, whose numbers they are.
    """
    found = []
    for name, factor in factors(shown.loss, shown.batch).items():
        words = WORDS.get(f"{name} ({shown.loss.aggregation})", WORDS.get(name))
        assert words is not None, name
        found.append(_place(config, shown, name, words, factor))
    if not config.is_policy:
        return found
    return [*_of_advantages(config, shown), *found, *_masks(config, shown), *_beside(config, shown)]


def _place(config: AuditConfig, shown: Example, name: str, words: Words, factor: FloatArray) -> Place:
    effect = _effect(config, shown, factor)
    sentence = words.sentence.format(
        long=as_much(effect["long"], effect["short"]),
        hard=as_much(effect["hard"], effect["easy"]),
        group=config.num_generations,
        short_of_siblings=f"{config.num_generations - 1}/{config.num_generations}",
        epsilon=f"{config.std_epsilon:g}",
        length=config.max_completion_length,
        cap=f"{config.epsilon_high:g}",
        ranks=config.ranks,
        rows=config.per_device_train_batch_size,
        accumulation=config.gradient_accumulation_steps,
        spg=config.steps_per_generation,
    )
    if name in ("ranks", "micro-batches") and getattr(config, words.field) == 1:
        sentence = "There is only one, so this does nothing."
    setting = config.setting(words.field)
    return Place(
        name=name,
        code=words.code.get(config.framework, words.code[""]),
        maths=words.maths,
        effect=effect,
        sentence=sentence,
        against=words.against,
        setting=setting if words.field != "aggregation" or config.framework != "trl" else "loss_type",
        value=_value(config, words.field),
    )


def _value(config: AuditConfig, field: str) -> str:
    if field in config.own:
        return config.own[field]
    if field == "aggregation":
        return config.loss_type if config.framework == "trl" else config.aggregation
    value = getattr(config, field)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _effect(config: AuditConfig, shown: Example, factor: FloatArray) -> dict[str, float]:
    """The factor of four examples, over that of an average row that has an advantage."""
    alive = np.abs(shown.advantages) > 1e-9  # a dead group has a deviation of nothing, whose inverse would drown all
    average = float(factor[alive].mean()) if alive.any() else 1.0
    if config.objective == "supervised":
        rows = {"long": shown.rows("", "long"), "short": shown.rows("", "short")}
        rows |= {"hard": rows["long"] | rows["short"], "easy": rows["long"] | rows["short"]}
    elif config.objective == "preference":
        last, second = len(shown.kinds) - 1, 1
        rows = {"long": shown.labels == last, "short": shown.labels == second}
        rows |= {"hard": shown.labels >= 0, "easy": shown.labels >= 0}
    else:
        rows = {
            "long": shown.rows("even", "wrong, long"),
            "short": shown.rows("even", "wrong, short"),
            "hard": shown.rows("hard", "right, long"),
            "easy": shown.rows("easy", "right, long"),
        }
    return {name: float(factor[where].mean()) / average for name, where in rows.items()}


def _of_advantages(config: AuditConfig, shown: Example) -> list[Place]:
    """The baseline's mean and the deviation."""
    even = np.ones(len(shown.labels))
    if config.multi_objective_aggregation == "normalize_then_sum":
        spread = divisors(shown.rewards, replace(config.scaling, scale="group", group_size=GROUP))
        return [_place(config, shown, "each function's std", WORDS["each function's std"], 1 / spread)]
    found = []
    if config.baseline != "none":
        found.append(
            _place(config, shown, f"mean of the {config.baseline}", WORDS[f"baseline {config.baseline}"], even)
        )
    if config.scale_rewards != "none":
        spread = divisors(shown.rewards, replace(config.scaling, group_size=GROUP))
        name = {"group": "std of the group", "batch": "std of the batch", "whiten": "std of all advantages"}
        words = WORDS[f"scale {config.scale_rewards}"]
        found.append(_place(config, shown, name[config.scale_rewards], words, 1 / spread))
    return found


def _masks(config: AuditConfig, shown: Example) -> list[Place]:
    """What takes tokens out of the loss, and whether the others then weigh more."""
    even = np.ones(len(shown.labels))
    whole = replace(shown.batch, mask=shown.batch.mask | np.asarray(_full(shown)))
    without = whole.without(shown.truncated)
    rows = ~shown.truncated
    before = token_weights(shown.loss, whole)[rows].sum(axis=1) / whole.lengths[rows]
    after = token_weights(shown.loss, without)[rows].sum(axis=1) / without.lengths[rows]
    more = float(after.mean() / before.mean())
    others = (
        "nobody else's weight changes" if abs(more - 1) < 1e-9 else f"all others then weigh {more:.3g} times as much"
    )
    if config.framework != "trl":
        words = None
    elif config.mask_truncated_completions:
        words = replace(
            WORDS["truncated on"], sentence=WORDS["truncated on"].sentence + f" Its tokens are out; {others}."
        )
    else:
        words = replace(WORDS["truncated off"], sentence=WORDS["truncated off"].sentence + f" Masked, {others}.")
    found = [] if words is None else [_place(config, shown, "mask of truncated answers", words, even)]
    if config.top_entropy_quantile < 1:
        found.append(_place(config, shown, "mask by entropy", WORDS["entropy mask"], even))
    if config.off_policy_mask_threshold is not None:
        found.append(_place(config, shown, "mask of off-policy answers", WORDS["off-policy mask"], even))
    if config.use_vllm:
        found.append(_place(config, shown, "correction for the sampler", WORDS["sampler"], even))
    return found


def _full(shown: Example) -> np.ndarray[Any, Any]:
    """The truncated rows' tokens, which a mask may have taken out."""
    sizes = np.array([kind.tokens for kind in shown.kinds])[shown.labels]
    return np.arange(shown.batch.mask.shape[1]) < sizes[:, None]


def _beside(config: AuditConfig, shown: Example) -> list[Place]:
    """The terms beside the policy's, and how they are averaged."""
    weight = np.prod(list(factors(shown.loss, shown.batch).values()), axis=0)
    found = []
    if config.beta and config.kl_in == "loss":
        found.append(_place(config, shown, "mean of the KL term", WORDS["kl in loss"], weight))
    elif config.beta:
        found.append(_place(config, shown, "sum of the KL penalty", WORDS["kl in reward"], np.ones(len(weight))))
    if config.entropy_coef or config.use_adaptive_entropy:
        found.append(_place(config, shown, "mean of the entropy bonus", WORDS["entropy bonus"], np.ones(len(weight))))
    return found
