"""Whose names a log has, which of them are ours, and which step a row is where it does not say."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from rlwatch.readers.assemble import assemble
from rlwatch.readers.progress import Bars, steps_from
from rlwatch.readers.rows import Log, Row
from rlwatch.readers.spread import reward_std
from rlwatch.runs.aliases import Translator, framework_of, is_known, normal
from rlwatch.runs.foreign import NOT_THE_SAME, TABLES
from rlwatch.runs.metrics import METRICS
from rlwatch.runs.records import Run


def runs_of(*rows: dict[str, Any], every: int | None = None, **about: Any) -> list[Run]:
    made = [Row({k: v for k, v in row.items() if k != "step"}, step=row.get("step")) for row in rows]
    return assemble(Log(made, "test", **about), name="x", path="x", every=every)


class TestNames:
    def test_every_table_leads_to_metrics_of_ours(self) -> None:
        for table in TABLES.values():
            for ours in table.values():
                assert ours in METRICS or ours.startswith(("reward/*", "eval/")), ours

    def test_what_only_looks_the_same_is_in_no_table(self) -> None:
        for framework, names in NOT_THE_SAME.items():
            assert not set(names) & set(TABLES[framework])
            assert all(Translator(framework)(name).startswith("raw/") for name in names), framework

    @pytest.mark.parametrize(
        ("framework", "theirs", "ours"),
        [
            ("trl", "rewards / f / mean", "reward/f"),
            ("trl", "train/rewards/f/mean", "reward/f"),
            ("trl", "rewards/f", "reward/f"),
            ("trl", "rewards/chosen", "raw/rewards/chosen"),
            ("trl", "rewards/std/mean", "raw/rewards/std/mean"),
            ("trl", "rewards/f/std", "raw/rewards/f/std"),
            ("trl", "completion_length", "length/mean"),
            ("trl", "objective/entropy", "raw/objective/entropy"),
            ("trl", "policy/entropy_avg", "entropy/mean"),
            ("trl", "reward_std", "raw/reward_std"),
            ("ms-swift", "entropy/mean", "raw/entropy/mean"),
            ("verl", "actor/pg_clipfrac", "raw/actor/pg_clipfrac"),
            ("verl", "critic/rewards/mean", "raw/critic/rewards/mean"),
            ("openrlhf", "train/rollout/reward_std", "reward/std"),
            ("openrlhf", "train/kl", "raw/train/kl"),
            ("skyrl", "policy/policy_entropy", "entropy/mean"),
            ("nemo-rl", "train/sampling_importance_ratio", "sampler/ratio_mean"),
            ("prime-rl", "optim/grad_norm", "grad/norm"),
            ("tinker", "optim/entropy", "surprisal/mean"),
            ("rlwatch", "groups/stuck", "groups/stuck"),
            (None, "loss", "loss"),
            (None, "entropy", "raw/entropy"),
            ("trl", "rlwatch/groups/stuck", "groups/stuck"),
        ],
    )
    def test_one_by_one(self, framework: str | None, theirs: str, ours: str) -> None:
        assert Translator(framework)(theirs) == ours

    def test_of_two_names_for_one_metric_the_better_one_is_it(self) -> None:
        translate = Translator("verl")
        assert translate.all(["timing_s/step", "perf/time_per_step"]) == ["raw/timing_s/step", "step_seconds"]
        assert translate.all(["timing_s/step"]) == ["step_seconds"]
        assert Translator("trl").all(["entropy", "rlwatch/entropy/mean"]) == ["raw/entropy", "entropy/mean"]

    @pytest.mark.parametrize(
        ("names", "framework"),
        [
            (["train/loss", "train/learning_rate", "train/reward_std"], "trl"),
            (["loss", "rewards / f / mean"], "trl"),
            (["loss", "learning_rate", "memory(GiB)"], "ms-swift"),
            (["actor/pg_loss", "critic/score/mean", "actor/lr"], "verl"),
            (["train/policy_loss", "train/actor_lr", "train/rollout/reward_mean"], "openrlhf"),
            (["entropy/mean", "mismatch_kl/mean", "optim/grad_norm"], "prime-rl"),
            (["env/all/reward/total", "optim/entropy", "progress/done_frac"], "tinker"),
            (["policy/final_loss", "reward/avg_raw_reward"], "skyrl"),
            (["entropy/mean", "groups/stuck", "grad/norm"], "rlwatch"),
            (["loss", "accuracy"], None),
        ],
    )
    def test_who_wrote_it(self, names: list[str], framework: str | None) -> None:
        assert framework_of(names) == framework

    def test_what_tells_a_log(self) -> None:
        assert all(map(is_known, ["loss", "train/reward", "eval_loss", "rewards / f / mean", "actor/pg_loss"]))
        assert not any(map(is_known, ["learning_rate", "lr", "id", "price", "hidden_size", "train/epoch"]))

    def test_a_very_long_name_costs_nothing(self) -> None:
        assert len(normal("a" + " " * 1_000_000 + "b")) == 1_000_002

    def test_evaluations_are_apart(self) -> None:
        (run,) = runs_of(
            {"step": 1, "eval_reward": 1.0, "test/env/all/reward/total": 2.0, "val-core/x/acc/mean@8": 3.0}
        )
        assert run.names == ["eval/reward", "eval/env/all/reward/total", "eval/val-core/x/acc/mean@8"]
        (run,) = runs_of({"step": 1, "val/ratio": 1.0, "policy/approxkl_avg": 0.1})
        assert run.names == ["ratio/mean", "raw/policy/approxkl_avg"]

    def test_a_reader_may_know_more_of_a_file(self) -> None:
        (run,) = runs_of(
            {"step": 1, "my_h": 1.0, "reward_std": 2.0}, framework="trl", more_names={"my_h": "entropy/mean"}
        )
        assert run.names == ["entropy/mean", "raw/reward_std"]


class TestRewardStd:
    """Rewards of two prompts with four answers each; the batch's spread is not the groups'."""

    GROUPS = ([1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0])

    def row(self, std: float, **more: float) -> Row:
        return Row({"reward_std": std, **more})

    def test_by_the_names_of_old_versions(self) -> None:
        assert reward_std([self.row(0.2, completion_length=5.0, **{"rewards/f": 0.5})]) == "groups/reward_std"

    def test_by_a_function_that_is_the_reward(self) -> None:
        every = [*self.GROUPS[0], *self.GROUPS[1]]
        mean, batch = statistics.mean(every), statistics.stdev(every)
        within = statistics.mean(map(statistics.stdev, self.GROUPS))
        known = {"reward": mean, "rewards/f/mean": mean, "rewards/f/std": batch}
        assert reward_std([self.row(batch, **known)]) == "reward/std"
        assert reward_std([self.row(within, **known)]) == "groups/reward_std"
        assert (
            reward_std([self.row(batch, reward=2 * mean, **{k: v for k, v in known.items() if k != "reward"})]) is None
        )

    def test_by_a_spread_that_functions_cannot_have(self) -> None:
        two = {"reward": 1.0, "rewards/f/mean": 0.5, "rewards/g/mean": 0.5, "rewards/f/std": 0.5, "rewards/g/std": 0.1}
        assert reward_std([self.row(0.0, **two)]) == "groups/reward_std"
        assert reward_std([self.row(0.5, **two)]) is None

    def test_by_dead_groups_with_a_spread(self) -> None:
        assert reward_std([self.row(0.3, frac_reward_zero_std=1.0)]) == "reward/std"
        assert reward_std([self.row(0.0, frac_reward_zero_std=1.0)]) is None

    def test_what_the_scaling_makes_of_the_dead_share(self) -> None:
        row = {"step": 1, "reward_std": 0.3, "frac_reward_zero_std": 0.0}
        (run,) = runs_of(row, info={"config": {"scale_rewards": "batch"}})
        assert run.names == ["raw/reward_std", "raw/frac_reward_zero_std"]
        (run,) = runs_of(row)
        assert run.names == ["raw/reward_std", "groups/zero_std"]


class TestSteps:
    def test_by_counts_that_are_means(self) -> None:
        rows = [{"loss": 1.0, "completions/min_length": length} for length in (186.4, 190.0, 12.2)]
        (run,) = runs_of(*rows)
        assert [record.step for record in run.records] == [5, 10, 15]

    def test_by_the_totals(self) -> None:
        rows = [{"loss": 1.0, "epoch": n / 10} for n in range(1, 11)]
        totals = {"train_runtime": 100.0, "train_steps_per_second": 1.03}
        (run,) = runs_of(*rows, totals)  # 103 steps: the last three of them in no row
        assert [record.step for record in run.records][-1] == 100

    def test_where_nothing_tells_it_says_so(self) -> None:
        (run,) = runs_of({"loss": 1.0}, {"loss": 2.0})
        assert [record.step for record in run.records] == [1, 2]
        assert any("nothing in the log tells" in note for note in run.notes)

    def test_some_rows_without_one(self) -> None:
        rows = (
            {"lr": 1.0, "seed": 2.0},
            {"step": 5, "loss": 1.0},
            {"kl": 3.0},
            {"step": 10, "loss": 2.0},
            {"loss": 3.0},
            {"seed": 1.0},
        )
        (run,) = runs_of(*rows, framework="trl")
        assert [record.step for record in run.records] == [0, 5, 10, 15]
        assert run.records[1].metrics == {"loss": 1.0, "kl/ref": 3.0}
        assert any("without a known metric" in note for note in run.notes)

    @pytest.mark.parametrize(
        ("before", "after", "steps"),
        [
            ([10, 20, 30], [10, 20, 30], [10, 20, 30]),
            ([9, 19, 29], [10, 20, 30], [10, 20, 30]),
            ([1, 10, 20], [1, 10, 20], [1, 10, 20]),
            ([10, 20, 10, 20], [10, 20, 10, 20], [10, 20, 10, 20]),
            ([7], [8], [7]),
            ([12, 12, 12], [12, 12, 12], None),
            ([10, 25, 30], [11, 26, 31], None),
        ],
    )
    def test_by_bars(self, before: list[int], after: list[int], steps: list[int] | None) -> None:
        found = steps_from([Bars({100: b}, {100: a}) for b, a in zip(before, after, strict=True)])
        assert found == (None if steps is None else (steps, 100))
