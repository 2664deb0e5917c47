"""Dynamic sampling: what is drawn, kept and counted, against a loop that does the same by hand."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from datasets import Dataset  # noqa: E402
from rich.console import Console  # noqa: E402
from trl import GRPOTrainer  # noqa: E402

from rlwatch.lab.dynamic_sampling import GENERATIONS, build, grpo_config  # noqa: E402
from rlwatch.lab.experiment import Arm  # noqa: E402
from rlwatch.lab.experiments.dynamic_sampling import EXPERIMENT, reward_when, tokens_of_late_rollouts  # noqa: E402
from rlwatch.lab.first_policy import FirstPolicy  # noqa: E402
from rlwatch.lab.resampling import Grader, alive_groups  # noqa: E402
from rlwatch.lab.single import run_once  # noqa: E402
from rlwatch.lab.task import PROMPTS, accuracy_reward  # noqa: E402
from rlwatch.lab.warm_start import warm_start  # noqa: E402
from rlwatch.runs.records import AlertState, Severity, StepRecord  # noqa: E402

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def start(first_policies: Path) -> FirstPolicy:
    return warm_start(0, cache=first_policies)


def draws_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], list[Any], list[str]]]:
    """What TRL's own sampler was asked for and gave: prompts, completions as tokens and as text, a draw."""
    found: list[tuple[list[str], list[Any], list[str]]] = []
    method = GRPOTrainer._generate

    def record(self: Any, prompts: list[str]) -> Any:
        result = method(self, prompts)
        found.append((list(prompts), list(result[1]), list(result[3])))
        return result

    monkeypatch.setattr(GRPOTrainer, "_generate", record)
    return found


def kept_by(trainer: Any) -> list[dict[str, Any]]:
    """What each generation hands to the loss, before it is shuffled."""
    found: list[dict[str, Any]] = []
    method = trainer._generate_and_score_completions

    def record(inputs: Any) -> Any:
        result = method(inputs)
        found.append({name: value.clone() for name, value in result.items() if torch.is_tensor(value)})
        return result

    trainer._generate_and_score_completions = record
    return found


def by_hand(draws: list[tuple[list[str], list[Any], list[str]]]) -> list[tuple[str, str]]:
    """The batch that the draws should have become: (prompt, completion), groups side by side."""
    slots: list[list[tuple[str, str]]] = []
    open_slots = list(range(len(PROMPTS)))
    for place, (prompts, _, texts) in enumerate(draws):
        assert len(prompts) == GENERATIONS * len(open_slots), "as many groups as were open, and no more"
        rows = list(zip(prompts, texts, strict=True))
        groups = [rows[at : at + GENERATIONS] for at in range(0, len(rows), GENERATIONS)]
        assert all(len({prompt for prompt, _ in group}) == 1 for group in groups)
        if place == 0:
            slots = list(groups)
        still = []
        for slot, group in zip(open_slots, groups, strict=True):
            earned = accuracy_reward([p for p, _ in group], [c for _, c in group])
            if min(earned) == max(earned):
                still.append(slot)
            else:
                slots[slot] = group
        open_slots = still
    return [row for slot in slots for row in slot]


def test_which_groups_are_alive() -> None:
    assert alive_groups([0.0, 0.0, 1.0, 1.0, 0.0, 1.0], 2) == [False, False, True]
    assert alive_groups([0.0, 0.0, 0.0, 0.1], 4) == [True]


