"""What the text and the page of an audit both say."""

from __future__ import annotations

import re

from rlwatch.audit import Audit

WHO = {
    "sequence-mean": "every answer weighs the same, so a token of a long one weighs less",
    "sequence-sum": "every token weighs the same, so a long answer weighs more",
    "max-length": "every token weighs the same, so a long answer weighs more",
    "padded-length": "every token weighs the same, so a long answer weighs more",
    "micro-batch-tokens": "a token weighs by how many tokens share its micro-batch",
    "generation-tokens": "every token weighs the same, so a long answer weighs more",
    "step-tokens": "every token weighs the same, so a long answer weighs more",
    "rank-tokens": "a token weighs by how many tokens are on its rank",
    "step-sequences": "every answer weighs the same, so a token of a long one weighs less",
    "rank-sequences": "every answer weighs the same, so a token of a long one weighs less",
}
"""What a way to average comes to."""

SCALED = {
    "group": "; very easy and very hard prompts are blown up by their small std",
    "batch": "; prompts keep their proportions",
    "whiten": "; prompts keep their proportions",
    "none": "; prompts keep their proportions",
}

LEGEND = (
    ("L", "tokens of the answer"), ("B", "answers of the micro-batch"), ("GA", "micro-batches of an optimizer step"),
    ("P", "ranks"), ("N", "tokens of the generation, all ranks"), ("spg", "micro-batches of a generation, a rank"),
)  # fmt: skip


def headline(found: Audit) -> str:
    """What it comes to, in a line."""
    config = found.config
    scaled = SCALED[config.scale_rewards] if config.is_policy else ""
    who = WHO[config.aggregation]
    if config.objective == "supervised":
        who = who.replace("answer", "text")
    return f"{config.trainer}, {_loss(found)}: {who}{scaled}."


def formula(found: Audit) -> str:
    """The weight of a token as a formula, and what its letters are."""
    parts = re.findall(r"[A-Za-z]+", found.formula)
    said = ", ".join(f"{letter} {meaning}" for letter, meaning in LEGEND if letter in parts)
    config = found.config
    scale = {
        "group": "(std of the group + ε)",
        "batch": "(std of the batch + ε)",
        "whiten": "(std of all advantages + ε)",
    }
    divided = f" · 1 / {scale[config.scale_rewards]}" if config.is_policy and config.scale_rewards in scale else ""
    return f"weight of a token = {found.formula}{divided}" + (f"   ({said})" if said else "")


def _loss(found: Audit) -> str:
    if found.config.framework == "trl":
        return found.config.loss_type
    return f"{found.config.loss_type}, {found.config.own.get('aggregation', found.config.aggregation)}"


def setup(found: Audit) -> str:
    """The batches, in a line."""
    config = found.config
    parts = [
        config.source,
        f"micro-batches of {config.per_device_train_batch_size}",
        f"{config.gradient_accumulation_steps} a step",
        f"{config.ranks} rank" + "s" * (config.ranks > 1),
    ]
    if config.is_policy:
        parts += [
            f"{config.num_generations} answer" + "s" * (config.num_generations > 1) + " a prompt",
            f"{config.updates:g} update" + "s" * (config.updates != 1) + " a rollout",
        ]
    return " · ".join(parts)


def how_to_read(found: Audit) -> str:
    """What the table shows."""
    if found.config.is_policy:
        return (
            "One fixed batch of 32 answers to four prompts, reward 1 if right, 0 if wrong, as this configuration "
            "weighs it. “A token”: its pull on the policy, where an average token of the batch is ×1. “One of them”, "
            "“all of them”: their share of the whole update."
        )
    what = "texts" if found.config.objective == "supervised" else "answers in four pairs"
    return (
        f"One fixed batch of 8 {what}, as this configuration weighs it. “A token”: its pull on the model, where an "
        "average token of the batch is ×1. “One of them”, “all of them”: their share of the whole update."
    )


def size_sentence(found: Audit) -> str:
    """On which micro-batches the numbers were made."""
    loss, rows = found.example.loss, len(found.example.labels)
    size = rows // loss.accumulation // loss.ranks
    ranks = f" on each of {loss.ranks} ranks" if loss.ranks > 1 else ""
    return (
        f"Exact, for the first update after sampling (ratio 1), with the batch in {loss.accumulation} micro-batches "
        f"of {size}"
        f"{ranks}. Later updates, and clipping, come on top."
    )
