"""The engine besides an alert's life: causes and symptoms, time that passes, rules that break, going on elsewhere."""

from __future__ import annotations

import json
import math
import random

import pytest

from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule
from rlwatch.detect.rules import default_rules
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord


class Listens(Rule):
    """Finds what the metric of its own name says."""

    def update(self, record: StepRecord) -> Finding | Quiet:
        level = record.metrics.get(self.name)
        if level is None:
            return NO_DATA
        return CLEAR if level < 0 else Finding(list(Severity)[int(level)], level, None, f"{self.name} at {level:g}")


class Cause(Listens):
    """Comes first."""

    name = "cause"


class Symptom(Listens):
    """Follows from it."""

    name = "symptom"
    symptom_of = ("cause",)


class Waits(Rule):
    """Finds that nothing has come for a minute."""

    name = "waits"

    def __init__(self) -> None:
        super().__init__()
        self.last = math.nan

    def update(self, record: StepRecord) -> Quiet:
        self.last = record.time
        return CLEAR

    def tick(self, now: float) -> Finding | Quiet:
        late = now - self.last
        return Finding(Severity.WARNING, late, 60.0, f"{late:g} s") if late > 60 else CLEAR


class Breaks(Rule):
    """Raises at step 3."""

    name = "breaks"

    def update(self, record: StepRecord) -> Quiet:
        if record.step >= 3:
            raise RuntimeError("broken")
        return CLEAR


def row(step: int, **metrics: float) -> StepRecord:
    return StepRecord(step, 1000.0 + step, metrics)


def told(changes: list[Alert]) -> list[tuple[str, str, str]]:
    return [(a.rule, a.severity.value, a.state.value) for a in changes]


def test_a_symptom_is_not_told_while_its_cause_is_critical() -> None:
    engine = Engine([Cause(), Symptom()])
    assert told(engine.feed(row(1, cause=2, symptom=2))) == [("cause", "critical", "firing")]
    assert engine.feed(row(2, cause=2, symptom=2)) == []


def test_a_symptom_that_outlives_its_cause_is_told_then_and_knows_since_when() -> None:
    engine = Engine([Cause(), Symptom()])
    engine.feed(row(1, cause=2, symptom=1))
    changes = engine.feed(row(2, cause=-1, symptom=1))
    assert told(changes) == [("cause", "critical", "resolved"), ("symptom", "warning", "firing")]
    assert changes[1].since == 1


def test_a_warning_of_the_cause_silences_nothing() -> None:
    engine = Engine([Cause(), Symptom()])
    assert [rule for rule, _, _ in told(engine.feed(row(1, cause=1, symptom=1)))] == ["cause", "symptom"]


def test_a_symptom_that_was_told_before_does_not_get_worse_but_may_end() -> None:
    engine = Engine([Cause(), Symptom()])
    assert told(engine.feed(row(1, cause=-1, symptom=1))) == [("symptom", "warning", "firing")]
    assert told(engine.feed(row(2, cause=2, symptom=2))) == [("cause", "critical", "firing")]
    assert told(engine.feed(row(3, cause=2, symptom=-1))) == [("symptom", "warning", "resolved")]


def test_a_loss_that_is_not_finite_silences_all_other_rules() -> None:
    engine = Engine(default_rules())
    first = engine.feed(row(1, loss=math.nan, **{"reward/mean": math.nan, "grad/norm": math.inf}))
    assert told(first) == [("non-finite", "critical", "firing")]
    rows = (
        row(i, loss=math.nan, **{"groups/zero_std": 1.0, "reward/mean": 0.0, "grad/norm": 0.0}) for i in range(2, 60)
    )
    assert [change for record in rows for change in engine.feed(record)] == []


def test_time_that_passes_without_a_record_is_judged_by_tick() -> None:
    engine = Engine([Waits(), Cause()])
    assert engine.tick(5000.0) == [], "nothing is late before there was anything"
    engine.feed(row(7))
    assert engine.tick(1030.0) == []
    late = engine.tick(1080.0)
    assert told(late) == [("waits", "warning", "firing")]
    assert (late[0].step, late[0].time, late[0].value) == (7, 1080.0, 73.0)
    assert engine.tick(1090.0) == [], "it is told once"
    assert told(engine.feed(row(8))) == [("waits", "warning", "resolved")]


