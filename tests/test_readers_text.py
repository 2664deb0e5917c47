"""Text formats: made-up logs of the shapes that trainers write, and all that stands around the numbers in them."""

from __future__ import annotations

import gzip
import io
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlwatch.readers import Options, UnreadableError, load
from rlwatch.readers.loading import load_all
from rlwatch.runs.records import Run

DICT = "{'loss': 0.1, 'grad_norm': 0.5, 'reward': %s, 'reward_std': 0.2, 'kl': 0.01, 'epoch': %s}"


def read(tmp_path: Path, text: str | bytes, name: str = "a.log", every: int | None = None) -> list[Run]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path, Options(every=every))


def one(tmp_path: Path, text: str | bytes, name: str = "a.log", every: int | None = None) -> Run:
    (run,) = read(tmp_path, text, name, every)
    return run


def steps(run: Run) -> list[int]:
    return [record.step for record in run.records]


def values(run: Run, name: str) -> list[float | None]:
    return [record.metrics[name] for record in run.records if name in record.metrics]


class TestConsole:
    def test_dicts_of_python_with_everything_that_a_value_may_be(self, tmp_path: Path) -> None:
        run = one(
            tmp_path,
            "{'loss': nan, 'grad_norm': inf, 'reward': None, 'kl': '0.25', 'entropy': np.float64(1.5), 'epoch': 0.1}\n"
            "{'loss': '0', 'grad_norm': -inf, 'reward': -1, 'kl': tensor(0.5, device='cuda:0'), "
            "'mode': 'x', 'epoch': 0.2}",
        )
        assert run.format == "trl-console"
        assert math.isnan(values(run, "loss")[0] or 0)
        assert values(run, "loss")[1:] == [0.0]
        assert values(run, "grad/norm") == [math.inf, -math.inf]
        assert values(run, "reward/mean") == [None, -1.0]
        assert values(run, "kl/ref") == [0.25, 0.5]
        assert values(run, "entropy/mean") == [1.5]
        assert "raw/mode" not in run.names

    def test_progress_bars_on_the_same_line_tell_the_step(self, tmp_path: Path) -> None:
        bar = "\r {0}%|###   | {0}/200 [00:01<00:09,  1.2s/it]"
        text = "".join(
            bar.format(n) + ("\r        \r" + DICT % (n / 100, n / 200) + "\n" + bar.format(n) if n % 10 == 0 else "")
            for n in range(1, 41)
        )
        run = one(tmp_path, "Loading shards: 100%|###| 2/2 [00:00<00:00]\n" + text)
        assert steps(run) == [10, 20, 30, 40]
        assert any("progress bar" in note for note in run.notes)

    def test_a_bar_that_does_not_go_with_the_rows_is_not_believed(self, tmp_path: Path) -> None:
        rows = "".join(DICT % (n, n / 100) + "\n" for n in range(1, 5))
        assert steps(one(tmp_path, "12%|#   | 12/100 [00:01<00:09]\n" + rows)) == [1, 2, 3, 4]

    def test_colours_emoji_stack_traces_fences_and_other_dicts_are_passed_over(self, tmp_path: Path) -> None:
        text = (
            "```text\n\U0001f4ca Metrics\n\x1b[32m" + DICT % (1, 0.1) + "\x1b[0m\nTraceback (most recent call last):\n"
            "  File \"x.py\", line 3\nKeyError: {'a': 1}\n{'learning_rate': 1e-6, 'num_generations': 8}\n"
            "INFO:trainer: \U0001f600 " + DICT % (2, 0.2) + " done\n```\n(Worker pid=12) " + DICT % (3, 0.3)
        )
        assert values(one(tmp_path, text, "a.md"), "reward/mean") == [1.0, 2.0, 3.0]

    def test_a_dict_may_be_broken_over_lines_at_any_place(self, tmp_path: Path) -> None:
        text = DICT % (0.123456, 0.1)
        narrow = "\n".join(text[i : i + 17] for i in range(0, len(text), 17))
        pretty = json.dumps({"loss": 0.1, "reward": 0.5, "epoch": 0.2}, indent=2)
        run = one(tmp_path, f"begin\n{narrow}\nbetween {{'x': \n{pretty}\n")
        assert values(run, "reward/mean") == [0.123456, 0.5]

    def test_json_within_text_and_what_an_old_console_wraps(self, tmp_path: Path) -> None:
        run = one(tmp_path, 'INFO {"loss": 0.5, "reward": 1e-05, "step": 7} (rank 0)\n')
        assert (steps(run), values(run, "reward/mean")) == ([7], [1e-05])

    def test_what_a_model_wrote_is_no_row(self, tmp_path: Path) -> None:
        text = "Completion: the answer is {'reward': 1}\n" + DICT % (0.5, 0.1)
        assert values(one(tmp_path, text), "reward/mean") == [0.5]

    def test_the_summary_is_no_row_and_tells_the_spacing(self, tmp_path: Path) -> None:
        rows = "".join(DICT % (n, n / 100) + "\n" for n in range(1, 11))
        end = "{'train_runtime': 100.0, 'train_steps_per_second': 0.7, 'train_loss': 0.1, 'epoch': 0.1}"
        run = one(tmp_path, rows + end)
        assert steps(run) == [7 * n for n in range(1, 11)]
        assert values(run, "loss") == [0.1] * 10
        assert steps(one(tmp_path, rows + end, every=3))[-1] == 30

    def test_evaluations_go_with_the_step_before_them(self, tmp_path: Path) -> None:
        text = DICT % (1, 0.1) + "\n{'eval_loss': 0.3, 'eval_reward': 0.5, 'epoch': 0.1}\n" + DICT % (2, 0.2)
        run = one(tmp_path, text)
        assert steps(run) == [1, 2]
        assert (values(run, "eval/loss"), values(run, "eval/reward")) == ([0.3], [0.5])

    def test_ms_swift_tells_the_step_and_the_last_one(self, tmp_path: Path) -> None:
        rows = (
            f"{{'loss': 0.0, 'reward': {n}, 'global_step/max_steps': '{n}/3766', 'memory(GiB)': 21.9}}" for n in (5, 10)
        )
        run = one(tmp_path, "\n".join(rows))
        assert (run.framework, steps(run)) == ("ms-swift", [5, 10])


