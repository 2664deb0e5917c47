"""What is said of each place: code, formula, a plain sentence, and the papers against it; `places` has the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DR_GRPO = "Dr.GRPO 2503.20783"
DAPO = "DAPO 2503.14476"


@dataclass(frozen=True)
class Words:
    """Of one place.

    Args:
        code: Framework → its code; "" is that of all others.
        maths: The formula.
        sentence: With {long}, {hard} and others for the numbers.
        field: The setting that changes it, as a field of the configuration.
        against: Papers that argue against it.
    """

    code: Mapping[str, str]
    maths: str
    sentence: str
    field: str
    against: tuple[str, ...] = ()


WORDS: Mapping[str, Words] = {
    "baseline group": Words(
        {
            "": "rewards - group.mean()",
            "trl": "advantages = rewards - nanmean(rewards.view(-1, num_generations), dim=1)",
        },
        "r_i − (1/G) Σ_j r_j",
        "An answer's own reward is in the mean that is taken off it: with {group} siblings every advantage is "
        "{short_of_siblings} of what it would be against the others alone. That is the same for all.",
        "num_generations",
    ),
    "baseline leave-one-out": Words(
        {"": "rewards - (group.sum() - rewards) / (n - 1)", "trl": "rewards - (grouped_sum - rewards) / (count - 1)"},
        "r_i − (1/(G−1)) Σ_{j≠i} r_j",
        "Each answer is held against the mean of its {group} − 1 siblings, its own reward left out.",
        "num_generations",
    ),
    "baseline batch": Words(
        {"": "rewards - rewards.mean()"},
        "r_i − mean of the batch",
        "Answers are held against the mean of all prompts: easy prompts are pushed up and hard ones down.",
        "baseline",
    ),
    "scale group": Words(
        {
            "": "advantages / (group.std() + eps)",
            "trl": "advantages / (nanstd(rewards.view(-1, num_generations), dim=1) + 1e-4)",
        },
        "1 / (σ_group + ε)",
        "A prompt whose answers differ little is blown up to the size of one whose answers differ much: very easy "
        "and very hard prompts gain on even ones.",
        "scale_rewards",
        (DR_GRPO,),
    ),
    "scale batch": Words(
        {"": "advantages / (rewards.std() + eps)", "trl": "advantages / (nanstd(rewards) + 1e-4)"},
        "1 / (σ_batch + ε)",
        "All are divided by one number, so prompts keep their proportions; its size changes from batch to batch.",
        "scale_rewards",
    ),
    "scale whiten": Words(
        {"": "(advantages - advantages.mean()) / (advantages.std() + 1e-4)"},
        "(A_i − mean A) / (σ_A + ε)",
        "All are divided by one number, so prompts keep their proportions; its size changes from batch to batch.",
        "scale_rewards",
    ),
    "each function's std": Words(
        {"": "(grouped - mean_k) / (std_k + 1e-4), then (s - s.mean()) / (s.std() + 1e-4) over the batch"},
        "s_i = Σ_f w_f (r_if − μ_f)/(σ_f + ε);  A_i = (s_i − μ_s)/(σ_s + ε)",
        "Each reward function is blown up to the same spread within a group, however little it differs there, and "
        "the sum is divided by the batch's std: scale_rewards has no effect.",
        "multi_objective_aggregation",
        (DR_GRPO,),
    ),
    "tokens of the sequence": Words(
        {
            "": "(loss * mask).sum(-1) / mask.sum(-1)",
            "trl": "(per_token_loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)",
        },
        "1 / L_i",
        "Every answer weighs the same however long it is, so a token of a long one weighs {long} as one of a short "
        "one: wrong answers are punished less a token the longer they are, and grow.",
        "aggregation",
        (DR_GRPO, DAPO),
    ),
    "tokens of the sequence (step-sequences)": Words(
        {"": "(loss * mask).sum(-1) / (mask.sum(-1) + 1e-8)"},
        "1 / L_i",
        "Every answer weighs the same however long it is, so a token of a long one weighs {long} as one of a short "
        "one: wrong answers are punished less a token the longer they are, and grow.",
        "aggregation",
        (DR_GRPO, DAPO),
    ),
    "sequences of the micro-batch": Words(
        {"": "seq_losses.mean()", "trl": ".mean() over the B rows"},
        "1 / B",
        "A mean over the {rows} sequences of a micro-batch, masked ones included: the same for all.",
        "per_device_train_batch_size",
    ),
    "sequences of the step": Words(
        {"": "seq_losses.sum() / (sequences of the step that have tokens)"},
        "1 / S",
        "A mean over all sequences of the optimizer step that are not masked: the same for all.",
        "aggregation",
    ),
    "maximum length": Words(
        {"": "seq_losses.sum() / loss_mask.shape[-1]", "trl": ".sum() / (B * max_completion_length)"},
        "1 / L_max",
        "A constant ({length}), so all tokens weigh the same and a longer answer weighs more; where answers are much "
        "shorter than that, the update is small.",
        "max_completion_length",
    ),
    "tokens of the micro-batch": Words(
        {"": "(loss * mask).sum() / mask.sum()", "trl": "(per_token_loss * mask).sum() / mask.sum().clamp(min=1.0)"},
        "1 / Σ_{i in micro-batch} L_i",
        "Tokens of a micro-batch weigh the same, but one that shares it with long sequences weighs less than one that "
        "shares it with short ones: chance decides.",
        "aggregation",
        ("Fixing gradient accumulation, Hugging Face 2024",),
    ),
    "tokens of the generation": Words(
        {"": "(loss * mask).sum() / (N / P * GA / spg)", "trl": "(per_token_loss * mask).sum() / "
         "(num_items_in_batch / num_processes * accumulation_steps / steps_per_generation)"
         "  # before TRL 1.9.1: (num_items_in_batch / num_processes)"},
        "P·spg / (N·GA)",
        "Every token of a generation weighs the same, so an answer weighs as much as it is long.",
        "aggregation",
    ),
    "tokens of the step": Words(
        {"": "(loss * mask).sum() / num_items_in_batch"},
        "1 / Σ_{i in step} L_i",
        "Every token of an optimizer step weighs the same, so a sequence weighs as much as it is long.",
        "aggregation",
    ),
    "tokens of the step (rank-tokens)": Words(
        {"": "(loss * mask).sum() / (tokens of this rank's step)"},
        "1 / Σ_{i in step, on this rank} L_i",
        "Tokens of a rank's step weigh the same; on a rank with many tokens one weighs less than on another.",
        "aggregation",
    ),
    "micro-batches": Words(
        {"": "loss / gradient_accumulation", "trl": "loss / self.current_gradient_accumulation_steps"},
        "1 / GA",
        "A mean over {accumulation} micro-batches, each of which weighs the same whatever it holds.",
        "gradient_accumulation_steps",
    ),
    "ranks": Words(
        {"": "all_reduce(gradient) / P   # DDP, FSDP, DeepSpeed"},
        "1 / P",
        "Gradients of {ranks} ranks are averaged, each of which weighs the same whatever it holds.",
        "ranks",
    ),
    "cut of the ratio": Words(
        {"": "torch.clamp(ratio, max=epsilon_high).detach()"},
        "min(r, ε_high)",
        "The weight of every token is cut at {cap}; with a cap below 1 all of them are, and the ratio no longer "
        "matters.",
        "epsilon_high",
    ),
    "truncated on": Words(
        {"": "completion_mask * ~is_truncated", "trl": "completion_mask * (~is_truncated).unsqueeze(1)"},
        "m_i = 0 if truncated",
        "A truncated answer stays in its group's mean and std, and in B.",
        "mask_truncated_completions",
    ),
    "truncated off": Words(
        {"": "# no mask"},
        "m_i = 1",
        "A truncated answer is trained on like any other: one that would have been right is punished as wrong.",
        "mask_truncated_completions",
        (DAPO,),
    ),
    "entropy mask": Words(
        {"": "per_token_loss * entropy_mask"},
        "m_t = [H_t in the top share]",
        "Tokens of low entropy are taken out of the policy's term; no denominator shrinks, so the update does.",
        "top_entropy_quantile",
    ),
    "off-policy mask": Words(
        {"": "per_token_loss * off_policy_mask"},
        "m_i = [A_i ≥ 0 or KL_i ≤ δ]",
        "Wrong answers far from the policy are taken out; no denominator shrinks, so right ones gain on wrong ones.",
        "off_policy_mask_threshold",
    ),
    "sampler": Words(
        {"": "per_token_loss * importance_sampling_ratio"},
        "min(p/p_sampler, C), or 0 above C",
        "Tokens are weighed by how far the sampler was off; nothing is renormalised, so a mismatch shrinks the update.",
        "use_vllm",
    ),
    "kl in loss": Words(
        {"": "per_token_loss + beta * per_token_kl   # then averaged like it"},
        "β · Σ w_t · k3_t, w as above",
        "It has the policy term's denominators but no advantage and none of its masks by entropy or policy: where a "
        "group is dead it is all that moves the policy.",
        "beta",
        ("2604.06268",),
    ),
    "kl in reward": Words(
        {"": "rewards - beta * (per_token_kl * mask).sum(-1)"},
        "r_i − β Σ_t (log p_t − log p_ref,t)",
        "It is a sum over the answer, so a long answer pays more; then it is divided like a reward.",
        "beta",
    ),
    "entropy bonus": Words(
        {"": "loss - entropy_coef * (entropies * mask).sum() / mask.sum() / accumulation_steps"},
        "(1/GA) Σ m·H / Σ m of the micro-batch",
        "It is a mean over the micro-batch's tokens whatever the loss type, so its size against the policy's term "
        "changes with the loss type.",
        "entropy_coef",
        ("Skywork-OR1 2505.22312",),
    ),
}  # fmt: skip
"""By the place's name; with the aggregation in brackets where the same name means another thing."""
