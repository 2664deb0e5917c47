"""stalled: what is late, live and in a log, and what only takes long."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence

import pytest

from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Quiet, Untold
from rlwatch.detect.rules import stalled
from rlwatch.detect.rules.stalled import Stalled
from rlwatch.detect.setting import settings_of
from rlwatch.detect.state import dump, restore
from rlwatch.runs.records import Severity, StepRecord

BEGIN = 1.7e9


def run(gaps: Sequence[float], *, every: int = 1, seconds: bool = False) -> list[StepRecord]:
    """A record after each gap; with the seconds of a step where they are asked for."""
    records, time = [], BEGIN
    for i, gap in enumerate(gaps, 1):
        time += gap
        records.append(StepRecord(i * every, time, {"step_seconds": gap / every} if seconds else {}))
    return records


def feed(records: Sequence[StepRecord], rule: Stalled | None = None) -> list[tuple[int, str, str]]:
    def fault(name: str, error: Exception) -> None:
        raise error

    engine = Engine([rule or Stalled()], on_fault=fault)
    return [(a.step, a.state.value, a.severity.value) for r in records for a in engine.feed(r)]


def told(found: Finding | Untold | Quiet) -> Finding:
    assert isinstance(found, Untold)
    return found.tell()


def usual(count: int, seconds: float = 10.0, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [seconds * math.exp(0.1 * draw.gauss(0, 1)) for _ in range(count)]


@pytest.mark.parametrize("every", [1, 10, 50])
def test_a_record_that_comes_late_is_a_warning_and_over_with_the_next(every: int) -> None:
    gaps = [gap * every for gap in usual(40)]
    gaps[29] = 5000.0 * every
    changes = feed(run(gaps, every=every))
    assert changes == [(30 * every, "firing", "warning"), (31 * every, "resolved", "warning")]


def test_an_alert_says_how_long_against_what() -> None:
    gaps = [*usual(30), 5000.0]
    rule = Stalled({"use_vllm": True, "vllm_mode": "server", "vllm_server_host": "node7"})
    *_, found = [rule.update(record) for record in run(gaps, seconds=True)]
    finding = told(found)
    assert finding.message.startswith("step 31 came after 83 min: usually it takes 1")
    assert finding.value == 5000.0
    assert finding.reference == pytest.approx(30 * 10, rel=0.15)
    assert finding.evidence["last step"] == 31
    assert finding.evidence["seconds without a step"] == 5000.0
    assert "within the step" in finding.causes[0].text
    assert finding.causes[1].text == "completions come from a vLLM server (node7)"
    assert finding.advice[0].source == "py-spy documentation"


def test_a_gap_between_two_steps_is_a_warning_that_says_where_the_time_went() -> None:
    records = run([*usual(30), 30_000.0, *usual(5)])
    known = [StepRecord(r.step, r.time, {"step_seconds": 11.0}) for r in records]
    assert feed(known) == [(31, "firing", "warning"), (32, "resolved", "warning")]
    rule = Stalled()
    *_, found = [rule.update(record) for record in known[:31]]
    assert "between two steps: an evaluation, a checkpoint, or a restart" in told(found).causes[0].text


@pytest.mark.parametrize("factor", [3, 10, 20, 25])
@pytest.mark.parametrize("between", [50, 100])
@pytest.mark.parametrize("seconds", [0.1, 5.0, 60.0])
def test_evaluations_and_checkpoints_are_no_stall(factor: float, between: int, seconds: float) -> None:
    gaps = usual(1000, seconds)
    gaps = [gap * (factor if i % between == 0 else 1) for i, gap in enumerate(gaps, 1)]
    assert feed(run(gaps)) == []


def test_an_evaluation_that_is_longer_than_anyone_expects_is_late_once() -> None:
    gaps = [gap * (60 if i % 50 == 0 else 1) for i, gap in enumerate(usual(1000), 1)]
    assert [state for _, state, _ in feed(run(gaps))] == ["firing", "resolved"]


def test_a_long_hang_does_not_hide_the_next() -> None:
    gaps = usual(300)
    gaps[100], gaps[200] = 36_000.0, 36_000.0
    assert [step for step, state, _ in feed(run(gaps)) if state == "firing"] == [101, 201]


def test_steps_that_get_longer_are_no_stall() -> None:
    gaps = [10.0 * 1.01**i for i in range(400)]
    assert feed(run(gaps)) == []


def test_rows_that_are_left_out_are_no_stall() -> None:
    records = run(usual(300))
    assert feed([r for r in records if not 100 < r.step <= 160]) == []


def test_without_times_it_says_nothing_and_goes_on_where_they_come_back() -> None:
    records = run([*usual(50), 5000.0, *usual(5)])
    lost = [StepRecord(r.step, math.nan, {}) for r in records]
    rule = Stalled()
    assert {rule.update(record) for record in lost} == {NO_DATA}
    assert rule.tick(BEGIN + 1e6) is NO_DATA
    holes = [StepRecord(r.step, math.nan if r.step % 3 == 0 else r.time, {}) for r in records]
    assert [c for c in feed(holes) if c[1] == "firing"] == [(52, "firing", "warning")]


def test_a_clock_that_is_set_back_says_nothing() -> None:
    records = [StepRecord(r.step, r.time - (1e5 if r.step >= 20 else 0), {}) for r in run(usual(40))]
    assert feed(records) == []


def test_a_log_with_one_time_for_all_says_nothing() -> None:
    assert feed([StepRecord(step, 0.0, {}) for step in range(1, 300)]) == []


# --- live ------------------------------------------------------------------------------------------------------------


def test_live_it_is_a_warning_and_then_critical_and_over_with_the_step_after_the_late_one() -> None:
    records = run([*usual(30), 5000.0, *usual(3)])
    engine = Engine([Stalled()])
    for record in records[:30]:
        assert engine.feed(record) == []
    last, changes = records[29].time, []
    for seconds in range(5, 5000, 5):
        changes += [(seconds, a.severity, a.message) for a in engine.tick(last + seconds)]
    assert [severity for _, severity, _ in changes] == [Severity.WARNING, Severity.CRITICAL]
    limit = Stalled.slow_first.default * 10
    assert changes[0][0] == pytest.approx(limit, rel=0.15)
    assert changes[1][0] == pytest.approx(4 * limit, rel=0.15)
    assert changes[1][2].startswith("no step for 2")
    assert "after step 30: usually it takes" in changes[1][2]
    assert engine.feed(records[30]) == []
    [over] = engine.feed(records[31])
    assert (over.state.value, over.step) == ("resolved", 32)


def test_a_look_at_a_run_that_is_in_time_says_nothing() -> None:
    rule = Stalled()
    assert rule.tick(BEGIN) is NO_DATA
    for record in run(usual(30)):
        rule.update(record)
        for seconds in (1, 20, 100, -50, math.nan):
            assert rule.tick(record.time + seconds) is NO_DATA
    assert isinstance(rule.tick(record.time + 400), Untold)


def test_before_three_gaps_nobody_knows_what_is_usual() -> None:
    rule = Stalled()
    for record in run([10.0, 10.0, 10.0]):
        assert rule.update(record) is NO_DATA
        assert rule.tick(record.time + 1e6) is NO_DATA


def test_a_run_that_is_done_is_not_waited_for() -> None:
    for steps, quiet in ((30, True), (31, False), (-1, False), ("?", False), (None, False)):
        rule = Stalled({"max_steps": steps})
        for record in run(usual(30)):
            rule.update(record)
        assert (rule.tick(record.time + 1e5) is NO_DATA) == quiet


def test_after_a_restart_the_time_in_between_is_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = Stalled(), Stalled()
    records = run(usual(60))
    for record in records[:30]:
        before.update(record)
    saved = json.loads(json.dumps(dump(before)))
    monkeypatch.setattr(stalled, "PROCESS", stalled.PROCESS + 1)
    restore(after, saved)
    assert after.tick(records[29].time + 40_000) is NO_DATA
    later = [StepRecord(r.step, r.time + 40_000, {}) for r in records[30:]]
    assert [after.update(record) for record in later] == [NO_DATA, *[CLEAR] * 29]
    assert isinstance(after.tick(later[-1].time + 400), Untold)


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_the_limit_is_the_largest_of_its_three_parts() -> None:
    """Brute force, with the slowest gap fading by half in 500 records and no further up than the limit of its time."""
    draw = random.Random(1)
    gaps = [10 * math.exp(draw.gauss(0, 0.2)) * (30 if i % 60 == 59 else 1) for i in range(500)]
    rule, slowest, seen = Stalled(), 0.0, []
    level = math.nan
    for i, record in enumerate(run([1.0, *gaps])):
        limit = rule.limit
        rule.update(record)
        if i == 0:
            continue
        gap = gaps[i - 1]
        slowest = max(min(gap, limit), slowest * 0.5 ** (1 / 500))
        seen.append(gap)
        if len(seen) < 3:
            assert rule.limit == math.inf
            continue
        level = sorted(seen)[1] if len(seen) == 3 else level * math.exp(0.05 if gap > level else -0.05)
        times = 30 if len(seen) < 200 else 10
        assert rule.limit == pytest.approx(max(120, 3 * slowest, times * level))
    assert level == pytest.approx(sorted(gaps)[250], rel=0.25), "it stays around the median"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("least", 10_000.0), ("slower", 1000.0), ("slow_first", 1000.0), ("slow_later", 1000.0), ("learnt", 1e6),
        ("half_life", 1.0), ("pace", 1.0), ("usual_rows", 200.0), ("between", 0.0), ("critical", 1.0),
    ],
)  # fmt: skip
def test_a_setting_changes_what_it_says(setting: str, value: float) -> None:
    def play(settings: dict[str, object]) -> list[object]:
        rule = Stalled(None, settings)
        found: list[object] = []
        gaps = usual(400)
        gaps[99], gaps[299] = {"half_life": 290.0, "learnt": 10.0}.get(setting, 1000.0), 310.0
        if setting == "learnt":
            gaps[299] = 200.0
        for record in run(gaps):
            seen = rule.update(StepRecord(record.step, record.time, {"step_seconds": 10.0}))
            found.append(seen if isinstance(seen, Quiet) else (seen.severity, told(seen)))
        seen = rule.tick(record.time + 1500)
        found.append(seen if isinstance(seen, Quiet) else (seen.severity, told(seen)))
        return found

    assert play({}) != play({setting: value})


def test_every_number_says_where_it_is_from() -> None:
    assert all(s.unit and s.source for s in settings_of(Stalled).values())


@pytest.mark.parametrize("at", [2, 3, 50, 101])
def test_a_rule_that_is_saved_midway_goes_on_as_if_it_had_not_been(at: int) -> None:
    gaps = usual(200)
    gaps[100], gaps[150] = 5000.0, 400.0
    records = run(gaps)
    whole, first, second = Stalled(), Stalled(), Stalled()
    for record in records[:at]:
        whole.update(record)
        first.update(record)
    restore(second, json.loads(json.dumps(dump(first))))
    for record in records[at:]:
        one, other = whole.update(record), second.update(record)
        assert (one if isinstance(one, Quiet) else told(one)) == (other if isinstance(other, Quiet) else told(other))


def test_it_never_raises_whatever_the_times_are() -> None:
    draw, rule, step = random.Random(0), Stalled({"max_steps": "x", "use_vllm": "yes"}), 0
    for _ in range(3000):
        step += draw.choice([0, 1, 1, 10])
        time = draw.choice([0.0, -1.0, BEGIN + step, 1e300, -1e300, math.nan, math.inf, -math.inf])
        for found in (
            rule.update(StepRecord(step, time, {"step_seconds": draw.choice([None, 1.0, math.nan])})),
            rule.tick(time),
        ):
            if isinstance(found, Untold):
                found.tell()
