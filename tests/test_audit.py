"""Audits: configurations of every framework, what they weigh, and what is said of them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import rlwatch
from rlwatch.audit import AuditConfig, ConfigError, audit
from rlwatch.audit.advantages import Scaling, advantages
from rlwatch.audit.lints import LINTS
from rlwatch.audit.read import read
from rlwatch.audit.weights import AGGREGATIONS, LOSS_TYPES, Batch, Loss, token_weights
from rlwatch.cli import app
from tiny import quiet

GRPO: dict[str, Any] = {"num_generations": 8, "world_size": 1}
VERL: dict[str, Any] = {
    "actor_rollout_ref": {
        "actor": {
            "ppo_mini_batch_size": 64,
            "ppo_micro_batch_size_per_gpu": 8,
            "loss_agg_mode": "seq-mean-token-mean",
            "clip_ratio_low": 0.2,
            "clip_ratio_high": 0.28,
            "use_kl_loss": True,
            "kl_loss_coef": 0.01,
        },
        "rollout": {"n": 8},
    },
    "algorithm": {"adv_estimator": "grpo", "norm_adv_by_std_in_grpo": False},
    "data": {"train_batch_size": 256, "max_response_length": 2048},
    "trainer": {"n_gpus_per_node": 8, "nnodes": 1},
}


def names(target: Any) -> set[str]:
    return {lint.name for lint in audit(target).lints}


# reading


def same(one: AuditConfig, other: AuditConfig) -> bool:
    """But for where they were read, and what was set there."""
    blank = {"source": "", "given": frozenset(), "notes": ()}
    return replace(one, **blank) == replace(other, **blank)  # type: ignore[arg-type]


def test_defaults_are_those_of_the_installed_trl(tmp_path: Path) -> None:
    from trl import DPOConfig, GRPOConfig, RLOOConfig, SFTConfig

    assert same(read(GRPOConfig(**quiet(tmp_path, logging_steps=10))), read(GRPO))
    assert same(read(RLOOConfig(**quiet(tmp_path, logging_steps=10))), read({"normalize_advantages": False}))
    assert same(read(SFTConfig(**quiet(tmp_path, logging_steps=10))), read({"packing": False}))
    assert same(read(DPOConfig(**quiet(tmp_path, logging_steps=10))), read({"loss_type": "sigmoid"}))


def test_a_trainer_and_its_arguments_are_the_same(make_trainer: Any) -> None:
    trainer = make_trainer(loss_type="bnpo", epsilon=0.1, scale_rewards=False)
    found = audit(trainer)
    assert same(found.config, read(trainer.args))
    assert (found.config.loss_type, found.config.epsilon_high, found.config.scale_rewards) == ("bnpo", 0.1, "none")
    assert found.config.gradient_accumulation_steps == 3
    json.dumps(found.to_dict())


def test_a_trainer_with_a_loss_of_its_own_says_so(make_trainer: Any) -> None:
    trainer = make_trainer()
    trainer.__class__ = type("Mine", (type(trainer),), {"_compute_loss": type(trainer)._compute_loss})
    assert any("Mine computes its own loss" in note for note in read(trainer).notes)


def test_a_run_directory(tmp_path: Path) -> None:
    info = {"schema": 1, "trainer": "GRPOTrainer", "world_size": 4, "config": {"loss_type": "grpo", "epsilon": 0.3}}
    (tmp_path / "run.json").write_text(json.dumps(info))
    config = read(tmp_path)
    assert (config.loss_type, config.ranks, config.epsilon_high) == ("grpo", 4, 0.3)


def test_a_run_of_a_loop_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"trainer": "own loop", "config": {"loss_type": "dapo", "num_generations": 4}}))
    assert any("which its loss may not be" in note for note in read(path).notes)
    path.write_text(json.dumps({"trainer": "own loop", "config": {"gamma": 1.0}}))
    with pytest.raises(ConfigError, match="does not tell its loss"):
        read(tmp_path)


def test_a_trainer_state_with_its_arguments_beside_it(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint-10"
    checkpoint.mkdir()
    state = checkpoint / "trainer_state.json"
    state.write_text(json.dumps({"global_step": 10, "log_history": []}))
    with pytest.raises(ConfigError, match=r"trainer_state\.json.*args\.json.*pickle"):
        read(state)
    (tmp_path / "args.json").write_text(json.dumps({"loss_type": "dr_grpo", "max_completion_length": 64}))
    assert read(state).aggregation == "max-length"
    state.write_text(json.dumps({"global_step": 10, "log_history": [], "args": {"loss_type": "luspo"}}))
    assert read(checkpoint).loss_type == "luspo"


def test_yaml_of_trl(tmp_path: Path) -> None:
    path = tmp_path / "grpo.yaml"
    path.write_text("loss_type: cispo\nepsilon_high: 5\nbeta: 1e-3\nscale_rewards: false\nsteps_per_generation: 8\n")
    config = read(path)
    assert (config.loss_type, config.epsilon_high, config.beta) == ("cispo", 5.0, 1e-3)
    assert (config.scale_rewards, config.updates) == ("none", 8)
    assert "loss_type" in config.given
    assert "epsilon" not in config.given


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("loss_type: dappo", r"loss_type: 'dappo' is not one of .*did you mean 'dapo'"),
        ("num_generations: many", r"num_generations: 'many' is not a number"),
        ("num_generations: 2.5", r"num_generations: 2.5 is not a whole number"),
        ("num_generations: 0", r"num_generations: 0 is not from 1 to 1,000,000"),
        ("num_generations: 4\nscale_rewards: bath", r"scale_rewards: 'bath'.*did you mean 'batch'"),
        ("n_samples_per_prompt: 0", r"n_samples_per_prompt: 0 is not from 1 to 1,000,000"),
        ("n_samples_per_prompt: 2\ntrain_batch_size: 0", r"train_batch_size: 0 is not from 1"),
        ("actor_rollout_ref: {}\ntrainer: {nnodes: 0}", r"trainer\.nnodes: 0 is not from 1"),
        ("per_device_train_batch_size: 0\ngeneration_batch_size: 8\nepsilon: .2", r"batch_size: 0 is not from 1"),
        ("num_generations: 4\nuse_vllm: perhaps", r"use_vllm: 'perhaps' is not true or false"),
        ("num_generations: 4\ngeneration_batch_size: 12", r"generation_batch_size: 12 is no multiple of the 8"),
        ("!!python/object/apply:os.system ['true']", "not plain YAML"),
        ("- 1\n- 2", "holds a list"),
        ("", "is empty; what is expected are names and values, as in loss_type: dapo"),
        ("colour: red", "none of its keys is known.* A line is enough .*: loss_type: dapo"),
        ("a: [", "not plain YAML"),
    ],
)
def test_errors_name_the_path_and_the_key(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as error:
        read(path)
    assert str(path) in str(error.value)


def test_a_rejected_answer_without_weight_is_no_divisor() -> None:
    found = audit({"loss_type": ["sft"], "gradient_accumulation_steps": 4, "world_size": 1})
    chosen = [kind.token for kind in found.example.kinds if kind.answer == "chosen"]
    assert {kind.token for kind in found.example.kinds if kind.answer == "rejected"} == {0.0}
    (lint,) = [lint for lint in found.lints if lint.name == "micro-batch-chance"]
    assert f"up to {max(chosen) / min(chosen):.2f} times" in lint.message


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "training_args.bin").write_bytes(b"\x80\x04\x95")
    (tmp_path / "a.json").write_text("{")
    for name in ("no.json", "training_args.bin", "a.json", "."):
        with pytest.raises(ConfigError):
            read(tmp_path / name)
    with pytest.raises(ConfigError, match="object"):
        read(object())


def test_a_misspelt_setting_is_told(tmp_path: Path) -> None:
    notes = read({**GRPO, "mask_truncated_completion": True}).notes
    assert any("did you mean 'mask_truncated_completions'" in note for note in notes)


def test_verl() -> None:
    config = read(VERL)
    assert (config.framework, config.aggregation, config.scale_rewards) == ("verl", "sequence-mean", "none")
    assert (config.epsilon, config.epsilon_high, config.beta, config.kl_in) == (0.2, 0.28, 0.01, "loss")
    # 64 prompts · 8 answers on 8 ranks are 64 sequences a rank, in 8 micro-batches; 4 mini-batches a rollout
    assert (config.ranks, config.gradient_accumulation_steps, config.updates) == (8, 8, 4)
    assert config.setting("epsilon_high") == "actor_rollout_ref.actor.clip_ratio_high"
    assert config.setting("scale_rewards") == "algorithm.norm_adv_by_std_in_grpo"


@pytest.mark.parametrize(
    ("mode", "aggregation"),
    [
        ("token-mean", "micro-batch-tokens"),
        ("seq-mean-token-sum", "sequence-sum"),
        ("seq-mean-token-mean", "sequence-mean"),
        ("seq-mean-token-sum-norm", "padded-length"),
    ],
)
def test_verl_modes_as_a_flat_key(mode: str, aggregation: str) -> None:
    assert read({"actor.loss_agg_mode": mode}).aggregation == aggregation


def test_verl_references_and_blanks() -> None:
    data = {"actor": {"loss_agg_mode": "???", "clip_ratio_high": "${actor.clip_ratio}", "clip_ratio": 0.3}}
    config = read({**data, "algorithm": {"adv_estimator": "grpo"}})
    assert config.epsilon_high == 0.3
    assert any("loss_agg_mode is ???" in note for note in config.notes)


def test_verl_clips_by_low_and_high_whatever_clip_ratio_is() -> None:
    config = read({"actor.clip_ratio": 0.4, "actor.loss_agg_mode": "token-mean"})
    assert (config.epsilon, config.epsilon_high) == (0.2, 0.2)
    assert any("clip_ratio is 0.4" in note for note in config.notes)


def test_values_are_shown_as_they_stand_in_the_file() -> None:
    shown = {place.setting: place.value for place in audit(VERL).places}
    assert shown["actor_rollout_ref.actor.loss_agg_mode"] == "seq-mean-token-mean"
    assert shown["actor_rollout_ref.actor.ppo_mini_batch_size"] == "64"


def test_verl_batches_that_do_not_divide() -> None:
    broken = json.loads(json.dumps(VERL))
    broken["actor_rollout_ref"]["actor"]["ppo_micro_batch_size_per_gpu"] = 7
    with pytest.raises(ConfigError, match="ppo_micro_batch_size_per_gpu"):
        read(broken)


def test_openrlhf_nested_and_flat() -> None:
    nested = read(
        {
            "algo": {"advantage": {"estimator": "group_norm"}, "kl": {"use_loss": True, "init_coef": 0.001}},
            "actor": {"eps_clip_low_high": [0.2, 0.27]},
            "rollout": {"n_samples_per_prompt": 8},
            "train": {"batch_size": 128, "micro_batch_size": 4},
        }
    )
    flat = read(
        {
            "advantage_estimator": "group_norm",
            "use_kl_loss": True,
            "init_kl_coef": 0.001,
            "eps_clip_low_high": [0.2, 0.27],
            "n_samples_per_prompt": 8,
            "train_batch_size": 128,
            "micro_train_batch_size": 4,
        }
    )
    assert same(replace(nested, names={}), replace(flat, names={}))
    assert (nested.aggregation, nested.scale_rewards, nested.epsilon_high) == ("step-tokens", "group", 0.27)
    assert nested.gradient_accumulation_steps == 32


def test_prime_rl(tmp_path: Path) -> None:
    path = tmp_path / "rl.toml"
    path.write_text(
        '[trainer.loss]\nratio_type = "sequence"\n[orchestrator]\nbatch_size = 64\nrollouts_per_example = 16\n'
    )
    config = read(path)
    assert (config.framework, config.aggregation, config.num_generations) == ("prime-rl", "rank-sequences", 16)
    assert any("nobody has checked" in note for note in config.notes)


# weights


def test_every_way_to_average_is_a_mean() -> None:
    """Over all ranks, with as many rows and tokens everywhere, the weights of a step sum to 1, or to a known sum."""
    length, rows = 5, 12
    batch = Batch(np.ones((rows, length), dtype=bool), np.arange(rows) % 2, np.arange(rows) // 2 % 3)
    for name in AGGREGATIONS:
        loss = Loss(name, accumulation=3, steps_per_generation=3, ranks=2, max_length=length)
        total = token_weights(loss, batch, applied=True).sum()
        expected = {"sequence-sum": length, "padded-length": rows / 2 / 3}.get(name, 1.0)
        assert total == pytest.approx(expected), name


def test_an_unknown_way_to_average_is_an_error() -> None:
    with pytest.raises(ValueError, match="none of"):
        Loss("median")
    with pytest.raises(ValueError, match="scale"):
        Scaling(scale="median")
    with pytest.raises(ValueError, match="do not divide"):
        advantages(np.ones(5), Scaling(group_size=2))


def test_the_example_says_what_the_papers_say() -> None:
    """1/L makes a long answer weigh as a short one; a group's std blows up easy and hard prompts."""

    def kind(found: Any, prompt: str, answer: str) -> Any:
        return next(k for k in found.example.kinds if k.prompt.startswith(prompt) and k.answer == answer)

    grpo, dapo = audit({**GRPO, "loss_type": "grpo"}), audit({**GRPO, "loss_type": "dapo"})
    for found, ratio in ((grpo, 1.0), (dapo, 4.0)):
        assert kind(found, "even", "wrong, long").one / kind(found, "even", "wrong, short").one == pytest.approx(ratio)
        assert sum(k.share for k in found.example.kinds) == pytest.approx(1)
        assert found.example.share("solved") == 0
    plain = audit({**GRPO, "scale_rewards": "none"})
    assert plain.example.share("even") > dapo.example.share("even") + 0.05
    masked = audit({**GRPO, "mask_truncated_completions": True})
    assert kind(masked, "hard", "wrong, truncated").share == 0


