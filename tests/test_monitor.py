"""What `Monitor` makes of a loop's own numbers, against plain loops that share no code with it."""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rlwatch
from rlwatch import Monitor
from rlwatch.capture import own_steps
from rlwatch.capture.generation import Generation, rollout_metrics
from rlwatch.capture.ragged import group_metrics
from rlwatch.runs.metrics import METRICS
from rlwatch.runs.reader import read_alerts, read_info, read_records
from rlwatch.signals.arrays import TokenArrays, entropy_histogram, token_sums
from rlwatch.signals.groups import RewardRange
from rlwatch.signals.histogram import RELATIVE_ERROR
from rlwatch.signals.histogram import entropy_histogram as torch_histogram
from rlwatch.signals.losses import LossConfig, TokenBatch
from rlwatch.signals.tokens import by_correctness, entropy_rows, policy_rows

EPSILON = (0.2, 0.3)


def make_rollouts(sizes: list[int], seed: int = 0) -> dict[str, Any]:
    """Groups of these sizes, shuffled: some alike, some not, with everything that can be told of them."""
    rng = np.random.default_rng(seed)
    groups = [f"p{i}" for i, size in enumerate(sizes) for _ in range(size)]
    rewards = [float(rng.choice([0.0, 0.5, 1.0])) if i % 3 else (0.0, 0.5, 1.0)[i // 3 % 3] for i in
               [i for i, size in enumerate(sizes) for _ in range(size)]]  # fmt: skip
    order = rng.permutation(len(groups)).tolist()
    rewards = [rewards[i] for i in order]
    return {
        "rewards": rewards,
        "groups": [groups[i] for i in order],
        "lengths": rng.integers(1, 9, len(order)).tolist(),
        "correct": [reward == 1.0 for reward in rewards],
        "truncated": (rng.random(len(order)) < 0.3).tolist(),
        "advantages": rng.normal(size=len(order)).tolist(),
        "prompts": [f"prompt {groups[i]}" for i in order],
        "completions": [f"text {rng.integers(3)}" for _ in order],
        "functions": {"odd": rng.random(len(order)).tolist(), "mean": rng.random(len(order)).tolist()},
    }


def truth_of_rollouts(told: dict[str, Any], best: float = 1.0, worst: float = 0.0) -> dict[str, float]:
    """Group by group, in Python."""
    rewards, lengths, correct = told["rewards"], told["lengths"], told["correct"]
    groups: dict[Any, list[int]] = {}
    for row, key in enumerate(told["groups"]):
        groups.setdefault(key, []).append(row)
    kinds, stds, chance, unique, gaps, wasted = [], [], [], [], [], 0
    for rows in groups.values():
        mine = [rewards[row] for row in rows]
        alike = max(mine) == min(mine)
        kind = "solved" if mine[0] == best else "failed" if mine[0] == worst else "stuck"
        kinds.append(kind if alike else "mixed")
        wasted += sum(lengths[row] for row in rows) if alike else 0
        if len(rows) > 1:
            stds.append(statistics.stdev(mine))
        rate = (sum(correct[row] for row in rows) + 0.5) / (len(rows) + 1)
        chance.append(rate ** len(rows) + (1 - rate) ** len(rows))
        unique.append(len({told["completions"][row] for row in rows}) / len(rows))
        right = [lengths[row] for row in rows if correct[row]]
        wrong = [lengths[row] for row in rows if not correct[row]]
        if right and wrong:
            gaps.append(statistics.fmean(wrong) - statistics.fmean(right))
    dead = sum(kind != "mixed" for kind in kinds) / len(kinds)
    found = {
        "reward/mean": statistics.fmean(rewards),
        "reward/std": statistics.stdev(rewards),
        "reward/odd": statistics.fmean(told["functions"]["odd"]),
        "reward/mean_function": statistics.fmean(told["functions"]["mean"]),
        "groups/zero_std": dead,
        **{f"groups/{kind}": kinds.count(kind) / len(kinds) for kind in ("solved", "failed", "stuck")},
        "groups/reward_std": statistics.fmean(stds),
        "groups/excess": dead - statistics.fmean(chance),
        "groups/unique": statistics.fmean(unique),
        "groups/wasted_tokens": wasted / sum(lengths),
        "length/mean": statistics.fmean(lengths),
        "length/gap": statistics.fmean(gaps),
        "length/truncated": statistics.fmean(told["truncated"]),
        "length/share_correct": statistics.fmean(correct),
    }
    for name, wanted in (("correct", True), ("incorrect", False)):
        rows = [row for row, verdict in enumerate(correct) if verdict is wanted]
        found[f"length/{name}"] = statistics.fmean(lengths[row] for row in rows)
        found[f"length/truncated_{name}"] = statistics.fmean(told["truncated"][row] for row in rows)
    return found


def make_tokens(rows: int, width: int, seed: int = 0, per_token: bool = False) -> dict[str, Any]:
    """A micro-batch; what its mask hides is nonsense."""
    rng = np.random.default_rng(seed)
    mask = np.arange(width)[None] < rng.integers(1, width + 1, (rows, 1))
    logprobs = rng.uniform(-3, -0.01, (rows, width))

    def near(scale: float) -> Any:
        return np.where(mask, np.minimum(logprobs + rng.normal(0, scale, mask.shape), -1e-3), np.nan)

    return {
        "logprobs": np.where(mask, logprobs, np.inf),
        "entropy": np.where(mask, rng.gamma(0.5, 1.0, mask.shape), np.nan),
        "mask": mask,
        "old_logprobs": near(0.4),
        "ref_logprobs": near(0.6),
        "sampler_logprobs": np.where(rng.random(mask.shape) < 0.2, np.nan, near(0.1)),
        "advantages": rng.normal(size=mask.shape if per_token else rows) * (rng.random(rows)[:, None] < 0.8 if per_token
                      else rng.random(rows) < 0.8),
    }  # fmt: skip


def truth_of_tokens(batches: list[dict[str, Any]], correct: list[Any] | None = None) -> dict[str, float]:
    """Token by token, in Python."""
    low, high = 1 - EPSILON[0], 1 + EPSILON[1]
    entropies, surprisals, advantages, ratios, clips, rare, active = [], [], [], [], [], [], []
    old_kl, ref_kl, gaps, sizes = [], [], [], []
    by_verdict: dict[Any, list[float]] = {True: [], False: []}
    row = 0
    for batch in batches:
        for i in range(batch["mask"].shape[0]):
            mine = []
            for t in range(batch["mask"].shape[1]):
                if not batch["mask"][i, t]:
                    continue
                logp, old = batch["logprobs"][i, t], batch["old_logprobs"][i, t]
                advantage = batch["advantages"][i] if batch["advantages"].ndim == 1 else batch["advantages"][i, t]
                ratio = math.exp(logp - old)
                entropies.append(batch["entropy"][i, t])
                if correct is not None and correct[row] is not None:
                    by_verdict[correct[row]].append(entropies[-1])
                surprisals.append(-logp)
                advantages.append(advantage)
                mine.append(abs(advantage))
                ratios.append(ratio)
                clips.append((ratio < low and advantage < 0, ratio > high and advantage > 0))
                if clips[-1][1]:
                    rare.append(math.exp(old) < 0.2)
                active.append(advantage != 0 and not any(clips[-1]))
                old_kl.append(ratio - 1 - (logp - old))
                d = batch["ref_logprobs"][i, t] - logp
                ref_kl.append(math.exp(d) - d - 1)
                if not math.isnan(batch["sampler_logprobs"][i, t]):
                    gaps.append(old - batch["sampler_logprobs"][i, t])
            sizes.append(statistics.fmean(mine))
            row += 1
    mean_a, mean_s = statistics.fmean(advantages), statistics.fmean(surprisals)
    together = [(a - mean_a) * (mean_s - s) for a, s in zip(advantages, surprisals, strict=True)]
    found = {
        "entropy/mean": statistics.fmean(entropies),
        "surprisal/mean": mean_s,
        "ratio/mean": statistics.fmean(ratios),
        "ratio/max": max(ratios),
        "clip/low": statistics.fmean(c[0] for c in clips),
        "clip/high": statistics.fmean(c[1] for c in clips),
        "clip/high_rare": statistics.fmean(rare),
        "kl/old": statistics.fmean(old_kl),
        "kl/ref": statistics.fmean(ref_kl),
        "sampler/logp_gap_mean": statistics.fmean(abs(gap) for gap in gaps),
        "sampler/logp_gap_max": max(abs(gap) for gap in gaps),
        "sampler/ratio_mean": statistics.fmean(math.exp(gap) for gap in gaps),
        "advantage/mean": mean_a,
        "cov/logp_advantage": statistics.fmean(together),
        "signal/abs_advantage": statistics.fmean(sizes),
        "signal/active_tokens": statistics.fmean(active),
    }
    for name, verdict in (("correct", True), ("incorrect", False)):
        if by_verdict[verdict]:
            found[f"entropy/{name}"] = statistics.fmean(by_verdict[verdict])
    found |= {f"entropy/p{q}": float(np.quantile(entropies, q / 100, method="inverted_cdf")) for q in (10, 50, 90)}
    ordered = sorted(entropies, reverse=True)
    whole, rest = int(0.2 * len(ordered)), 0.2 * len(ordered) - int(0.2 * len(ordered))
    found["entropy/top20"] = (sum(ordered[:whole]) + rest * ordered[whole]) / (0.2 * len(ordered))
    return found


def assert_same(found: dict[str, Any], expected: dict[str, float], *, exact: float = 1e-9) -> None:
    found = {name: value for name, value in found.items() if name not in ("rollouts/age", "step_seconds")}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        binned = re.fullmatch("entropy/(p[0-9]+|top20)", name)
        near = pytest.approx(value, rel=1.001 * RELATIVE_ERROR, abs=1e-4) if binned else pytest.approx(value, exact)
        assert found[name] == near, name


@pytest.fixture
def monitor(tmp_path: Path) -> Monitor:
    return Monitor(tmp_path / "runs", name="run")


def as_lists(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def as_tensors(value: Any) -> Any:
    tensor = torch.tensor(np.asarray(value))
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (isinstance(value, list) and not isinstance(value[0], str))


FORMS: dict[str, Callable[[Any], Any]] = {"lists": as_lists, "numpy": np.asarray, "tensors": as_tensors}


# The numbers


@pytest.mark.parametrize("sizes", [[4] * 9, [1, 2, 3, 4, 5, 6, 3, 2, 4], [7, 2, 2, 5]])
@pytest.mark.parametrize("form", FORMS)
def test_rollouts_equal_a_loop_whatever_the_sizes_of_groups(monitor: Monitor, sizes: list[int], form: str) -> None:
    told = make_rollouts(sizes)
    given = {n: FORMS[form](v) if is_numeric(v) else v for n, v in told.items() if n != "functions"}
    monitor.rollouts(functions={n: FORMS[form](v) for n, v in told["functions"].items()}, **given)
    found = monitor.step(1)
    assert_same(found, truth_of_rollouts(told))
    assert monitor._guard.faults == []
    assert all(name in METRICS or name in ("reward/odd", "reward/mean_function") for name in found)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("per_token", [False, True])
def test_tokens_equal_a_loop_over_unequal_micro_batches(monitor: Monitor, form: str, per_token: bool) -> None:
    batches = [make_tokens(3, 7, 1, per_token), make_tokens(5, 4, 2, per_token), make_tokens(1, 12, 3, per_token)]
    for batch in batches:
        monitor.tokens(**{name: FORMS[form](value) for name, value in batch.items()}, epsilon=EPSILON)
    assert_same(monitor.step(1), truth_of_tokens(batches))
    assert monitor._guard.faults == []


def test_entropy_by_correctness_and_the_table_go_by_rows(monitor: Monitor) -> None:
    told, batches = make_rollouts([2, 3, 3]), [make_tokens(5, 6, 1), make_tokens(3, 9, 2)]
    correct: list[Any] = [True, False, None, True, False, False, True, True]
    told["correct"] = correct
    monitor.rollouts(**told)
    rows = [6, 0, 2, 7, 3], [1, 5, 4]
    for batch, mine in zip(batches, rows, strict=True):
        monitor.tokens(**batch, epsilon=EPSILON, rows=torch.tensor(mine))
    found = monitor.step(3)
    expected = truth_of_tokens(batches, [correct[row] for mine in rows for row in mine])
    assert {"entropy/correct", "entropy/incorrect"} <= expected.keys()
    assert_same({name: found[name] for name in expected}, expected)
    monitor.tokens(**make_tokens(8, 5, 9), rows=range(8))  # the table is that of the first step
    monitor.step(4)
    monitor.close()

    assert monitor.run_dir is not None
    (shard,) = (monitor.run_dir / "rollouts").iterdir()
    assert shard.name == "step-000003.parquet"
    table = {row["advantage"]: row for row in pl.read_parquet(shard).iter_rows(named=True)}
    assert len(table) == 8
    for batch, mine in zip(batches, rows, strict=True):
        for i, row in enumerate(mine):
            kept = batch["mask"][i]
            line = table[told["advantages"][row]]
            assert line["logprob_sum"] == pytest.approx(batch["logprobs"][i][kept].sum())
            assert line["entropy"] == pytest.approx(batch["entropy"][i][kept].mean())
            assert (line["reward"], line["length"]) == (told["rewards"][row], told["lengths"][row])
            assert (line["correct"], line["truncated"]) == (correct[row], told["truncated"][row])
            assert line["reward/odd"] == told["functions"]["odd"][row]
            assert line["weight"] is None
            siblings = [other for other in table.values() if other["group"] == line["group"]]
            assert len(siblings) == told["groups"].count(told["groups"][row])
            assert {other["prompt_id"] for other in siblings} == {line["prompt_id"]}
            text = (line["prompt"], line["completion"])
            kept_group = told["groups"][row] in list(dict.fromkeys(told["groups"]))[:2]
            assert text == ((told["prompts"][row], told["completions"][row]) if kept_group else (None, None))


def test_a_group_metric_of_equal_groups_is_the_callbacks() -> None:
    told = make_rollouts([4] * 12, seed=5)
    order = np.argsort(told["groups"], kind="stable")
    rewards = np.array(told["rewards"])[order]
    generation = Generation(
        number=0, group_size=4, functions=("r",), weights=np.ones(1), per_function=rewards[:, None], rewards=rewards,
        lengths=np.array(told["lengths"], dtype=float)[order], truncated=np.zeros(48),
        correct=np.where(np.arange(48) == 3, np.nan, np.array(told["correct"], dtype=float)[order]),
        advantages=np.zeros(48), fingerprints=np.array([hash(told["completions"][i]) for i in order]),
        prompts=np.zeros(48, dtype=np.int64), seen=RewardRange().including(rewards), each=False, texts={},
    )  # fmt: skip
    theirs = {n: v for n, v in rollout_metrics([generation]).items() if n.startswith("groups/") or n == "length/gap"}
    assert "groups/excess" in theirs
    assert group_metrics([generation]) == pytest.approx(theirs, rel=1e-12)


def test_sums_over_tokens_are_the_callbacks() -> None:
    batch = make_tokens(6, 9, 4)
    correct = np.array([1.0, 0.0, math.nan, 1.0, 0.0, 0.0])
    names = {"logprobs": "logps", "old_logprobs": "old_logps", "ref_logprobs": "ref_logps"}
    arrays = {names.get(n, n): np.asarray(v, dtype=float) for n, v in batch.items()}
    mask, entropies = batch["mask"], arrays.pop("entropy")
    advantages, sampler = arrays.pop("advantages")[:, None], arrays.pop("sampler_logprobs")
    del arrays["mask"]
    mine = TokenArrays(
        **arrays, mask=mask, entropies=entropies, sampler_logps=sampler, advantages=advantages, epsilon=EPSILON,
        correct=correct,
    )  # fmt: skip
    tensors = {name: torch.tensor(np.where(mask, value, 0.0)) for name, value in arrays.items()}
    theirs = TokenBatch(
        **tensors, mask=torch.tensor(mask), advantages=torch.tensor(advantages), sampling_logps=torch.tensor(sampler)
    )
    config = LossConfig("dapo", *EPSILON)
    rows, most = policy_rows(config, theirs)
    rows |= entropy_rows(torch.tensor(entropies), theirs.mask)
    rows |= by_correctness(rows, torch.tensor(correct))
    expected = {name: value.sum() for name, value in rows.items()}
    sums, maxima = token_sums(mine)
    assert {n: sums[n] for n in expected} == pytest.approx({n: v.item() for n, v in expected.items()}, rel=1e-9)
    assert maxima == pytest.approx({n: v.item() for n, v in most.items()})
    counts = torch_histogram(torch.tensor(entropies), theirs.mask).tolist()
    assert entropy_histogram(entropies, mask).tolist() == counts


def test_entropies_fall_into_the_callbacks_bins() -> None:
    values = [[0.0, -1e-9, 1e-5, 9e-5, 1.1e-4, 0.5, 3.0], [15.9, 16.0, 17.0, 1e9, math.nan, math.inf, 2.0]]
    mask = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0]], dtype=bool)
    counts = entropy_histogram(np.array(values), mask)
    assert counts.tolist() == torch_histogram(torch.tensor(values), torch.tensor(mask)).tolist()
    assert (counts[0], counts.sum()) == (4, 11)


