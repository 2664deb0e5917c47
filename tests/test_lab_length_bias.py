"""The length bias: its task and first policy against what they promise, and short runs of TRL's own trainer."""

from __future__ import annotations

import dataclasses
import io
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from rich.console import Console  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from rlwatch.cli import app  # noqa: E402
from rlwatch.lab import length_bias  # noqa: E402
from rlwatch.lab.experiment import Arm  # noqa: E402
from rlwatch.lab.experiments.length_bias import EXPERIMENT  # noqa: E402
from rlwatch.lab.first_policy import FirstPolicy  # noqa: E402
from rlwatch.lab.length_bias import build, grpo_config  # noqa: E402
from rlwatch.lab.lengths_task import first_policy, right_letter_reward  # noqa: E402
from rlwatch.lab.single import arms_table, run_arm  # noqa: E402
from rlwatch.lab.task import PROMPTS  # noqa: E402
from rlwatch.lab.watched import AVERAGED, ArmResult  # noqa: E402
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord  # noqa: E402

QUIET = Console(quiet=True)
SHORT = 30
"""Steps after which, with five seeds, the gap had grown by 3.8 to 17.0 under grpo and by -0.7 to 1.1 under dr_grpo."""


@pytest.fixture(scope="module")
def start(first_policies: Path) -> FirstPolicy:
    return first_policy(0, cache=first_policies)


ARMS = [EXPERIMENT.arm(name) for name in EXPERIMENT.short]


def results_of(arm: str, start: FirstPolicy, root: Path, *, seed: int = 0, steps: int) -> ArmResult:
    experiment = dataclasses.replace(EXPERIMENT, watch={**EXPERIMENT.watch, "counterfactual_every": steps})
    return run_arm(experiment, EXPERIMENT.arm(arm), start, root, seed=seed, steps=steps, console=QUIET)


class Inputs:
    """Keeps what the loss is given and the gradient that its log-probabilities get."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, Any], Any]] = []

    def listen(self, trainer: Any) -> None:
        method = trainer._get_per_token_logps_and_entropies
        compute = trainer.compute_loss

        def compute_loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            self.seen.append((inputs, None))
            return compute(model, inputs, *args, **kwargs)

        def logps(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if result[0].requires_grad:
                place = len(self.seen) - 1
                result[0].register_hook(lambda g: self.seen.__setitem__(place, (self.seen[place][0], g.clone())))
            return result

        trainer.compute_loss, trainer._get_per_token_logps_and_entropies = compute_loss, logps


# --- the task and the first policy ----------------------------------------------------------------------------------


def test_only_the_letter_decides() -> None:
    for dots in range(32):
        assert right_letter_reward(["a" + "." * dots, "b" + "." * dots, "c" + "." * dots]) == [1.0, 0.0, 0.0]
    assert right_letter_reward(["", ".", ".a", "01", " a"]) == [0.0] * 5


def test_the_first_policy_is_what_it_promises_for_every_prompt_letter_and_length(start: FirstPolicy) -> None:
    model, tokenizer = start.model().eval(), start.tokenizer
    a, b, dot, end = (*tokenizer.convert_tokens_to_ids(["a", "b", "."]), tokenizer.eos_token_id)
    ids = torch.tensor(tokenizer([x + letter + 31 * "." for x in PROMPTS for letter in "ab"])["input_ids"])
    with torch.no_grad():
        p = model(input_ids=ids).logits.softmax(-1)
    assert (p[:, 1, a] - 0.4).abs().max() < 0.02
    assert (p[:, 1, b] - 0.6).abs().max() < 0.02
    assert (p[:, 2:, end] - 1 / 8).abs().max() < 0.01
    assert (p[:, 2:, dot] - 7 / 8).abs().max() < 0.01


def test_the_first_policy_is_the_same_to_the_bit_and_leaves_torchs_random_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = first_policy(3, steps=10, console=QUIET)
    assert torch.equal(before, torch.get_rng_state())
    again, other = first_policy(3, steps=10, console=QUIET), first_policy(4, steps=10, console=QUIET)
    assert all(torch.equal(one.state[name], again.state[name]) for name in one.state)
    assert not all(torch.equal(one.state[name], other.state[name]) for name in one.state)


# --- the rollout ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(start: FirstPolicy, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A rollout of 1600 answers with what belongs to it."""
    trainer = build(EXPERIMENT.arm("grpo"), start, seed=0, steps=1, output_dir=tmp_path_factory.mktemp("out"))
    torch.manual_seed(1)
    return length_bias.given_letter(list(PROMPTS) * 100, trainer)