def test_supervised_and_preference_trainers() -> None:
    tokens = audit({"packing": False, "gradient_accumulation_steps": 4})
    assert "weighs the same" in tokens.example.contrasts["accumulation"]
    means = audit({"packing": False, "gradient_accumulation_steps": 4, "model_accepts_loss_kwargs": False})
    assert "which texts share a micro-batch decides" in means.example.contrasts["accumulation"]
    assert "micro-batch-chance" in {lint.name for lint in means.lints}
    summed, averaged = audit({"loss_type": "sigmoid"}), audit({"loss_type": "ipo"})
    assert "4 times as much" in summed.example.contrasts["length"]
    assert "just as much" in averaged.example.contrasts["length"]
    assert audit({"loss_type": "sigmoid", "ld_alpha": 0.0}).example.kinds[3].one == pytest.approx(
        audit({"loss_type": "sigmoid", "ld_alpha": 0.0}).example.kinds[2].one
    )
    assert audit({"per_device_train_batch_size": 4}).config.trainer == "Trainer"
    assert audit({"loss_type": "sft"}).example.share("", "rejected") == 0


# places


@pytest.mark.parametrize("loss_type", [name for name in LOSS_TYPES if name != "rloo"])
def test_each_place_says_what_it_does(loss_type: str) -> None:
    settings = {"beta": 0.1, "entropy_coef": 0.01, "top_entropy_quantile": 0.2, "off_policy_mask_threshold": 0.5}
    found = audit({**GRPO, **settings, "loss_type": loss_type, "use_vllm": True})
    assert len(found.places) >= 8
    for place in found.places:
        assert place.code
        assert place.maths
        assert place.sentence.endswith(".")
        assert "{" not in place.sentence
        assert place.setting
        assert set(place.effect) == {"long", "short", "hard", "easy"}