def test_active_tokens_are_those_with_a_gradient(monitor: Monitor) -> None:
    batch = make_tokens(20, 10, 7)
    mask, advantages = torch.tensor(batch["mask"]), torch.tensor(batch["advantages"])[:, None]
    leaf = torch.tensor(np.where(batch["mask"], batch["logprobs"], 0.0), requires_grad=True)
    ratio = (leaf - torch.tensor(np.where(batch["mask"], batch["old_logprobs"], 0.0))).exp()
    clipped = ratio.clamp(1 - EPSILON[0], 1 + EPSILON[1])
    (torch.min(ratio * advantages, clipped * advantages) * mask).sum().backward()
    assert leaf.grad is not None
    share = ((leaf.grad != 0) & mask).sum() / mask.sum()
    monitor.tokens(**batch, epsilon=EPSILON)
    assert monitor.step(1)["signal/active_tokens"] == pytest.approx(share.item())
    assert 0.2 < share < 0.9


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_every_dtype_are_taken(monitor: Monitor, dtype: torch.dtype) -> None:
    rounded = {n: torch.tensor(v, dtype=dtype) for n, v in make_tokens(4, 6).items() if n != "mask"}
    mask = torch.tensor(make_tokens(4, 6)["mask"]).to(dtype)
    monitor.tokens(**rounded, mask=mask, epsilon=EPSILON)
    batch = {n: v.double().numpy() for n, v in rounded.items()} | {"mask": mask.bool().numpy()}
    assert_same(monitor.step(1), truth_of_tokens([batch]))


