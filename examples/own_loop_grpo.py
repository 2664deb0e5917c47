"""GRPO in a training loop of its own that rlwatch watches: `python examples/own_loop_grpo.py`.

Each prompt gets a group of completions, and a completion's advantage is how far it is above its siblings (2402.03300).
The loss is a mean over tokens, and the upper clip is wider than the lower one, so that rare, better tokens may grow:
clip-higher (DAPO, 2503.14476). The task is that of `toy_task.py`.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.distributions import Categorical
from toy_task import DIGITS, Body, cut, generate, score

from rlwatch import Monitor

CONFIG = {
    "loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28, "num_generations": 8, "prompts": 16, "num_iterations": 2,
    "micro_batches": 2, "learning_rate": 5e-3, "max_grad_norm": 1.0,
}  # fmt: skip


class Policy(nn.Module):
    """At each place the distribution over the next token."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.body, self.head = Body(width), nn.Linear(width, DIGITS + 1)

    def forward(self, tokens: torch.Tensor) -> Categorical:
        """(B, T) tokens to the distributions over the tokens that follow."""
        return Categorical(logits=self.head(self.body(tokens)))


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
                    truncated=cut(tokens),
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
