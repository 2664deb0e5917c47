"""GRPO on a toy language task, in a training loop of its own that rlwatch watches: `python examples/own_loop_grpo.py`.

The prompt is a digit. The policy writes up to 6 tokens, digits or an end token, and earns the share of the 6 places
that it fills with digits of the prompt's parity. Each prompt gets a group of completions, and a completion's advantage
is how far it is above its siblings (2402.03300). The loss is a mean over tokens, and the upper clip is wider than the
lower one, so that rare, better tokens may grow: clip-higher (DAPO, 2503.14476).
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

from rlwatch import Monitor

DIGITS, END, LENGTH = 10, 10, 6  # tokens 0 to 9 are digits, 10 ends a completion
CONFIG = {
    "loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28, "num_generations": 8, "prompts": 16, "num_iterations": 2,
    "micro_batches": 2, "learning_rate": 5e-3, "max_grad_norm": 1.0,
}  # fmt: skip


class Policy(nn.Module):
    """A GRU over prompt and completion; at each place it gives the logits of the next token."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(DIGITS + 1, width)
        self.body = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, DIGITS + 1)

    def forward(self, tokens: torch.Tensor) -> torch.distributions.Categorical:
        """(B, T) tokens to the distributions over the tokens that follow."""
        return torch.distributions.Categorical(logits=self.head(self.body(self.embed(tokens))[0]))


@torch.no_grad()
def generate(policy: Policy, prompts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompt and completion, (B, 1 + LENGTH), and the mask of the completion's tokens up to its end, (B, LENGTH)."""
    tokens = prompts[:, None]
    for _ in range(LENGTH):
        following = policy(tokens).sample()[:, -1:]
        tokens = torch.cat([tokens, following], dim=1)
    ended = (tokens[:, 1:] == END).cumsum(dim=1)
    return tokens, (ended == 0) | ((ended == 1) & (tokens[:, 1:] == END))


def score(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The share of the places that hold a digit of the prompt's parity, (B,)."""
    prompt, completion = tokens[:, :1], tokens[:, 1:]
    right = mask & (completion != END) & (completion % 2 == prompt % 2)
    return right.sum(dim=1) / LENGTH


def advantages_of(rewards: torch.Tensor) -> torch.Tensor:
    """(reward − mean of the group) / std of the group, (B,): 0 where all siblings have earned the same."""
    groups = rewards.view(-1, CONFIG["num_generations"])
    centred = groups - groups.mean(dim=1, keepdim=True)
    return (centred / (groups.std(dim=1, keepdim=True) + 1e-4)).flatten()


def train(steps: int, directory: str, seed: int = 0) -> None:
    """Train for so many optimizer steps, each of them watched."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=CONFIG["learning_rate"])
    with Monitor(directory, name="own-loop-grpo", config=CONFIG) as monitor:
        for step in range(1, steps + 1):
            if (step - 1) % CONFIG["num_iterations"] == 0:  # a new rollout
                prompts = torch.randint(DIGITS, (CONFIG["prompts"],)).repeat_interleave(CONFIG["num_generations"])
                tokens, mask = generate(policy, prompts)
                rewards = score(tokens, mask)
                advantages = advantages_of(rewards)
                with torch.no_grad():
                    old_logprobs = policy(tokens[:, :-1]).log_prob(tokens[:, 1:])
                monitor.rollouts(
                    rewards,
                    group_size=CONFIG["num_generations"],
                    lengths=mask.sum(dim=1),
                    truncated=~(tokens[:, 1:] == END).any(dim=1),
                    correct=rewards == 1,
                    advantages=advantages,
                    prompts=prompts,
                    completions=[row[kept] for row, kept in zip(tokens[:, 1:], mask, strict=True)],
                )

            total = torch.zeros(())
            for rows in torch.arange(len(tokens)).chunk(CONFIG["micro_batches"]):
                now = policy(tokens[rows, :-1])
                logprobs, kept, advantage = now.log_prob(tokens[rows, 1:]), mask[rows], advantages[rows, None]
                ratio = (logprobs - old_logprobs[rows]).exp()
                clipped = ratio.clamp(1 - CONFIG["epsilon"], 1 + CONFIG["epsilon_high"])
                losses = -torch.min(ratio * advantage, clipped * advantage)
                loss = losses[kept].sum() / mask.sum()  # over the tokens of all micro-batches
                loss.backward()
                total += loss.detach()
                monitor.tokens(
                    logprobs,
                    now.entropy(),
                    kept,
                    old_logprobs=old_logprobs[rows],
                    advantages=advantages[rows],
                    epsilon=(CONFIG["epsilon"], CONFIG["epsilon_high"]),
                    rows=rows,
                )
            monitor.gradients(policy.parameters(), max_norm=CONFIG["max_grad_norm"], policy_only=True)
            nn.utils.clip_grad_norm_(policy.parameters(), CONFIG["max_grad_norm"])
            optimizer.step()
            optimizer.zero_grad()
            told = monitor.step(step, loss=total, lr=CONFIG["learning_rate"])
            if step % 20 == 0:
                print(f"step {step}: reward {told['reward/mean']:.2f}, dead groups {told['groups/zero_std']:.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120, help="optimizer steps")
    parser.add_argument("--dir", default="runs", help="the folder for the run")
    options = parser.parse_args()
    train(options.steps, options.dir)