def test_places_have_exact_numbers() -> None:
    found = {place.name: place for place in audit({**GRPO, "loss_type": "grpo"}).places}
    length = found["tokens of the sequence"]
    assert length.effect["long"] / length.effect["short"] == pytest.approx(0.25)
    assert "0.25 times as much" in length.sentence
    assert any("Dr.GRPO" in source for source in length.against)
    spread = found["std of the group"]
    deviations = [np.std([1.0] * n + [0.0] * (8 - n), ddof=1) + 1e-4 for n in (1, 4)]
    assert spread.effect["hard"] / spread.effect["long"] == pytest.approx(deviations[1] / deviations[0])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("loss_type", "renormalises"), [("grpo", False), ("dr_grpo", False), ("dapo", True)])
def test_a_mask_says_whether_it_renormalises(loss_type: str, renormalises: bool, masked: bool) -> None:
    found = audit({**GRPO, "loss_type": loss_type, "mask_truncated_completions": masked})
    mask = next(place for place in found.places if place.name == "mask of truncated answers")
    assert ("times as much" in mask.sentence) is renormalises


# lints: each with a configuration that trips it, and a near twin that does not

TWINS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "group-size-one": (
        {"algorithm.adv_estimator": "grpo", "actor_rollout_ref.rollout.n": 1},
        {"algorithm.adv_estimator": "grpo", "actor_rollout_ref.rollout.n": 2},
    ),
    "delta-too-low": ({**GRPO, "delta": 1.1}, {**GRPO, "delta": 4.0}),
    "cispo-epsilon": ({**GRPO, "loss_type": "cispo"}, {**GRPO, "loss_type": "cispo", "epsilon_high": 5.0}),
    "symmetric-clip": ({**GRPO, "num_iterations": 4}, {**GRPO, "num_iterations": 4, "epsilon_high": 0.28}),
    "sequence-epsilon": (
        {**GRPO, "importance_sampling_level": "sequence"},
        {**GRPO, "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    ),
    "luspo-token-ratio": (
        {**GRPO, "loss_type": "luspo"},
        {**GRPO, "loss_type": "luspo", "importance_sampling_level": "sequence"},
    ),
    "length-bias": ({**GRPO, "loss_type": "grpo"}, {**GRPO, "loss_type": "dr_grpo"}),
    "micro-batch-chance": (
        {**GRPO, "loss_type": "bnpo", "gradient_accumulation_steps": 2},
        {**GRPO, "loss_type": "bnpo", "gradient_accumulation_steps": 1},
    ),
    "weights-sum": (
        {**GRPO, "steps_per_generation": 4, "gradient_accumulation_steps": 2},
        {**GRPO, "steps_per_generation": 4, "gradient_accumulation_steps": 4},
    ),
    "overlong-unmasked": (GRPO, {**GRPO, "mask_truncated_completions": True}),
    "truncated-in-baseline": ({**GRPO, "mask_truncated_completions": True}, GRPO),
    "near-ties": (GRPO, {**GRPO, "scale_rewards": "batch"}),
    "kl-with-dead-groups": ({**GRPO, "beta": 0.04}, {**GRPO, "beta": 0.0}),
    "clip-inert": (GRPO, {**GRPO, "num_iterations": 2}),
    "zero-std-metric": ({**GRPO, "scale_rewards": "batch"}, {**GRPO, "scale_rewards": "group"}),
    "entropy-metric": ({**GRPO, "gradient_accumulation_steps": 4}, {**GRPO, "gradient_accumulation_steps": 1}),
}


def test_every_lint_has_its_twins() -> None:
    assert set(TWINS) == set(LINTS)


@pytest.mark.parametrize("name", LINTS)
def test_a_lint_trips_and_its_near_twin_does_not(name: str) -> None:
    trips, quiet_twin = TWINS[name]
    assert name not in names(quiet_twin)
    lint = next(lint for lint in audit(trips).lints if lint.name == name)
    assert any(character.isdigit() for character in lint.message)
    assert lint.why
    assert lint.source
    assert lint.setting
    assert lint.advice
    silenced = audit(trips, silence=[name])
    assert name not in {each.name for each in silenced.lints}
    assert name in {each.name for each in silenced.silenced}


def test_more_ways_to_trip_and_not_to() -> None:
    assert audit({**GRPO, "delta": 0.9}).lints[0].severity.value == "critical"
    assert "zero-std-metric" in names({**GRPO, "multi_objective_aggregation": "normalize_then_sum"})
    assert "zero-std-metric" in names({"normalize_advantages": False, "beta": 0.05})
    assert "zero-std-metric" not in names({"normalize_advantages": False, "beta": 0.0})
    assert "kl-with-dead-groups" not in names({"normalize_advantages": False, "beta": 0.05})  # in the reward
    assert "symmetric-clip" not in names({**GRPO, "loss_type": "cispo", "num_iterations": 4, "epsilon_high": 5.0})
    assert "group-size-one" not in names({"advantage_estimator": "gae", "n_samples_per_prompt": 1})
    assert "weights-sum" not in names({**GRPO, "loss_type": "grpo", "steps_per_generation": 4})
    assert "clip-inert" not in names({"algorithm.adv_estimator": "grpo", "ppo_epochs": 2, "actor.clip_ratio": 0.2})


def test_an_unknown_name_to_silence_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'near-tie'; did you mean 'near-ties'\?"):
        audit(GRPO, silence=["near-tie"])


# the function, the command, the reports


def test_the_function_and_the_package_are_one() -> None:
    assert rlwatch.audit(GRPO).to_dict() == audit(GRPO).to_dict()
    code = "import rlwatch.audit.weights, rlwatch; print(rlwatch.audit({'loss_type': 'dapo'}).formula)"
    code += "\nimport sys; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "P·spg / (N·GA)\n"), done.stderr


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "grpo.json"
    path.write_text(json.dumps({**GRPO, "loss_type": "grpo"}))
    return path


def test_the_text(config_file: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(config_file)])
    assert done.exit_code == 0, done.output
    for words in (
        "Who weighs what",
        "Where it divides",
        "What to look at",
        "wrong, truncated",
        "length-bias",
        "Dr.GRPO",
    ):
        assert words in done.output
    assert len(done.output.splitlines()) < 80


