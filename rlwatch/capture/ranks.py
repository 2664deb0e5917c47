"""What the ranks of a training tell each other. Every rank has to make the same calls, whatever failed on it before."""

from __future__ import annotations

from typing import Any

import torch


def gather(accelerator: Any, local: torch.Tensor) -> torch.Tensor:
    """All ranks' rows, (ranks · n, ...) from (n, ...), in the order of the ranks."""
    if accelerator.num_processes == 1:
        return local
    gathered: torch.Tensor = accelerator.gather(local.to(accelerator.device))
    return gathered


def mean(accelerator: Any, local: torch.Tensor) -> torch.Tensor:
    """The mean of a tensor over the ranks, the same on all of them."""
    if accelerator.num_processes == 1:
        return local
    reduced: torch.Tensor = accelerator.reduce(local, reduction="mean")
    return reduced
