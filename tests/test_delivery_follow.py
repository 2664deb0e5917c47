"""A growing log of another framework: what comes while it is followed is sent, and what is past is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from delivery import PATIENCE, SECRET, Hook, Notes, Recorder, everything
from rlwatch.alerts.channel import TryLater
from rlwatch.alerts.outbox import Outbox
from rlwatch.readers import Options, UnreadableError
from rlwatch.report.follow import Follower
from rlwatch.runs.records import Alert

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")


def rows(first: int, last: int, nan: tuple[int, ...] = ()) -> str:
    """Rows of a log; the loss of some is NaN, which is critical at once."""
    found = []
    for step in range(first, last + 1):
        loss = float("nan") if step in nan else 0.01
        found.append({"loss": loss, "grad_norm": 0.5, "reward": 0.3 + 0.001 * step, "reward_std": 0.3, "step": step})
    return "".join(json.dumps(row) + "\n" for row in found)


class Following:
    """A follower whose alerts go through a recorder."""

    def __init__(self, path: Path, into: Path | None, *doings: Exception) -> None:
        self.path = path
        self.channel = Recorder(*doings)
        self.printed: list[Alert] = []
        self.follower = Follower(path, Options(), into=into, tell=self.printed.append, open_outbox=self.open)
        self.into = into

    def open(self, folder: Path | None) -> Outbox:
        return Outbox([self.channel], folder, others=self.into, note=Notes(), together=0.0, first_wait=0.02)

    def look(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)
        self.follower.look()

    def sent(self) -> list[tuple[str, str, int]]:
        """What was sent once all has been; the steps of warnings and worse."""
        changes = [change for sent in self.channel.sent for message in sent for change in message.changes]
        return [(change.rule, change.state.value, change.step) for change in changes]


@pytest.mark.parametrize("kept", [True, False])
def test_only_what_comes_is_sent_and_after_a_restart_nothing_again(tmp_path: Path, kept: bool) -> None:
    path, into = tmp_path / "train.jsonl", tmp_path / "runs" if kept else None
    path.write_text(rows(1, 60, nan=(30, 60)))
    one = Following(path, into)
    one.follower.look()
    assert [alert.step for alert in one.printed if alert.rule == "non-finite"][:1] == [30]
    one.look(rows(61, 100))  # the last row of before is judged now, and is past as well
    one.look(rows(101, 121, nan=(110, 121)))
    one.follower.finish()  # judges the last row
    told = one.sent()
    assert ("non-finite", "firing", 110) in told
    assert len(told) == len(set(told))
    assert min(step for _, state, step in told if state == "firing") >= 61
    two = Following(path, into)
    two.follower.look()
    two.look(rows(122, 123))
    assert len(two.printed) > len(told)
    two.follower.finish()
    assert [change for change in two.sent() if change[1] == "firing"] == []


def test_another_training_in_the_file_is_all_new_and_a_resumed_one_from_where_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(rows(1, 50, nan=(20,)))
    following = Following(path, tmp_path / "runs")
    following.follower.look()
    following.look(rows(1, 40, nan=(3,)))
    following.look(rows(41, 90, nan=(80,)))
    following.look(rows(61, 75, nan=(70,)))  # resumed from 60: 3 has been told, and 80 is taken back
    following.follower.finish()
    fired = [step for rule, state, step in following.sent() if (rule, state) == ("non-finite", "firing")]
    assert fired == [3, 80, 70]


def test_rows_that_are_written_anew_are_not_told_again(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(rows(1, 50))
    following = Following(path, None)
    following.follower.look()
    following.look(rows(51, 80, nan=(70,)))
    path.write_text(path.read_text().replace('"grad_norm": 0.5, ', "", 5))
    following.look(rows(81, 120, nan=(110,)))
    following.follower.finish()
    fired = [step for rule, state, step in following.sent() if (rule, state) == ("non-finite", "firing")]
    assert fired == [70, 110]


def test_an_empty_file_has_no_past(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("")
    following = Following(path, None)
    with pytest.raises(UnreadableError):
        following.follower.look()
    following.look(rows(1, 30, nan=(2,)))
    following.follower.finish()
    assert ("non-finite", "firing", 2) in following.sent()


def test_what_did_not_get_through_is_sent_when_it_is_followed_again(tmp_path: Path) -> None:
    path, into = tmp_path / "train.jsonl", tmp_path / "runs"
    path.write_text(rows(1, 30))
    one = Following(path, into, TryLater("no", after=3000))
    one.follower.look()
    one.look(rows(31, 60, nan=(40,)))
    one.follower.finish()
    assert one.channel.sent == []
    two = Following(path, into)
    two.follower.look()
    two.follower.finish()
    assert ("non-finite", "firing", 40) in two.sent()


class Command:
    """`rlwatch`, following in a process of its own."""

    def __init__(self, hook: Hook, *arguments: str, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rlwatch", *arguments],
            cwd=cwd,
            env={**os.environ, "RLWATCH_SLACK_WEBHOOK": hook.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, start: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(start):
                return line
        raise AssertionError(self.process.stderr and self.process.stderr.read())

    def end(self, sign: int) -> str:
        self.process.send_signal(sign)
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == (0 if sign == signal.SIGINT else -sign), err
        return out + err


def test_the_command_sends_what_comes_once_also_when_it_is_killed_and_started_again(hook: Hook, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(rows(1, 60, nan=(30,)))
    follow = ("follow", "train.jsonl", "--into", "runs")
    first = Command(hook, *follow, cwd=tmp_path)
    assert first.until("rlwatch: alerts") == "rlwatch: alerts about what comes from here on go to slack\n"
    with path.open("a") as file:
        file.write(rows(61, 100, nan=(90,)))
    hook.wait(lambda: len(hook.arrived) == 1)
    hook.doings.append("429 after 3000")
    with path.open("a") as file:
        file.write(rows(101, 140, nan=(120,)))
    hook.wait(lambda: len(hook.times) >= 2)
    text = first.end(signal.SIGKILL)
    told = len(hook.arrived)
    second = Command(hook, *follow, cwd=tmp_path)
    second.until("rlwatch: alerts")
    text += second.end(signal.SIGINT)
    assert [*(tmp_path / "runs").glob("*/outbox/*.json")] == []
    texts = hook.texts()
    assert len(texts) > told
    assert not [told for told in texts if "step 30" in told]
    assert len(texts) == len(set(texts))
    assert SECRET not in text + everything(tmp_path)


@pytest.mark.parametrize("send", [True, False])
def test_analyze_follow_sends_too_and_not_where_it_is_told_so(hook: Hook, tmp_path: Path, send: bool) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(rows(1, 60))
    arguments = ["analyze", "--follow", "train.jsonl", *([] if send else ["--no-send"])]
    command = Command(hook, *arguments, cwd=tmp_path)
    command.until("rlwatch: following")
    with path.open("a") as file:
        file.write(rows(61, 100, nan=(90,)))
    command.until("Since")
    text = command.end(signal.SIGINT)
    assert bool(hook.arrived) == send
    assert ("go to slack" in text) <= send
    assert sum(hook.told().values()) == len(hook.told())


@pytest.mark.parametrize("live", [True, False])
def test_a_log_that_stops_growing_is_told_of_if_it_grew_while_it_was_followed(
    tmp_path: Path, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1e9]
    monkeypatch.setattr("rlwatch.report.follow.time", SimpleNamespace(time=lambda: clock[0]))
    path = tmp_path / "train.jsonl"
    path.write_text(rows(1, 40))
    one = Following(path, None)
    one.follower.look()
    for step in range(41, 61) if live else ():
        clock[0] += 10
        one.look(rows(step, step))
    assert "stalled" not in [alert.rule for alert in one.printed], "rows that are read at once did not come at once"
    for _ in range(3):
        clock[0] += 3600
        one.follower.look()
    told = [(alert.rule, alert.severity.value) for alert in one.printed if alert.rule == "stalled"]
    assert told == ([("stalled", "critical")] if live else [])
    one.follower.finish()
