"""PPO in a training loop of its own that rlwatch watches: `python examples/own_loop_ppo.py`.

A rollout is used for several epochs, with the clipped objective, a value head and generalised advantage estimation
(Schulman et al., 1506.02438 and 1707.06347). The task is that of `toy_task.py`.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.distributions import Categorical
from toy_task import DIGITS, LENGTH, Body, cut, generate, score

from rlwatch import Monitor

CONFIG = {
    "epsilon": 0.2, "num_iterations": 4, "gamma": 1.0, "lambda": 0.95, "value_coef": 0.5, "entropy_coef": 0.003,
    "learning_rate": 3e-3, "max_grad_norm": 0.5, "rollouts": 128,
}  # fmt: skip


class ActorCritic(nn.Module):
    """At each place the distribution over the next token, and the value so far."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.body, self.policy, self.value = Body(width), nn.Linear(width, DIGITS + 1), nn.Linear(width, 1)

    def forward(self, tokens: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        """(B, T) tokens to the distributions over the tokens that follow, and (B, T) values."""
        hidden = self.body(tokens)
        return Categorical(logits=self.policy(hidden)), self.value(hidden).squeeze(-1)


def advantages_of(rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """GAE, (B, LENGTH): the reward comes with a completion's last token, and nothing comes after that."""
    advantages, running = torch.zeros_like(values), torch.zeros_like(rewards)
    last = mask.sum(dim=1) - 1
    following = torch.zeros_like(rewards)  # the value of what comes next
    for t in reversed(range(LENGTH)):
        delta = rewards * (last == t) + CONFIG["gamma"] * following - values[:, t]
        running = (delta + CONFIG["gamma"] * CONFIG["lambda"] * running) * mask[:, t]
        advantages[:, t], following = running, values[:, t] * mask[:, t]
    return advantages


def train(steps: int, directory: str, seed: int = 0) -> None:
    """Train for so many optimizer steps, each of them watched."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=CONFIG["learning_rate"])
    with Monitor(directory, name="own-loop-ppo", config=CONFIG) as monitor:
        for step in range(1, steps + 1):
            if (step - 1) % CONFIG["num_iterations"] == 0:  # a new rollout
                prompts = torch.randint(DIGITS, (CONFIG["rollouts"],))
                tokens, mask = generate(lambda tokens: model(tokens)[0], prompts)
                rewards = score(tokens, mask)
                with torch.no_grad():
                    old, values = model(tokens[:, :-1])
                old_logprobs = old.log_prob(tokens[:, 1:])
                raw = advantages_of(rewards, values, mask)
                returns = raw + values
                advantages = (raw - raw[mask].mean()) / raw[mask].std()
                monitor.rollouts(rewards, lengths=mask.sum(dim=1), truncated=cut(tokens), correct=rewards == 1)

            now, values = model(tokens[:, :-1])
            logprobs, entropy = now.log_prob(tokens[:, 1:]), now.entropy()
            ratio = (logprobs - old_logprobs).exp()
            clipped = ratio.clamp(1 - CONFIG["epsilon"], 1 + CONFIG["epsilon"])
            policy_loss = -torch.min(ratio * advantages, clipped * advantages)[mask].mean()
            value_loss = (values - returns)[mask].square().mean()
            loss = policy_loss + CONFIG["value_coef"] * value_loss - CONFIG["entropy_coef"] * entropy[mask].mean()
            optimizer.zero_grad()
            loss.backward()

            monitor.tokens(
                logprobs,
                entropy,
                mask,
                old_logprobs=old_logprobs,
                advantages=advantages,
                epsilon=CONFIG["epsilon"],
                rows=range(len(rewards)),
            )
            norm = nn.utils.clip_grad_norm_(model.parameters(), CONFIG["max_grad_norm"])
            monitor.gradients(norm=norm, max_norm=CONFIG["max_grad_norm"])
            optimizer.step()
            told = monitor.step(step, loss=loss, lr=CONFIG["learning_rate"], value_loss=value_loss)
            if step % 20 == 0:
                print(f"step {step}: reward {told['reward/mean']:.2f}, entropy {told['entropy/mean']:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="optimizer steps")
    parser.add_argument("--dir", default="runs", help="the folder for the run")
    options = parser.parse_args()
    train(options.steps, options.dir)