@pytest.mark.parametrize(("max_norm", "policy_only"), [(None, False), (0.5, False), (0.5, True), (1e9, True)])
@pytest.mark.parametrize("by_norm", [False, True])
def test_the_gradient(monitor: Monitor, max_norm: float | None, policy_only: bool, by_norm: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).to(torch.float32)
    model(torch.randn(5, 3)).square().sum().backward()
    unused = torch.nn.Parameter(torch.ones(2))
    squares = sum(float(x) ** 2 for p in model.parameters() for x in p.grad.flatten())  # type: ignore[union-attr]
    norm = math.sqrt(squares)
    if by_norm:
        monitor.gradients(norm=torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9), max_norm=max_norm,
                          policy_only=policy_only)  # fmt: skip
    else:
        monitor.gradients([*model.parameters(), unused], max_norm=max_norm, policy_only=policy_only)
    coefficient = min(1.0, max_norm / (norm + 1e-6)) if max_norm else 1.0
    expected = {"grad/norm": norm, "grad/clip_coef": coefficient, "grad/applied_norm": norm * coefficient}
    if policy_only:
        expected |= {"grad/policy_norm": norm, "grad/regulariser_norm": 0.0, "grad/effective_norm": norm * coefficient}
    assert_same(monitor.step(1), expected, exact=1e-6)
    assert monitor.step(2).keys() == {"step_seconds"}, "a gradient is that of one step"