def test_json_and_exit_codes(config_file: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["audit", str(config_file), *arguments])

    found = json.loads(run("--format", "json").stdout)
    assert found["schema"] == 1
    assert {"config", "example", "places", "lints"} <= set(found)
    assert run("--fail-on", "warning").exit_code == 1
    assert run("--fail-on", "critical").exit_code == 0
    assert run("--fail-on", "warning", "--silence", "length-bias").exit_code == 0
    assert run("--silence", "length-bais").exit_code == 2
    assert run("--fail-on", "often").exit_code == 2
    assert run("--format", "pdf").exit_code == 2
    assert CliRunner().invoke(app, ["audit", "/no/such.yaml"]).exit_code == 2


def test_html_is_one_file_without_scripts(tmp_path: Path) -> None:
    path = tmp_path / "<b>.json"
    path.write_text(json.dumps({**GRPO, "loss_type": "grpo"}))
    out = tmp_path / "audit.html"
    done = CliRunner().invoke(app, ["audit", str(path), "--format", "html", "-o", str(out)])
    assert done.exit_code == 0, done.output
    page = out.read_text()
    assert "length-bias" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<b>.json" not in page


@pytest.mark.parametrize("target", [VERL, {"packing": False}, {"loss_type": "ipo"}, {"normalize_advantages": True}])
def test_every_report_can_show_every_kind(target: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(target))
    for kind in ("text", "json", "html"):
        out = tmp_path / f"out.{kind}"
        done = CliRunner().invoke(app, ["audit", str(path), "--format", kind, "-o", str(out)])
        assert done.exit_code == 0, done.output
        assert out.stat().st_size > 1000


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["scale_rewards", "loss_type", "importance_sampling_level", "num_generations", "beta", "epsilon", "delta",
             "steps_per_generation", "mask_truncated_completions", "top_entropy_quantile", "world_size"]
        ),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
        | st.lists(st.integers(), max_size=2) | st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
        max_size=6,
    )
)  # fmt: skip
def test_whatever_stands_in_a_configuration_it_is_audited_or_refused_clearly(data: dict[str, object]) -> None:
    with contextlib.suppress(ConfigError):
        audit({"num_generations": 8, **data})
