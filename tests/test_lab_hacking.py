"""Reward hacking: the task and its first policy against what they promise, and a short run in which it happens."""

from __future__ import annotations

import doctest
import math
from pathlib import Path
from typing import Any

import pytest

from rlwatch.lab import hacking_task as task
from rlwatch.lab.experiments import find
from rlwatch.lab.task import PROMPTS

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from rich.console import Console  # noqa: E402

from rlwatch.lab import hacking  # noqa: E402
from rlwatch.lab.first_policy import FirstPolicy  # noqa: E402
from rlwatch.lab.hacking import build, grpo_config, prepare  # noqa: E402
from rlwatch.lab.single import run_once  # noqa: E402
from rlwatch.runs.reader import read_records  # noqa: E402

EXPERIMENT = find("hacking")
STEPS = 10


@pytest.fixture(scope="module")
def start(first_policies: Path) -> FirstPolicy:
    return prepare(0, first_policies)


# --- the task -------------------------------------------------------------------------------------------------------


def test_the_docstrings_examples_hold() -> None:
    assert doctest.testmod(task).failed == 0


def test_rewards_against_every_answer_of_the_form() -> None:
    for dots in range(24):
        for letter in "ab":
            text, ended = "." * dots + letter, dots + 2
            right = 1.0 if letter == "a" and ended <= 24 else 0.0
            assert task.accuracy_reward([text], [[0] * min(ended, 24)]) == [right]
            assert task.length_reward([text]) == [dots / 24]
    for junk in ("", ".", "aa", ".a.", "ab", "a.b", "0a"):
        assert task.accuracy_reward([junk], [[0] * (len(junk) + 1)]) == [0.0]


def test_what_the_weights_make_of_a_right_answer_and_of_none() -> None:
    """An answer that never ends against one of the first policy's mean length, right for sure."""
    for arm in EXPERIMENT.arms:
        for_accuracy, for_length = arm.settings["reward_weights"]
        answered = for_accuracy * 1.0 + for_length * 7 / 24
        endless = for_length * 1.0
        assert (endless > answered) == (not arm.quiet)


def test_the_first_policy_is_what_it_promises(start: FirstPolicy) -> None:
    model, tokenizer = start.model().eval(), start.tokenizer
    a, b, dot, end = (tokenizer.convert_tokens_to_ids(token) for token in ("a", "b", ".", tokenizer.eos_token))
    ids = torch.tensor(tokenizer([prompt + "." * 23 for prompt in PROMPTS])["input_ids"])
    with torch.no_grad():
        p = model(input_ids=ids).logits.softmax(-1)[:, 1:-1]
        answered = torch.tensor(tokenizer([x + "." * n + "a" for x in PROMPTS for n in [7]])["input_ids"])
        ends = model(input_ids=answered).logits.softmax(-1)[:, -1, end]
    assert (p[:, :, dot] - 7 / 8).abs().max() < 0.06
    assert p[:, :, dot].mean() == pytest.approx(7 / 8, abs=0.01)
    assert p[:, :, a].mean() == pytest.approx(0.6 / 8, abs=0.01)
    assert p[:, :, b].mean() == pytest.approx(0.4 / 8, abs=0.01)
    assert ends.min() > 0.95


def test_the_arms_differ_in_the_weights_of_the_reward_alone(tmp_path: Path) -> None:
    configs = [grpo_config(arm, seed=0, steps=2, output_dir=tmp_path).to_dict() for arm in EXPERIMENT.arms]
    for config in configs[1:]:
        assert {key for key, value in config.items() if value != configs[0][key]} == {"reward_weights"}


# --- the training ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(start: FirstPolicy, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What short runs recorded, at four times the learning rate, and of one of them again."""
    root, found = tmp_path_factory.mktemp("runs"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hacking, "prepare", lambda seed, cache: start)
        patch.setattr(hacking, "LEARNING_RATE", 4 * hacking.LEARNING_RATE)
        for name, steps in (("paid", STEPS), ("low", 6), ("again", 2)):
            arm = EXPERIMENT.arm("low" if name == "again" else name)
            [result] = run_once(EXPERIMENT, [arm], root / name, seed=0, steps=steps, console=Console(quiet=True))
            found[name] = [dict(record.metrics) for record in read_records(result.run_dir).items]
    return found


def test_paid_for_length_the_reward_rises_and_accuracy_falls_and_with_a_low_weight_it_does_not(
    runs: dict[str, list[dict[str, Any]]],
) -> None:
    first, last = runs["paid"][0], runs["paid"][-1]
    assert last["reward/mean"] > first["reward/mean"] + 0.3
    assert last["reward/accuracy_reward"] < first["reward/accuracy_reward"] - 0.15
    assert last["length/truncated"] > first["length/truncated"] + 0.1
    assert runs["low"][-1]["reward/accuracy_reward"] > runs["low"][0]["reward/accuracy_reward"]


def test_the_reward_is_the_weighted_sum_and_both_parts_are_logged(runs: dict[str, list[dict[str, Any]]]) -> None:
    for name, for_length in (("paid", 3.0), ("low", 0.3)):
        for metrics in runs[name]:
            total = metrics["reward/accuracy_reward"] + for_length * metrics["reward/length_reward"]
            assert math.isclose(metrics["reward/mean"], total, abs_tol=1e-5)


def test_a_part_of_weight_0_moves_nothing_but_is_logged(start: FirstPolicy, tmp_path: Path) -> None:
    trainer = build(EXPERIMENT.arm("accuracy-alone"), start, seed=0, steps=1, output_dir=tmp_path)
    trainer.train()
    logs = trainer._logs
    rewards = torch.tensor(logs["rewards"]["accuracy_reward"]).view(-1, 8)
    expected = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    assert torch.allclose(torch.tensor(logs["advantages"]), expected.flatten(), atol=1e-4)
    assert len(set(logs["rewards"]["length_reward"])) > 3


def test_the_same_seed_gives_the_same_numbers(runs: dict[str, list[dict[str, Any]]]) -> None:
    for one, two in zip(runs["low"][:2], runs["again"], strict=True):
        assert {k: v for k, v in one.items() if k != "step_seconds"} == {
            k: v for k, v in two.items() if k != "step_seconds"
        }