# What is missing, and what is NaN


def test_without_groups_there_are_no_group_metrics(monitor: Monitor) -> None:
    told = make_rollouts([4] * 6)
    del told["groups"]
    monitor.rollouts(**told)
    found = monitor.step(1)
    assert not [name for name in found if name.startswith("groups/") or name == "length/gap"]
    assert {"reward/mean", "length/correct"} <= found.keys()


def test_what_is_not_given_is_absent(monitor: Monitor) -> None:
    monitor.rollouts([1.0, 0.0, 0.5, 0.5], group_size=2)
    monitor.tokens([[-1.0, -2.0]], None, [[1, 1]])
    found = monitor.step(1)
    groups = {f"groups/{name}" for name in ("zero_std", "solved", "failed", "stuck", "reward_std")}
    assert found.keys() == {"reward/mean", "reward/std", "rollouts/age", "surprisal/mean", *groups}
    assert monitor.step(2).keys() == found.keys() - {"surprisal/mean"} | {"step_seconds"}
    monitor.rollouts([1.0], correct=[True])
    assert monitor.step(3)["length/share_correct"] == 1.0
    monitor.rollouts([1.0], truncated=[True], lengths=None)
    found = monitor.step(4)
    assert found["length/truncated"] == 1.0
    assert "length/mean" not in found
    assert "length/share_correct" not in found


