"""What people answer to alerts: written a line at a time, read whatever stands there, and what holds of it."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlwatch.alerts import answering
from rlwatch.cli import app
from rlwatch.runs import acks
from rlwatch.runs.acks import ACKNOWLEDGE, SILENCE, Answer, read_answers, stamp_of, standing_of
from rlwatch.runs.reader import newest_step, read_alerts
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord
from rlwatch.runs.writer import RunWriter

FIRES = Alert("dead-groups", Severity.WARNING, AlertState.FIRING, 188, 212, 1.0, 0.9, 0.2, "dead", run="run")
ACK = Answer("dead-groups", ACKNOWLEDGE, 10.0, 188, severity=Severity.WARNING)
QUIET = Answer("dead-groups", SILENCE, 10.0)


def new_run(root: Path, *alerts: Alert, steps: int = 3) -> RunWriter:
    (root / "run").mkdir(parents=True)
    writer = RunWriter(root / "run", {})
    for step in range(1, steps + 1):
        writer.append(StepRecord(step, 1.0, {"loss": 0.1}))
    for alert in alerts:
        writer.alert(alert)
    return writer


def write(run: Path, *lines: str) -> None:
    with (run / acks.FILE).open("a") as file:
        file.writelines(line + "\n" for line in lines)


# What holds


def test_the_last_word_about_a_thing_counts() -> None:
    other = replace(ACK, since=300)
    assert standing_of([ACK, other, replace(ACK, undo=True)]).acknowledged == {("dead-groups", 300): other}
    again = replace(ACK, time=30.0)
    assert standing_of([ACK, replace(ACK, undo=True), again]).acknowledged == {("dead-groups", 188): again}
    longer = replace(QUIET, until_step=900)
    assert standing_of([QUIET, longer]).silenced == {"dead-groups": longer}
    assert standing_of([QUIET, replace(QUIET, undo=True)]).silenced == {}
    both = standing_of([QUIET, ACK, replace(ACK, undo=True)])  # each takes back its own kind only
    assert (len(both.acknowledged), len(both.silenced)) == (0, 1)


def test_an_acknowledgement_is_of_one_alert_and_of_how_bad_it_was() -> None:
    standing = standing_of([ACK])
    assert standing.acknowledgement(FIRES) == ACK
    assert standing.acknowledgement(replace(FIRES, since=189)) is None
    assert standing.acknowledgement(replace(FIRES, rule="other")) is None
    assert standing.acknowledgement(replace(FIRES, severity=Severity.CRITICAL)) is None
    assert standing.acknowledgement(replace(FIRES, state=AlertState.RESOLVED)) is None
    worst = standing_of([replace(ACK, severity=Severity.CRITICAL)])
    assert worst.acknowledgement(replace(FIRES, severity=Severity.CRITICAL)) is not None
    unknown = standing_of([replace(ACK, severity=None)])
    assert unknown.acknowledgement(replace(FIRES, severity=Severity.CRITICAL)) is None


@pytest.mark.parametrize(
    ("changes", "step", "now", "holds"),
    [
        ({}, 10**9, 1e10, True),
        ({"until_step": 400}, None, 0.0, True),
        ({"until_step": 400}, 399, 1e10, True),
        ({"until_step": 400}, 400, 0.0, False),
        ({"until_time": 50.0}, 10**9, 49.9, True),
        ({"until_time": 50.0}, 1, 50.0, False),
        ({"until_time": 50.0, "until_step": 400}, 401, 20.0, False),
    ],
)
def test_a_silence_ends_with_its_step_or_its_hour(changes: dict, step: int | None, now: float, holds: bool) -> None:
    answer = replace(QUIET, **changes)
    standing = standing_of([answer])
    assert standing.silence("dead-groups", step, now) == (answer if holds else None)
    assert standing.silent(step, now) == (frozenset({"dead-groups"}) if holds else frozenset())
    assert standing.silence("other", step, now) is None


def test_it_is_said_in_words() -> None:
    assert ACK.words == "acknowledged"
    assert QUIET.words == "silenced for the rest of the run"
    assert replace(QUIET, until_step=1400).words == "silenced until step 1,400"
    assert replace(QUIET, until_time=0.0).words == "silenced until 1970-01-01 00:00 UTC"
    assert [answer.kind for answer in standing_of([QUIET, ACK]).of(FIRES, 1, 1.0)] == [ACKNOWLEDGE, SILENCE]


# Written and read


@pytest.mark.parametrize(
    "answer",
    [
        ACK,
        QUIET,
        replace(ACK, undo=True, who="Ada"),
        replace(QUIET, until_step=0),
        replace(QUIET, until_time=1e9, since=3),
        replace(QUIET, rule="<img src=x onerror=alert(1)>/../a\nb\x00 ü \ud83d"),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, answer: Answer) -> None:
    acks.append(tmp_path, answer)
    acks.append(tmp_path, ACK)
    assert read_answers(tmp_path) == ([answer, ACK], [])
    assert (tmp_path / acks.FILE).read_bytes().count(b"\n") == 2


BROKEN = [
    "{}",
    "[]",
    "null",
    "not json",
    "[" * 5000,
    '{"resume":3,"time":1.0}',
    '{"rule":"a","kind":"nod","time":1.0}',
    '{"rule":3,"kind":"silence","time":1.0}',
    '{"rule":"a","kind":"silence"}',
    '{"rule":"a","kind":"silence","time":"NaN"}',
    '{"rule":"a","kind":"silence","time":NaN}',
    '{"rule":"a","kind":"silence","time":true}',
    '{"rule":"a","kind":"silence","time":1e300}',
    '{"rule":"a","kind":"silence","time":1.0,"until_step":"9"}',
    '{"rule":"a","kind":"silence","time":1.0,"until_step":1.5}',
    '{"rule":"a","kind":"silence","time":1.0,"until_time":"soon"}',
    '{"rule":"a","kind":"silence","time":1.0,"who":["x"]}',
    '{"rule":"a","kind":"silence","time":1.0,"undo":"yes"}',
    '{"rule":"a","kind":"acknowledge","time":1.0}',
    '{"rule":"a","kind":"acknowledge","time":1.0,"since":"188"}',
    '{"rule":"a","kind":"acknowledge","time":1.0,"since":true}',
    '{"rule":"a","kind":"acknowledge","time":1.0,"since":1,"severity":"dire"}',
]


@pytest.mark.parametrize("line", BROKEN)
def test_a_line_that_makes_no_sense_is_passed_over_and_named(tmp_path: Path, line: str) -> None:
    acks.append(tmp_path, QUIET)
    write(tmp_path, line)
    acks.append(tmp_path, ACK)
    answers, skipped = read_answers(tmp_path)
    assert answers == [QUIET, ACK]
    assert [item.path.name for item in skipped] == [acks.FILE]
    assert f"byte {(tmp_path / acks.FILE).read_bytes().index(line.encode())} " in skipped[0].why


def test_a_torn_line_is_left_and_the_next_one_stands_alone(tmp_path: Path) -> None:
    acks.append(tmp_path, QUIET)
    with (tmp_path / acks.FILE).open("a") as file:
        file.write('{"rule":"dead-gr')
    assert read_answers(tmp_path) == ([QUIET], [])
    acks.append(tmp_path, ACK)
    answers, skipped = read_answers(tmp_path)
    assert answers == [QUIET, ACK]
    assert len(skipped) == 1


def test_ten_thousand_answers_are_read_and_the_last_one_holds(tmp_path: Path) -> None:
    lines = [
        json.dumps({"rule": f"r{i % 7}", "kind": "silence", "time": i, "until_step": i, "undo": i % 3 == 0})
        for i in range(1, 10_001)
    ]
    write(tmp_path, *lines)
    answers, skipped = read_answers(tmp_path)
    assert (len(answers), skipped) == (10_000, [])
    last = {f"r{i % 7}": i for i in range(1, 10_001)}
    expected = {rule: i for rule, i in last.items() if i % 3}
    assert {rule: answer.until_step for rule, answer in standing_of(answers).silenced.items()} == expected


def test_two_processes_that_answer_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rlwatch.runs.acks import Answer, append\n"
        "sys.stdin.readline()\n"
        "for i in range(300): append(Path(sys.argv[1]), Answer('rule-' + sys.argv[2], 'acknowledge', 1.0, i))\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name], stdin=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        process.communicate(timeout=120)
        assert process.returncode == 0
    answers, skipped = read_answers(tmp_path)
    assert skipped == []
    assert {(a.rule, a.since) for a in answers} == {(f"rule-{n}", i) for n in "ab" for i in range(300)}
    assert len(answers) == 600


def test_what_is_too_long_for_a_line_is_not_written_and_a_name_is_made_short(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bytes"):
        acks.append(tmp_path, replace(QUIET, rule="x" * 5000))
    assert not (tmp_path / acks.FILE).exists()
    acks.append(tmp_path, replace(QUIET, who="A\n" * 500))
    [answer] = read_answers(tmp_path)[0]
    assert len(answer.who) <= acks.LONGEST_NAME
    assert "\n" not in answer.who


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        acks.append(tmp_path / "gone", QUIET)
    assert not (tmp_path / "gone").exists()
    assert stamp_of(tmp_path / "gone") is None


def test_a_resumed_training_takes_back_no_answer(tmp_path: Path) -> None:
    writer = new_run(tmp_path, FIRES, steps=220)
    answering.acknowledge(writer.path, "dead-groups")
    answering.silence(writer.path, "entropy-collapse", until_step=400)
    before = standing_of(read_answers(writer.path)[0])
    again = RunWriter(writer.path, {}, back_to=200)
    assert newest_step(writer.path) == 200
    assert read_alerts(writer.path).items == []
    assert standing_of(read_answers(writer.path)[0]) == before
    again.alert(FIRES)  # it comes back as it was
    assert before.acknowledgement(FIRES) is not None


# Answering


def test_what_is_acknowledged_is_the_newest_that_fires(tmp_path: Path) -> None:
    over = replace(FIRES, since=5, state=AlertState.RESOLVED, resolved_step=9)
    run = new_run(tmp_path, over, FIRES, replace(FIRES, since=200, severity=Severity.CRITICAL)).path
    answer = answering.acknowledge(run, "dead-groups", who="Ada")
    assert (answer.since, answer.severity, answer.who) == (200, Severity.CRITICAL, "Ada")
    assert answering.acknowledge(run, "dead-groups", 188).severity is Severity.WARNING
    assert len(standing_of(read_answers(run)[0]).acknowledged) == 2
    answering.acknowledge(run, "dead-groups", 200, undo=True)
    assert list(standing_of(read_answers(run)[0]).acknowledged) == [("dead-groups", 188)]


def test_what_cannot_be_answered_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    over = replace(FIRES, rule="past", state=AlertState.RESOLVED, resolved_step=214)
    run = new_run(tmp_path, FIRES, over, replace(FIRES, rule="held", state=AlertState.PENDING)).path
    for rule, since, why in [
        ("past", None, "over since step 214"),
        ("nope", None, "there is dead-groups"),
        ("held", None, "there is dead-groups"),
        ("dead-groups", 3, "since step 3"),
    ]:
        with pytest.raises(ValueError, match=why):
            answering.acknowledge(run, rule, since)
    for ends in [{"hours": 0.0}, {"hours": -1.0}, {"hours": float("nan")}, {"hours": 1e9}, {"until_step": 0},
                 {"until_step": -4}, {"until_step": 10**20}, {"until_step": 3, "hours": 1.0}]:  # fmt: skip
        with pytest.raises(ValueError, match="silence"):
            answering.silence(run, "dead-groups", **ends)
    for undo in (answering.acknowledge, answering.silence):
        with pytest.raises(ValueError, match=r"is (not )?(acknowledged|silenced)"):
            undo(run, "dead-groups", undo=True)
    assert not (run / acks.FILE).exists()


# The command


def ran(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["alerts", *arguments])
    return result.exit_code, result.output


def test_the_command_line_answers_and_takes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path / "runs", FIRES).path
    code, said = ran("ack", str(run), "dead-groups", "--who", "Ada")
    assert (code, "acknowledged" in said, "since step 188" in said) == (0, True, True)
    monkeypatch.chdir(tmp_path)
    code, said = ran("silence", "run", "dead-groups", "--until-step", "400")  # a run of ./runs, by its name
    assert (code, "silenced until step 400" in said) == (0, True)
    code, said = ran("silence", "run", "kl-runaway", "--hours", "2")
    assert (code, "has not fired" in said) == (0, True)
    standing = standing_of(read_answers(run)[0])
    assert standing.acknowledged["dead-groups", 188].who == "Ada"
    assert set(standing.silenced) == {"dead-groups", "kl-runaway"}
    assert ran("ack", "run", "dead-groups", "--undo")[0] == 0
    assert ran("silence", "run", "dead-groups", "--undo")[0] == 0
    standing = standing_of(read_answers(run)[0])
    assert (dict(standing.acknowledged), set(standing.silenced)) == ({}, {"kl-runaway"})


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("ack", "nowhere", "dead-groups"), "no run"),
        (("ack", "RUN", "dead-group"), "there is dead-groups"),
        (("silence", "RUN", "dead-groups", "--until-step", "4", "--hours", "1"), "not at both"),
        (("silence", "RUN", "dead-groups", "--undo"), "not silenced"),
        (("ack", ".", "dead-groups"), "run.json"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], why: str
) -> None:
    run = new_run(tmp_path, FIRES).path
    monkeypatch.chdir(tmp_path)
    code, said = ran(*(str(run) if argument == "RUN" else argument for argument in arguments))
    assert (code, why in said) == (2, True), said
    assert not (run / acks.FILE).exists()


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    run = new_run(tmp_path, FIRES).path
    (run / acks.FILE).mkdir()
    code, said = ran("ack", str(run), "dead-groups")
    assert (code, "cannot be" in said) == (2, True), said


def test_the_examples_are_right() -> None:
    assert doctest.testmod(acks).attempted > 0
    assert doctest.testmod(acks).failed == 0
