"""Groups, rewards, lengths and token sums against brute force, with the edge cases that a float32 brings."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlwatch.signals.gradients import clip_coefficient
from rlwatch.signals.groups import GroupCounts, RewardRange, count_groups, total_rewards, zero_variance
from rlwatch.signals.rollouts import length_metrics, reward_metrics
from rlwatch.signals.tokens import row_sums


def column(*rewards: float) -> np.ndarray:
    """Rewards of one function as TRL holds them: rounded to float32."""
    return np.array(rewards, dtype=np.float32).astype(np.float64)[:, None]


ONE = np.ones(1)


def counts(rewards: np.ndarray, size: int, seen: RewardRange | None = None, **options: bool) -> GroupCounts:
    totals = total_rewards(rewards, np.ones(rewards.shape[1]))
    return count_groups(rewards, np.ones(rewards.shape[1]), size, seen or RewardRange().including(totals), **options)


def test_equal_rewards_of_3_3_have_no_variance_although_their_float32_deviation_is_not_zero() -> None:
    rewards = column(*[3.3] * 8)
    in_float32 = torch.tensor(rewards[:, 0], dtype=torch.float32)
    assert float(((in_float32 - in_float32.mean()) ** 2).mean().sqrt()) > 0  # what a test on the deviation meets
    assert zero_variance(rewards, ONE, 8).tolist() == [True]


def test_a_near_tie_is_not_a_tie() -> None:
    assert zero_variance(column(1.0, 1.001, 1.0, 1.0), ONE, 4).tolist() == [False]


def test_sums_that_differ_by_rounding_are_equal() -> None:
    rewards = np.array([[0.1, 0.2], [0.3, 0.0], [0.2, 0.1], [0.0, 0.3]], dtype=np.float32).astype(np.float64)
    totals = total_rewards(rewards, np.ones(2))
    assert len(set(totals.tolist())) > 1
    assert zero_variance(rewards, np.ones(2), 4).tolist() == [True]
    assert zero_variance(rewards, np.ones(2), 4, each=True).tolist() == [False]


def test_a_function_of_weight_zero_gives_no_variance() -> None:
    rewards = np.array([[1.0, 5.0], [1.0, 7.0]])
    assert zero_variance(rewards, np.array([1.0, 0.0]), 2).tolist() == [True]


def test_zero_std_groups_split_into_solved_failed_and_stuck() -> None:
    found = counts(column(1, 1, 0, 0, 0.5, 0.5, 1, 0), 2)
    assert (found.groups, found.solved, found.failed, found.stuck) == (4, 1, 1, 1)


@pytest.mark.parametrize(("reward", "kind"), [(0.0, "failed"), (-1.0, "failed"), (1.0, "solved")])
def test_a_run_that_has_only_ever_seen_one_reward(reward: float, kind: str) -> None:
    found = counts(column(*[reward] * 4), 2)
    assert {"solved": found.solved, "failed": found.failed}[kind] == 2


def test_the_best_reward_is_the_best_of_the_run_not_of_the_batch() -> None:
    seen = RewardRange(worst=0.0, best=2.0)
    found = counts(column(1, 1, 0, 0), 2, seen)
    assert (found.solved, found.failed, found.stuck) == (0, 1, 1)


def test_completions_without_a_reward_are_left_out() -> None:
    nan = float("nan")
    found = counts(column(nan, nan, 1, nan, 0, 1), 2)
    assert found.groups == 2, "a group with no reward is not counted"
    assert found.solved == 1, "a group with one reward has no variance"
    assert found.std_groups == 1
    assert found.std_sum == pytest.approx(statistics.stdev([0, 1]))


def test_an_infinite_reward_is_not_a_tie() -> None:
    assert zero_variance(column(math.inf, 1.0), ONE, 2).tolist() == [False]


def test_completions_that_do_not_divide_into_groups_are_an_error() -> None:
    with pytest.raises(ValueError, match="5 completions do not divide into groups of 2"):
        counts(column(1, 2, 3, 4, 5), 2)


@given(
    groups=st.lists(
        st.lists(st.sampled_from([0.0, 0.5, 1.0, -2.0, 3.3, 0.1]), min_size=3, max_size=3), min_size=1, max_size=8
    )
)
def test_counts_equal_a_count_by_hand(groups: list[list[float]]) -> None:
    found = counts(column(*[reward for group in groups for reward in group]), 3)
    values = [[float(np.float32(r)) for r in group] for group in groups]
    best, worst = max(map(max, values)), min(map(min, values))
    dead = [group[0] for group in values if len(set(group)) == 1]
    alike = (len(dead), 0) if best > 0 else (0, len(dead))
    expected = (dead.count(best), dead.count(worst)) if best > worst else alike
    assert (found.solved, found.failed) == expected
    assert found.solved + found.failed + found.stuck == len(dead)
    assert found.std_sum == pytest.approx(sum(statistics.stdev(group) for group in values), rel=1e-9, abs=1e-12)


@given(
    rewards=st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=30),
)
def test_reward_mean_and_deviation_equal_the_statistics_module(rewards: list[float]) -> None:
    found = reward_metrics(np.array(rewards))
    assert found["reward/mean"] == pytest.approx(statistics.fmean(rewards), rel=1e-9, abs=1e-9)
    assert found["reward/std"] == pytest.approx(statistics.stdev(rewards), rel=1e-6, abs=1e-6)


def test_no_reward_at_all_is_nan_and_not_zero() -> None:
    assert math.isnan(reward_metrics(np.array([math.nan, math.nan]))["reward/mean"])
    assert "reward/std" not in reward_metrics(np.array([1.0, math.nan]))


def test_lengths_without_a_correct_completion_have_no_mean_of_correct_ones() -> None:
    found = length_metrics(np.array([3.0, 5.0]), np.array([0.0, 1.0]), np.array([0.0, 0.0]), 2)
    assert found == {
        "length/mean": 4.0,
        "length/truncated": 0.5,
        "length/share_correct": 0.0,
        "length/incorrect": 4.0,
        "length/truncated_incorrect": 0.5,
    }


def test_a_completion_of_which_nobody_knows_is_neither_correct_nor_incorrect() -> None:
    found = length_metrics(np.array([3.0, 5.0, 100.0]), np.zeros(3), np.array([1.0, 0.0, math.nan]), 3)
    assert (found["length/correct"], found["length/incorrect"], found["length/share_correct"]) == (3.0, 5.0, 0.5)
    assert "length/share_correct" not in length_metrics(np.array([3.0]), np.zeros(1), None, 1)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 10, width=32), st.booleans()), min_size=1, max_size=40))
def test_masked_sums_equal_a_loop(tokens: list[tuple[float, bool]]) -> None:
    values = torch.tensor([[value for value, _ in tokens]], dtype=torch.float32)
    mask = torch.tensor([[int(kept) for _, kept in tokens]])
    found = row_sums({"x": values}, mask)["x"].item()
    assert found == pytest.approx(math.fsum(value for value, kept in tokens if kept), rel=1e-12, abs=1e-12)


def test_what_the_mask_hides_may_be_anything() -> None:
    values = torch.tensor([[1.0, math.nan, math.inf]])
    assert row_sums({"x": values}, torch.tensor([[1, 0, 0]]))["x"].item() == 1.0


@given(norm=st.floats(1e-6, 1e6), limit=st.floats(1e-3, 1e3))
@settings(max_examples=50, deadline=None)
def test_the_clip_coefficient_is_the_one_that_torch_applies(norm: float, limit: float) -> None:
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    parameter.grad = torch.tensor([norm], dtype=torch.float64)
    torch.nn.utils.clip_grad_norm_([parameter], limit)
    assert clip_coefficient(norm, limit) * norm == pytest.approx(parameter.grad.item(), rel=1e-12)


def test_clipping_off_multiplies_by_one_and_nan_stays_nan() -> None:
    assert clip_coefficient(5.0, 0) == clip_coefficient(5.0, None) == 1.0
    assert math.isnan(clip_coefficient(math.nan, 1.0))
