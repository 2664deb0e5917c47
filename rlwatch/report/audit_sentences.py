"""What the text and the page of an audit both say."""

from __future__ import annotations

from rlwatch.audit import Audit


def headline(found: Audit) -> str:
    """What was audited, in a line."""
    config = found.config
    scale = {"group": "each group's std", "batch": "the batch's std", "whiten": "the std of all advantages"}
    divided = f", advantages divided by {scale[config.scale_rewards]}" if config.scale_rewards in scale else ""
    if config.framework == "verl":
        how = config.names["aggregation"].rpartition(".")[2] + " → " + config.aggregation
    else:
        how = config.loss_type
    return f"{config.trainer}, {how}: a token's weight is {found.formula}{divided}"


def setup(found: Audit) -> str:
    """The batches, in a line."""
    config = found.config
    rows = f"{config.per_device_train_batch_size} sequences a micro-batch · {config.gradient_accumulation_steps} "
    parts = [config.source, rows + f"micro-batches a step · {config.ranks} ranks"]
    if config.is_policy:
        parts.append(f"{config.num_generations} answers a prompt · {config.updates:g} updates a rollout")
    return " · ".join(parts)


def how_to_read(found: Audit) -> str:
    """What the table shows."""
    if found.config.is_policy:
        return (
            "One fixed batch of 32 answers to four prompts, reward 1 if right, 0 if wrong, as this configuration weighs it. "
            "“A token”: its pull on the policy, where an average token of the batch is ×1. “One of them”, “all of them”: "
            "their share of the whole update."
        )
    what = "texts" if found.config.objective == "supervised" else "answers in four pairs"
    return (
        f"One fixed batch of 8 {what}, as this configuration weighs it. “A token”: its pull on the model, where an average "
        "token of the batch is ×1. “One of them”, “all of them”: their share of the whole update."
    )


def size_sentence(found: Audit) -> str:
    """On which micro-batches the numbers were made."""
    loss, rows = found.example.loss, len(found.example.labels)
    size = rows // loss.accumulation // loss.ranks
    ranks = f" on each of {loss.ranks} ranks" if loss.ranks > 1 else ""
    return (
        f"Exact, for the first update after sampling (ratio 1), with the batch in {loss.accumulation} micro-batches of {size}"
        f"{ranks}. Later updates, and clipping, come on top."
    )