def test_a_sum_that_lacks_a_micro_batch_is_no_sum(monitor: Monitor) -> None:
    monitor.tokens([[-1.0]], [[0.5]], [[1]], ref_logprobs=[[-1.5]])
    monitor.tokens([[-3.0]], None, [[1]], ref_logprobs=[[-1.5]])
    assert monitor.step(1).keys() == {"surprisal/mean", "kl/ref"}


def test_nan_stays_nan_and_what_the_mask_hides_does_not_matter(monitor: Monitor) -> None:
    monitor.rollouts([math.nan, 1.0, None, 0.0, None, None], groups=[0, 0, 1, 1, 2, 2], functions={"f": [math.nan] * 6})
    monitor.tokens([[-1.0, math.nan]], [[math.nan, math.inf]], [[1, 0]])
    found = monitor.step(1, loss=math.nan, lr=np.float32(0.5), other=None, **{"kl/ref": math.inf})
    assert found["reward/mean"] == 0.5
    assert found["groups/zero_std"] == 1.0, "of the two groups that have a reward"
    assert math.isnan(found["reward/f"] or 0.0)
    assert math.isnan(found["entropy/mean"] or 0.0)
    assert "entropy/p50" not in found
    assert found["surprisal/mean"] == 1.0
    assert math.isnan(found["loss"] or 0.0)
    assert (found["lr"], found["other"], found["kl/ref"]) == (0.5, None, math.inf)
    monitor.close()
    assert monitor.run_dir is not None
    (record,) = read_records(monitor.run_dir).items
    assert record.metrics.keys() == found.keys()
    assert [alert.rule for alert in read_alerts(monitor.run_dir).items] == ["non-finite"]


