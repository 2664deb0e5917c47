"""Lints on lengths, micro-batches and masks."""

from __future__ import annotations

from rlwatch.audit.config import AuditConfig
from rlwatch.audit.example import Example, as_much
from rlwatch.audit.lints.lint import Lint
from rlwatch.runs.records import Severity


def length_bias(config: AuditConfig, shown: Example) -> Lint | None:
    """Each answer is divided by its own length."""
    if not config.is_policy or config.aggregation not in ("sequence-mean", "step-sequences", "rank-sequences"):
        return None
    kinds = {(kind.prompt[:4], kind.answer): kind for kind in shown.kinds}
    long, short = kinds["even", "wrong, long"], kinds["even", "wrong, short"]
    return Lint(
        "length-bias",
        Severity.WARNING,
        f"each answer is divided by its own length: a token of a wrong answer of {long.tokens} tokens weighs "
        f"{as_much(long.token, short.token)} as one of {short.tokens}",
        "long wrong answers are punished less a token, so wrong answers grow: by 23 tokens in 60 steps on a small "
        "task, where dapo's and dr_grpo's denominators gave none",
        "Dr.GRPO 2503.20783, DAPO 2503.14476; measured with TRL 1.16",
        "loss_type" if config.framework == "trl" else config.setting("aggregation"),
        "dapo or dr_grpo" if config.framework == "trl" else "a mean over tokens",
    )


def window_weights(config: AuditConfig, shown: Example) -> Lint | None:
    """dapo's denominator is the generation's, and a step is only a part of it."""
    if config.aggregation != "generation-tokens":
        return None
    if config.steps_per_generation == config.gradient_accumulation_steps:
        return None
    steps = config.steps_per_generation / config.gradient_accumulation_steps
    lengths = shown.batch.lengths
    part = max(2, min(round(steps), len(lengths))) if steps > 1 else 2
    sums = [float(lengths[i::part].sum() / lengths.sum() * part) for i in range(part)]
    return Lint(
        "weights-sum",
        Severity.INFO,
        f"{config.loss_type} divides by the tokens of the whole generation, {steps:g} optimizer steps: a step's "
        f"weights do not sum to 1 (the example, dealt out to {part} steps: {min(sums):.2f} to {max(sums):.2f})",
        "a step with long answers is a larger update than one with short ones, beside its gradient's own size",
        "measured, TRL 1.16",
        f"{config.setting('steps_per_generation')}, {config.setting('gradient_accumulation_steps')}",
        "nothing, if that is meant; equal numbers make the weights sum to 1",
    )


def micro_batch_chance(config: AuditConfig, shown: Example) -> Lint | None:
    """A mean of micro-batches' token means."""
    if config.aggregation != "micro-batch-tokens" or config.gradient_accumulation_steps * config.ranks == 1:
        return None
    per_token = shown.weights.sum(axis=1) / shown.batch.lengths.clip(1)
    alike = [per_token[shown.labels == place] for place in range(len(shown.kinds))]
    spread = max((float(same.max() / same.min()) for same in alike if same.size and same.min() > 0), default=1.0)
    if not config.is_policy:
        tokens = [kind.token for kind in shown.kinds if kind.token]  # DPO's sft loss learns from the chosen alone
        spread = max(tokens) / min(tokens)
    return Lint(
        "micro-batch-chance",
        Severity.INFO,
        f"a mean over each micro-batch's tokens, then over {config.gradient_accumulation_steps * config.ranks} of "
        f"them: in the example like tokens weigh up to {spread:.2f} times as much as others",
        "which answers share a micro-batch decides; another micro-batch size or number of ranks is another loss",
        "exact, from the formula; Fixing gradient accumulation, Hugging Face 2024",
        "loss_type" if config.framework == "trl" else config.setting("aggregation"),
        "dapo, which counts all ranks' and micro-batches' tokens" if config.is_policy and config.framework == "trl"
        else "a denominator over the whole step",
    )  # fmt: skip


def overlong(config: AuditConfig, shown: Example) -> Lint | None:
    """Truncated answers count as wrong ones."""
    if config.framework != "trl" or not config.is_policy or config.mask_truncated_completions:
        return None
    share = shown.share("hard", "wrong, truncated")
    return Lint(
        "overlong-unmasked",
        Severity.INFO,
        f"answers cut off at {config.max_completion_length} tokens are trained on as they are: 1 of the example's "
        f"{len(shown.labels)} has {100 * share:.1f} % of the update",
        "one that was on its way to being right is punished as wrong, for all of its tokens",
        "DAPO 2503.14476, overlong filtering",
        config.setting("mask_truncated_completions"),
        "True, or a soft penalty on length; watch length/truncated",
    )
