"""The difficulty bias: the formula against brute force and against TRL, what the arms differ in, and a short run."""

from __future__ import annotations

import doctest
import itertools
import statistics
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rlwatch.lab import own_letter_task as task
from rlwatch.lab.experiments import find

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from rich.console import Console  # noqa: E402

from rlwatch.lab import difficulty_bias  # noqa: E402
from rlwatch.lab.difficulty_bias import Starts, grpo_config, prepare  # noqa: E402
from rlwatch.lab.single import run_once  # noqa: E402
from rlwatch.runs.reader import read_alerts, read_records  # noqa: E402

EXPERIMENT = find("difficulty-bias")


@pytest.fixture(scope="module")
def start(first_policies: Path) -> Starts:
    return prepare(0, first_policies)


# --- the task -------------------------------------------------------------------------------------------------------


def test_the_docstrings_examples_hold() -> None:
    assert doctest.testmod(task).failed == 0


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.8])
def test_the_expected_weight_against_every_outcome_of_a_small_group(p: float, scaled: bool) -> None:
    """All 2⁶ ways in which six completions can turn out, each with its own mean and std."""
    total = only_hard = 0.0
    for rewards in itertools.product([0.0, 1.0], repeat=6):
        mean, std = statistics.fmean(rewards), statistics.stdev(rewards)
        size = sum(abs(r - mean) / (std + 1e-4 if scaled else 1.0) for r in rewards)
        chance = p ** sum(rewards) * (1 - p) ** (6 - sum(rewards))
        total += chance * size
        only_hard += chance * size * (mean <= 0.25)
    assert task.expected_weight(p, 6, scaled=scaled) == pytest.approx(total, rel=1e-9)
    assert task.expected_weight(p, 6, scaled=scaled, at_most=0.25) == pytest.approx(only_hard, rel=1e-9)


def test_without_scaling_it_is_p_times_1_minus_p() -> None:
    for p in (0.05, 0.3, 0.5, 0.95):
        assert task.expected_weight(p, 32, scaled=False) == pytest.approx(2 * 31 * p * (1 - p))
        assert task.expected_weight(p, 32, scaled=True) == pytest.approx(task.expected_weight(1 - p, 32, scaled=True))
    large = task.expected_weight(0.05, 1000, scaled=True) / task.expected_weight(0.5, 1000, scaled=True)
    assert large == pytest.approx((0.05 * 0.95) ** 0.5 / 0.5, rel=0.01)


def test_the_claims_bounds_are_around_the_formula() -> None:
    bounds: dict[tuple[str, str], float] = {
        (c.arm, c.kind): c.bound for c in EXPERIMENT.claims if "at first" in c.measure
    }
    for arm, scaled in (("group", True), ("none", False)):
        expected = task.expected_hard_share(task.DIFFERENT, difficulty_bias.GENERATIONS, scaled=scaled)
        assert bounds[arm, "below"] - 0.04 == pytest.approx(expected, abs=5e-4)
        assert bounds[arm, "above"] + 0.04 == pytest.approx(expected, abs=5e-4)


def test_each_kind_has_its_own_reward_and_every_wrong_answer_its_own_letter() -> None:
    prompts, answers = list(task.PROMPTS), [task.right_letter(prompt) for prompt in task.PROMPTS]
    assert task.accuracy_reward(prompts, answers) == [1.0] * 9
    by_kind = [task.easy(prompts, answers), task.even(prompts, answers), task.hard(prompts, answers)]
    for place in range(9):
        assert [found[place] for found in by_kind] == [1.0 if place % 3 == kind else None for kind in range(3)]
    wrong = [task.wrong_letter(prompt) for prompt in prompts]
    assert not {*answers} & {*wrong}
    assert task.accuracy_reward(prompts, wrong) == [0.0] * 9


def test_the_first_policies_are_what_they_promise(start: Starts) -> None:
    for policy, chances in ((start.different, task.DIFFERENT), (start.alike, task.ALIKE)):
        ids = torch.tensor(policy.tokenizer([p + task.right_letter(p) for p in task.PROMPTS])["input_ids"])
        with torch.no_grad():
            p = policy.model().eval()(input_ids=ids).logits.softmax(-1)
        right = p[range(9), 1, ids[:, 2]]
        assert right.tolist() == pytest.approx([chances[task.kind_of(prompt)] for prompt in task.PROMPTS], abs=0.02)
        assert p[:, 2, policy.tokenizer.eos_token_id].min() > 0.97


# --- the training ---------------------------------------------------------------------------------------------------


def test_the_arms_differ_in_the_scaling_alone(tmp_path: Path) -> None:
    def settings(name: str) -> dict[str, Any]:
        return grpo_config(EXPERIMENT.arm(name), seed=0, steps=2, output_dir=tmp_path).to_dict()  # type: ignore[no-any-return]

    found = {name: settings(name) for name in ("group", "none", "batch", "alike-none")}
    assert {k for k, v in found["group"].items() if v != found["none"][k]} == {"scale_rewards"}
    assert {k for k, v in found["batch"].items() if v != found["none"][k]} == {"scale_rewards"}
    assert found["alike-none"] == found["none"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, start: Starts) -> dict[str, Path]:
    """Two short runs, and one of them again."""
    root, found = tmp_path_factory.mktemp("runs"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difficulty_bias, "prepare", lambda seed, cache: start)
        for name, steps in (("group", 6), ("none", 6), ("again", 2)):
            arm = EXPERIMENT.arm("none" if name == "again" else name)
            [result] = run_once(EXPERIMENT, [arm], root / name, seed=0, steps=steps, console=Console(quiet=True))
            found[name] = result.run_dir
    return found


def test_what_a_rollout_weighs_is_what_its_rewards_say(runs: dict[str, Path]) -> None:
    """The share of |∂L/∂log p| of each group against Σ|A| from the rewards alone: an answer always has two tokens."""
    for name in ("group", "none"):
        table = pl.read_parquet(sorted((runs[name] / "rollouts").glob("*.parquet"))[0]).filter(pl.col("step") == 1)
        sums, weights = [], []
        for group in table.partition_by("group", maintain_order=True):
            rewards = group["reward"].to_list()
            mean, std = statistics.fmean(rewards), statistics.stdev(rewards)
            sizes = [abs(r - mean) / (std + 1e-4 if name == "group" else 1.0) for r in rewards]
            sums.append(sum(n * size for n, size in zip(group["length"].to_list(), sizes, strict=True)))
            weights.append(group["weight"].sum())
        assert weights == pytest.approx([x / sum(sums) for x in sums], abs=1e-4)


def test_group_scaling_gives_hard_groups_more_and_nothing_alarms(runs: dict[str, Path]) -> None:
    """The first rollout is the same in both arms: what differs is the weight that its groups get."""
    first = {name: read_records(runs[name]).items[0].metrics for name in ("group", "none")}
    assert first["group"]["reward/mean"] == first["none"]["reward/mean"]
    assert first["group"]["weight/hard"] > 1.2 * first["none"]["weight/hard"] > 0  # type: ignore[operator]
    for name in ("group", "none"):
        assert not [a for a in read_alerts(runs[name]).items if a.severity.value == "critical"]


def test_the_same_seed_gives_the_same_numbers(runs: dict[str, Path]) -> None:
    one, two = (read_records(runs[name]).items[:2] for name in ("none", "again"))
    for a, b in zip(one, two, strict=True):
        assert {k: v for k, v in a.metrics.items() if k != "step_seconds"} == {
            k: v for k, v in b.metrics.items() if k != "step_seconds"
        }
