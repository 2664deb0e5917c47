"""`rlwatch analyze`: any log, read and judged by the rules that judge a live run."""

from __future__ import annotations

import csv
import gzip
import json
import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rlwatch
from rlwatch.cli import app
from rlwatch.readers import Options, UnreadableError
from rlwatch.report.analysis import analyze_run
from rlwatch.report.follow import Follower, follow
from rlwatch.report.waste import waste_of
from rlwatch.runs.reader import read_alerts, read_info, read_records
from rlwatch.runs.records import Alert, AlertState, Run, Severity, StepRecord

SHARED = Path(__file__).parents[2] / "shared" / "runs"
RUNNER = CliRunner()


def row(step: int, reward: float, **more: Any) -> dict[str, Any]:
    """One row of TRL's log."""
    noise = 0.02 * math.sin(7 * step)
    return {
        "loss": 0.01,
        "grad_norm": 0.5,
        "reward": reward + noise,
        "reward_std": 0.3,
        "kl": 0.01,
        "step": step,
        **more,
    }


def collapsing(steps: int = 200, at: int = 100) -> list[dict[str, Any]]:
    return [row(s, 0.8 if s < at else 0.02, entropy=0.5) for s in range(1, steps + 1)]


def healthy(steps: int = 200) -> list[dict[str, Any]]:
    return [row(s, 0.2 + 0.6 * s / steps, entropy=0.5) for s in range(1, steps + 1)]


def log(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def report(*arguments: str, code: int) -> dict[str, Any]:
    result = RUNNER.invoke(app, ["analyze", *arguments, "--format", "json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_a_collapse_is_found_with_its_step_and_the_exit_code_says_so(tmp_path: Path) -> None:
    found = report(str(log(tmp_path / "bad.jsonl", collapsing())), code=1)
    [run] = found["runs"]
    assert (found["schema"], found["unreadable"]) == (1, [])
    assert (run["run"], run["framework"], run["records"]) == ("bad", "trl", 200)
    assert (run["first_step"], run["last_step"], run["verdict"]) == (1, 200, "failed")
    [alert] = [a for a in run["alerts"] if a["severity"] == "critical"]
    assert alert["rule"] == "reward-collapse"
    assert 100 <= alert["since"] <= alert["step"] <= 130
    assert alert["causes"]
    assert alert["advice"][0]["source"]
    assert "set log_completions=True" in run["unchecked"]["dead-groups"]
    assert {"reward/mean", "entropy/mean", "grad/norm"} <= set(run["metrics"])


def test_a_healthy_run_is_healthy(tmp_path: Path) -> None:
    [run] = report(str(log(tmp_path / "good.jsonl", healthy())), code=0)["runs"]
    assert (run["verdict"], run["alerts"]) == ("healthy", [])


def test_too_little_is_insufficient_and_not_healthy(tmp_path: Path) -> None:
    [run] = report(str(log(tmp_path / "short.jsonl", healthy(200)[:5])), code=0)["runs"]
    assert run["verdict"] == "insufficient"


def test_a_run_that_recovered_is_degraded_and_its_alert_keeps_the_step_at_which_it_was_told(tmp_path: Path) -> None:
    rows = [row(s, 0.02 if 100 <= s < 150 else 0.8) for s in range(1, 301)]
    [run] = report(str(log(tmp_path / "back.jsonl", rows)), code=1)["runs"]
    assert run["verdict"] == "degraded"
    [alert] = [a for a in run["alerts"] if a["severity"] != "info"]
    assert (alert["rule"], alert["state"]) == ("reward-collapse", "resolved")
    assert alert["step"] < 150 <= alert["resolved_step"]
    assert [c["state"] for c in run["timeline"] if c["rule"] == "reward-collapse"][-1] == "resolved"


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 0), ("warning", 1), ("info", 1)])
def test_fail_on(fail_on: str, code: int, tmp_path: Path) -> None:
    rows = [row(s, 0.8 if s < 100 else 0.45) for s in range(1, 301)]  # half of the best: a warning, perhaps
    path = log(tmp_path / "warn.jsonl", rows)
    [analysis] = rlwatch.analyze(path)
    assert analysis.worst is Severity.WARNING, [a.message for a in analysis.alerts]
    assert RUNNER.invoke(app, ["analyze", str(path), "--fail-on", fail_on]).exit_code == code


