"""What alerts do: stop a real training after a checkpoint, call the user's function, and nothing unless asked to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlwatch import Monitor, RLWatchCallback
from rlwatch.capture.acting import Acting
from rlwatch.capture.clock import Clock
from rlwatch.runs.reader import read_alerts, read_info, read_records
from rlwatch.runs.records import Alert, AlertState, Severity

NAMES = ["dead-groups", "entropy-collapse"]


def alert(rule: str = "dead-groups", severity: Severity = Severity.CRITICAL, over: bool = False) -> Alert:
    state = AlertState.RESOLVED if over else AlertState.FIRING
    return Alert(rule, severity, state, since=1, step=5, time=0.0, value=1.0, reference=None, message="m")


def nothing(completions: list[str], **_: Any) -> list[float]:
    return [0.0] * len(completions)


@pytest.mark.parametrize(
    ("stop_on", "heard", "stops"),
    [
        (None, alert(), False),
        ("critical", alert(), True),
        ("critical", alert(severity=Severity.WARNING), False),
        ("critical", alert(over=True), False),
        ("warning", alert(severity=Severity.WARNING), True),
        ("warning", alert(severity=Severity.INFO), False),
        (["dead-groups"], alert(severity=Severity.WARNING), True),
        (["dead-groups"], alert(severity=Severity.INFO), False),
        (["entropy-collapse"], alert(), False),
        (("entropy-collapse", "dead-groups"), alert(), True),
    ],
)
def test_what_stops_a_run(stop_on: Any, heard: Alert, stops: bool) -> None:
    acting = Acting(stop_on, rules=NAMES)
    acting.heard(heard)
    assert (acting.stopped_by is heard) == stops


@pytest.mark.parametrize(
    ("stop_on", "why"),
    [
        ("info", 'takes "critical", "warning" or a list of rules, not \'info\''),
        ("dead-groups", r"for the rule of that name, stop_on=\['dead-groups'\]"),
        (["dead-group"], "did you mean 'dead-groups'"),
        ([], "names no rule"),
    ],
)
def test_what_names_nothing_is_an_error_before_the_training(stop_on: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why):
        RLWatchCallback(stop_on=stop_on)
    with pytest.raises(ValueError, match=why):
        Monitor(tmp_path, stop_on=stop_on)
    assert not list(tmp_path.iterdir())


def test_on_alert_has_to_be_a_function() -> None:
    with pytest.raises(TypeError, match="on_alert= takes a function of an alert, not str"):
        RLWatchCallback(on_alert="print")  # type: ignore[arg-type]


def test_a_training_stops_after_a_checkpoint_and_goes_on_from_it(
    make_trainer: Callable[..., Any], tmp_path: Path
) -> None:
    def train(steps: int, resume: str | None) -> tuple[Any, RLWatchCallback]:
        watcher = RLWatchCallback(tmp_path / "runs", name="run", stop_on="critical")
        trainer = make_trainer(reward_funcs=[nothing], callbacks=[watcher], max_steps=steps)
        trainer.train(resume_from_checkpoint=resume)
        return trainer, watcher

    stopped, watcher = train(60, None)
    assert watcher.run_dir is not None
    step = stopped.state.global_step
    first = next(a for a in read_alerts(watcher.run_dir).items if a.severity is Severity.CRITICAL)
    assert (first.rule, first.step) == ("dead-groups", step)
    assert step < 60
    checkpoint = Path(stopped.args.output_dir) / f"checkpoint-{step}"
    assert (checkpoint / "trainer_state.json").is_file()
    assert read_info(watcher.run_dir)["stopped"] == {"step": step, "rule": "dead-groups", "severity": "critical"}
    assert len(read_records(watcher.run_dir).items) == step

    resumed, watcher = train(step + 3, str(checkpoint))
    assert resumed.state.global_step == step + 3, "what was told is not told again, and does not stop it again"


def test_by_default_nothing_stops_a_training(make_trainer: Callable[..., Any], tmp_path: Path) -> None:
    heard: list[Alert] = []

    def loud(change: Alert) -> None:
        heard.append(change)
        raise RuntimeError("of the user's own")

    watcher = RLWatchCallback(tmp_path, on_alert=loud)
    trainer = make_trainer(reward_funcs=[nothing], callbacks=[watcher], max_steps=25)
    trainer.train()
    assert trainer.state.global_step == 25
    assert watcher.run_dir is not None
    assert heard
    assert [a.rule for a in heard] == [a.rule for a in read_alerts(watcher.run_dir).items]
    faults = read_info(watcher.run_dir)["faults"]
    assert [(f["where"], f["error"]) for f in faults] == [("calling on_alert", "RuntimeError: of the user's own")]


def lose(monitor: Monitor, first: int, last: int) -> int:
    """Steps whose groups are all alike, until the monitor says to stop; the last one."""
    for step in range(first, last + 1):
        monitor.rollouts([0.0] * 8, group_size=4)
        monitor.step(step, loss=0.0)
        if monitor.should_stop:
            return step
    return last


def test_a_loop_of_ones_own_asks_whether_to_stop(tmp_path: Path) -> None:
    heard: list[Alert] = []
    with Monitor(tmp_path, stop_on=["dead-groups"], on_alert=heard.append) as monitor:
        step = lose(monitor, 1, 100)
    assert step < 100
    assert heard[-1].severity is Severity.CRITICAL
    with Monitor(tmp_path) as monitor:
        assert lose(monitor, 1, 100) == 100


def test_a_loop_that_goes_on_elsewhere_neither_forgets_nor_tells_twice(tmp_path: Path) -> None:
    told: dict[str, list[tuple[str, int]]] = {"whole": [], "first": [], "second": []}

    def listen(name: str) -> Callable[[Alert], None]:
        return lambda a: told[name].append((a.rule, a.step))

    with Monitor(tmp_path, on_alert=listen("whole")) as monitor:
        lose(monitor, 1, 60)
    with Monitor(tmp_path, on_alert=listen("first")) as monitor:
        lose(monitor, 1, 12)
        state = monitor.state_dict()
    with Monitor(tmp_path, on_alert=listen("second")) as monitor:
        monitor.load_state_dict(state)
        with pytest.raises(ValueError, match="12"):
            monitor.step(12)
        lose(monitor, 13, 60)
        with pytest.raises(ValueError, match="comes before the first step"):
            monitor.load_state_dict(state)
    assert told["whole"]
    assert told["first"] + told["second"] == told["whole"]


@pytest.mark.parametrize("state", [{}, {"version": 2}, None, [1]])
def test_another_state_is_refused(state: Any, tmp_path: Path) -> None:
    with (
        Monitor(tmp_path) as monitor,
        pytest.raises(ValueError, match=r"no state_dict\(\) of a Monitor, or one of another version"),
    ):
        monitor.load_state_dict(state)


def test_a_clock_calls_until_it_is_stopped() -> None:
    from threading import Event

    called = Event()
    clock = Clock(called.set, seconds=0.01)
    assert not called.is_set()
    clock.start()
    clock.start()
    assert called.wait(10)
    clock.stop()
    clock.start()
    assert clock._thread is not None
    assert not clock._thread.is_alive(), "it does not begin again"
