"""The scores of the rules' benchmark count what they should, and its program prints and writes them."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rlwatch.runs.records import Run, StepRecord

FOLDER = Path(__file__).parents[1] / "benchmarks"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


detectors = module("detectors")
Alarm, Case, score = detectors.Alarm, detectors.Case, detectors.score


FAILS = Case("x", "x", ("dead-groups", "entropy-collapse"), 400, onset=50, event=100, due=105, cause="alike")


def test_the_first_alarm_of_a_right_rule_tells_of_it_and_the_first_critical_one_finds_it() -> None:
    alarms = [
        Alarm("entropy-collapse", 60, critical=False),
        Alarm("reward-collapse", 70),
        Alarm("dead-groups", 90, cause="siblings are alike"),
        Alarm("entropy-collapse", 95, cause="other"),
    ]
    judged = score(FAILS, reversed(alarms))
    assert (judged.told, judged.found, judged.severe, judged.lead, judged.named) == (True, True, True, 40, True)
    assert judged.false == 0


@pytest.mark.parametrize(("step", "in_time", "lead"), [(100, True, 0), (105, True, -5), (106, False, -6)])
def test_it_is_in_time_up_to_the_step_at_which_it_is_due(step: int, in_time: bool, lead: int) -> None:
    judged = score(FAILS, [Alarm("dead-groups", step)])
    assert (judged.told, judged.severe, judged.found, judged.lead, judged.named) == (in_time, in_time, True, lead, None)
    late = score(FAILS, [Alarm("dead-groups", 100, critical=False), Alarm("dead-groups", 106)])
    assert (late.told, late.severe, late.found, late.lead) == (True, False, True, 0), "a warning came in time"


def test_an_alarm_before_anything_was_wrong_finds_nothing_and_is_false() -> None:
    judged = score(FAILS, [Alarm("dead-groups", 49), Alarm("reward-collapse", 120)])
    assert (judged.told, judged.found, judged.lead, judged.false) == (False, False, None, 1)
    assert judged.false_rules == ("dead-groups",)


def test_a_warning_or_another_rule_finds_nothing_and_a_wrong_cause_is_one() -> None:
    judged = score(FAILS, [Alarm("dead-groups", 80, critical=False), Alarm("non-finite", 80)])
    assert (judged.found, judged.told) == (False, True)
    assert score(FAILS, [Alarm("dead-groups", 80, cause="too hard")]).named is False


def test_a_warning_finds_what_is_no_more_than_a_loss() -> None:
    loss = Case("x", "x", ("length-bias",), 400, onset=50, event=100, due=120, severity="warning")
    alarms = [
        Alarm("length-bias", 40, critical=False),
        Alarm("dead-groups", 60, critical=False),
        Alarm("length-bias", 110, critical=False, cause="grpo"),
        Alarm("length-bias", 150),
    ]
    judged = score(loss, alarms)
    assert (judged.told, judged.severe, judged.found, judged.lead) == (True, True, True, -10)
    assert (judged.false, judged.warnings) == (0, 1), "what came before the onset found nothing"
    assert score(loss, alarms[3:]).found, "more than a warning is one too"
    assert not score(loss, alarms[:2]).found


def test_every_critical_alarm_on_a_good_run_is_false() -> None:
    good = Case("x", "x", (), 500)
    judged = score(good, [Alarm("a", 5), Alarm("a", 90), Alarm("b", 90, critical=False)])
    assert (judged.false, judged.found, judged.false_rules) == (2, False, ("a", "a"))
    numbers = detectors.of_good([judged, score(good, [])])
    assert numbers["per_run"][0] == 1
    assert numbers["per_1000_steps"][0] == 2
    assert numbers["runs_with_one"][0] == 0.5
    assert numbers["rules"] == {"a": 2}
    assert numbers["warnings_per_run"][0] == 0.5


def test_intervals_hold_the_mean_and_narrow_with_more_runs() -> None:
    mean, low, high = detectors.interval([0, 1] * 10)
    assert (mean, low < mean < high) == (0.5, True)
    _, lower, higher = detectors.interval([0, 1] * 100)
    assert higher - lower < high - low
    assert detectors.interval([1, 1]) == (1, 1, 1)
    assert math.isnan(detectors.interval([])[0])


def test_naive_detectors_alarm_once_each_time_that_they_begin_to() -> None:
    def run(name: str, values: list[float]) -> Run:
        records = [StepRecord(i + 1, 0.0, {name: value}) for i, value in enumerate(values)]
        return Run("r", "r", "made", None, records)

    assert [a.step for a in detectors.low_entropy(run("entropy/mean", [0.5, 0.05, 0.01, 0.2, 0.09]))] == [2, 5]
    assert [a.step for a in detectors.zero_std_share(run("groups/zero_std", [0.5, 0.4, 0.41]))] == [1, 3]
    wave = [0.5 + 0.1 * (-1) ** i for i in range(20)]
    assert [a.step for a in detectors.reward_z(run("reward/mean", [*wave, 0.0, 0.5]))] == [21]
    assert detectors.low_entropy(run("loss", [0.0])) == []


def test_the_program_prints_tables_and_writes_all_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    rows = [{"step": 5 * i, "reward": 0.8 + 0.05 * (-1) ** i, "entropy": 0.4, "loss": 0.0} for i in range(1, 41)]
    gone = [{**row, "reward": row["reward"] if row["step"] < 100 else 0.0} for row in rows]
    for name, lines in (("good", rows), ("gone", gone)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "labels.tsv").write_text(
        "path\tlabel\tfailure\tevent_step\tevery\tnote\n"
        "good.jsonl\tsurvived\t\t\t5\t\n"
        "gone.jsonl\tcollapsed\treward-collapse\t100\t5\t\n"
    )
    out = tmp_path / "numbers.json"
    kinds = ["failed-later", "stalled", "wide-gap"]
    arguments = ["--seeds", "2", "--jobs", "1", "--kinds", *kinds, "--runs", str(folder), "--json", str(out)]
    detectors.main(arguments)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 140
    numbers = json.loads(out.read_text())["summary"]
    assert set(numbers["labelled"]) == set(detectors.DETECTORS)
    ours = numbers["labelled"]["rlwatch"]
    assert ours["failures"]["collapsed"]["told"][0] == 1
    assert ours["good"]["all"]["alarms"] == 0
    made = next(summary for title, summary in numbers.items() if title.startswith("made-up, testing half"))
    assert made["rlwatch"]["failures"]["all"]["runs"] == 6
    assert set(made["rlwatch"]["good"]) == {"all", "wide-gap"}