class TestTwoTrainings:
    def test_a_counter_that_starts_again_is_another_training(self, tmp_path: Path) -> None:
        text = "".join(DICT % (n, n / 10) + "\n" for n in (1, 2, 3, 1, 2))
        runs = read(tmp_path, text)
        assert [run.name for run in runs] == ["a#1", "a#2"]
        assert [values(run, "reward/mean") for run in runs] == [[1.0, 2.0, 3.0], [1.0, 2.0]]

    def test_a_counter_that_goes_back_is_a_resumed_one(self, tmp_path: Path) -> None:
        text = "".join(
            json.dumps({"step": s, "loss": 0.1, "reward": r}) + "\n"
            for s, r in [(1, 1), (2, 2), (3, 3), (4, 4), (3, 9)]
        )
        run = one(tmp_path, text)
        assert (steps(run), values(run, "reward/mean")) == ([1, 2, 3], [1.0, 2.0, 9.0])
        assert any("resumed" in note for note in run.notes)

    def test_two_writers_at_their_own_pace_are_one_training(self, tmp_path: Path) -> None:
        rows = [
            {"step": 1, "loss/mean": 1},
            {"step": 2, "loss/mean": 2},
            {"step": 1, "reward/mean": 5},
            {"step": 3, "loss/mean": 3},
        ]
        run = one(tmp_path, "\n".join(map(json.dumps, rows)))
        assert steps(run) == [1, 2, 3]
        assert run.records[0].metrics["raw/reward/mean"] == 5.0

    def test_a_row_of_a_step_that_was_logged_before_stands_and_is_noted(self, tmp_path: Path) -> None:
        run = one(tmp_path, "".join(json.dumps({"step": 0, "reward": r}) + "\n" for r in (1, 2)))
        assert values(run, "reward/mean") == [2.0]
        assert any("later values stand" in note for note in run.notes)