def test_a_micro_batch_without_a_token_changes_nothing(monitor: Monitor) -> None:
    batch = make_tokens(3, 5)
    monitor.tokens(**batch, epsilon=EPSILON)
    monitor.tokens(**batch | {"mask": np.zeros_like(batch["mask"])}, epsilon=EPSILON)
    assert_same(monitor.step(1), truth_of_tokens([batch]))
    monitor.tokens(**batch | {"mask": np.zeros_like(batch["mask"])}, epsilon=EPSILON)
    assert monitor.step(2).keys() == {"step_seconds"}


def test_a_name_that_the_user_gives_stands_in_place_of_what_was_measured(monitor: Monitor) -> None:
    monitor.rollouts([1.0, 0.0])
    assert (
        monitor.step(1, value_loss=torch.tensor([2.0], requires_grad=True), **{"reward/mean": 7})["value_loss"] == 2.0
    )
    assert monitor.step(2, **{"reward/mean": 7})["reward/mean"] == 7.0


# Over several steps


def test_rollouts_belong_to_every_step_until_others_come(monitor: Monitor) -> None:
    first, second = make_rollouts([4, 2, 3, 3]), make_rollouts([3, 5, 3], seed=1)
    monitor.rollouts(**first)
    for age, step in enumerate((5, 6, 7)):
        found = monitor.step(step)
        assert_same(found, truth_of_rollouts(first))
        assert found["rollouts/age"] == age
    monitor.rollouts(**second)
    found = monitor.step(8)
    assert_same(found, truth_of_rollouts(second))
    assert found["rollouts/age"] == 0
    monitor.close()
    assert monitor.run_dir is not None
    shards = {path.name: len(pl.read_parquet(path)) for path in (monitor.run_dir / "rollouts").iterdir()}
    assert shards == {"step-000005.parquet": 12, "step-000008.parquet": 11}


def test_calls_before_one_step_belong_together(monitor: Monitor) -> None:
    parts = [make_rollouts([4, 2, 3, 3]), make_rollouts([3, 5, 3], seed=1)]
    parts[1]["groups"] = [f"other {key}" for key in parts[1]["groups"]]
    both = {n: parts[0][n] + parts[1][n] for n in parts[0] if n != "functions"}
    both["functions"] = {n: parts[0]["functions"][n] + parts[1]["functions"][n] for n in ("odd", "mean")}
    for part in parts:
        monitor.rollouts(**part)
    monitor.tokens([[-1.0]], [[2.0]], [[1]], rows=[22])
    assert_same(monitor.step(1) , truth_of_rollouts(both) | {
        "entropy/mean": 2.0, "surprisal/mean": 1.0, "entropy/p10": 2.0, "entropy/p50": 2.0, "entropy/p90": 2.0,
        "entropy/top20": 2.0, f"entropy/{'' if both['correct'][22] else 'in'}correct": 2.0,
    })  # fmt: skip
    monitor.close()
    assert monitor.run_dir is not None
    table = pl.read_parquet(monitor.run_dir / "rollouts" / "step-000001.parquet")
    assert table.filter(pl.col("entropy").is_not_null())["advantage"].to_list() == [both["advantages"][22]]
    assert table["group"].n_unique() == 7


