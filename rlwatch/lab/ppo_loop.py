"""PPO in a hundred lines (arXiv:1707.06347), watched by `rlwatch.Monitor`: there is no TRL in it, and no groups.

A rollout is n completions to prompts in turn. A value head, linear on the policy's last hidden state at the end of the
prompt, is the baseline; every token of completion i has the advantage

    A_i = (r_i − V(x_i) − mean) / std        over the rollout,

and each of the updates on a rollout takes the whole of it: mean over the tokens of −min(r·A, clip(r, 1 ± ε)·A), with
r = p/p_old. It is the same policy, optimizer and number of completions as in the arms that TRL trains.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM, set_seed

from rlwatch.capture.monitor import Monitor
from rlwatch.lab.task import PROMPTS, accuracy_reward

MOST_TOKENS = 4
"""A letter, a digit, the end token, and one to go wrong."""


class PPO:
    """The loop.

    Args:
        model: The policy; it is trained.
        tokenizer: Its tokenizer.
        seed: For the sampling and the value head's first weights.
        steps: Optimizer steps.
        updates: Optimizer steps on a rollout.
        completions: Completions of a rollout; a multiple of the number of prompts.
        learning_rate: Of the policy's SGD.
        epsilon: The clip.
        max_norm: What the policy's gradient is clipped to.

    Attributes:
        run_dir: The run directory, once it has trained.
    """

    def __init__(
        self,
        model: Qwen2ForCausalLM,
        tokenizer: PreTrainedTokenizerFast,
        *,
        seed: int,
        steps: int,
        updates: int,
        completions: int,
        learning_rate: float,
        epsilon: float = 0.2,
        max_norm: float = 1.0,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.run_dir: Path | None = None
        self._seed, self._steps, self._updates, self._size = seed, steps, updates, completions
        self._epsilon, self._max_norm, self._rate = epsilon, max_norm, learning_rate
        self._where: tuple[Path, str] = Path("runs"), "ppo"

    def watch_as(self, folder: Path, name: str) -> None:
        """Say where the run directory is to be made, and what it is called."""
        self._where = folder, name

    def train(self) -> None:
        """All steps."""
        set_seed(self._seed)
        config = {"loss_type": "ppo", "epsilon": self._epsilon, "num_iterations": self._updates}
        with Monitor(self._where[0], name=self._where[1], settings={}, config=config) as monitor:
            self.run_dir = monitor.run_dir
            value = torch.nn.Linear(self.model.config.hidden_size, 1)
            critic = torch.optim.AdamW(value.parameters(), lr=1e-2)
            actor = torch.optim.SGD(self.model.parameters(), lr=self._rate)
            rollout: dict[str, Any] = {}
            for step in range(1, self._steps + 1):
                if (step - 1) % self._updates == 0:
                    rollout = self._roll_out(value, monitor)
                logps, entropy = self._look(rollout["ids"], rollout["prompt"])
                advantages, mask, old = rollout["advantages"], rollout["mask"], rollout["old"]
                loss = (clipped_losses(logps, old, advantages, self._epsilon) * mask).sum() / mask.sum()
                actor.zero_grad()
                loss.backward()
                value_loss = (value(rollout["features"])[:, 0] - rollout["rewards"]).square().mean()
                critic.zero_grad()
                value_loss.backward()
                monitor.tokens(
                    logps, entropy, mask, old_logprobs=old, advantages=advantages, epsilon=self._epsilon,
                    rows=range(len(mask)),
                )  # fmt: skip
                monitor.gradients(self.model.parameters(), max_norm=self._max_norm, policy_only=True)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._max_norm)
                actor.step()
                critic.step()
                monitor.step(step, loss=loss, lr=self._rate, value_loss=value_loss)

    @torch.no_grad()
    def _roll_out(self, value: torch.nn.Linear, monitor: Monitor) -> dict[str, Any]:
        """Sample, score, and tell the monitor."""
        prompts = [x for x in PROMPTS for _ in range(self._size // len(PROMPTS))]
        ids = torch.tensor(self.tokenizer(prompts)["input_ids"])
        width, end = ids.shape[1], self.tokenizer.eos_token_id
        features = self.model.model(input_ids=ids).last_hidden_state[:, -1]
        for _ in range(MOST_TOKENS):
            logits = self.model(input_ids=ids).logits[:, -1]
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], dim=1)
        mask = until_end(ids[:, width:], end)
        texts = [
            self.tokenizer.decode(row[keep], skip_special_tokens=True)
            for row, keep in zip(ids[:, width:], mask.bool(), strict=True)
        ]
        scores = accuracy_reward(prompts, texts)
        rewards = torch.tensor(scores)
        surprise = rewards - value(features)[:, 0]
        advantages = (surprise - surprise.mean()) / (surprise.std() + 1e-4)
        lengths, ended = mask.sum(dim=1).long(), ((ids[:, width:] == end) & mask.bool()).any(dim=1)
        monitor.rollouts(
            scores, lengths=lengths, correct=scores, truncated=~ended, advantages=advantages, prompts=prompts,
            completions=texts,
        )  # fmt: skip
        old, _ = self._look(ids, width)
        return {
            "ids": ids, "prompt": width, "mask": mask, "rewards": rewards, "features": features,
            "advantages": advantages, "old": old,
        }  # fmt: skip

    def _look(self, ids: torch.Tensor, prompt: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability of each sampled token and entropy at its place, (n, T) each."""
        log_p = self.model(input_ids=ids[:, :-1]).logits[:, prompt - 1 :].log_softmax(-1)
        chosen = log_p.gather(2, ids[:, prompt:, None])[..., 0]
        return chosen, -(log_p.exp() * log_p).sum(-1).detach()


def until_end(sampled: torch.Tensor, end: int) -> torch.Tensor:
    """1 for the tokens up to the first end token, it included, else 0.

    >>> until_end(torch.tensor([[5, 1, 7, 1], [5, 6, 7, 8]]), end=1).tolist()
    [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    """
    ended = (sampled == end).long().cumsum(1) - (sampled == end).long()
    return (ended == 0).float()


def clipped_losses(logps: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, epsilon: float) -> torch.Tensor:
    """PPO's clipped loss of each token, (n, T): −min(r·A, clip(r, 1 − ε, 1 + ε)·A).

    >>> clipped_losses(torch.tensor([[0.6931, 0.0]]), torch.zeros(1, 2), torch.tensor([2.0]), 0.2)
    tensor([[-2.4000, -2.0000]])
    """
    ratio, a = (logps - old).exp(), advantages[:, None]
    return -torch.minimum(ratio * a, ratio.clamp(1 - epsilon, 1 + epsilon) * a)
