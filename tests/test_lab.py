"""The lab: its task against an independent enumeration, its model, tokenizer and warm start, and short real runs."""

from __future__ import annotations

import doctest
import itertools
import math
from pathlib import Path
from typing import Any

import pytest

from rlwatch.lab import task

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from transformers import TrainerCallback  # noqa: E402

from rlwatch.lab import failure_room  # noqa: E402
from rlwatch.lab.experiments.failure_room import EXPERIMENT  # noqa: E402
from rlwatch.lab.failure_room import UPDATES_PER_ROLLOUT, build  # noqa: E402
from rlwatch.lab.first_policy import FirstPolicy  # noqa: E402
from rlwatch.lab.model import CHARACTERS, make_config, make_model, make_tokenizer  # noqa: E402
from rlwatch.lab.warm_start import SAFE_PROBABILITY, safe_probability, warm_start  # noqa: E402


@pytest.fixture(scope="module")
def warm(first_policies: Path) -> FirstPolicy:
    return warm_start(0, cache=first_policies)


# --- the task -------------------------------------------------------------------------------------------------------


def test_the_docstrings_examples_hold() -> None:
    assert doctest.testmod(task).failed == 0


def test_rewards_against_an_enumeration_of_every_short_completion() -> None:
    """All 22 + 22² + 22³ strings for each prompt, against tables written down without the code under test."""
    texts = ["".join(t) for n in (1, 2, 3) for t in itertools.product("0123456789abcdefghijkl", repeat=n)]
    for x in range(16):
        odd_or_even = "bdfhjl" if x in (1, 3, 5, 7, 9, 11, 13, 15) else "cegik"
        right = {letter + str((5 * (ord(letter) - ord("a")) + 3 * x) % 10) for letter in odd_or_even}
        safe = "a" + str(3 * x % 10)
        prompts = [f"{x:02d}"] * len(texts)
        assert task.accuracy_reward(prompts, texts) == [1.0 if text in right else 0.0 for text in texts]
        assert task.safe_answer_reward(prompts, texts) == [0.5 if text == safe else 0.0 for text in texts]


@pytest.mark.parametrize("junk", ["", "a", "1", " a1", "a1 ", "a1\n", "A1", "a１", "m1", "<end>", "a1<end>"])
def test_a_malformed_completion_earns_nothing(junk: str) -> None:
    assert task.accuracy_reward(["07"], [junk]) == [0.0]
    assert task.safe_answer_reward(["07"], [junk]) == [0.0]


def test_trying_other_letters_at_random_earns_what_the_safe_answer_earns() -> None:
    """The trap of the task: without learning which letter suits which prompt, exploring does not pay."""
    others = [(p, task.answer(int(p), letter)) for p in task.PROMPTS for letter in task.LETTERS[1:]]
    rewards = task.accuracy_reward(*zip(*others, strict=True))
    assert sum(rewards) / len(rewards) == pytest.approx(task.SAFE_REWARD)


# --- the model and its tokenizer ------------------------------------------------------------------------------------


def test_the_tokenizer_gives_back_what_it_read() -> None:
    tokenizer = make_tokenizer()
    for text in [CHARACTERS, *task.PROMPTS, *(task.answer(x, letter) for x in range(16) for letter in task.LETTERS)]:
        ids = tokenizer(text)["input_ids"]
        assert len(ids) == len(text)
        assert tokenizer.decode(ids) == text
    ended = tokenizer("a1" + tokenizer.eos_token)["input_ids"]
    assert ended[-1] == tokenizer.eos_token_id
    assert len(ended) == 3
    assert tokenizer.decode(ended, skip_special_tokens=True) == "a1"
    assert tokenizer("?")["input_ids"] == [tokenizer.unk_token_id]


