"""Alerts arrive, each once, whatever the server and the process do; and the webhook's URL is in no text."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlwatch.alerts import configured, outbox
from rlwatch.alerts.channel import Channel, Message, Refused, TryLater
from rlwatch.alerts.command import Command
from rlwatch.alerts.outbox import Outbox
from rlwatch.alerts.slack import Slack, payload
from rlwatch.capture.guard import Guard
from rlwatch.capture.resume import Resumption
from rlwatch.capture.session import Session
from rlwatch.cli import app
from rlwatch.runs.reader import read_alerts, read_info
from rlwatch.runs.records import Advice, Alert, AlertState, Cause, Severity, StepRecord

SECRET = "s3cr3t-t0ken"
PATIENCE = 20.0  # seconds; nothing here takes a tenth of it unless it is broken
WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL

ALERT = Alert(
    rule="dead-groups",
    severity=CRITICAL,
    state=AlertState.FIRING,
    since=188,
    step=212,
    time=1_764_500_000.0,
    value=0.92,
    reference=0.21,
    message="92% of the groups are dead and not solved",
    causes=(Cause("siblings are alike: 1.2 distinct completions a group"),),
    advice=(Advice("raise the temperature", "arXiv 2503.14476"),),
    run="night-run",
)


def fires(rule: str = "dead-groups", severity: Severity = CRITICAL, since: int = 188) -> Alert:
    return replace(ALERT, rule=rule, severity=severity, since=since, step=since + 2)


def ends(rule: str = "dead-groups", severity: Severity = CRITICAL, since: int = 188) -> Alert:
    return replace(fires(rule, severity, since), state=AlertState.RESOLVED, step=since + 9, resolved_step=since + 5)


class Hook:
    """A server that does to each request what it was told, and then is well again."""

    def __init__(self, port: int = 0) -> None:
        self.doings: deque[str | Callable[[], str]] = deque()
        self.arrived: list[dict[str, Any]] = []
        self.times: list[float] = []  # of all requests
        self.changed = threading.Condition()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.answer(self, body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/services/{SECRET}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        with self.changed:
            self.times.append(time.monotonic())
            doing = self.doings.popleft() if self.doings else "ok"
            self.changed.notify_all()
        if callable(doing):
            doing = doing()
        if doing == "drop":
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        code, _, after = doing.partition(" after ")
        if code == "ok":
            with self.changed:
                self.arrived.append(body)
                self.changed.notify_all()
        with_path = request.path.encode()  # a server may say the URL in what it answers
        request.send_response(200 if code == "ok" else int(code))
        if after:
            request.send_header("Retry-After", after)
        if code == "302":
            request.send_header("Location", "/elsewhere")
        request.send_header("Content-Length", str(len(with_path)))
        request.end_headers()
        request.wfile.write(with_path)
        request.wfile.flush()

    def wait(self, what: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(what, PATIENCE), (self.arrived, self.times)

    def texts(self) -> list[str]:
        with self.changed:
            return [body["text"] for body in self.arrived]

    def told(self) -> Counter[str]:
        """How often each rule's title has arrived."""
        return Counter(line for text in self.texts() for line in text.splitlines() if " · " in line)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*configured.WEBHOOKS, configured.COMMAND, configured.PAGE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.close()


class Notes(list[str]):
    def __call__(self, where: str, error: Exception) -> None:
        self.append(f"{where}: {error}")


class Recorder:
    """A channel that does what it was told and remembers what it was sent."""

    name = "recorder"
    least = WARNING

    def __init__(self, *doings: Exception, together: bool = True) -> None:
        self.together = together
        self.doings = deque(doings)
        self.sent: list[list[Message]] = []
        self.changed = threading.Condition()

    def send(self, messages: Any) -> None:
        with self.changed:
            problem = self.doings.popleft() if self.doings else None
            if problem is None:
                self.sent.append(list(messages))
            self.changed.notify_all()
        if problem is not None:
            raise problem

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.sent) >= count, PATIENCE), self.sent


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_764_500_000.0

    def __call__(self) -> float:
        return self.now

    def passes(self, box: Outbox, seconds: float) -> None:
        with box._changed:
            self.now += seconds
            box._changed.notify_all()