def test_what_one_of_several_calls_did_not_give_is_not_known(monitor: Monitor) -> None:
    monitor.rollouts([1.0, 0.0], group_size=2, lengths=[1, 2], correct=[1, 0], functions={"f": [1.0, 2.0]})
    monitor.rollouts([1.0], truncated=[True])
    assert monitor.step(1).keys() == {"reward/mean", "reward/std", "rollouts/age"}
    monitor.close()  # it has written the completions
    assert monitor._guard.faults == []
    assert monitor.run_dir is not None
    table = pl.read_parquet(monitor.run_dir / "rollouts" / "step-000001.parquet")
    assert table.select("group", "reward", "reward/f").rows() == [(0, 1.0, 1.0), (0, 0.0, 2.0), (1, 1.0, None)]


def test_tokens_are_counted_once_a_rollout_and_no_more_once_a_length_is_missing(monitor: Monitor) -> None:
    monitor.rollouts([1.0, 0.0], lengths=[3, 4])
    monitor.step(1)
    monitor.step(2)  # on the same rollouts
    monitor.rollouts([1.0, 0.0], lengths=[5, 6])
    monitor.rollouts([1.0, 0.0], lengths=[1, 1])
    monitor.step(3)
    monitor.rollouts([1.0, 0.0])
    monitor.step(4)
    monitor.rollouts([1.0, 0.0], lengths=[1, 1])
    monitor.step(5)
    assert monitor.run_dir is not None
    tokens = [record.metrics.get("tokens/total") for record in read_records(monitor.run_dir).items]
    assert tokens == [7, 7, 20, None, None]


def test_a_row_is_in_the_table_as_it_was_first_trained_on(monitor: Monitor) -> None:
    monitor.rollouts([1.0, 0.0])
    monitor.tokens([[-1.0]], None, [[1]], rows=[1])
    monitor.tokens([[-5.0]], [[2.0]], [[1]], rows=[1])
    monitor.step(1)
    monitor.tokens([[-7.0]], [[7.0]], [[1]], rows=[0])
    monitor.step(2)
    monitor.close()
    assert monitor.run_dir is not None
    table = pl.read_parquet(monitor.run_dir / "rollouts" / "step-000001.parquet")
    assert table["logprob_sum"].to_list() == [None, -1.0]
    assert table["entropy"].to_list() == [None, 2.0]


def test_solved_and_failed_go_by_all_rewards_of_the_run(monitor: Monitor) -> None:
    monitor.rollouts([0.0, 0.0, 2.0, 1.0], group_size=2)
    monitor.step(1)
    monitor.rollouts([1.0, 1.0, 1.5, 1.5], group_size=2)
    found = monitor.step(2)
    assert [found[f"groups/{kind}"] for kind in ("solved", "failed", "stuck")] == [0.0, 0.0, 1.0]
    monitor.rollouts([0.0, 0.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0], group_size=2)
    found = monitor.step(3)
    assert [found[f"groups/{kind}"] for kind in ("solved", "failed", "stuck")] == [0.5, 0.25, 0.25]


def test_what_is_done_to_the_arrays_afterwards_changes_nothing(monitor: Monitor) -> None:
    rewards, logprobs = torch.tensor([1.0, 0.0], dtype=torch.float64), np.array([[-1.0, -3.0]])
    monitor.rollouts(rewards)
    monitor.tokens(logprobs, None, [[1, 1]])
    rewards.zero_()
    logprobs[:] = 0
    found = monitor.step(1)
    assert (found["reward/mean"], found["surprisal/mean"]) == (0.5, 2.0)


def test_seconds_are_those_of_one_step(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 103.0, 111.0])
    monkeypatch.setattr(own_steps, "time", SimpleNamespace(perf_counter=lambda: next(times), time=time.time))
    assert "step_seconds" not in monitor.step(1)
    assert monitor.step(2)["step_seconds"] == 3.0
    assert monitor.step(4)["step_seconds"] == 4.0


# The run


def test_groups_that_fail_for_long_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Monitor(tmp_path, name="dead", config={"num_iterations": 2}) as monitor:
        for step in range(1, 91):
            if step in (1, 46):
                monitor.rollouts([0.0] * 16, group_size=4)
            monitor.step(step, loss=0.0)
    assert monitor.run_dir is not None
    alerts = read_alerts(monitor.run_dir).items
    assert ("dead-groups", "critical") in [(alert.rule, alert.severity.value) for alert in alerts]
    printed = capsys.readouterr().out
    assert "CRITICAL · dead-groups · run dead" in printed
    assert f"rlwatch dashboard {tmp_path}" in printed
    info = read_info(monitor.run_dir)
    assert info["ended"] >= info["created"]
    assert (info["trainer"], info["config"]) == ("own loop", {"num_iterations": 2})
    assert "faults" not in info


