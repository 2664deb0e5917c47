"""What was left is sent at the next start; killed at any point, none is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from delivery import (
    ALERT,
    PATIENCE,
    SECRET,
    WARNING,
    Hook,
    Notes,
    Recorder,
    ends,
    everything,
    fires,
    open_box,
    put_all,
    start,
    waiting,
)
from rlwatch.alerts.channel import TryLater
from rlwatch.alerts.command import Command
from rlwatch.alerts.slack import Slack
from rlwatch.capture.guard import Guard
from rlwatch.capture.resume import Resumption
from rlwatch.capture.session import Session
from rlwatch.runs.reader import read_alerts, read_info
from rlwatch.runs.records import StepRecord

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")


def test_what_was_left_is_sent_at_the_next_start_in_the_same_folder_and_nothing_that_another_sends(
    tmp_path: Path,
) -> None:
    alive = open_box(Recorder(TryLater("no", after=3000)), tmp_path / "alive")
    alive.put(fires("alive"))
    dead = open_box(Recorder(TryLater("no", after=3000)), tmp_path / "dead")
    for alert in (fires("dead", WARNING), fires("dead")):
        dead.put(alert)
    assert dead.close() == 2
    channel = Recorder()
    new = open_box(channel, tmp_path / "new", others=tmp_path)
    channel.wait(1)
    assert new.close() == 0
    assert [(m.alert.rule, len(m.changes)) for sent in channel.sent for m in sent] == [("dead", 2)]
    assert (len(waiting(tmp_path / "alive")), waiting(tmp_path / "dead")) == (1, [])
    alive.close()


def test_a_lock_of_another_process_keeps_its_alerts_to_it(hook: Hook, tmp_path: Path) -> None:
    hook.doings.append("429 after 3000")
    process = start(hook, tmp_path / "theirs", "box.put(alert('a')); told('a'); sys.stdin.read()")
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    hook.wait(lambda: len(hook.times) == 1)
    open_box(Slack(hook.url), tmp_path / "ours", others=tmp_path).close()
    assert len(hook.times) == 1
    process.kill()
    process.communicate()
    open_box(Slack(hook.url), tmp_path / "third", others=tmp_path).close()
    assert sum(hook.told().values()) == 1


def test_a_resumed_run_does_not_tell_again_what_it_has_told(tmp_path: Path) -> None:
    channel = Recorder()
    box = open_box(channel, tmp_path)
    box.put(ALERT)
    box.close()
    again = open_box(channel, tmp_path)
    again.put(replace(ALERT, step=250))
    again.put(ends())
    again.close()
    states = [change.state.value for sent in channel.sent for message in sent for change in message.changes]
    assert states == ["firing", "resolved"]


def test_what_waits_for_a_channel_that_is_not_there_any_more_is_left_alone(tmp_path: Path) -> None:
    box = open_box(Recorder(TryLater("no", after=3000)), tmp_path / "old")
    box.put(ALERT)
    assert box.close() == 1
    notes = Notes()
    for run in ("old", "new"):
        command = Command(f"{sys.executable} -c 0")
        assert open_box(command, tmp_path / run, notes=notes, others=tmp_path).close() == 0
    assert (len(waiting(tmp_path / "old")), notes) == (1, [])


def test_a_kill_between_the_outbox_and_the_runs_own_note_of_an_alert(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the training resumes, the run gets its note, and nobody is told twice."""
    monkeypatch.setenv("RLWATCH_SLACK_WEBHOOK", hook.url)
    session = Session(tmp_path, "night", {}, Guard())
    assert session.writer is not None
    monkeypatch.setattr(session.writer, "alert", lambda _: None)
    for step in (1, 2, 3):
        session.step(StepRecord(step, time.time(), {"loss": float("nan") if step > 1 else 0.5}))
    session.close()
    run = tmp_path / "night"
    assert read_alerts(run).items == []
    Session(tmp_path, "night", {}, Guard(), Resumption(3, run, read_info(run), back_to=3)).close()
    assert [alert.rule for alert in read_alerts(run).items] == ["non-finite"]
    assert hook.told() == {"🔴 CRITICAL · non-finite · night": 1}


@pytest.mark.parametrize(
    ("prepare", "finish", "often"),
    [
        ("Outbox._attempt = die", "import time; time.sleep(60)", 1),  # before the first is sent
        ("", "die()", None),  # right after the last was put there, while the worker sends
        ("boxes.Box.file = die", "import time; time.sleep(60)", 2),  # between the answer and the note of it
        ("boxes.os.utime = die", "import time; time.sleep(60)", 1),  # right after the first note
    ],
)
def test_killed_and_started_again_none_is_lost(
    hook: Hook, tmp_path: Path, prepare: str, finish: str, often: int | None
) -> None:
    process = start(hook, tmp_path / "night-run", f"{prepare}\n{put_all('a' if often else 'abc')}\n{finish}")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL, err
    again = start(hook, tmp_path / "later-run", "box.close()")
    _, err = again.communicate(timeout=PATIENCE)
    assert (again.returncode, err) == (0, "")
    # What was sent before its put returned is known to the server only.
    assert {f"🔴 CRITICAL · {rule} · night-run" for rule in out.split()} <= set(hook.told())
    counts = set(hook.told().values())
    assert counts == {often} if often else counts <= {1, 2}
    assert waiting(tmp_path / "night-run") == []


