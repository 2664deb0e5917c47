"""Many trainings and the report of them: real short ones, what is there already, what was left, what files say."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlwatch.alerts.configured import VARIABLES, channels
from rlwatch.cli import app
from rlwatch.lab.campaign import ASIDE, MARK, Job, is_done, jobs_of, tell_nobody, train_all
from rlwatch.lab.experiments import MODULES, find
from rlwatch.lab.findings import document
from rlwatch.lab.findings_charts import reward_for_tokens, timeline
from rlwatch.lab.findings_files import as_html, as_markdown, write
from rlwatch.lab.outcome import outcome
from rlwatch.runs.reader import list_runs, read_records
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord
from rlwatch.runs.writer import RunWriter

DEAD = "groups/failed"


# --- experiments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(MODULES))
def test_what_an_experiment_says_fits_together(name: str) -> None:
    experiment = find(name)
    assert experiment.name == name
    arms, measures = {arm.name for arm in experiment.arms}, {measure.name for measure in experiment.measures}
    assert len(arms) == len(experiment.arms)
    assert set(experiment.short) <= arms
    assert {*experiment.chain, *([experiment.event] if experiment.event else [])} <= measures
    for claim in experiment.claims:
        assert claim.measure in measures
        assert claim.arms()
        assert claim.arms() <= arms
        assert (len(claim.arms()) > 1) == (claim.kind in ("more", "less", "sooner", "same"))
        assert not (claim.weights and claim.arm), "a contrast, or two arms"
        assert experiment.measure(claim.measure).is_time == (claim.kind == "sooner")
    assert any(claim.where for claim in experiment.claims), "where does it vanish?"
    assert not any(arm.fires and arm.quiet for arm in experiment.arms)
    for measure in experiment.measures:
        assert measure.of([]) is None


def test_an_arm_for_which_fewer_steps_are_enough_has_them() -> None:
    jobs = jobs_of(find("failure-room"), ["tight", "one-update-tight"], [0], 480)
    assert [job.steps for job in jobs] == [480, 120]
    assert [job.steps for job in jobs_of(find("failure-room"), ["tight", "one-update-tight"], [0], 32)] == [32, 32]


def test_what_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="'nothing'; there is: failure-room"):
        find("nothing")
    with pytest.raises(ValueError, match="no arm 'nothing': there are tight"):
        jobs_of(find("failure-room"), ["nothing"], [0], 16)


def test_a_report_that_could_not_be_written_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["lab", "mismatch", "--seeds", "1", "--out", str(tmp_path / "runs")])
    assert done.exit_code == 2
    assert "pip install 'rlwatch-monitor[dashboard]'" in done.output
    assert not (tmp_path / "runs").exists()


def test_nobody_is_told_of_trainings_that_fail_on_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "https://hooks.example.com/x" if "COMMAND" not in name else "false")
    assert [channel.name for channel in channels() if channel.active]
    tell_nobody()
    assert not [channel.name for channel in channels() if channel.active]


# --- outcomes, from runs made up to the step ------------------------------------------------------------------------


def made_up(root: Path, job: Job, *, dies_at: int | None, warned: int | None, reward: float) -> None:
    """A run of the failure room whose groups are dead from a step on, with an alert."""
    path = root / job.name
    path.mkdir(parents=True)
    writer = RunWriter(path, {})
    for step in range(1, job.steps + 1):
        is_dead = dies_at is not None and step >= dies_at
        metrics = {
            "reward/mean": reward + 0.01 * job.seed,
            "tokens/total": 10.0 * step + job.seed,
            "entropy/mean": 0.1 if dies_at is not None and step >= dies_at - 8 else 1.0,
            "groups/unique": 0.05 if is_dead else 0.5,
            DEAD: 0.9 if is_dead else 0.1,
            "groups/stuck": 0.0,
            "signal/abs_advantage": 0.05 if is_dead else 0.8,
            "loss": 0.001 if is_dead else 0.02,
            "clip/high_rare": 0.1,
        }
        writer.append(StepRecord(step, float(step), metrics))
    if warned is not None:
        for severity, step in ((Severity.WARNING, warned), (Severity.CRITICAL, warned + 10)):
            writer.alert(
                Alert("dead-groups", severity, AlertState.FIRING, since=warned, step=step, time=0.0, value=0.9,
                      reference=None, message="dead")
            )  # fmt: skip
    (path / MARK).write_text(json.dumps({"job": {}, "seconds": 9.0 + job.seed, "versions": {"trl": "1.16"}}))


@pytest.fixture
def runs(tmp_path: Path) -> list[Job]:
    jobs = jobs_of(find("failure-room"), ["tight", "symmetric", "wide"], range(5), 100)
    for job in jobs:
        dies = {"tight": 40 + job.seed, "symmetric": 80 if job.seed == 1 else None, "wide": None}[job.arm]
        warned = {"tight": 30, "symmetric": None, "wide": None}[job.arm]
        made_up(
            tmp_path, job, dies_at=dies, warned=warned, reward={"tight": 0.5, "symmetric": 0.7, "wide": 0.9}[job.arm]
        )
    return jobs


def test_what_came_of_the_runs(tmp_path: Path, runs: list[Job]) -> None:
    found = outcome(find("failure-room"), tmp_path, runs)
    assert found.arms() == ["tight", "symmetric", "wide"]
    verdicts = {one.claim.says: one.verdict.value for one in found.judged}
    assert verdicts == {
        "the tight clip halves entropy sooner than the symmetric one": "shown",
        "the tight clip kills the groups sooner than the symmetric one": "shown",
        "the symmetric clip kills the groups sooner than the wide one": "not shown",
        "the tight clip earns less than the symmetric one": "shown",
    }
    tight = [told for told in found.told if told.arm == "tight"]
    assert [told.event for told in tight] == [40, 41, 42, 43, 44]
    assert [told.lead for told in tight] == [10, 11, 12, 13, 14]
    assert {(told.rule, told.warned, told.critical, told.others) for told in tight} == {("dead-groups", 30, 40, ())}
    assert [(told.shown, told.in_time) for told in tight] == [(None, True)] * 5
    shown = [dataclasses.replace(tight[0], shown=step).in_time for step in (29.0, 30.0)]
    assert shown == [False, True]
    assert not dataclasses.replace(tight[0], warned=None).in_time
    links = found.chain["tight"]
    # Means of eight rows: of entropy and distinct completions five have to be low, of the others seven.
    assert [link.middle for link in links] == [1, 38, 46, 48, 48, 48]
    assert [(link.after, link.both) for link in links[1:]] == [(5, 5), (5, 5), (5, 5), (5, 5), (5, 5)]
    steps, values = found.curves["reward/mean"]["wide"]
    assert steps == list(range(1, 101))
    assert values[0] == pytest.approx([0.9, 0.91, 0.92, 0.93, 0.94])


def test_the_report_says_what_so_few_seeds_cannot_show(tmp_path: Path, runs: list[Job]) -> None:
    experiment = find("failure-room")
    weak = dataclasses.replace(
        experiment, claims=(dataclasses.replace(experiment.claims[3], arm="tight", than="symmetric"),)
    )
    for job in runs:  # a difference that four seeds of five show
        if job.arm == "symmetric" and job.seed == 2:
            (tmp_path / job.name / "metrics.rank0.jsonl").unlink()
            writer = RunWriter(tmp_path / job.name, {})
            writer.append(StepRecord(100, 1.0, {"reward/mean": 0.3}))
    found = outcome(weak, tmp_path, runs)
    text = as_markdown(found, document(found, "rlwatch lab failure-room"))
    assert re.search(
        r"Not shown: the tight clip earns less .* \d+ seeds would show it four times of five; there were 5", text
    )
    assert "1 claim on 15 runs with 5 seeds: 0 shown, 1 not shown, 0 reversed" in text


def test_the_files_hold_the_numbers_and_the_command(tmp_path: Path, runs: list[Job]) -> None:
    found = outcome(find("failure-room"), tmp_path, runs)
    sections = document(found, "rlwatch lab failure-room --seeds 5")
    page, text, numbers = write(tmp_path, found, sections)
    said = json.loads(numbers.read_text())
    assert [run["numbers"]["failed"] for run in said["runs"] if run["arm"] == "tight"] == [40, 41, 42, 43, 44]
    assert said["claims"][0]["verdict"] == "shown"
    body = text.read_text()
    assert "Command: rlwatch lab failure-room --seeds 5" in body
    assert "| tight | 5 of 5 | 5 of 5, dead-groups | never | 5 of 5 | median 12, 10 to 14 | none |" in body
    assert "rare tokens clipped up → entropy halved → completions alike" in body
    assert "A run took 11 s (9 to 13) on one core" in body
    earned = reward_for_tokens(found)[0]
    assert [curve.label for curve in earned.curves] == ["tight", "symmetric", "wide"]
    assert (earned.curves[2].x[:2], earned.curves[2].y[:2]) == ([12, 22], [0.92, 0.92])
    chain = timeline(found)
    medians = chain.curves[0]
    assert (medians.label, medians.x) == ("tight", [1, 38, 46, 48, 48, 48])
    assert [round(y) for y in medians.y] == list(range(6)), "a row a link"
    assert [curve.x for curve in chain.curves if curve.place == 0][2] == [36, 40], "from the first seed to the last"
    html = page.read_text()
    assert "default-src 'none'" in html
    assert html.count('class="plot"') == 1 + 1 + 5 + 1, "the chain, the survival, five metrics, the reward for tokens"
    assert list_runs(tmp_path)[1] == [], "reports are no runs, and none of their business"
    assert as_html(found, sections) == html


def test_a_silent_failure_and_a_loud_healthy_run_are_said(tmp_path: Path) -> None:
    jobs = jobs_of(find("failure-room"), ["tight", "wide"], [0, 1], 100)
    for job in jobs:
        is_wide = job.arm == "wide"
        made_up(tmp_path, job, dies_at=None if is_wide else 50, warned=20 if is_wide else None, reward=0.5)
    found = outcome(find("failure-room"), tmp_path, jobs)
    text = as_markdown(found, document(found, "x"))
    assert "tight: nothing was told of 2 runs that failed." in text
    assert "wide: a critical alert in 2 of 2 runs that should have been quiet." in text
    assert (
        "| wide (to be quiet) | 0 of 2 | – | – | – | – | dead-groups at 30 (seed 0), dead-groups at 30 (seed 1) |"
        in text
    )


def test_a_run_that_falls_in_an_arm_that_was_to_be_quiet_has_failed(tmp_path: Path) -> None:
    jobs = jobs_of(find("failure-room"), ["wide"], [0, 1, 2], 100)
    for job in jobs:
        made_up(tmp_path, job, dies_at=None, warned=None, reward=0.9)
    for seed, falls in ((0, 61), (1, 93)):  # for good, and for the last rollout of eight updates
        path = tmp_path / jobs[seed].name
        (path / "metrics.rank0.jsonl").unlink()
        writer = RunWriter(path, {})
        for step in range(1, 101):
            metrics = {"reward/mean": 0.9 if step < falls else 0.3, "rollouts/age": (step - 1) % 8, "tokens/total": 1.0}
            writer.append(StepRecord(step, 0.0, metrics))
        for step, severity in ((70, Severity.WARNING), (75, Severity.CRITICAL)):
            if seed == 0:
                writer.alert(
                    Alert("reward-collapse", severity, AlertState.FIRING, since=step, step=step, time=0.0, value=0.3,
                          reference=None, message="gone")
                )  # fmt: skip
    found = outcome(find("failure-room"), tmp_path, jobs)
    assert [(told.fell, told.fall_told) for told in found.told] == [(89, 70), (None, None), (None, None)]
    assert found.told[1].shown == 96, "its last rows say so, and they are one rollout's"
    text = as_markdown(found, document(found, "x"))
    assert (
        "wide: 1 of 3 runs failed that should not have: over eight rollouts the reward lost a third of its best "
        "(seed 0 by step 89, told of at step 70)." in text
    )
    assert "should have been quiet" not in text


# --- real trainings -------------------------------------------------------------------------------------------------


def test_runs_are_made_once_and_what_was_left_is_set_aside(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    left = tmp_path / "mismatch-noise-seed0"
    left.mkdir()
    (left / "run.json").write_text("{}")
    arguments = ["lab", "mismatch", "--seeds", "1", "--steps", "16", "--arms", "noise,same", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*arguments, "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "2 of 2 runs are done" in done.output
    assert (tmp_path / ASIDE / "unfinished" / left.name / "run.json").read_text() == "{}"
    jobs = [Job("mismatch", arm, 0, 16) for arm in ("noise", "same")]
    assert all(is_done(tmp_path, job) for job in jobs)
    assert not is_done(tmp_path, dataclasses.replace(jobs[0], steps=17)), "another number of steps is another run"
    before = {job.name: [record.metrics for record in read_records(tmp_path / job.name).items] for job in jobs}
    assert [len(records) for records in before.values()] == [16, 16]

    stamps = {path: path.stat().st_mtime_ns for job in jobs for path in (tmp_path / job.name).rglob("*")}
    assert train_all(tmp_path, jobs, workers=2) == []
    assert {path: path.stat().st_mtime_ns for job in jobs for path in (tmp_path / job.name).rglob("*")} == stamps

    (tmp_path / jobs[0].name / MARK).unlink()  # as if it had been killed
    assert train_all(tmp_path, jobs[:1], workers=1) == []
    again = [record.metrics for record in read_records(tmp_path / jobs[0].name).items]
    assert [{k: v for k, v in m.items() if k != "step_seconds"} for m in again] == [
        {k: v for k, v in m.items() if k != "step_seconds"} for m in before[jobs[0].name]
    ], "the same seed gives the same numbers, in another process too"
    assert (tmp_path / "_reports" / "mismatch.html").is_file()


def test_a_training_that_fails_is_named(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    (tmp_path / ASIDE).write_text("a file where the first policies are to be kept")
    arguments = ["lab", "mismatch", "--seeds", "1", "--steps", "16", "--arms", "same", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert "mismatch-same-seed0 failed: " in done.output
    assert "1 of the trainings failed; the same command goes on with them" in done.output
    assert not (tmp_path / "_reports").exists()
