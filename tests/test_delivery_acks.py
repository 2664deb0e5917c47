"""What people have answered is obeyed: by what is sent, by what is printed, live and where a log is followed."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from delivery import CRITICAL, PATIENCE, WARNING, Clock, Hook, Notes, Recorder, ends, fires, open_box
from delivery import waiting as waiting_files
from rlwatch.alerts import answering, stdout
from rlwatch.alerts.box import Box, Change
from rlwatch.alerts.channel import TryLater
from rlwatch.alerts.obeying import Watch, sort
from rlwatch.alerts.outbox import Outbox
from rlwatch.alerts.pacing import Told
from rlwatch.capture.acting import Acting
from rlwatch.capture.guard import Guard
from rlwatch.capture.session import Session
from rlwatch.runs import acks
from rlwatch.runs.acks import ACKNOWLEDGE, SILENCE, Answer
from rlwatch.runs.reader import read_alerts
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord
from rlwatch.runs.writer import RunWriter
from test_delivery_follow import Following, rows

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")


class Night:
    """A run with an outbox whose time passes when a test says so, and what people answer."""

    def __init__(self, tmp_path: Path, *doings: Exception, **more: Any) -> None:
        self.clock = Clock()
        self.channel = Recorder(*doings)
        self.notes = Notes()
        self.run = tmp_path / "runs" / "night-run"
        self.run.mkdir(parents=True)
        self.writer = RunWriter(self.run, {})
        self.box = open_box(self.channel, self.run, clock=self.clock, notes=self.notes, **more)

    def says(self, kind: str, rule: str = "dead-groups", **more: Any) -> None:
        """Somebody answers, and a second passes, until the file has been looked at."""
        acks.append(self.run, Answer(rule, kind, self.clock.now, **more))
        self.clock.passes(self.box, 1.0)
        end = time.monotonic() + PATIENCE
        while self.box._own.watch._stamp != acks.stamp_of(self.run):
            assert time.monotonic() < end, "nobody looks"
            time.sleep(0.001)

    def put(self, alert: Alert) -> None:
        self.box.put(alert)
        self.writer.alert(alert)

    def told(self) -> list[tuple[str, str, int]]:
        with self.channel.changed:
            changes = [(m.alert, len(m.changes)) for sent in self.channel.sent for m in sent]
        return [(a.rule, "end" if a.state is AlertState.RESOLVED else a.severity.value, n) for a, n in changes]

    def is_told(self, *expected: tuple[str, str, int]) -> None:
        """These have been told, in this order, and, by the time that another rule gets through, no more."""
        probe = f"probe-{len(self.told())}"
        self.box.put(fires(probe))
        with self.channel.changed:
            assert self.channel.changed.wait_for(lambda: any(r == probe for r, *_ in self.told()), PATIENCE)
        assert [told for told in self.told() if not told[0].startswith("probe")] == list(expected)

    def quiet(self) -> int:
        return len(list((self.run / "outbox" / "quiet").glob("*.json")))


WARNED, WORSE, OVER = ("dead-groups", "warning", 1), ("dead-groups", "critical", 1), ("dead-groups", "end", 1)


def test_an_acknowledged_alert_is_told_again_only_when_it_is_worse_or_over(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.put(fires(severity=WARNING))
    night.channel.wait(1)
    night.says(ACKNOWLEDGE, since=188, severity=WARNING)
    night.is_told(WARNED)
    night.clock.passes(night.box, 7200)
    night.put(replace(fires(severity=WARNING), step=250))  # again, no worse
    night.is_told(WARNED)
    night.put(fires())
    night.is_told(WARNED, WORSE)
    night.says(ACKNOWLEDGE, since=188, severity=CRITICAL)
    night.clock.passes(night.box, 7200)
    night.put(replace(fires(), step=300))
    night.is_told(WARNED, WORSE)
    night.put(ends())
    night.is_told(WARNED, WORSE, OVER)
    assert night.box.close() == 0
    assert night.quiet() == 2
    assert len(read_alerts(night.run).items) == 5
    assert night.notes == []


def test_what_waits_for_the_repeat_interval_is_not_told_once_it_is_acknowledged(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.put(fires(severity=WARNING, since=1))
    night.channel.wait(1)
    night.put(fires(severity=WARNING, since=50))
    night.says(ACKNOWLEDGE, since=50, severity=WARNING)
    night.clock.passes(night.box, 3700)
    night.is_told(WARNED)
    night.put(fires(severity=WARNING, since=90))  # another one of the rule: nobody has said anything of it
    night.is_told(WARNED, WARNED)
    assert night.box.close() == 0


def test_an_acknowledgement_that_is_taken_back_holds_no_longer(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.says(ACKNOWLEDGE, since=188, severity=WARNING)
    night.says(ACKNOWLEDGE, since=188, undo=True)
    night.put(fires(severity=WARNING))
    night.is_told(WARNED)
    night.box.close()


def test_a_silenced_rule_tells_nobody_until_the_hours_are_over_and_then_how_things_stand(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.says(SILENCE, until_time=night.clock.now + 7200)
    night.put(fires(severity=WARNING))
    night.put(fires())
    night.put(fires("other"))
    night.is_told(("other", "critical", 1))
    night.clock.passes(night.box, 7100)
    night.is_told(("other", "critical", 1))
    night.clock.passes(night.box, 200)
    night.is_told(("other", "critical", 1), WORSE)
    assert night.box.close() == 0
    assert night.quiet() == 1  # the warning, which was over by the time that somebody might be told


def test_a_silence_until_a_step_ends_with_that_step(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.writer.append(StepRecord(399, 1.0, {}))
    night.says(SILENCE, until_step=400)
    night.put(fires())
    night.clock.passes(night.box, 5)
    night.is_told()
    night.writer.append(StepRecord(400, 1.0, {}))
    night.clock.passes(night.box, 1)
    night.is_told(WORSE)
    night.box.close()


def test_what_came_and_went_in_the_silence_is_told_to_nobody(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.says(SILENCE, until_time=night.clock.now + 60)
    for since in (1, 50):
        night.put(fires(since=since))
        night.put(ends(since=since))
    night.is_told()
    night.clock.passes(night.box, 100)
    night.is_told()
    assert night.box.close() == 0
    assert night.quiet() == 4
    assert len(read_alerts(night.run).items) == 4


def test_an_end_in_the_silence_is_told_after_it_to_who_believes_that_it_fires(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.put(fires())
    night.channel.wait(1)
    night.says(SILENCE, until_time=night.clock.now + 60)
    night.put(ends())
    night.is_told(WORSE)
    night.clock.passes(night.box, 100)
    night.is_told(WORSE, OVER)
    night.box.close()


def test_what_was_told_before_the_silence_and_still_fires_after_it_is_told_once_more(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.put(fires())
    night.channel.wait(1)
    night.says(SILENCE, until_time=night.clock.now + 60)
    night.is_told(WORSE)
    night.clock.passes(night.box, 100)
    night.is_told(WORSE, WORSE)
    night.clock.passes(night.box, 100)
    night.is_told(WORSE, WORSE)  # once
    night.says(SILENCE)
    night.says(SILENCE, undo=True)  # taken back: nothing has happened, so there is nothing to tell
    night.is_told(WORSE, WORSE)
    night.box.close()


def test_an_acknowledged_alert_is_not_told_once_more_after_a_silence(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.put(fires())
    night.channel.wait(1)
    night.says(ACKNOWLEDGE, since=188, severity=CRITICAL)
    night.says(SILENCE, until_time=night.clock.now + 60)
    night.is_told(WORSE)  # it has been seen by then
    night.clock.passes(night.box, 100)
    night.is_told(WORSE)
    night.box.close()


def test_a_silence_that_is_taken_back_lets_out_what_it_held(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.says(SILENCE)
    night.put(fires())
    night.is_told()
    night.says(SILENCE, undo=True)
    night.is_told(WORSE)
    night.box.close()


def test_at_the_end_of_the_training_a_silence_still_holds(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.says(SILENCE)
    night.put(fires())
    night.put(fires("other"))
    night.channel.wait(1)
    assert night.box.close() == 0
    assert night.told() == [("other", "critical", 1)]
    assert (night.notes, waiting_files(night.run), night.quiet()) == ([], [], 1)


def test_a_rule_that_comes_and_goes_all_night_in_silence_leaves_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlwatch.alerts.outbox.CAPACITY", 20)
    night = Night(tmp_path)
    night.says(SILENCE)
    for since in range(1, 200):
        night.put(fires(since=since))
        if since % 10 == 0:
            night.is_told()
    night.box.close()
    assert len(waiting_files(night.run)) == 0


def test_what_could_not_be_sent_is_not_sent_once_it_is_acknowledged(tmp_path: Path) -> None:
    night = Night(tmp_path, TryLater("no", after=600.0))
    night.put(fires())
    with night.channel.changed:
        assert night.channel.changed.wait_for(lambda: not night.channel.doings, PATIENCE)
    night.says(ACKNOWLEDGE, since=188, severity=CRITICAL)
    night.clock.passes(night.box, 700)
    night.is_told()
    night.box.close()


def test_a_strange_line_among_the_alerts_does_not_end_the_sending(tmp_path: Path) -> None:
    night = Night(tmp_path)
    night.put(fires())
    night.channel.wait(1)
    lines = (night.run / "alerts.jsonl").read_text()
    (night.run / "alerts.jsonl").write_text(lines.replace('"dead-groups"', '["dead-groups"]') + lines)
    night.says(SILENCE, until_time=night.clock.now + 60)
    night.is_told(WORSE)  # it has been seen by then
    night.clock.passes(night.box, 100)
    night.is_told(WORSE, WORSE)
    assert answering.acknowledge(night.run, "dead-groups").since == 188
    assert answering.rules_of(night.run) == {"dead-groups"}
    night.box.close()
    assert night.notes == []


def test_strange_answers_hold_up_nothing(tmp_path: Path) -> None:
    night = Night(tmp_path)
    (night.run / acks.FILE).write_text('{"rule":\n\x00\x00\n[]\n' + '{"kind":"silence"}\n' * 50)
    night.clock.passes(night.box, 1)
    night.put(fires())
    night.is_told(WORSE)
    (night.run / acks.FILE).unlink()
    (night.run / acks.FILE).mkdir()  # it cannot be read at all
    night.clock.passes(night.box, 1)
    night.put(ends())
    night.is_told(WORSE, OVER)
    night.box.close()
    assert {note.split(":")[0] for note in night.notes} == {"reading who has acknowledged what"}


def test_the_file_is_looked_at_once_a_second_and_read_where_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"stat": 0, "read": 0}
    stat, read = acks.stamp_of, acks.read_answers

    def counted(name: str, function: Any) -> Any:
        def call(run: Path) -> Any:
            counts[name] += 1
            return function(run)

        return call

    monkeypatch.setattr("rlwatch.alerts.obeying.stamp_of", counted("stat", stat))
    monkeypatch.setattr("rlwatch.alerts.obeying.read_answers", counted("read", read))
    clock = Clock()
    watch = Watch(tmp_path, clock)
    acks.append(tmp_path, Answer("dead-groups", SILENCE, 1.0))
    for _ in range(100):
        watch.look()
    assert counts == {"stat": 1, "read": 1}
    for _ in range(10):
        clock.now += 1.0
        watch.look()
    assert counts == {"stat": 11, "read": 1}
    acks.append(tmp_path, Answer("dead-groups", SILENCE, 1.0, undo=True))
    clock.now += 1.0
    assert watch.look() == {"dead-groups"}
    assert counts == {"stat": 12, "read": 2}


def test_what_another_run_left_is_sent_as_its_own_answers_say(tmp_path: Path) -> None:
    left = tmp_path / "left"
    (left / "outbox").mkdir(parents=True)
    for rule in "abc":
        Box(left / "outbox").write(Change(replace(fires(rule), run="left"), "recorder", 1.0, None))
    acks.append(left, Answer("a", ACKNOWLEDGE, 1.0, 188, severity=CRITICAL))
    acks.append(left, Answer("b", SILENCE, 1.0))
    channel = Recorder()
    box = open_box(channel, tmp_path / "next", others=tmp_path)
    channel.wait(1)
    assert box.close() == 0
    assert [m.alert.rule for sent in channel.sent for m in sent] == ["c"]
    assert len(waiting_files(left)) == 1  # of b: its training may be resumed


# By the pure function


@pytest.mark.parametrize("ending", [False, True])
def test_of_what_a_silence_holds_back_the_newest_waits_and_at_the_end_nothing_does(
    tmp_path: Path, ending: bool
) -> None:
    acks.append(tmp_path, Answer("dead-groups", SILENCE, 1.0))
    watch = Watch(tmp_path)
    watch.look()
    alerts = [fires(since=1), ends(since=1), fires(since=50)]
    assert sort(alerts, watch, Told(), ending=ending) == ([], [0, 1, 2] if ending else [0, 1])
    assert sort(alerts[:2], watch, Told(), ending=ending) == ([], [0, 1])
    told = Told(last=fires(since=1))
    assert sort(alerts[:2], watch, told, ending=ending) == ([], [0, 1] if ending else [0])
    assert sort([fires("other")], watch, Told(), ending=ending) == ([0], [])
    assert sort([], watch, Told(), ending=ending) == ([], [])


# A live training


def nan_steps(session: Session, first: int, last: int, nan: tuple[int, ...] = ()) -> None:
    for step in range(first, last + 1):
        session.step(StepRecord(step, 1.0 + step, {"loss": float("nan") if step in nan else 0.1, "reward/mean": 0.3}))


def test_a_live_training_obeys_and_stops_all_the_same(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLWATCH_SLACK_WEBHOOK", hook.url)
    heard: list[Alert] = []
    acting = Acting("critical", heard.append, rules=["non-finite"])
    session = Session(tmp_path, "live", {}, Guard(), acting=acting)
    assert session.path is not None
    answering.silence(session.path, "non-finite", until_step=1000)
    assert session._outbox is not None
    session._outbox._own.watch._looked = None  # as if a second had passed
    nan_steps(session, 1, 12, nan=(8,))
    assert [alert.state.value for alert in heard] == ["firing", "resolved"]
    assert acting.stopped_by is not None
    assert acting.stopped_by.rule == "non-finite"
    assert [alert.state for alert in read_alerts(session.path).items] == [alert.state for alert in heard]
    session.close()
    assert hook.texts() == []
    printed = capsys.readouterr().out
    quiet = "rlwatch · non-finite · critical · silenced until step 1,000: "
    assert [line.startswith(quiet) for line in printed.splitlines() if "non-finite" in line] == [True, True]
    assert "───" not in printed


def test_without_an_answer_a_live_training_tells_and_prints_the_whole(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLWATCH_SLACK_WEBHOOK", hook.url)
    session = Session(tmp_path, "live", {}, Guard())
    nan_steps(session, 1, 12, nan=(8,))
    session.close()
    assert len(hook.texts()) == 1
    assert "───" in capsys.readouterr().out


def test_what_is_printed_of_a_quiet_alert_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    stdout.show(fires(), "acknowledged")
    stdout.show(ends(), "silenced until step 400")
    first, second = capsys.readouterr().out.splitlines()
    assert (first.count("acknowledged"), first.count("since step 188")) == (1, 1)
    assert (second.count("silenced until step 400"), second.count("over at step 193")) == (1, 1)


# A followed log


def test_a_followed_log_obeys(tmp_path: Path) -> None:
    path, into = tmp_path / "train.jsonl", tmp_path / "runs"
    path.write_text(rows(1, 20))
    following = Following(path, into)
    following.follower.look()
    run = following.follower.run_dir
    assert run is not None
    answering.silence(run, "non-finite")
    assert following.follower._outbox is not None
    following.follower._outbox._own.watch._looked = None  # as if a second had passed
    following.look(rows(21, 30, nan=(25,)))
    following.follower.finish()
    assert [alert.state.value for alert in following.printed] == ["firing", "resolved"]
    assert following.sent() == []
    assert len(read_alerts(run).items) == 2


def test_many_who_answer_while_alerts_are_sent_break_nothing(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    channel = Recorder()
    notes = Notes()
    box = Outbox([channel], run / "outbox", note=notes, together=0.0)
    go = threading.Barrier(5)

    def answer(number: int) -> None:
        go.wait(PATIENCE)
        for since in range(50):
            acks.append(run, Answer(f"rule-{number}", ACKNOWLEDGE, 1.0, since, severity=Severity.WARNING))

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    go.wait(PATIENCE)
    for since in range(50):
        box.put(fires(f"rule-{since % 4}", since=since))  # critical: none of the answers is about that
    for thread in threads:
        thread.join(PATIENCE)
    assert box.close() == 0
    assert sum(len(m.changes) for sent in channel.sent for m in sent) == 50
    assert acks.read_answers(run)[1] == []
    assert notes == []