class TestVerl:
    CONFIG = (
        "(main_task pid=9) {'actor_rollout_ref': {'actor': {'loss_agg_mode': %r,\n(pid=7) noise {\n"
        "(main_task pid=9)     'ppo_epochs': 1}},\n(main_task pid=9)  'trainer': {'nnodes': 1, 'key': 'sk-secret'}}\n"
    )

    def test_a_line_a_step_with_colours_nuls_and_numpy(self, tmp_path: Path) -> None:
        text = (
            "NCCL \x00 noise\n\x1b[36m(TaskRunner pid=4)\x1b[0m "
            "step:0 - actor/entropy:0.5 - actor/pg_loss:np.float64(-1e-05)"
            " - critic/score/mean:-0.25 - actor/grad_norm:nan - val-core/x/reward/mean@1:np.float64(0.2)\n"
            "(TaskRunner pid=4) the sample says step: 1\n"
            "(TaskRunner pid=4) step:1 - actor/entropy:0.4 - actor/lr(1e-4):0.01\n"
        )
        run = one(tmp_path, text)
        assert (run.format, run.framework, steps(run)) == ("verl-console", "verl", [0, 1])
        first = run.records[0].metrics
        assert (first["loss"], first["reward/mean"]) == (-1e-05, -0.25)
        assert math.isnan(first["grad/norm"] or 0)
        assert first["eval/val-core/x/reward/mean@1"] == 0.2
        assert run.records[1].metrics["raw/actor/lr(1e-4)"] == 0.01

    def test_the_wrong_entropy_of_old_versions_stays_raw(self, tmp_path: Path) -> None:
        run = one(tmp_path, "step:3 - actor/entropy_loss:0.5 - critic/score/mean:1.0")
        assert run.names == ["raw/actor/entropy_loss", "reward/mean"]

    def test_the_configuration_before_it(self, tmp_path: Path) -> None:
        step = "(main_task pid=9) step:1 - actor/entropy:0.5 - critic/score/mean:1.0"
        run = one(tmp_path, self.CONFIG % "token-mean" + step)
        assert run.info["config"] == {
            "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
            "actor_rollout_ref.actor.ppo_epochs": 1,
            "trainer.nnodes": 1,
        }
        assert values(run, "entropy/mean") == [0.5]
        assert values(one(tmp_path, self.CONFIG % "seq-mean-token-sum" + step), "raw/actor/entropy") == [0.5]

    def test_file_logger(self, tmp_path: Path) -> None:
        run = one(
            tmp_path, '{"step":1,"data":{"actor/entropy":0.5}}\n{"step":2,"data":{"actor/entropy":NaN}}\n{"step":3,"da'
        )
        assert (run.format, steps(run)) == ("verl-jsonl", [1, 2])
        assert math.isnan(values(run, "entropy/mean")[1] or 0)
        assert "1 line without a step's data left out" in run.notes


class TestJson:
    ROWS = ({"step": 1, "loss": 0.5, "reward": 1}, {"step": 2, "loss": math.nan, "reward": None})

    @pytest.mark.parametrize(
        "shape",
        [
            list,
            lambda rows: {"history": list(rows), "config": {"lr": 1e-6}},
            lambda rows: {key: [row[key] for row in rows] for key in rows[0]},
            lambda rows: {key: {str(i): row[key] for i, row in enumerate(rows)} for key in rows[0]},
            lambda rows: {"columns": list(rows[0]), "index": [0, 1], "data": [list(row.values()) for row in rows]},
            lambda rows: {str(row["step"]): {"loss": row["loss"], "reward": row["reward"]} for row in rows},
        ],
        ids=["list", "history", "columns", "pandas", "split", "by step"],
    )
    def test_every_shape_of_a_document(self, tmp_path: Path, shape: Any) -> None:
        for indent in (None, 2):
            run = one(tmp_path, json.dumps(shape(self.ROWS), indent=indent), "a.json")
            assert steps(run) == [1, 2]
            assert values(run, "reward/mean") == [1.0, None]
            assert math.isnan(values(run, "loss")[1] or 0)

    def test_lines_with_others_between_them(self, tmp_path: Path) -> None:
        text = "\n".join(
            [json.dumps(self.ROWS[0]), "Traceback ...", "", json.dumps(self.ROWS[1]) + "  # cut", '{"step": 3, "lo']
        )
        run = one(tmp_path, text, "metrics.jsonl")
        assert (run.format, steps(run)) == ("jsonl", [1, 2])
        assert "2 lines that are no JSON left out" in run.notes

    def test_steps_times_and_nested_names(self, tmp_path: Path) -> None:
        rows = [
            {
                "train/global_step": 5,
                "_step": 99,
                "_timestamp": 1.7e9,
                "train/loss": 0.5,
                "train": {"rewards": {"f": {"mean": 2}}},
            },
            {"global_step": "6", "timestamp": "2025-01-01T00:00:00+00:00", "time": 3.5, "loss": 0.4},
        ]
        run = one(tmp_path, "\n".join(map(json.dumps, rows)), "a.jsonl")
        assert steps(run) == [5, 6]
        assert [record.time for record in run.records] == [1.7e9, 1735689600.0]
        assert run.records[0].metrics == {"loss": 0.5, "reward/f": 2.0}
        assert run.records[1].metrics == {"loss": 0.4, "raw/time": 3.5}

    def test_several_runs_in_one_object(self, tmp_path: Path) -> None:
        runs = read(tmp_path, json.dumps({"seed1": list(self.ROWS), "seed2": list(self.ROWS)}), "a.json")
        assert [run.name for run in runs] == ["seed1", "seed2"]

    def test_a_torn_document_is_read_up_to_there(self, tmp_path: Path) -> None:
        run = one(tmp_path, json.dumps(self.ROWS, indent=1)[:-20], "a.json")
        assert steps(run) == [1]
        assert any("broken in line" in note for note in run.notes)

    def test_a_configuration_is_no_log(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableError, match="no rows"):
            read(tmp_path, json.dumps({"hidden_size": 64, "learning_rate": 1e-6}), "config.json")