def test_a_run_that_learns_is_left_alone(tmp_path: Path) -> None:
    with Monitor(tmp_path) as monitor:
        for step in range(1, 91):
            right = min(4, step // 20)
            monitor.rollouts(([1.0] * right + [0.0] * (4 - right)) * 2 + [0.0, 1.0] * 4, group_size=4)
            monitor.step(step)
    assert monitor.run_dir is not None
    assert read_alerts(monitor.run_dir).items == []


def test_settings_are_kept_and_secrets_are_not(tmp_path: Path) -> None:
    config = {
        "lr": np.float32(0.5), "max_tokens": 7, "hf_token": "hf_1", "slack": {"webhook_url": "https://x"},
        "n": [1, None], "device": torch.device("cpu"), "WANDB_API_KEY": "k",
    }  # fmt: skip
    with Monitor(tmp_path, config=config) as monitor:
        pass
    assert monitor.run_dir is not None
    assert read_info(monitor.run_dir)["config"] == {
        "lr": 0.5, "max_tokens": 7, "hf_token": "(not kept)", "slack": {"webhook_url": "(not kept)"}, "n": [1, None],
        "device": "cpu", "WANDB_API_KEY": "(not kept)",
    }  # fmt: skip


@pytest.mark.parametrize(("keep", "texts"), [(0, 0), (1, 3), ("all", 8)])
def test_the_text_of_some_groups_is_kept(tmp_path: Path, keep: Any, texts: int) -> None:
    with Monitor(tmp_path, sample_completions=keep) as monitor:
        monitor.rollouts([0.0] * 8, groups=[0, 1, 0, 1, 0, 2, 2, 2], completions=torch.arange(16).reshape(8, 2))
        assert monitor.step(1)["groups/unique"] == 1.0
    assert monitor.run_dir is not None
    table = pl.read_parquet(monitor.run_dir / "rollouts" / "step-000001.parquet")
    assert table["completion"].drop_nulls().len() == texts
    assert table["prompt"].null_count() == 8
    assert table["prompt_id"].n_unique() == 3
    if texts:
        assert table["completion"][0] == "[0, 1]"


# Without torch, and without anybody closing it

ALONE = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
import rlwatch
monitor = rlwatch.Monitor(sys.argv[1], name="alone")
for step in range(1, 4):
    monitor.rollouts([1.0, 0.0, 1.0, 1.0, 0.0], groups=[1, 1, 2, 2, 2], lengths=range(5), completions=list("abcde"))
    monitor.tokens([[-1.0, -2.0]], [[0.5, 0.7]], [[1, 1]], old_logprobs=[[-1.1, -2.0]], advantages=[1.0], epsilon=0.2)
    monitor.gradients(norm=2.0, max_norm=1.0)
    monitor.step(step, loss=0.1, lr=1e-3)
"""


def test_it_works_without_torch_and_is_closed_at_the_end_of_the_process(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ALONE, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    records = read_records(tmp_path / "alone").items
    assert [record.step for record in records] == [1, 2, 3]
    names = {"entropy/mean", "entropy/p50", "ratio/max", "clip/high", "groups/unique", "grad/clip_coef", "reward/mean"}
    assert names <= records[-1].metrics.keys()
    info = read_info(tmp_path / "alone")
    assert "ended" in info
    assert "faults" not in info
    assert len(list((tmp_path / "alone" / "rollouts").iterdir())) == 3


def test_a_run_that_breaks_off_has_ended(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, name="broken")
    with pytest.raises(KeyError), monitor:
        {}["the loop's own"]
    monitor.close()
    info = json.loads((tmp_path / "broken" / "run.json").read_text())
    assert "ended" in info


def test_rlwatch_is_imported_fast_and_says_what_it_has() -> None:
    code = (
        "import sys, time; start = time.perf_counter(); import rlwatch; seconds = time.perf_counter() - start\n"
        "assert not {'torch', 'numpy', 'polars'} & set(sys.modules), 'heavy'\n"
        "rlwatch.Monitor; assert not {'torch', 'polars'} & set(sys.modules), 'heavy'; print(seconds)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.3
    assert "Monitor" in rlwatch.__all__
    with pytest.raises(AttributeError, match="monitor_"):
        _ = rlwatch.monitor_