def test_since_step_tells_nothing_of_earlier_steps(tmp_path: Path) -> None:
    rows = [row(s, 0.02 if 100 <= s < 150 else 0.8) for s in range(1, 301)]
    path = str(log(tmp_path / "back.jsonl", rows))
    assert report(path, "--since-step", "250", code=0)["runs"][0]["alerts"] == []
    assert report(path, "--since-step", "110", code=1)["runs"][0]["alerts"] != []


def test_what_cannot_be_read_is_told_and_the_others_still_are_read(tmp_path: Path) -> None:
    log(tmp_path / "good.jsonl", healthy())
    (tmp_path / "image.dat").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "empty.log").write_text("")
    found = report(str(tmp_path), code=2)
    assert [run["run"] for run in found["runs"]] == ["good"]
    assert {Path(item["path"]).name for item in found["unreadable"]} == {"image.dat", "empty.log"}
    assert all(item["why"] for item in found["unreadable"])


def test_a_path_that_is_not_there_is_said_without_a_traceback(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["analyze", str(tmp_path / "nothing.log")])
    assert result.exit_code == 2
    assert "nothing.log: there is no such file" in result.stderr
    assert "Traceback" not in result.output


def test_standard_input_and_compressed_files(tmp_path: Path) -> None:
    path = log(tmp_path / "bad.jsonl", collapsing())
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert report(str(packed), code=1)["runs"][0]["run"] == "packed"
    done = subprocess.run(
        [sys.executable, "-m", "rlwatch", "analyze", "-", "--format", "json"],
        input=path.read_bytes(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["runs"][0]["verdict"] == "failed"


def test_rows_without_a_step_are_numbered_as_one_says(tmp_path: Path) -> None:
    rows = [{k: v for k, v in r.items() if k != "step"} for r in collapsing(40, at=20)]
    path = str(log(tmp_path / "bad.jsonl", rows))
    [run] = report(path, "--every", "10", code=1)["runs"]
    assert (run["first_step"], run["last_step"]) == (10, 400)
    assert any("the rows carry no step" in note for note in run["notes"])


@pytest.mark.parametrize(
    "wrong", [["--format", "xml"], ["--fail-on", "never"], ["--set", "other=1"], ["--set", "correct"]]
)
def test_a_wrong_option_says_what_there_is(wrong: list[str], tmp_path: Path) -> None:
    path = log(tmp_path / "good.jsonl", healthy())
    result = RUNNER.invoke(app, ["analyze", str(path), *wrong])
    assert result.exit_code == 2
    assert "there is " in result.stderr


def test_the_text_report_says_what_when_why_what_to_try_and_what_it_could_not_see(tmp_path: Path) -> None:
    path = log(tmp_path / "bad.jsonl", collapsing())
    text = RUNNER.invoke(app, ["analyze", str(path)]).stdout
    for part in ("Failed", "reward-collapse", "since step 1", "Why", "Try", "What this log cannot show", "dead-groups"):
        assert part in text, part


def test_a_folder_is_a_table_with_the_worst_first(tmp_path: Path) -> None:
    log(tmp_path / "a-good.jsonl", healthy())
    log(tmp_path / "b-bad.jsonl", collapsing())
    text = RUNNER.invoke(app, ["analyze", str(tmp_path)]).stdout
    assert text.index("b-bad") < text.index("a-good")
    assert "2 runs: 1 failed, 1 healthy." in text


def test_a_report_can_go_to_a_file(tmp_path: Path) -> None:
    path, out = log(tmp_path / "bad.jsonl", collapsing()), tmp_path / "report.txt"
    assert RUNNER.invoke(app, ["analyze", str(path), "-o", str(out)]).exit_code == 1
    assert "reward-collapse" in out.read_text()
    assert RUNNER.invoke(app, ["analyze", str(path), "-o", str(tmp_path / "no" / "x")]).exit_code == 2


def test_it_starts_without_torch_wandb_or_dash(tmp_path: Path) -> None:
    path = log(tmp_path / "good.jsonl", healthy())
    code = (
        "import sys; from rlwatch.cli import app; from typer.testing import CliRunner;"
        f"r = CliRunner().invoke(app, ['analyze', {str(path)!r}]); assert r.exit_code == 0, r.output;"
        "assert not {'torch', 'wandb', 'dash', 'transformers', 'plotly', 'tensorboard'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# The same as objects.


def test_analyze_and_load_give_objects(tmp_path: Path) -> None:
    path = log(tmp_path / "bad.jsonl", collapsing())
    [analysis] = rlwatch.analyze(path)
    assert analysis.verdict == "failed"
    assert analysis.alerts[0].rule == "reward-collapse"
    frame = rlwatch.load(path).metrics
    assert frame["step"].to_list() == list(range(1, 201))
    assert frame["reward/mean"][0] == pytest.approx(0.8 + 0.02 * math.sin(7))
    assert frame["time"].null_count() == 200 or frame["time"].is_nan().all()
    with pytest.raises(UnreadableError, match="no such file"):
        rlwatch.load(tmp_path / "nothing")
    with pytest.raises(UnreadableError):
        rlwatch.analyze(tmp_path / "nothing")


def test_a_replay_gives_the_alerts_that_were_told_live(make_trainer: Any, tmp_path: Path) -> None:
    """A real training whose reward falls to nothing, watched; and its run directory, analysed."""
    calls = []

    def falling(completions: list[str], **_: Any) -> list[float]:
        calls.append(1)
        return [float(index % 2) if len(calls) < 30 else 0.0 for index in range(len(completions))]

    watcher = rlwatch.RLWatchCallback(tmp_path / "runs")
    make_trainer(
        callbacks=[watcher], reward_funcs=[falling], max_steps=60, gradient_accumulation_steps=1, learning_rate=1e-5
    ).train()
    assert watcher.run_dir is not None
    live = read_alerts(watcher.run_dir).items
    [analysis] = rlwatch.analyze(watcher.run_dir)
    assert [(c.rule, c.severity, c.state, c.since, c.step) for c in analysis.changes] == [
        (c.rule, c.severity, c.state, c.since, c.step) for c in live
    ]
    assert analysis.verdict == "failed"
    assert set(analysis.unchecked) == {"sampler-mismatch", "kl-runaway"}, "it samples by itself, and has no reference"
    assert analysis.waste is not None
    assert analysis.waste.tokens is not None


# What was wasted.


def of(*metrics: dict[str, float], config: dict[str, Any] | None = None) -> Run:
    records = [StepRecord(i + 1, 0.0, m) for i, m in enumerate(metrics)]
    return Run("r", "r", "test", None, records, {"config": config or {}})


def test_waste_is_weighted_by_tokens_and_priced_by_time() -> None:
    run = of(
        {"groups/wasted_tokens": 0.5, "length/mean": 100.0, "step_seconds": 10.0},
        {"groups/wasted_tokens": 1.0, "length/mean": 300.0, "step_seconds": 30.0},
        config={"generation_batch_size": 8, "steps_per_generation": 2, "gradient_accumulation_steps": 2},
    )
    waste = waste_of(run)
    assert waste is not None
    assert waste.share == pytest.approx((0.5 * 100 + 1.0 * 300) / 400)
    assert waste.tokens == 8 * (0.5 * 100 + 1.0 * 300)
    assert waste.seconds == 0.5 * 10 + 30
    assert waste.money(3.6, 2) == pytest.approx(35 / 3600 * 3.6 * 2)


def test_without_tokens_the_share_is_of_groups_and_without_times_nothing_is_priced() -> None:
    waste = waste_of(of({"groups/zero_std": 0.25}, {"groups/zero_std": 0.75}))
    assert waste is not None
    assert (waste.share, waste.by_groups, waste.tokens, waste.money(1.0, 1)) == (0.5, True, None, None)
    assert waste_of(of({"reward/mean": 1.0})) is None


# A growing log.


def test_a_growing_log_is_judged_as_it_grows_and_kept_for_the_page(tmp_path: Path) -> None:
    path, told = tmp_path / "train.log", list[Alert]()
    rows = [f"{r!r}\n" for r in collapsing()]
    path.write_text("starting\n")
    follower = Follower(path, Options(), into=tmp_path / "runs", tell=told.append)
    with pytest.raises(UnreadableError):
        follower.look()
    for end in (30, 90, 130, 200):
        path.write_text("starting\n" + "".join(rows[:end]))
        follower.look()
        assert follower.look() == 0, "nothing new"
        assert bool(told) == (end > 120)
    follower.finish()
    assert follower.run_dir is not None
    assert [record.step for record in read_records(follower.run_dir).items] == list(range(1, 201))
    [analysis] = rlwatch.analyze(path)
    kept = read_alerts(follower.run_dir).items
    assert [(c.rule, c.since, c.step) for c in kept] == [(c.rule, c.since, c.step) for c in analysis.changes]
    assert read_info(follower.run_dir)["trainer"] == "followed from trl-console"


def test_a_training_that_begins_again_in_the_file_is_a_run_of_its_own(tmp_path: Path) -> None:
    path = log(tmp_path / "train.jsonl", healthy(50))
    follower = Follower(path, Options(), into=tmp_path / "runs", tell=lambda _: None)
    follower.look()
    first = follower.run_dir
    log(path, [*healthy(50), *healthy(60)])
    follower.look()
    follower.finish()
    assert first != follower.run_dir
    assert len(read_records(follower.run_dir).items) == 60  # type: ignore[arg-type]
    assert "ended" in read_info(first)  # type: ignore[arg-type]


def test_following_stops_when_asked_and_the_file_has_to_be_there(tmp_path: Path) -> None:
    path = log(tmp_path / "train.jsonl", healthy(50))
    stop = threading.Event()
    follower = Follower(path, Options(), into=None, tell=lambda _: None)
    judged = []
    for count in follow(follower, until=stop.is_set):
        judged.append(count)
        stop.set()
    assert judged == [49]
    assert follower.finish() == 1
    assert follower.run_dir is None
    with pytest.raises(UnreadableError, match="no such file"):
        next(follow(Follower(tmp_path / "nothing", Options(), into=None, tell=lambda _: None)))


LABELS = (
    list(csv.DictReader((SHARED / "labels.tsv").read_text().splitlines(), delimiter="\t")) if SHARED.exists() else []
)


@pytest.fixture(scope="module")
def alerts_of_real_runs() -> dict[str, list[dict[str, Any]]]:
    """By path; what is in one file is together."""
    found: dict[str, list[dict[str, Any]]] = {}
    judged = report(str(SHARED), code=1)
    assert judged["unreadable"] == []
    for run in judged["runs"]:
        mine = found.setdefault(str(Path(run["path"]).relative_to(SHARED)), [])
        mine += [{**alert, "records": run["records"]} for alert in run["alerts"]]
    return found


@pytest.mark.skipif(not SHARED.exists(), reason="the folder of real runs is not here")
@pytest.mark.parametrize("label", LABELS, ids=[label["path"] for label in LABELS])
def test_a_real_run_is_judged_as_it_went(
    label: dict[str, str], alerts_of_real_runs: dict[str, list[dict[str, Any]]]
) -> None:
    alerts = alerts_of_real_runs[label["path"]]
    critical = [alert for alert in alerts if alert["severity"] == "critical"]
    right = [alert for alert in alerts if alert["rule"] == label["failure"]]
    every, event = int(label["every"]), label["event_step"]
    if label["label"] == "survived":
        assert critical == []
    elif label["label"] == "collapsed":
        assert min(a["step"] for a in right if a in critical) <= int(event) + every
    elif label["label"] in ("dead", "misconfigured"):
        assert any(a["step"] <= 20 * every or a["records"] < 20 for a in right if a["severity"] != "info")


def test_verdicts_cover_alerts_that_are_over(tmp_path: Path) -> None:
    run = of(*({"reward/mean": 0.5, "entropy/mean": 0.5} for _ in range(50)))
    analysis = analyze_run(run)
    assert analysis.verdict == "healthy"
    assert analysis.worst is None
    assert all(alert.state is AlertState.FIRING for alert in analysis.alerts)