def open_box(
    channel: Channel, run: Path | None, *, notes: Notes | None = None, others: Path | None = None, **more: Any
) -> Outbox:
    if run is not None:
        run.mkdir(exist_ok=True, parents=True)
    folder = run / "outbox" if run is not None else None
    settings: dict[str, Any] = {"together": 0.0, "first_wait": 0.02, "longest_wait": 0.1, **more}
    return Outbox([channel], folder, others=others, note=Notes() if notes is None else notes, **settings)


def waiting(run: Path) -> list[str]:
    return [path.name for path in (run / "outbox").glob("*.json")]


def everything(folder: Path) -> str:
    return "\n".join(
        f"{path}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in folder.rglob("*") if path.is_file()
    )


# What is read.


def test_the_message_says_what_since_when_which_number_why_and_what_to_try() -> None:
    message = payload([Message((ALERT,))], page="http://box:8050/", now=ALERT.time + 5)
    assert message["text"].splitlines() == [
        "🔴 CRITICAL · dead-groups · night-run",
        "What: 92% of the groups are dead and not solved",
        "Since: step 188 (seen at step 212)",
        "Number: 0.92 against 0.21",
        "Likely cause: siblings are alike: 1.2 distinct completions a group",
        "Try: raise the temperature [arXiv 2503.14476]",
        "",
        "Page: http://box:8050/run/night-run",
    ]
    sections = [block["text"]["text"] for block in message["blocks"]]
    assert sections[0].startswith("*🔴 CRITICAL · dead-groups · night-run*\n*What*: 92%")
    assert sections[1] == "<http://box:8050/run/night-run|Open the run's page>"


def test_an_end_is_told_as_an_end_and_what_changed_often_with_a_count() -> None:
    changes = (fires(), ends(), fires(since=300), ends(since=300))
    lines = payload([Message(changes)], now=ALERT.time + 7200)["text"].splitlines()
    assert lines == [
        "🟢 RESOLVED · dead-groups · night-run",
        "What: 92% of the groups are dead and not solved",
        "When: from step 300 to step 305",
        "Changes: 4 in steps 190 to 309 (fired or grew worse 2, over 2)",
        "Told late: this is of 2025-11-30 10:53 UTC",
    ]


def test_the_worst_stands_first_and_slack_is_not_told_to_call_anybody() -> None:
    calls = replace(fires("entropy-collapse"), message="<!channel> & more", run="night-run")
    message = payload([Message((ends("truncation"),)), Message((fires("kl", WARNING),)), Message((calls,))], now=0.0)
    assert [block["text"]["text"].split(" ·")[0] for block in message["blocks"]] == [
        "*🔴 CRITICAL",
        "*🟡 WARNING",
        "*🟢 RESOLVED",
    ]
    assert "<!" not in json.dumps(message)
    assert "&lt;!channel&gt; &amp; more" in message["text"]


def test_no_message_is_longer_than_slack_takes() -> None:
    long = replace(ALERT, message="x" * 50_000)
    message = payload([Message((replace(long, rule=f"rule-{i}"),)) for i in range(70)], now=0.0)
    assert len(message["text"]) <= 40_000
    assert len(message["blocks"]) == 50
    assert all(len(block["text"]["text"]) <= 3000 for block in message["blocks"])


# Whatever the server does.


@pytest.mark.parametrize(
    "doings", [["500", "503", "500"], ["drop", "drop"], ["429 after 0", "500", "drop", "429"], ["408"]]
)
def test_every_alert_arrives_once(hook: Hook, tmp_path: Path, doings: list[str]) -> None:
    hook.doings.extend(doings)
    notes = Notes()
    box = open_box(Slack(hook.url), tmp_path, notes=notes)
    rules = [f"rule-{i}" for i in range(5)]
    for rule in rules:
        box.put(fires(rule))
    hook.wait(lambda: len(hook.told()) == 5)
    assert box.close() == 0
    assert hook.told() == {f"🔴 CRITICAL · {rule} · night-run": 1 for rule in rules}
    assert waiting(tmp_path) == []
    assert len(list((tmp_path / "outbox" / "sent").glob("*.json"))) == 5
    assert notes == []


def test_retry_after_is_honoured(hook: Hook, tmp_path: Path) -> None:
    hook.doings.append("429 after 1")
    box = open_box(Slack(hook.url), tmp_path)
    box.put(ALERT)
    hook.wait(lambda: len(hook.arrived) == 1)
    assert hook.times[1] - hook.times[0] >= 1.0
    box.close()