def test_a_rule_that_raises_is_left_out_and_the_others_go_on() -> None:
    faults: list[tuple[str, str]] = []
    engine = Engine([Breaks(), Cause()], on_fault=lambda name, error: faults.append((name, str(error))))
    changes = [change for step in range(1, 9) for change in engine.feed(row(step, cause=1.0 if step > 5 else -1.0))]
    assert faults == [("breaks", "broken")]
    assert told(changes) == [("cause", "warning", "firing")]


def test_an_alert_on_few_rows_says_so_and_a_certain_one_does_not() -> None:
    early, late = Engine([Cause()]), Engine([Cause()])
    assert early.feed(row(1, cause=1))[0].message == "cause at 1 (low evidence: 1 row)"
    for step in range(1, 10):
        late.feed(row(step, cause=-1))
    assert late.feed(row(10, cause=1))[0].message == "cause at 1"
    assert "evidence" not in Engine(default_rules()).feed(row(1, loss=math.nan))[0].message


def wild(seed: int, steps: int) -> list[StepRecord]:
    """Rows in which everything happens: dead groups, falls, NaN, metrics that come and go, jumps of the step."""
    draw, step, rows = random.Random(seed), 0, []
    names = [
        "entropy/mean", "reward/mean", "reward/std", "groups/solved", "groups/failed", "groups/stuck",
        "groups/zero_std", "groups/reward_std", "grad/norm", "kl/ref", "loss", "length/mean", "length/truncated",
        "advantage/mean",
        "sampler/ratio_mean", "length/correct", "length/incorrect", "length/gap", "clip/high", "clip/low",
        "groups/unique", "signal/active_tokens", "grad/policy_norm", "grad/regulariser_norm", "grad/effective_norm",
        "reward/format", "reward/correctness", "eval/reward", "step_seconds",
    ]  # fmt: skip
    level = {name: draw.random() for name in names}
    for _ in range(steps):
        step += draw.choice((1, 1, 1, 5))
        for name in names:
            if draw.random() < 0.03:
                level[name] = draw.choice((0.0, 1.0, draw.random(), draw.random() * 10))
        metrics = {n: math.nan if draw.random() < 0.002 else v * draw.uniform(0.9, 1.1) for n, v in level.items()}
        rows.append(StepRecord(step, 1e9 + 30 * step, {n: v for n, v in metrics.items() if draw.random() < 0.95}))
    return rows


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("through_json", [False, True])
def test_a_restored_engine_goes_on_as_if_nothing_had_been(seed: int, through_json: bool) -> None:
    rows = wild(seed, 400)
    cut = 50 + 40 * seed
    one, two = Engine(default_rules(), run="run"), Engine(default_rules(), run="run")
    before = [change for record in rows[:cut] for change in one.feed(record)]
    state = one.state()
    two.restore(json.loads(json.dumps(state)) if through_json else state)
    after = [[repr(change) for record in rows[cut:] for change in engine.feed(record)] for engine in (one, two)]
    assert after[0] == after[1]
    assert before
    assert after[0], "the rows made something happen on both sides"


def test_a_state_of_another_version_is_refused() -> None:
    engine = Engine(default_rules())
    state = engine.state()
    state["rules"]["truncation"]["rule"]["forgotten"] = 1.0
    with pytest.raises(ValueError, match="Truncation is another version's \\(forgotten\\)"):
        Engine(default_rules()).restore(state)


def test_a_rule_with_a_memory_that_is_not_plain_cannot_be_saved() -> None:
    class Odd(Cause):
        def __init__(self) -> None:
            super().__init__()
            self.seen = {1, 2}

    with pytest.raises(TypeError, match=r"Odd\.seen is a set"):
        Engine([Odd()]).state()


class Held(Cause):
    """Has to hold for three records."""

    hold = Hold(records=3)


def test_what_is_silenced_is_no_pending_alert() -> None:
    engine = Engine([Cause(), type("HeldSymptom", (Held,), {"name": "symptom", "symptom_of": ("cause",)})()])
    engine.feed(row(1, cause=2, symptom=2))
    assert [a.rule for a in engine.held_back()] == ["symptom"], "it has not held yet, whatever else there is"
    for step in (2, 3, 4):
        engine.feed(row(step, cause=2, symptom=2))
    assert engine.held_back() == []
    assert all(a.state is AlertState.PENDING for a in engine.held_back())


def test_what_is_remembered_does_not_grow_with_the_run() -> None:
    engine, sizes = Engine(default_rules()), []
    for index, record in enumerate(wild(3, 6000), 1):
        engine.feed(record)
        if index % 1500 == 0:
            sizes.append(len(json.dumps(engine.state())))
    assert max(sizes[1:]) < 1.1 * sizes[0]
