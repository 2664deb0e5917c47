"""Every metric of every configuration against brute force: see truth.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlwatch import watch
from rlwatch.runs.metrics import METRICS
from rlwatch.runs.reader import read_info, read_records
from rlwatch.signals.histogram import RELATIVE_ERROR
from tiny import brevity, odd_digit
from truth import Truth

OFF_POLICY = {"num_iterations": 2, "max_steps": 4, "learning_rate": 3e-2}
CONFIGS: dict[str, dict[str, Any]] = {
    **{
        f"{kind}, off policy": {"loss_type": kind, **OFF_POLICY}
        for kind in ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo")
    },
    "cispo with a sensible ceiling": {"loss_type": "cispo", "epsilon_high": 5.0, **OFF_POLICY},
    "GSPO": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, **OFF_POLICY},
    "luspo, sequence level": {"loss_type": "luspo", "importance_sampling_level": "sequence", **OFF_POLICY},
    "on policy": {},
    "a rollout over several steps": {"steps_per_generation": 6, "max_steps": 4},
    "several rollouts a step": {"steps_per_generation": 1},
    "rewards not scaled": {"scale_rewards": "none"},
    "rewards scaled by the batch": {"scale_rewards": "batch"},
    "normalize_then_sum": {"multi_objective_aggregation": "normalize_then_sum"},
    "truncated rows masked": {"mask_truncated_completions": True, **OFF_POLICY},
    "truncated rows masked, mean over rows": {"mask_truncated_completions": True, "loss_type": "grpo"},
    "the most uncertain half": {"top_entropy_quantile": 0.5, **OFF_POLICY},
    "a second ceiling": {"delta": 1.3, **OFF_POLICY},
    "off-policy rows masked": {"off_policy_mask_threshold": 0.02, **OFF_POLICY},
    "clip-higher": {"epsilon_high": 0.28, **OFF_POLICY},
    "gradient clipped": {"max_grad_norm": 0.01},
    "clipping off": {"max_grad_norm": 0.0},
    "a warm sampler": {"temperature": 1.5},
    "evaluation in between": {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4},
    "checkpointing": {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
    "reentrant checkpointing": {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": True},
    },
    "entropy bonus": {"entropy_coef": 0.02, **OFF_POLICY},
    "adaptive entropy": {"use_adaptive_entropy": True, "entropy_target": 3.1, "entropy_coef": 0.05, **OFF_POLICY},
    "KL": {"beta": 0.1, **OFF_POLICY},
    "KL, not corrected": {"beta": 0.1, "use_bias_correction_kl": False, "loss_type": "grpo", **OFF_POLICY},
    "KL and entropy bonus": {"beta": 0.1, "entropy_coef": 0.02, "loss_type": "dr_grpo", **OFF_POLICY},
    "KL, sequence level": {"beta": 0.1, "importance_sampling_level": "sequence", "loss_type": "grpo", **OFF_POLICY},
    "KL, uncertain half": {"beta": 0.1, "top_entropy_quantile": 0.5, **OFF_POLICY},
}

WITHIN_A_BIN = {"entropy/p10", "entropy/p50", "entropy/p90", "entropy/top20"}
TINY = 1e-8  # of a difference of float32 numbers of about 1: below it a relative error means nothing


def check(trainer: Any, truth: Truth, run_dir: Path, extra: set[str] = frozenset(), rel: float = 1e-6) -> None:  # type: ignore[assignment]
    """Every record has just the metrics that it must have, and each has its value."""
    records = read_records(run_dir).items
    assert "faults" not in read_info(run_dir)
    assert [r.step for r in records] == list(range(1, trainer.state.max_steps + 1))
    for record, expected in zip(records, truth.steps, strict=True):
        recorded = dict(record.metrics)
        assert recorded.pop("step_seconds") > 0
        for name in extra:
            assert recorded.pop(name) is not None, name
        assert set(recorded) == set(expected)
        for name, value in expected.items():
            tolerance = RELATIVE_ERROR if name in WITHIN_A_BIN else rel
            assert recorded[name] == pytest.approx(value, rel=tolerance, abs=TINY), (record.step, name)
        assert all(name in METRICS or name.startswith("reward/") for name in recorded), "every name is in the table"


@pytest.mark.parametrize("name", CONFIGS)
def test_every_metric_equals_brute_force(name: str, make_trainer: Any, tmp_path: Path) -> None:
    truth = Truth()
    settings = {"reward_weights": [1.0, 0.5, 1.0], **CONFIGS[name]}
    trainer = make_trainer(reward_funcs=(odd_digit, brevity, truth.reward), callbacks=[truth], **settings)
    truth.listen(trainer)
    watcher = watch(trainer, dir=tmp_path / "runs", correct="odd_digit", split_every=1)
    trainer.train()
    assert watcher.run_dir is not None
    check(trainer, truth, watcher.run_dir, {"grad/regulariser_norm"})