def test_letters_are_a_coin_and_lengths_geometric_and_the_two_know_nothing_of_each_other(
    many: dict[str, Any], start: FirstPolicy
) -> None:
    answers = [start.tokenizer.decode(ids) for ids in many["completion_ids"]]
    assert np.mean([bool(re.fullmatch(r"[ab]\.*(<end>)?", text)) for text in answers]) > 0.98  # a rare slip is normal
    assert all(text[0] in "ab" for text in answers)
    assert all(text.endswith("<end>") or len(text) == 32 for text in answers)
    right = np.array([text[0] == "a" for text in answers])
    lengths = np.array([sum(mask) for mask in many["env_mask"]])
    expected = (1 - (7 / 8) ** 31) * 8  # of a geometric length cut at 31
    assert right.mean() == pytest.approx(0.4, abs=4 * math.sqrt(0.24 / 1600))
    assert lengths.mean() == pytest.approx(expected, abs=4 * 7.2 / math.sqrt(1600))
    assert abs(lengths[right].mean() - lengths[~right].mean()) < 4 * 7.2 * math.sqrt(1 / 640 + 1 / 960)


def test_the_mask_is_0_at_the_letter_and_1_everywhere_else(many: dict[str, Any]) -> None:
    for ids, mask in zip(many["completion_ids"], many["env_mask"], strict=True):
        assert mask == [0] + [1] * (len(ids) - 1)


@pytest.mark.parametrize("own", [False, True], ids=["given letter", "own letter"])
def test_a_given_letter_has_no_weight_in_any_arms_loss(own: bool, start: FirstPolicy, tmp_path: Path) -> None:
    """Its gradient ∂L/∂log p is exactly 0 and every other token's is not; of a letter of its own it is not 0 either."""
    for arm in ARMS:
        told = Arm(arm.name, "", arm.settings, {"letter": "own"} if own else {})
        trainer = build(told, start, seed=0, steps=1, output_dir=tmp_path / arm.name)
        inputs = Inputs()
        inputs.listen(trainer)
        trainer.train()
        assert len(inputs.seen) == length_bias.MICRO_BATCHES
        for given, gradient in inputs.seen:
            alive = given["advantages"] != 0
            assert alive.any()
            tokens = given["completion_mask"][alive].bool()
            assert (gradient[alive][:, 0] == 0).all() == (not own)
            assert (gradient[alive][:, 1:][tokens[:, 1:]] != 0).all()


def test_the_weights_of_an_answers_tokens_are_what_the_arms_say(start: FirstPolicy, tmp_path: Path) -> None:
    """|∂L/∂log p| / |A| against each denominator, written down from the tables and not from the code under test."""
    for arm in ARMS:
        trainer = build(arm, start, seed=0, steps=1, output_dir=tmp_path / arm.name)
        inputs = Inputs()
        inputs.listen(trainer)
        trainer.train()
        masks = [given["completion_mask"] * given["tool_mask"] for given, _ in inputs.seen]
        total = sum(int(mask.sum()) for mask in masks)
        for mask, (given, gradient) in zip(masks, inputs.seen, strict=True):
            own = mask.sum(dim=1, keepdim=True)
            expected = {
                "grpo": 1 / (own * 32 * 4),
                "dr_grpo": torch.full(own.shape, 1 / (32 * 32 * 4)),
                "dapo": torch.full(own.shape, 1 / total),
                "bnpo": torch.full(own.shape, 1 / (int(mask.sum()) * 4)),
            }[arm.name]
            assert torch.allclose(gradient, -given["advantages"][:, None] * expected * mask, rtol=1e-4, atol=1e-9)


# --- short runs -----------------------------------------------------------------------------------------------------