@pytest.mark.parametrize(("arrive", "faults"), [(0, []), (0, ["500", "drop"]), (1, ["drop"]), (4, ["429 after 0"])])
def test_killed_while_the_server_has_the_message_and_has_not_answered(
    hook: Hook, tmp_path: Path, arrive: int, faults: list[str]
) -> None:
    """Some arrive, then come faults, then a kill in the middle of a request, of which the server then knows nothing."""
    processes: list[subprocess.Popen[str]] = []

    def kill() -> str:
        processes[0].kill()
        processes[0].wait()
        return "drop"

    body = "for line in sys.stdin:\n    box.put(alert(line.strip())); told(line.strip())"
    processes.append(start(hook, tmp_path / "night-run", body))
    pipe = processes[0].stdin
    assert pipe is not None
    for i in range(arrive):
        print(f"rule-{i}", file=pipe, flush=True)
        hook.wait(lambda i=i: len(hook.arrived) == i + 1)  # type: ignore[misc]
    hook.doings.extend([*faults, kill])
    print(f"rule-{arrive}", file=pipe, flush=True)
    assert processes[0].wait(PATIENCE) == -signal.SIGKILL
    assert len(waiting(tmp_path / "night-run")) == 1
    again = start(hook, tmp_path / "night-run", "box.close()")
    _, err = again.communicate(timeout=PATIENCE)
    assert (again.returncode, err) == (0, "")
    assert hook.told() == {f"🔴 CRITICAL · rule-{i} · night-run": 1 for i in range(arrive + 1)}


LOOP = """
import rlwatch
monitor = rlwatch.Monitor("runs", name="night")
for step in range(1, 6):
    monitor.step(step, loss=float("nan") if step > 1 else 0.5)
"""


@pytest.mark.parametrize("doings", [["ok"], ["500", "drop", "429 after 1"], ["404"]])
def test_a_process_that_ends_right_after_the_alert(hook: Hook, tmp_path: Path, doings: list[str]) -> None:
    hook.doings.extend(doings)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore", "-c", LOOP],
        env={**os.environ, "RLWATCH_SLACK_WEBHOOK": hook.url, "RLWATCH_PAGE_URL": "http://box:8050"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "night"
    if doings == ["404"]:
        assert len(waiting(run)) == 1
        assert "the server answered 404" in (run / "run.json").read_text()
        assert "the server answered 404" in done.stderr
    else:
        assert hook.told() == {"🔴 CRITICAL · non-finite · night": 1}
        assert waiting(run) == []
        assert '"ended"' in (run / "run.json").read_text()
        assert "faults" not in (run / "run.json").read_text()
    assert SECRET not in done.stdout + done.stderr + everything(tmp_path)


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_points_none_is_lost_and_only_what_was_not_noted_is_doubled(
    hook: Hook, tmp_path: Path, seed: int
) -> None:
    """The server errs at random; each process is killed at random; the last one may end in peace."""
    chance = random.Random(seed)
    hook.doings.extend(chance.choice(["ok", "ok", "429 after 0", "500", "drop"]) for _ in range(60))
    last_before_a_kill: list[int] = []
    told: list[str] = []
    for life in range(5):
        loop = f"for i in range(30):\n    rule = f'rule-{life}-{{i}}'\n    box.put(alert(rule)); told(rule)"
        body = f"import time\n{loop}\n    time.sleep(0.003)\ntime.sleep(60)"
        process = start(hook, tmp_path / f"run-{life % 2}", body)
        assert process.stdout is not None
        told.append(process.stdout.readline().strip())
        time.sleep(chance.uniform(0, 0.15))
        process.kill()
        told += process.communicate(timeout=PATIENCE)[0].split()
        hook.settle()
        last_before_a_kill.append(len(hook.texts()) - 1)
    again = start(hook, tmp_path / "last", "box.close(30)")
    _, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    titles = [[line for line in text.splitlines() if " · " in line] for text in hook.texts()]
    arrived = [title for lines in titles for title in lines]
    assert {f"🔴 CRITICAL · {rule} · night-run" for rule in told} <= set(arrived)
    for title in {title for title in arrived if arrived.count(title) > 1}:
        first = next(index for index, lines in enumerate(titles) if title in lines)
        assert first in last_before_a_kill, "it was sent again though its process lived on after the answer"
        assert arrived.count(title) <= 1 + last_before_a_kill.count(first)
    assert [waiting(tmp_path / f"run-{i}") for i in (0, 1)] == [[], []]