class TestTrainerState:
    def test_in_a_checkpoint(self, tmp_path: Path) -> None:
        history = [
            {"epoch": 0.1, "loss": 0.5, "step": 5},
            {"eval_loss": 0.4, "step": 5},
            {"train_runtime": 1.0, "step": 5},
        ]
        for number in (5, 40):
            folder = tmp_path / "out" / f"checkpoint-{number}"
            folder.mkdir(parents=True)
            state = {"global_step": 5, "log_history": history[: number // 5], "logging_steps": 5, "max_steps": 100}
            (folder / "trainer_state.json").write_text(json.dumps(state, indent=2))
        for path in (folder / "trainer_state.json", folder, tmp_path / "out"):
            (run,) = load(path)
            assert (run.name, steps(run), run.format) == ("out", [5], "trl-state")
            assert run.records[0].metrics == {"loss": 0.5, "raw/epoch": 0.1, "eval/loss": 0.4}
            assert run.info == {"config": {"max_steps": 100, "logging_steps": 5}, "global_step": 5}
        assert [path for path, _ in load_all([str(tmp_path)])] == [str(tmp_path / "out")]


class TestTables:
    def test_a_notebooks_table_as_csv(self, tmp_path: Path) -> None:
        text = "Step,Training Loss,reward,rewards / f / mean,rewards / f / std\r\n"
        text += "1,-0.000000,0.5,,0.1\r\n2,nan,None,0.25,0.1\r\n"
        run = one(tmp_path, text, "a.csv")
        assert (steps(run), run.format, run.framework) == ([1, 2], "csv", "trl")
        assert str(values(run, "loss")[0]) == "-0.0"
        assert math.isnan(values(run, "loss")[1] or 0)
        assert run.records[0].metrics.keys() == {"loss", "reward/mean", "raw/rewards/f/std"}
        assert values(run, "reward/mean") == [0.5, None]
        assert values(run, "reward/f") == [0.25]

    @pytest.mark.parametrize("separator", ["\t", ";", ","])
    def test_separators_quotes_and_text_columns(self, tmp_path: Path, separator: str) -> None:
        lines = [
            ["", "step", '"loss"', "note", "reward"],
            ["0", "1", "0.5", "fine", '"1.5"'],
            ["1", "2", "0.4", "", "2"],
        ]
        run = one(tmp_path, "# exported\n" + "\n".join(map(separator.join, lines)), "a.txt")
        assert (steps(run), run.names) == ([1, 2], ["loss", "reward/mean"])

    def test_decimal_commas(self, tmp_path: Path) -> None:
        assert values(one(tmp_path, "step;loss;kl\n1;0,5;-1,5e-3\n"), "loss") == [0.5]

    def test_wandbs_export_is_a_log_a_run(self, tmp_path: Path) -> None:
        text = (
            '"Step","a - b - train/reward","a - b - train/reward__MIN","a - b - train/reward__MAX","c - train/reward"\n'
            '"1","0.5","0.5","0.5",""\n"2","0.6","0.6","0.6","0.1"\n'
        )
        runs = read(tmp_path, text, "wandb_export.csv")
        assert [(run.name, steps(run), values(run, "reward/mean")) for run in runs] == [
            ("a - b", [1, 2], [0.5, 0.6]),
            ("c", [2], [0.1]),
        ]

    def test_a_table_of_something_else_is_no_log(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableError, match="none of its columns is a metric"):
            read(tmp_path, "id,price\n1,2\n2,3\n", "a.csv")


class TestNotebook:
    def notebook(self, *outputs: dict[str, Any]) -> str:
        return json.dumps(
            {"cells": [{"cell_type": "markdown", "source": []}, {"outputs": list(outputs)}], "nbformat": 4}
        )

    def test_the_trainers_table(self, tmp_path: Path) -> None:
        html = "<div><progress value='2'></progress></div><table>"
        html += "<thead><tr><th>Step</th><th>Training Loss</th><th>rewards / f</th>"
        html += "</tr></thead><tbody>"
        html += "<tr><td>1</td><td>-0.000000</td><td>0.5</td></tr><tr><td>2</td><td>No log</td><td>0.6</td></tr>"
        run = one(tmp_path, self.notebook({"data": {"text/html": [html[:60], html[60:]]}}), "a.ipynb")
        assert (steps(run), run.format) == ([1, 2], "notebook")
        assert (values(run, "loss"), values(run, "reward/f")) == ([-0.0], [0.5, 0.6])

    def test_what_it_printed(self, tmp_path: Path) -> None:
        text = self.notebook(
            {"text": [DICT % (1, 0.1) + "\n", DICT % (2, 0.2)]}, {"data": {"text/plain": DICT % (3, 0.3)}}
        )
        assert values(one(tmp_path, text, "a.ipynb"), "reward/mean") == [1.0, 2.0, 3.0]


class TestPasted:
    @pytest.mark.parametrize(
        "text",
        [
            "Like this:\nStep  Training Loss  kl\n---------\n1     0.5            -1e-3\n2     0.4            nan\n",
            "| Step | Training Loss | kl |\n|-----:|:----:|---|\n| 1 | 0.5 | -1e-3 |\n| 2 | **0.4** | nan |",
            "│ Step ┃ Training Loss ┃ kl │\n┗━━━┛\n│ 1 │ 0.5 │ -1e-3 │\n│ 2 │ 0.4 │ nan │",
            "step 1: loss 0.5 kl -1e-3\nstep 2: loss 0.4 kl nan\n",
            "step=1, loss=0.5, kl=-1e-3\nstep=2, loss=0.4, kl=nan\n",
        ],
        ids=["aligned", "markdown", "drawn", "pairs", "equals"],
    )
    def test_a_table_or_pairs(self, tmp_path: Path, text: str) -> None:
        run = one(tmp_path, text, "a.txt")
        assert (run.format, steps(run)) == ("pasted", [1, 2])
        assert values(run, "loss") == [0.5, 0.4]
        kl = "kl/ref" if "Training" in text else "raw/kl"  # else nobody knows whose it is
        assert values(run, kl)[0] == -1e-3
        assert math.isnan(values(run, kl)[1] or 0)

    def test_one_line_with_asides(self, tmp_path: Path) -> None:
        run = one(
            tmp_path, "train/sampling_importance_ratio 0.06 (vs 1.0 without); gen_kl_error: 0.002; loss=-1.7e-4\n"
        )
        assert run.framework == "nemo-rl"
        assert run.records[0].metrics == {"sampler/ratio_mean": 0.06, "raw/gen_kl_error": 0.002, "loss": -1.7e-4}

    def test_a_name_a_line(self, tmp_path: Path) -> None:
        run = one(tmp_path, "loss: 0.5\ngrad_norm: 0.1\nmean_reward: 1\n")
        assert run.records[0].metrics == {"loss": 0.5, "grad/norm": 0.1, "reward/mean": 1.0}

    def test_a_sentence_with_numbers_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableError):
            read(tmp_path, "The reward was 0.9 to begin with, and fell to 0.0 after some 100 steps of training.\n")


class TestEncodings:
    TEXT = "".join(DICT % (n, n / 10) + "\n" for n in (1, 2))

    def test_of_any_kind(self, tmp_path: Path) -> None:
        zstandard = pytest.importorskip("zstandard")
        crlf = self.TEXT.replace("\n", "\r\n").encode()
        for name, data in {
            "utf16.log": ("Größe \U0001f600\n" + self.TEXT).encode("utf-16"),
            "bom.log": b"\xef\xbb\xbf" + crlf,
            "latin.log": "Größe\n".encode("latin-1") + crlf,
            "a.log.gz": gzip.compress(crlf),
            "a.log.zst": zstandard.ZstdCompressor().compress(crlf),
            "nul.log": b"\0" + crlf,
        }.items():
            run = one(tmp_path, data, name)
            assert values(run, "reward/mean") == [1.0, 2.0], name
            assert run.name == name.partition(".")[0]

    def test_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(gzip.compress(self.TEXT.encode()))))
        (run,) = load("-")
        assert (run.name, values(run, "reward/mean")) == ("stdin", [1.0, 2.0])