def test_wrong_answers_outgrow_right_ones_under_grpo_and_not_under_dr_grpo(start: FirstPolicy, tmp_path: Path) -> None:
    grpo, dr_grpo = (results_of(arm, start, tmp_path, steps=SHORT) for arm in ("grpo", "dr_grpo"))

    def change(result: ArmResult, metric: str) -> float:
        first, last = result.first(metric), result.last(metric)
        assert first is not None
        assert last is not None
        return last - first

    assert change(grpo, "length/gap") > 2.5
    assert change(grpo, "length/correct") < -2
    assert abs(change(dr_grpo, "length/gap")) < 2.5

    for result in (grpo, dr_grpo):
        assert [record.step for record in result.records] == list(range(1, SHORT + 1))
        assert all(0.2 < (record.metrics["reward/mean"] or 0) < 0.6 for record in result.records)  # a coin's
        assert "counterfactual/denominator-dapo/cosine" in result.records[0].metrics
        rollouts = pl.read_parquet(result.run_dir / "rollouts" / "*.parquet")
        assert {"weight", "correct", "length"} <= set(rollouts.columns)
        assert len(rollouts) == SHORT * 128
        assert not rollouts["weight"].null_count()
        assert rollouts["length"].max() <= 31  # the letter is none of the policy's tokens


def test_the_same_seed_gives_the_same_numbers_to_the_bit(start: FirstPolicy, tmp_path: Path) -> None:
    def numbers(folder: str, seed: int) -> list[dict[str, float | None]]:
        torch.rand(len(folder))  # what happens before a run must not matter
        result = results_of("dapo", start, tmp_path / folder, seed=seed, steps=2)
        return [{k: v for k, v in r.metrics.items() if k != "step_seconds"} for r in result.records]

    one, again, other = numbers("one", 1), numbers("again, elsewhere", 1), numbers("other", 2)
    assert one == again
    assert one != other


def test_the_arms_differ_in_the_loss_alone(tmp_path: Path) -> None:
    settings = [grpo_config(arm, seed=0, steps=8, output_dir=tmp_path).to_dict() for arm in ARMS]
    differing = {key for key in settings[0] if len({repr(s[key]) for s in settings}) > 1} - {"logging_dir"}
    assert differing == {"loss_type"}
    assert [s["loss_type"] for s in settings] == ["grpo", "dr_grpo", "dapo", "bnpo"]


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_commands_table_and_run_directories(
    start: FirstPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("GENERATIONS", 4), ("MICRO_BATCHES", 1), ("MOST_TOKENS", 6)):  # small: to see the table
        monkeypatch.setattr(length_bias, name, value)
    monkeypatch.setattr(length_bias, "first_policy", lambda seed, cache: start)
    done = CliRunner().invoke(app, ["lab", "length-bias", "--steps", "16", "--seed", "1", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    (head,) = (i for i, line in enumerate(lines) if "longest quarter weighs, at first" in line)
    for title in ("wrong, tokens first → last", "right, tokens first → last", "gap first → last", "alerts"):
        assert title in lines[head]
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines[head + 1 : head + 5]]
    assert [row[0] for row in rows] == [arm.name for arm in ARMS]
    for row in rows:
        assert all(re.fullmatch(r"[+-]?\d+\.\d → [+-]?\d+\.\d", cell) for cell in row[1:4])
        assert re.fullmatch(r"\d+%", row[4])
    assert "grpo: step 16 of 16" in done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"length-bias-{arm.name}" for arm in ARMS)


def test_a_row_of_the_table() -> None:
    names = ("length/incorrect", "length/correct", "length/gap", "weight/length_q4")
    ends = ((8.0, 8.5, -0.5, 0.25), (28.0, 1.0, 27.0, 0.1))
    records = [
        StepRecord(step, 0.0, dict(zip(names, ends[step > AVERAGED], strict=True)))
        for step in range(1, 2 * AVERAGED + 1)
    ]
    alerts = [
        Alert(
            "length-bias", Severity.WARNING, state, since=3, step=step, time=0.0, value=9.0, reference=0.0, message=""
        )
        for state, step in ((AlertState.PENDING, 3), (AlertState.FIRING, 7), (AlertState.FIRING, 9))
    ]
    console = Console(width=200, record=True, file=io.StringIO())
    results = [ArmResult(ARMS[0], Path(), records, alerts), ArmResult(ARMS[2], Path(), [], [])]
    console.print(arms_table(EXPERIMENT, results))
    _, first, second = console.export_text().splitlines()
    assert re.split(r"\s{2,}", first.strip()) == [
        "grpo", "8.0 → 28.0", "8.5 → 1.0", "-0.5 → +27.0", "25%", "warning length-bias at step 7"
    ]  # fmt: skip
    assert re.split(r"\s{2,}", second.strip()) == ["dapo", *["– → –"] * 3, "–", "none"]
