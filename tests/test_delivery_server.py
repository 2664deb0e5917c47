"""Every alert arrives, once, whatever the server does, and the training waits for none of it."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from delivery import ALERT, PATIENCE, SECRET, Clock, Hook, Notes, Recorder, fires, open_box, waiting
from rlwatch.alerts import outbox
from rlwatch.alerts.channel import Refused, TryLater
from rlwatch.alerts.slack import Slack

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")


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