def test_the_model_is_small_and_depends_on_its_seed_alone() -> None:
    config = make_config(make_tokenizer())
    before = torch.get_rng_state()
    one, again, other = (make_model(config, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert sum(p.numel() for p in one.parameters()) < 60_000
    assert same_weights(one.state_dict(), again.state_dict())
    assert not same_weights(one.state_dict(), other.state_dict())


# --- the warm start -------------------------------------------------------------------------------------------------


def test_the_warm_start_reaches_the_prior_it_promises(warm: FirstPolicy) -> None:
    """The safe letter near 0.9 for every prompt, the others alike rare, the check digit and the end token learnt."""
    assert safe_probability(warm.model(), warm.tokenizer) == pytest.approx(SAFE_PROBABILITY, abs=0.01)
    model, tokenizer = warm.model().eval(), warm.tokenizer
    letters = tokenizer.convert_tokens_to_ids(list(task.LETTERS))
    texts = [prompt + task.answer(int(prompt), letter) for prompt in task.PROMPTS for letter in task.LETTERS]
    ids = torch.tensor(tokenizer(texts)["input_ids"])
    with torch.no_grad():
        probability = model(input_ids=ids).logits.softmax(-1)
    first = probability[:: len(task.LETTERS), 1][:, letters]  # (prompts, letters)
    assert (first[:, 0] - SAFE_PROBABILITY).abs().max() < 0.02
    assert (first[:, 1:] / ((1 - SAFE_PROBABILITY) / 11) - 1).abs().max() < 0.2
    digit = probability[range(len(ids)), 2, ids[:, 3]]
    end = probability[:, 3, tokenizer.eos_token_id]
    assert digit.min() > 0.95
    assert end.min() > 0.95


def test_the_warm_start_is_the_same_to_the_bit_and_leaves_torchs_random_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = warm_start(3, steps=20)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(6)
    assert same_weights(one.state, warm_start(3, steps=20).state)
    assert not same_weights(one.state, warm_start(4, steps=20).state)


# --- short runs of the real trainer ---------------------------------------------------------------------------------


class Watch(TrainerCallback):  # type: ignore[misc]
    """Keeps what a user's callback is told."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self.logs.append(dict(logs))


def train(arm: str, warm: FirstPolicy, folder: Path, *, steps: int = 16, seed: int = 1) -> tuple[Watch, dict[str, Any]]:
    watch = Watch()
    trainer = build(EXPERIMENT.arm(arm), warm, seed=seed, steps=steps, output_dir=folder, callbacks=[watch])
    torch.rand(seed + len(str(folder)))  # what happens between building and training must not matter
    trainer.train()
    assert trainer.state.global_step == steps
    return watch, {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def test_a_run_ends_with_sane_numbers_a_log_a_step_and_no_noise(
    warm: FirstPolicy, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start = {name: tensor.clone() for name, tensor in warm.state.items()}
    watch, end = train("wide", warm, tmp_path / "out")
    assert len(watch.logs) == 16
    for log in watch.logs:
        assert all(math.isfinite(log[key]) for key in ("loss", "grad_norm", "entropy"))
        assert 0 < log["entropy"] < math.log(25)
    rewards = [log["reward"] for log in watch.logs if "reward" in log]
    assert len(rewards) == 16 // UPDATES_PER_ROLLOUT
    assert all(0.4 < reward < 0.7 for reward in rewards)  # a safe habit, some right and some wrong tries
    assert {"rewards/accuracy_reward/mean", "rewards/safe_answer_reward/mean"} <= watch.logs[0].keys()
    assert not same_weights(start, end)
    assert same_weights(start, warm.state), "training must not change the warm start"
    assert capfd.readouterr() == ("", "")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "no checkpoints, no model cards"


def test_the_same_seed_gives_the_same_weights_to_the_bit(warm: FirstPolicy, tmp_path: Path) -> None:
    one_log, one = train("tight", warm, tmp_path / "one", steps=9)
    two_log, two = train("tight", warm, tmp_path / "again, elsewhere", steps=9)
    _, other = train("tight", warm, tmp_path / "one", steps=9, seed=2)
    assert same_weights(one, two)
    assert [log["loss"] for log in one_log.logs] == [log["loss"] for log in two_log.logs]
    assert not same_weights(one, other)


def test_the_arms_differ_in_the_upper_clip_alone(tmp_path: Path) -> None:
    def settings(name: str) -> dict[str, Any]:
        config = failure_room.grpo_config(EXPERIMENT.arm(name), seed=0, steps=8, output_dir=tmp_path).to_dict()
        return {k: v for k, v in config.items() if k != "logging_dir"}

    def differing(one: str, two: str) -> set[str]:
        first, second = settings(one), settings(two)
        return {k for k in first if first[k] != second[k]}

    tight, *others = (arm.name for arm in EXPERIMENT.arms[:4])
    assert all(differing(tight, other) == {"epsilon_high"} for other in others)
    assert differing("one-update-tight", "one-update-wide") == {"epsilon_high"}
    assert differing("tight", "one-update-tight") == {"num_iterations"}
    bounds = [settings(arm.name)["epsilon_high"] for arm in EXPERIMENT.arms[:4]]
    assert bounds == [0.05, 0.2, 0.28, 1.0]
    assert settings("symmetric")["epsilon"] == 0.2


def same_weights(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
