"""Real ranks under torchrun with gloo: rank 0 records the numbers of all of them, and they are those of one rank."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from rlwatch.runs.reader import read_info, read_records
from torchrun import torchrun

Train = Callable[..., Path]


TOGETHER = ("sound", "faulty", "stopping", "sharded")
"""What two ranks train one after the other in one start."""


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Trains once on so many ranks, and gives the run directory."""
    done: dict[tuple[int, str], Path] = {}

    def on(ranks: int, how: str = "sound") -> Path:
        if (ranks, how) not in done:
            kinds = TOGETHER if ranks == 2 and how in TOGETHER else (how,)
            out = tmp_path_factory.mktemp(f"ranks{ranks}")
            torchrun(ranks, "ranks_script.py", out, *kinds)
            done.update({(ranks, kind): out / kind / "runs" / "run" for kind in kinds})
        return done[ranks, how]

    return on


def test_the_data_are_worth_comparing(train: Train) -> None:
    """A number that is zero, or the same at each step, would agree whatever the code did."""
    records = read_records(train(1)).items
    assert len(records) == 6
    seen = {name: [record.metrics.get(name) for record in records] for name in records[0].metrics}
    for name in ("clip/high", "length/truncated", "weight/incorrect", "length/gap", "groups/zero_std", "kl/old"):
        assert any(value for value in seen[name]), name
    assert {"grad/effective_norm", "update/norm", "sampler/ratio_mean", "entropy/p50"} <= set(seen)
    assert records[0].metrics["counterfactual/denominator-grpo/cosine"] < 0.9999  # type: ignore[operator]
    assert {"weight/length_q4", "weight/hard", "weight/largest_group", "weight/half"} <= set(seen)


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_numbers_are_the_same_on_any_number_of_ranks(ranks: int, train: Train) -> None:
    one, several = read_records(train(1)).items, read_records(train(ranks)).items
    assert len(one) == len(several) == 6
    assert "faults" not in read_info(train(ranks))
    for expected, record in zip(one, several, strict=True):
        assert record.metrics.keys() == expected.metrics.keys()
        for name in expected.metrics.keys() - {"step_seconds"}:
            if "denominator-bnpo" not in name:  # divides by the tokens of a micro-batch, and those are other ones
                # from the second step on the weights differ too: ranks add their gradients in another order
                near = 1e-6 if record.step == 1 else 1e-5
                value = pytest.approx(expected.metrics[name], rel=near, abs=1e-9)
                assert record.metrics[name] == value, (record.step, name)


@pytest.mark.parametrize("ranks", [2, 3])
def test_so_is_the_table_of_rollouts(ranks: int, train: Train) -> None:
    shards = sorted(path.name for path in (train(1) / "rollouts").iterdir())
    assert sorted(path.name for path in (train(ranks) / "rollouts").iterdir()) == shards
    for shard in shards:
        one, several = (pl.read_parquet(train(n) / "rollouts" / shard) for n in (1, ranks))
        assert_frame_equal(one, several, rel_tol=1e-6, abs_tol=1e-7)
        assert not any(one[name].is_null().any() for name in ("weight", "entropy", "logprob_sum", "completion"))


def test_only_rank_0_keeps_a_run(train: Train) -> None:
    assert [path.name for path in train(2).parent.iterdir()] == ["run"]
    assert sorted(path.name for path in train(2).glob("*.jsonl")) == ["alerts.jsonl", "metrics.rank0.jsonl"]
    assert read_info(train(2))["world_size"] == 2


def test_a_fault_on_one_rank_leaves_no_rank_waiting_and_no_number_wrong(train: Train) -> None:
    sound, faulty = read_records(train(2)).items, read_records(train(2, "faulty")).items
    assert len(faulty) == 6
    for expected, record in zip(sound, faulty, strict=True):
        for half in ("length/mean", "entropy/mean", "entropy/p50", "ratio/mean", "weight/long"):
            assert half not in record.metrics, "half of them is not all of them"
        for name in ("reward/mean", "groups/zero_std", "grad/norm", "loss", "lr"):
            assert record.metrics[name] == expected.metrics[name], "the training is the same"


def test_rank_0_tells_that_another_rank_had_a_fault(train: Train) -> None:
    faults = {fault["where"]: fault["error"] for fault in read_info(train(2, "faulty"))["faults"]}
    assert faults["rank 1"] == "RuntimeError: something of rlwatch failed there, see its own log"


def test_all_ranks_stop_at_the_same_step(train: Train) -> None:
    run = train(2, "stopping")
    out = run.parent.parent
    broken = next(record.step for record in read_records(run).items if math.isnan(record.metrics["loss"] or 0.0))
    assert [(out / f"steps.rank{rank}").read_text() for rank in (0, 1)] == [str(broken + 1)] * 2
    assert (out / "trainer" / f"checkpoint-{broken + 1}").is_dir()
    assert read_info(run)["stopped"] == {"step": broken + 1, "rule": "non-finite", "severity": "critical"}


def test_weights_that_fsdp2_shards_give_the_same_numbers_and_what_they_cannot_give_is_told(train: Train) -> None:
    whole, sharded = read_records(train(2)).items, read_records(train(2, "sharded")).items
    info = read_info(train(2, "sharded"))
    hidden = {"grad/effective_norm", "grad/policy_norm", "grad/regulariser_norm"}
    for name in hidden:
        assert info["absent"][name] == "the loss also holds a KL term (beta=0.1), and sharded gradients cannot be split"
    assert info["absent"]["counterfactual/*"].startswith("sharded weights have no gradient")
    assert "faults" not in info
    assert len(sharded) == 6
    for expected, record in zip(whole, sharded, strict=True):
        known = {name for name in expected.metrics if not name.startswith("counterfactual/")}
        assert record.metrics.keys() == known - hidden - {"grad/effective_estimate"}
        for name in record.metrics.keys() - {"step_seconds"}:
            assert record.metrics[name] == pytest.approx(expected.metrics[name], rel=1e-6, abs=1e-9), name


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs DeepSpeed, which builds on a CPU too")
def test_under_deepspeed_what_can_be_seen_is_the_same_and_the_rest_is_told(train: Train) -> None:
    plain, deep = read_records(train(2)).items, read_records(train(2, "deepspeed")).items
    info = read_info(train(2, "deepspeed"))
    clipping, policy = {"grad/clip_coef", "grad/applied_norm"}, {"grad/policy_norm", "grad/regulariser_norm"}
    hidden = clipping | policy | {"grad/effective_norm", "update/norm", "update/relative"}
    assert hidden <= info["absent"].keys()
    assert "faults" not in info
    for expected, record in zip(plain, deep, strict=True):
        assert record.metrics.keys() == expected.metrics.keys() - hidden - {"grad/effective_estimate"}
        for name in record.metrics.keys() - {"step_seconds"}:
            assert record.metrics[name] == pytest.approx(expected.metrics[name], rel=1e-6, abs=1e-9), name