def test_a_server_that_is_not_there_yet(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    tried = threading.Event()

    class Watched(Slack):
        def send(self, messages: Any) -> None:
            try:
                super().send(messages)
            except TryLater:
                tried.set()
                raise

    box = open_box(Watched(f"http://127.0.0.1:{port}/{SECRET}"), tmp_path)
    box.put(ALERT)
    assert tried.wait(PATIENCE)
    assert len(waiting(tmp_path)) == 1
    hook = Hook(port)
    hook.wait(lambda: len(hook.arrived) == 1)
    assert box.close() == 0
    assert sum(hook.told().values()) == 1
    hook.close()


def test_what_is_refused_is_not_tried_again_but_at_the_next_start(hook: Hook, tmp_path: Path) -> None:
    hook.doings.extend(["404", "302"])
    for answer in (404, 302):
        notes = Notes()
        box = open_box(Slack(hook.url), tmp_path, notes=notes)
        if answer == 404:
            box.put(ALERT)
        box.close()
        assert notes == [f"sending an alert through slack: the server answered {answer}"]
        assert len(waiting(tmp_path)) == 1
    open_box(Slack(hook.url), tmp_path).close()
    assert sum(hook.told().values()) == 1
    assert waiting(tmp_path) == []


def test_one_message_that_is_not_taken_holds_up_no_other(tmp_path: Path) -> None:
    channel = Recorder(Refused("no", keep=False), Refused("no", keep=False))
    notes = Notes()
    box = open_box(channel, tmp_path, notes=notes, together=60.0)
    for rule in "abc":
        box.put(fires(rule))
    box.close()
    assert [[message.alert.rule for message in sent] for sent in channel.sent] == [["b"], ["c"]]
    assert len(list((tmp_path / "outbox" / "refused").iterdir())) == 1
    assert notes == ["sending an alert through recorder: no"]


def test_the_next_try_comes_later_and_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox.random, "uniform", lambda low, high: 1.0)
    clock = Clock()
    channel = Recorder(*[TryLater("no") for _ in range(6)])
    box = open_box(channel, tmp_path, clock=clock, first_wait=1.0, longest_wait=10.0)
    box.put(ALERT)
    for wait, left in zip([1, 2, 4, 8, 10, 10], [5, 4, 3, 2, 1, 0], strict=True):
        with channel.changed:
            assert channel.changed.wait_for(lambda left=left: len(channel.doings) == left, PATIENCE)  # type: ignore[misc]
        due = (clock.now + wait, False)
        deadline = time.monotonic() + PATIENCE
        with box._changed:  # the worker sets it right after the try
            while box._not_before.get("recorder") != due and time.monotonic() < deadline:
                box._changed.wait(0.005)
            assert box._not_before["recorder"] == due
        clock.passes(box, wait)
    channel.wait(1)
    box.close()


# A bad night.


def test_what_fires_together_is_one_message(tmp_path: Path) -> None:
    channel = Recorder()
    box = open_box(channel, tmp_path, together=60.0)
    for rule in "abc":
        box.put(fires(rule))
    box.close()
    assert [[message.alert.rule for message in sent] for sent in channel.sent] == [["a", "b", "c"]]


def test_a_rule_that_comes_and_goes_is_told_at_once_and_then_once_an_hour(tmp_path: Path) -> None:
    clock = Clock()
    channel = Recorder()
    box = open_box(channel, tmp_path, clock=clock)
    box.put(fires(severity=WARNING, since=1))
    channel.wait(1)
    box.put(ends(severity=WARNING, since=1))
    channel.wait(2)
    for since in range(20, 200, 20):
        box.put(fires(severity=WARNING, since=since))
        box.put(ends(severity=WARNING, since=since))
    box.put(fires("other"))  # its arrival shows that the worker has seen what came before, and kept it
    channel.wait(3)
    assert [len(message.changes) for sent in channel.sent for message in sent] == [1, 1, 1]
    clock.passes(box, 3601)
    channel.wait(4)
    (folded,) = channel.sent[3]
    assert len(folded.changes) == 18
    assert folded.alert.state is AlertState.RESOLVED
    assert box.close() == 0
    assert len(channel.sent) == 4


