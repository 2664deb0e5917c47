"""What to try, each with where it is known from.

A paper's number is the paper's: it is never given as if it carried over.
"""

from __future__ import annotations

from rlwatch.runs.records import Advice

RAISE_CLIP_HIGH = Advice(
    "raise epsilon_high in small steps and watch that entropy does not shoot up",
    "DAPO 2503.14476, Skywork-OR1 2505.22312",
)
FEWER_UPDATES = Advice("make fewer updates a rollout (num_iterations, steps_per_generation)", "Skywork-OR1 2505.22312")
GO_BACK = Advice(
    "go back to a checkpoint from before the onset: signal that is gone does not come back", "RAGEN 2504.20073"
)
MORE_EXPLORATION = Advice("sample at a higher temperature", "RAGEN 2504.20073")
ADAPTIVE_ENTROPY = Advice(
    "hold entropy with an adaptive target (use_adaptive_entropy) rather than with a fixed bonus",
    "Skywork-OR1 2505.22312",
)
EASIER_PROMPTS = Advice("begin with easier prompts, or give partial credit", "2509.21880")
LARGER_GROUPS = Advice(
    "make groups larger (num_generations): rare successes then show up in more of them", "2509.21880"
)
HARDER_PROMPTS = Advice("bring in harder prompts, or filter out solved ones; it may simply be done", "DAPO 2503.14476")
CHECK_REWARD = Advice(
    "read a few completions of this step: does the reward still see what it should?", "RAGEN 2504.20073"
)
LOWER_LEARNING_RATE = Advice("lower the learning rate, or clip the gradient harder (max_grad_norm)", "PPO 1707.06347")
CHECK_NUMERICS = Advice(
    "look at the batch of this step and at the precision: fp16 overflows where bf16 does not",
    "PyTorch, automatic mixed precision",
)
LONGER_LIMIT = Advice("raise the length limit (max_completion_length)", "DAPO 2503.14476")
SHORTER_ANSWERS = Advice("ask for shorter answers, or begin with prompts that have them", "DAPO 2503.14476")
MASK_TRUNCATED = Advice(
    "leave truncated completions out of the loss (mask_truncated_completions), or shape their reward", "DAPO 2503.14476"
)
CHECK_TRAINABLE = Advice(
    "look at requires_grad of the weights, at the loss mask, and at the learning rate of the first steps",
    "PyTorch, autograd mechanics",
)
TOKEN_WEIGHTS = Advice(
    "correct for the sampler a token at a time, or truncate the weight: a product shrinks with the length",
    "vLLM, training-inference mismatch",
)
SAME_SAMPLER = Advice(
    "let sampler and trainer use the same kernels, precision and temperature", "vLLM, training-inference mismatch"
)
LOWER_CLIP_HIGH = Advice(
    "lower epsilon_high in small steps and watch that entropy does not fall instead", "Skywork-OR1 2505.22312"
)
LOWER_TEMPERATURE = Advice("sample at a lower temperature", "Skywork-OR1 2505.22312, QAE 2509.22611")
LOWER_ENTROPY_BONUS = Advice(
    "lower the entropy bonus (entropy_coef) or give it a target: a fixed one explodes or does nothing",
    "Skywork-OR1 2505.22312",
)
WIDER_CLIP = Advice(
    "check epsilon against the kind of ratio: a sequence's, a token's and CISPO's weight differ in size",
    "GSPO 2507.18071, MiniMax-M1 2506.13585",
)
CLIP_GRADIENT = Advice(
    "clip the gradient at about its usual norm (max_grad_norm), and read the batches of the steps that spike",
    "PyTorch, clip_grad_norm_",
)

TOKEN_DENOMINATOR = Advice(
    "take a denominator that does not divide by each answer's own length (loss_type dapo or dr_grpo)",
    "Dr.GRPO 2503.20783",
)
LESS_EXPLORATION = Advice(
    "lower epsilon_high or the temperature, and see what the reward pays for form and length",
    "Skywork-OR1 2505.22312, QAE 2509.22611",
)
LENGTH_REWARD = Advice(
    "look at what the reward pays or takes for length: it has to be worth less than being right", "DAPO 2503.14476"
)
STOP_AT_BEST_EVAL = Advice(
    "stop, and keep the checkpoint at which the evaluation was best: more training on this reward makes it worse",
    "Gao et al. 2210.10760",
)
LOWER_REGULARISER = Advice(
    "drop prompts whose groups are dead, and lower beta (or the entropy bonus): where rewards are equal, only the "
    "regulariser moves the policy",
    "2604.06268",
)
RAISE_BETA = Advice("hold the policy to its reference with a KL penalty (beta), or with more of it", "GRPO 2402.03300")
LOOK_AT_PROCESS = Advice(
    "look at what the process is doing (py-spy dump --pid PID, on each rank) and at its machine before killing it",
    "py-spy documentation",
)