def test_the_batch_is_what_the_draws_give_by_hand_and_every_token_is_counted(
    start: FirstPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = draws_of(monkeypatch)
    trainer = build(EXPERIMENT.arm("resampled"), start, seed=0, steps=1, output_dir=tmp_path)
    kept = kept_by(trainer)
    trainer.train()
    assert 2 <= len(draws) == trainer.ledger.draws <= 8
    assert trainer.ledger.tokens == sum(len(ids) for _, completions, _ in draws for ids in completions)
    expected, decode = by_hand(draws), start.tokenizer.batch_decode
    prompts = decode(kept[0]["prompt_ids"], skip_special_tokens=True)
    texts = decode(kept[0]["completion_ids"], skip_special_tokens=True)
    assert list(zip(prompts, texts, strict=True)) == expected
    rewards = torch.tensor(accuracy_reward(prompts, texts)).view(-1, GENERATIONS)
    by_formula = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    torch.testing.assert_close(kept[0]["advantages"].view(-1, GENERATIONS), by_formula)
    first = torch.tensor(accuracy_reward(draws[0][0], draws[0][2])).view(-1, GENERATIONS)
    assert trainer.ledger.reward == pytest.approx(float(first.mean()))
    assert trainer.ledger.dead == pytest.approx(float((first.std(1) == 0).float().mean()))


def test_where_nothing_ever_lives_it_stops_after_the_last_draw_and_keeps_the_first(
    start: FirstPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = draws_of(monkeypatch)
    monkeypatch.setattr(Grader, "grade", lambda _, prompts, completions: [0.0] * len(prompts))
    trainer = build(Arm("three", "", {}, {"draws": 3}), start, seed=0, steps=1, output_dir=tmp_path)
    kept = kept_by(trainer)
    trainer.train()
    assert [len(prompts) for prompts, _, _ in draws] == [64, 64, 64]
    assert start.tokenizer.batch_decode(kept[0]["completion_ids"], skip_special_tokens=True) == draws[0][2]
    assert not kept[0]["advantages"].any()


def test_with_one_draw_it_is_trls_own_trainer_to_the_bit(start: FirstPolicy, tmp_path: Path) -> None:
    arm = EXPERIMENT.arm("plain")
    mine = build(arm, start, seed=3, steps=10, output_dir=tmp_path / "mine")
    mine.train()
    config = grpo_config(arm, seed=3, steps=10, output_dir=tmp_path / "trl")
    config.reward_weights = None
    from rlwatch.lab.watched import SeedAtStart

    theirs = GRPOTrainer(
        model=start.model(), reward_funcs=[accuracy_reward], args=config, processing_class=start.tokenizer,
        train_dataset=Dataset.from_dict({"prompt": list(PROMPTS)}), callbacks=[SeedAtStart()],
    )  # fmt: skip
    theirs.train()
    moved = False
    for (name, a), b in zip(theirs.model.state_dict().items(), mine.model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
        moved = moved or not torch.equal(a, start.state[name])
    assert moved


def test_with_noise_no_group_is_dead_and_nothing_is_drawn_again(start: FirstPolicy, tmp_path: Path) -> None:
    states = []
    for name in ("plain-noisy", "resampled-noisy"):
        trainer = build(EXPERIMENT.arm(name), start, seed=0, steps=9, output_dir=tmp_path / name)
        trainer.train()
        assert trainer.ledger.draws == 1
        assert trainer.ledger.dead == 0
        states.append(trainer.model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_the_arms_differ_in_the_number_of_draws_alone(tmp_path: Path) -> None:
    plain, resampled = EXPERIMENT.arm("plain"), EXPERIMENT.arm("resampled")
    assert plain.settings == resampled.settings
    assert {**plain.task, "draws": 8} == dict(resampled.task)
    noisy = EXPERIMENT.arm("plain-noisy")
    assert {**noisy.task, "draws": 8} == dict(EXPERIMENT.arm("resampled-noisy").task)


def test_the_same_seed_gives_the_same_weights(start: FirstPolicy, tmp_path: Path) -> None:
    states = []
    for name, seed in (("one", 5), ("again", 5), ("other", 6)):
        trainer = build(EXPERIMENT.arm("resampled"), start, seed=seed, steps=2, output_dir=tmp_path / name)
        trainer.train()
        states.append(trainer.model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert not all(torch.equal(states[0][key], states[2][key]) for key in states[0])


def test_measures_at_so_many_tokens_and_late_rollouts() -> None:
    def row(step: int) -> StepRecord:  # a rollout every 8 steps; it costs one draw of 64 · 3 tokens, later two
        rollout = (step - 1) // 8
        tokens = 192.0 * (rollout + 1 + max(0, rollout - 14))
        return StepRecord(
            step, 0.0, {"reward/first_draw": float(rollout), "reward/generated_tokens": tokens, "length/mean": 3.0}
        )

    records = [row(step) for step in range(1, 241)]
    assert reward_when("reward/generated_tokens", 192 * 10)(records) == (6 + 7 + 8 + 9) / 4
    assert reward_when("reward/generated_tokens", 10)(records) is None
    assert tokens_of_late_rollouts(records) == 2.0
    assert tokens_of_late_rollouts(records[:96]) == 1.0


def test_a_short_run_shows_living_groups_and_what_they_cost(tmp_path: Path, first_policies: Path) -> None:
    arms = [EXPERIMENT.arm("plain"), EXPERIMENT.arm("resampled")]
    console = Console(file=io.StringIO())
    plain, resampled = run_once(EXPERIMENT, arms, tmp_path, seed=1, steps=24, console=console, cache=first_policies)
    for one, two in zip(plain.records[:1], resampled.records[:1], strict=True):  # the same first draw
        assert one.metrics["reward/first_draw"] == two.metrics["reward/first_draw"]
        assert one.metrics["groups/zero_std"] == pytest.approx(one.metrics["reward/first_draw_dead"])
    dead, left = plain.first("groups/zero_std"), resampled.first("groups/zero_std")
    assert dead is not None
    assert left is not None
    assert dead > 0.4
    assert left < 0.5 * dead
    spent = [result.records[-1].metrics["reward/generated_tokens"] for result in (plain, resampled)]
    assert spent[0] is not None
    assert spent[1] is not None
    assert spent[1] > 1.3 * spent[0]
    told = [alert for result in (plain, resampled) for alert in result.alerts if alert.state is AlertState.FIRING]
    assert not [alert for alert in told if alert.severity is Severity.CRITICAL]
