"""prime-rl's TOML: `rl.toml`, or the trainer's and the orchestrator's settings in one file.

Source: prime-rl's published trainer (2025), from memory: neither its source nor a run was at hand. Its reports say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlwatch.audit.config import AuditConfig
from rlwatch.audit.values import Values

TRAINER = ("trainer.", "")
ORCHESTRATOR = ("orchestrator.", "")


def prime_rl(data: Mapping[str, Any], source: str) -> AuditConfig:
    """The configuration of a prime-rl training.

    Raises:
        ConfigError: A setting makes no sense.
    """
    values = Values(data, source)
    level = values.word("importance_sampling_level", "token", ["token", "sequence"], *_of(TRAINER, "loss.ratio_type"))
    size = values.count(
        "num_generations", 1, *_of(ORCHESTRATOR, "rollouts_per_example"), *_of(ORCHESTRATOR, "group_size")
    )
    rows = values.count("per_device_train_batch_size", 128, *_of(ORCHESTRATOR, "batch_size"))
    return AuditConfig(
        source=source,
        framework="prime-rl",
        trainer="prime-rl trainer",
        objective="policy",
        loss_type=values.word("loss_type", "default", (), *_of(TRAINER, "loss.type")),
        aggregation="rank-tokens" if level == "token" else "rank-sequences",
        baseline="group" if size > 1 else "none",
        scale_rewards="none",
        num_generations=size,
        per_device_train_batch_size=rows,
        max_completion_length=values.count(
            "max_completion_length", 2048, *_of(ORCHESTRATOR, "sampling.max_tokens"), *_of(ORCHESTRATOR, "seq_len")
        ),
        importance_sampling_level=level,
        beta=values.number("beta", 0.0, *_of(TRAINER, "loss.kl_tau")),
        own={"aggregation": level},
        names={"num_generations": "orchestrator.rollouts_per_example", "aggregation": "trainer.loss.ratio_type"}
        | values.found,
        given=frozenset(values.found),
        notes=(
            "prime-rl is audited from what its trainer was in 2025; nobody has checked this against its source here.",
            "It drops tokens whose ratio leaves a band rather than clip them; what is off policy is not weighed here.",
            *values.notes,
        ),
    )


def _of(prefixes: tuple[str, ...], key: str) -> list[str]:
    return [prefix + key for prefix in prefixes]