def test_critical_never_waits(tmp_path: Path) -> None:
    channel = Recorder()
    box = open_box(channel, tmp_path, clock=Clock())
    story = [fires(severity=WARNING), fires(), ends(), fires(since=300)]
    for count, alert in enumerate(story, 1):
        box.put(alert)
        channel.wait(count)
    box.put(ends(since=300))  # waits
    box.put(fires("other"))
    channel.wait(5)
    box.put(fires(severity=WARNING, since=400))  # waits
    box.put(fires(since=400))  # does not, and takes along what waits
    channel.wait(6)
    assert [len(message.changes) for sent in channel.sent for message in sent] == [1, 1, 1, 1, 1, 3]
    box.close()


def test_what_waits_for_the_hour_to_be_over_is_told_at_the_end(tmp_path: Path) -> None:
    channel = Recorder()
    box = open_box(channel, tmp_path)
    for since in (1, 50):
        box.put(fires(severity=WARNING, since=since))
        channel.wait(1)
    assert box.close() == 0
    assert [message.alert.since for sent in channel.sent for message in sent] == [1, 50]


def test_only_so_many_wait_and_info_wakes_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "CAPACITY", 3)
    box = open_box(Recorder(TryLater("no", after=3000)), tmp_path)
    for since in (1, 2, 3):
        box.put(fires(since=since))
    with pytest.raises(OverflowError):
        box.put(fires(since=4))
    box.put(fires("solved", Severity.INFO))
    assert box.close() == 3  # what was asked for is longer than the patience, so nobody waits for it
    assert len(waiting(tmp_path)) == 3


def test_the_training_waits_for_no_server(hook: Hook, tmp_path: Path) -> None:
    go_on = threading.Event()
    hook.doings.append(lambda: "ok" if go_on.wait(PATIENCE) else "500")
    box = open_box(Slack(hook.url), tmp_path)
    box.put(fires("first"))
    hook.wait(lambda: len(hook.times) == 1)  # and the server keeps silent
    begin = time.perf_counter()
    for i in range(100):
        box.put(fires(f"rule-{i}"))
    assert time.perf_counter() - begin < 2.0
    assert len(hook.arrived) == 0
    go_on.set()
    hook.wait(lambda: len(hook.told()) == 101)
    assert box.close() == 0
    assert set(hook.told().values()) == {1}


def test_without_a_disk_alerts_are_sent_all_the_same(tmp_path: Path) -> None:
    notes, channel = Notes(), Recorder()
    box = open_box(channel, None, notes=notes)
    box.put(ALERT)
    box.close()
    (tmp_path / "outbox").write_text("not a folder")
    other = open_box(channel, tmp_path, notes=notes)
    other.put(ALERT)
    other.close()
    assert len(channel.sent) == 2
    assert [note.split(":")[0] for note in notes] == ["opening the outbox"]


# What was left.


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


SCRIPT = """
import os, signal, sys
from pathlib import Path
from rlwatch.alerts import outbox
from rlwatch.alerts.outbox import Outbox
from rlwatch.alerts.slack import Slack
from rlwatch.runs.records import Alert, AlertState, Severity

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def alert(rule):
    return Alert(rule, Severity.CRITICAL, AlertState.FIRING, 1, 2, 0.0, 0.1, 0.9, "it fell to 0.1", run="night-run")

def told(rule):
    print(rule, flush=True)

def fault(where, error):
    print(where, error, file=sys.stderr)

run = Path(sys.argv[1])
run.mkdir(exist_ok=True)
box = Outbox([Slack(os.environ["HOOK"])], run / "outbox", others=run.parent, note=fault, together=0.0, first_wait=0.01)
"""


