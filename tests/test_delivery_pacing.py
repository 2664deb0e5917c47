"""A bad night is a handful of messages."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from delivery import ALERT, PATIENCE, WARNING, Clock, Hook, Notes, Recorder, ends, fires, open_box, waiting
from rlwatch.alerts import outbox
from rlwatch.alerts.channel import TryLater
from rlwatch.alerts.slack import Slack
from rlwatch.runs.records import AlertState, Severity

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")


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
