"""The mismatch: what the sampler draws and reports, what TRL makes of it, and short runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from rlwatch.lab.experiments import find
from rlwatch.lab.own_letter_task import PROMPTS, right_letter

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from rich.console import Console  # noqa: E402

from rlwatch.lab import mismatch  # noqa: E402
from rlwatch.lab.first_policy import FirstPolicy  # noqa: E402
from rlwatch.lab.mismatch import build, grpo_config, prepare, sampler  # noqa: E402
from rlwatch.lab.single import run_once  # noqa: E402
from rlwatch.runs.reader import read_records  # noqa: E402

EXPERIMENT = find("mismatch")
STEPS = 3


@pytest.fixture(scope="module")
def start(first_policies: Path) -> FirstPolicy:
    return prepare(0, first_policies)


@pytest.fixture(scope="module")
def trainer(start: FirstPolicy, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("out")
    return build(EXPERIMENT.arm("noise-truncated"), start, seed=0, steps=1, output_dir=folder)


def log_probabilities(trainer: Any, text: str, temperature: float) -> Any:
    """Of each token of the text behind the prompt's two, worked out anew."""
    ids = torch.tensor(trainer.processing_class([text])["input_ids"])
    with torch.no_grad():
        log_p = (trainer.model(input_ids=ids).logits / temperature).log_softmax(-1)
    return log_p[0, 1:-1].gather(1, ids[0, 2:, None])[:, 0]


# --- the sampler ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_it_samples_at_its_temperature_and_reports_what_it_samples_by(trainer: Any, temperature: float) -> None:
    torch.manual_seed(3)
    found = sampler(temperature, 0.0)(["04"] * 4000, trainer)
    tokenizer = trainer.processing_class
    right, end = tokenizer.convert_tokens_to_ids(right_letter("04")), tokenizer.eos_token_id
    first = [ids[0] for ids in found["completion_ids"]]
    p = math.exp(log_probabilities(trainer, "04" + right_letter("04"), temperature)[0])
    assert sum(x == right for x in first) / 4000 == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 4000))
    for ids, reported in list(zip(found["completion_ids"], found["logprobs"], strict=True))[:20]:
        assert len(ids) == len(reported) <= 2
        assert end not in ids[:-1]
        text = "04" + "".join(tokenizer.convert_ids_to_tokens(ids))
        assert reported == pytest.approx(log_probabilities(trainer, text, temperature).tolist(), abs=1e-5)


def test_noise_changes_what_is_reported_and_not_what_is_sampled(trainer: Any) -> None:
    found = []
    for noise in (0.0, 2.0):
        torch.manual_seed(3)
        found.append(sampler(1.0, noise)(list(PROMPTS) * 400, trainer))
    true, noisy = found
    assert [ids[0] for ids in true["completion_ids"]][:9] == [ids[0] for ids in noisy["completion_ids"]][:9]
    gaps = torch.tensor(
        [a - b for x, y in zip(true["logprobs"], noisy["logprobs"], strict=True) for a, b in zip(x, y, strict=True)]
    )
    assert gaps.mean().abs() < 4 * 2 / math.sqrt(len(gaps))
    assert gaps.std() == pytest.approx(2.0, rel=0.05)
    # The mean weight exp(gap) of a normal gap is e^(2²/2) = 7.4, however right the sampler itself is.
    assert gaps.exp().mean() == pytest.approx(math.exp(2), rel=0.35)


def test_the_policys_own_accuracy_is_what_it_would_earn(trainer: Any) -> None:
    own = trainer.reward_funcs[1]
    for prompt, earned in zip(PROMPTS, own(list(PROMPTS)), strict=True):
        end = trainer.processing_class.eos_token
        p = log_probabilities(trainer, prompt + right_letter(prompt) + end, 1.0).sum().exp()
        assert earned == pytest.approx(float(p), abs=1e-5)
        assert 0.2 < earned < 0.4


# --- the training ---------------------------------------------------------------------------------------------------