def start(hook: Hook, run: Path, body: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT + body, str(run)],
        env={**os.environ, "HOOK": hook.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def put_all(rules: str) -> str:
    return f"\nfor rule in {list(rules)}:\n    box.put(alert(rule)); told(rule)\n"


@pytest.mark.parametrize(
    ("prepare", "finish", "often"),
    [
        ("outbox.Outbox._attempt = die", "import time; time.sleep(60)", 1),  # before the first is sent
        ("", "die()", None),  # right after the last was put there, while the worker sends
        ("outbox._Box.file = die", "import time; time.sleep(60)", 2),  # between the answer and the note of it
        ("outbox.os.utime = die", "import time; time.sleep(60)", 1),  # right after the first note
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


# The secret.


@pytest.mark.parametrize("doing", ["ok", "500", "404", "400", "302", "drop", "absent", "bad"])
def test_the_webhook_is_in_no_text(
    hook: Hook,
    tmp_path: Path,
    doing: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    urls = {"absent": f"http://127.0.0.1:9/{SECRET}", "bad": f"htp:/{SECRET}\n{SECRET}"}
    monkeypatch.setenv("RLWATCH_SLACK_WEBHOOK", urls.get(doing, hook.url))
    monkeypatch.setattr(Outbox.close, "__defaults__", (0.3,))
    hook.doings.extend([] if doing in urls else [doing] * 50)
    guard = Guard()
    session = Session(tmp_path, "night", {}, guard)
    for step in (1, 2, 3):
        session.step(StepRecord(step, time.time(), {"loss": float("nan") if step > 1 else 0.5}))
    session.close()
    (channel,) = configured.channels()
    problem: Exception | None = None
    try:
        channel.send([Message((ALERT,))])
    except (TryLater, Refused) as error:
        problem = error
    assert (problem is not None) == (doing != "ok")
    assert problem is None or (problem.__context__ is None and problem.__cause__ is None)
    result = CliRunner().invoke(app, ["alerts", "test"])
    said = capfd.readouterr()
    texts = [
        everything(tmp_path),
        caplog.text,
        said.out,
        said.err,
        repr(problem),
        repr(channel),
        str(channel),
        result.output,
    ]
    assert (tmp_path / "night" / "outbox").is_dir()
    assert not [text for text in texts if SECRET in text]
    assert (doing == "ok") or guard.faults


# The command of the user's own.


def test_a_command_gets_each_alert_as_json_and_no_shell(tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
    target = tmp_path / "a $(touch x) ; b"
    box = open_box(Command(f"{sys.executable} -c \"{code}\" '{target}'"), tmp_path / "run")
    box.put(replace(ALERT, value=float("nan")))
    box.put(fires("other"))
    assert box.close() == 0
    got = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(data["rule"], data["changes"], data["value"]) for data in got] == [
        ("dead-groups", 1, "NaN"),
        ("other", 1, 0.92),
    ]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"{sys.executable} -c 'import sys; sys.exit(3)' {SECRET}", "ended with exit code 3"),
        (f"{sys.executable} -c 'import time; time.sleep(60)' {SECRET}", "took more than 0.5 s and was killed"),
        (f"/nowhere/at-all {SECRET}", "at-all cannot be run (FileNotFoundError)"),
        (f"mail '{SECRET}", "the command's quotes do not match"),
    ],
)
def test_a_command_that_fails_is_noted_and_not_run_again(tmp_path: Path, line: str, problem: str) -> None:
    notes = Notes()
    box = open_box(Command(line, timeout=0.5), tmp_path, notes=notes)
    box.put(ALERT)
    assert box.close() == 0
    (note,) = notes
    assert note.startswith("sending an alert through command: ")
    assert note.endswith(problem)
    assert SECRET not in note


def test_a_command_may_ask_to_be_called_again(tmp_path: Path) -> None:
    code = (
        f"import os, sys; p = {str(tmp_path / 'once')!r}; e = os.path.exists(p); open(p, 'w'); sys.exit(0 if e else 75)"
    )
    box = open_box(Command(f'{sys.executable} -c "{code}"'), tmp_path / "run")
    box.put(ALERT)
    assert box.close() == 0
    assert waiting(tmp_path / "run") == []


# `rlwatch alerts test`


def test_each_channel_is_tried_and_said(hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = CliRunner().invoke(app, ["alerts", "test"])
    assert none.exit_code == 2
    monkeypatch.setenv("SLACK_WEBHOOK_URL", hook.url)
    assert CliRunner().invoke(app, ["alerts", "test"]).output == "slack: sent\n"
    assert "this is a test" in hook.texts()[0]
    monkeypatch.setenv("RLWATCH_ALERT_COMMAND", f"{sys.executable} -c 'raise SystemExit(4)' {SECRET}")
    failed = CliRunner().invoke(app, ["alerts", "test"])
    assert failed.exit_code == 1
    program = Path(sys.executable).name
    assert failed.output == f"slack: sent\ncommand: not sent: {program} ended with exit code 4\n"


def test_nothing_configured_starts_nothing(tmp_path: Path) -> None:
    session = Session(tmp_path, "night", {}, Guard())
    assert not [thread for thread in threading.enumerate() if thread.name == "rlwatch-alerts"]
    assert not (tmp_path / "night" / "outbox").exists()
    session.close()