def test_the_arms_differ_in_the_largest_weight_alone(tmp_path: Path) -> None:
    configs = {a.name: grpo_config(a, seed=0, steps=2, output_dir=tmp_path).to_dict() for a in EXPERIMENT.arms}
    for config in configs.values():
        differing = {key for key, value in config.items() if value != configs["same"][key]}
        assert differing <= {"vllm_importance_sampling_clip_max"}
    assert configs["noise"]["vllm_importance_sampling_clip_max"] == 1e6
    assert configs["hot-corrected"]["vllm_importance_sampling_clip_max"] == 2.0


@pytest.mark.parametrize("corrected", [True, False])
def test_trl_weighs_each_token_by_its_truncated_ratio_where_it_is_switched_on(
    start: FirstPolicy, tmp_path: Path, corrected: bool
) -> None:
    trainer = build(
        EXPERIMENT.arm("hot-corrected" if corrected else "hot"), start, seed=0, steps=1, output_dir=tmp_path
    )
    seen: list[tuple[dict[str, Any], Any]] = []
    compute, method = trainer.compute_loss, trainer._get_per_token_logps_and_entropies

    def compute_loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((inputs, None))
        return compute(model, inputs, *args, **kwargs)

    def logps(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        if result[0].requires_grad:
            result[0].register_hook(lambda g: seen.append((seen[-1][0], (result[0].detach(), g.clone()))))
        return result

    trainer.compute_loss, trainer._get_per_token_logps_and_entropies = compute_loss, logps
    trainer.train()
    inputs, (log_p, gradient) = seen[-1]
    mask, reported = inputs["completion_mask"], inputs["sampling_per_token_logps"]
    weight = (log_p - reported).exp().clamp(max=2.0) if corrected else torch.ones_like(log_p)
    expected = -inputs["advantages"][:, None] * weight * mask / mask.sum()
    assert torch.allclose(gradient * mask, expected, atol=1e-6)
    assert (log_p - reported).abs().mul(mask).max() > 0.2


@pytest.fixture(scope="module")
def runs(start: FirstPolicy, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What short runs of some arms recorded, and of one of them again."""
    root, found = tmp_path_factory.mktemp("runs"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mismatch, "prepare", lambda seed, cache: start)
        for name in ("same", "same-corrected", "noise-truncated", "hot", "again"):
            arm = EXPERIMENT.arm("same" if name == "again" else name)
            [result] = run_once(EXPERIMENT, [arm], root / name, seed=0, steps=STEPS, console=Console(quiet=True))
            found[name] = [dict(record.metrics) for record in read_records(result.run_dir).items]
    return found


def test_without_noise_the_correction_changes_nothing(runs: dict[str, list[dict[str, Any]]]) -> None:
    for plain, corrected in zip(runs["same"], runs["same-corrected"], strict=True):
        for name in ("reward/mean", "reward/policy_accuracy", "loss", "grad/norm", "entropy/mean"):
            assert plain[name] == pytest.approx(corrected[name], abs=1e-4)
        assert plain["sampler/ratio_mean"] == pytest.approx(1.0, abs=1e-4)
        assert plain["sampler/logp_gap_max"] < 1e-4


def test_noise_shows_in_the_mean_weight_and_heat_in_the_gap(runs: dict[str, list[dict[str, Any]]]) -> None:
    def mean(arm: str, name: str) -> float:
        return float(sum(m[name] for m in runs[arm]) / STEPS)

    assert mean("noise-truncated", "sampler/ratio_mean") > 4
    assert mean("hot", "sampler/ratio_mean") == pytest.approx(1.0, abs=0.25)
    assert mean("hot", "sampler/logp_gap_mean") > 0.1
    assert mean("hot", "reward/mean") != mean("hot", "reward/policy_accuracy")


def test_the_same_seed_gives_the_same_numbers(runs: dict[str, list[dict[str, Any]]]) -> None:
    for one, two in zip(runs["same"], runs["again"], strict=True):
        assert {k: v for k, v in one.items() if k != "step_seconds"} == {
            k: v for k, v in two.items() if k != "step_seconds"
        }
