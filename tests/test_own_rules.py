"""Rules of the user's own: a metric and a condition from the settings, checked against a slow reading of the docs."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlwatch.detect.adjust import with_lid
from rlwatch.detect.engine import Engine
from rlwatch.detect.own import OwnRuleSpec, check_message, own_rule
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Untold
from rlwatch.detect.state import dump, restore
from rlwatch.detect.window import Window
from rlwatch.runs.records import AlertState, Severity, StepRecord

NAN = math.nan


def rule(when: str, value: float, over: float = 20, **more: Any) -> Any:
    return own_rule(OwnRuleSpec("mine", "x", when, value, over=over, **more))()


def record(step: int, value: float | str | None) -> StepRecord:
    return StepRecord(step, 0.0, {} if value == "absent" else {"x": value})  # type: ignore[dict-item]


def found_at(made: Any, series: list[tuple[int, Any]]) -> list[str]:
    words = []
    for step, value in series:
        found = made.update(record(step, value))
        words.append("found" if isinstance(found, (Finding, Untold)) else found.value)
    return words


def slowly(when: str, limit: float, over: float, relative: bool, series: list[tuple[int, Any]]) -> list[str]:
    """All from the definition, looking at the whole past at each step."""
    words = []
    for place, (step, value) in enumerate(series):
        if not isinstance(value, float) or not abs(value) < 1e100:
            words.append("no data")
            continue
        known = [(s, v) for s, v in series[: place + 1] if isinstance(v, float) and abs(v) < 1e100]
        steps = [s for s, _ in known]
        gaps = [b - a for a, b in itertools.pairwise(steps)][-2:]
        spacing = min(gaps) if gaps else 1

        def mean(end: float, known: Any = known, spacing: int = spacing) -> float | None:
            inside = [(s, v) for s, v in known if end - over < s <= end]
            if not inside or end - inside[0][0] + spacing < over or 2 * len(inside) * spacing < over:
                return None
            return math.fsum(v for _, v in inside) / len(inside)

        now, before = mean(step), mean(step - over)
        if now is None or (when in ("rises", "falls") and (before is None or (relative and before == 0))):
            words.append("no data")
        elif when in ("above", "below"):
            words.append("found" if (now > limit if when == "above" else now < limit) else "clear")
        else:
            assert before is not None
            change = now - before if when == "rises" else before - now
            words.append("found" if change > limit * (abs(before) if relative else 1) else "clear")
    return words


VALUES = st.one_of(
    st.integers(-8, 8).map(lambda n: n / 4),  # sums of these are exact: the two ways give the same to the last bit
    st.sampled_from([NAN, math.inf, -math.inf, 1e101, None, "absent"]),
)


@given(
    when=st.sampled_from(["above", "below", "rises", "falls"]),
    limit=st.integers(0, 6).map(lambda n: n / 4),
    over=st.integers(1, 25),
    relative=st.booleans(),
    spacing=st.sampled_from([1, 10]),
    rows=st.lists(st.tuples(st.sampled_from([1, 1, 1, 1, 2, 7, 40]), VALUES), max_size=80),
)
@settings(max_examples=400, deadline=None)
def test_a_rule_finds_what_a_loop_over_the_whole_past_finds(
    when: str, limit: float, over: int, relative: bool, spacing: int, rows: list[tuple[int, Any]]
) -> None:
    relative = relative and when in ("rises", "falls")
    step, series = 0, []
    for apart, value in rows:
        step += apart * spacing
        series.append((step, value))
    assert found_at(rule(when, limit, over, relative=relative), series) == slowly(when, limit, over, relative, series)


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(-1e6, 1e6)), min_size=1, max_size=200), st.integers(1, 60))
def test_the_mean_of_a_window_is_that_of_its_values(rows: list[tuple[int, float]], over: int) -> None:
    window, inside, step = Window(), [], 0
    for apart, value in rows:
        step += apart
        window.push(step, value)
        window.pop_until(step - over)
        inside = [(s, v) for s, v in [*inside, (step, value)] if s > step - over]
        assert len(window) == len(inside) <= over
        assert window.oldest == inside[0][0]
        assert window.mean == pytest.approx(statistics.fmean(v for _, v in inside), abs=1e-6)


def test_a_value_that_has_left_leaves_no_rounding_error() -> None:
    made = rule("above", 0.5, over=4)
    values = [1e30, 1e30, 0.25, 0.25, 0.25, 0.25, 0.25]
    assert found_at(made, list(enumerate(values, 1)))[-1] == "clear"
    assert made._recent.mean == 0.25


def test_it_waits_for_a_whole_window_and_fires_then() -> None:
    assert found_at(rule("above", 0.5, over=5), [(s, 1.0) for s in range(1, 8)]) == ["no data"] * 4 + ["found"] * 3


def test_rows_of_every_tenth_step_stand_for_ten() -> None:
    assert found_at(rule("above", 0.5), [(s, 1.0) for s in range(10, 50, 10)]) == ["no data", "found", "found", "found"]
    # each row is a window
    assert found_at(rule("above", 0.5, over=5), [(s, 1.0) for s in range(10, 40, 10)]) == ["no data", "found", "found"]


def test_after_a_gap_it_waits_again() -> None:
    series = [(s, 0.0) for s in range(1, 21)] + [(s, NAN) for s in range(21, 100)] + [(s, 9.0) for s in range(100, 125)]
    words = found_at(rule("above", 0.5), series)
    assert words[19] == "clear"
    assert set(words[20:118]) == {"no data"}  # step 119 is the 20th since the metric is back
    assert words[118] == "found"


def test_rises_and_falls_are_changes_between_two_windows() -> None:
    series = [(s, 1.0) for s in range(1, 21)] + [(s, 1.6) for s in range(21, 61)]
    by_number, by_share = rule("rises", 0.5, over=20), rule("rises", 0.5, over=20, relative=True)
    for made in (by_number, by_share):
        words = found_at(made, series)
        assert words[38] == "no data"
        assert words[39] == "found"  # 1.6 over the last 20, 1.0 over those before
        assert words[-1] == "clear"
    assert "found" not in found_at(rule("falls", 0.5), series)
    assert "found" in found_at(rule("falls", 0.5), [(s, -v) for s, v in series])


def test_a_share_of_nothing_is_not_known() -> None:
    series = [(s, 0.0) for s in range(1, 6)] + [(s, 1.0) for s in range(6, 11)]
    assert found_at(rule("rises", 0.5, over=5, relative=True), series)[9] == "no data"
    assert found_at(rule("rises", 0.5, over=5), series)[9] == "found"


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf, None, "absent", 1e101])
def test_what_is_no_number_cannot_tell(value: Any) -> None:
    made = rule("above", 0.5, over=1)
    assert made.update(record(1, value)) is NO_DATA
    assert isinstance(made.update(record(2, 1.0)), Untold)
    assert made.update(record(3, value)) is NO_DATA
    assert made.update(record(4, 0.0)) is CLEAR


def test_an_alert_says_what_the_user_wrote_and_is_over_after_a_window() -> None:
    spec = OwnRuleSpec(
        "kl-too-high",
        "kl/ref",
        "above",
        0.5,
        over=5,
        severity=Severity.CRITICAL,
        message="KL is {value:.3g},\nabove {reference:.3g} at step {step} by {change:.2f} over {over}: {metric} {{}}",
        advice=("lower the learning rate",),
    )
    engine = Engine([own_rule(spec)()], run="r")
    values = [0.7] * 10 + [0.0] * 30
    changes = [
        change
        for step, value in enumerate(values, 1)
        for change in engine.feed(StepRecord(step, 0.0, {"kl/ref": value}))
    ]
    [told, over] = changes
    assert (told.rule, told.severity, told.step, told.since) == ("kl-too-high", Severity.CRITICAL, 5, 5)
    assert told.message.startswith("KL is 0.7, above 0.5 at step 5 by 0.20 over 5: kl/ref {}")
    assert (told.value, told.reference) == (pytest.approx(0.7), 0.5)
    assert told.evidence == {"kl/ref": 0.7}
    assert told.advice[0].text == "lower the learning rate"
    assert (over.state, over.resolved_step) == (AlertState.RESOLVED, 12)  # the mean over 8 to 12 is 0.42
    assert over.step == 16


@pytest.mark.parametrize("when", ["above", "below", "rises", "falls"])
def test_every_condition_has_a_message_of_its_own(when: str) -> None:
    series = [(s, 1.0) for s in range(1, 6)] + [(s, 3.0 if when in ("above", "rises") else -3.0) for s in range(6, 12)]
    engine = Engine([rule(when, 0.5, over=5)], run="r")
    changes = [change for step, value in series for change in engine.feed(record(step, value))]
    assert changes[0].message.startswith("x is ")
    assert "\n" not in changes[0].message
    assert json.dumps(changes[0].to_dict())


@pytest.mark.parametrize(
    "message",
    [
        "{value.__class__}", "{value[0]}", "{}", "{0}", "{self}", "{value!r}", "{value:{over}}", "{value:999999999}",
        "{value", "value}", "{value:s}", "{metric:.3g}", "{step:.2f}x{nothing}", "{value:d}", "{value:%Y}",
    ],
)  # fmt: skip
def test_a_message_that_could_fail_or_read_attributes_is_refused(message: str) -> None:
    with pytest.raises(ValueError, match=r"field|format|'}'|'{'"):
        check_message(message)


@given(st.text(alphabet=st.sampled_from("{}value:.3gdfs!r[]0_ %<>,x"), max_size=24))
@settings(max_examples=500)
def test_a_message_that_is_taken_can_always_be_filled_in(message: str) -> None:
    try:
        check_message(message)
    except ValueError:
        return
    engine = Engine([rule("above", -1e99, over=1, message=message)], run="r")
    for step, value in enumerate((-1e50, 0.0, 1e99), 1):
        engine.feed(record(step, value))
    assert engine._rules, "the rule failed"


def test_it_can_be_saved_and_goes_on_as_if_nothing_had_been() -> None:
    series = [(s, math.sin(s / 9.0)) for s in range(1, 120)]
    whole, first, second = (rule("rises", 0.3, over=15) for _ in range(3))
    expected = found_at(whole, series)
    found_at(first, series[:60])
    restore(second, json.loads(json.dumps(dump(first))))
    assert found_at(second, series[60:]) == expected[60:]


def test_memory_is_bounded_by_the_window() -> None:
    made = rule("falls", 1.0, over=50)
    for step in range(1, 5000):
        made.update(record(step, float(step % 7)))
    assert len(made._recent) == 50
    assert len(made._before) == 50


def test_a_lid_lowers_what_is_found_and_what_is_told() -> None:
    kind = with_lid(own_rule(OwnRuleSpec("mine", "x", "above", 0.5, over=1, severity=Severity.CRITICAL)), Severity.INFO)
    assert kind.__doc__
    [change] = Engine([kind()], run="r").feed(record(1, 1.0))
    assert change.severity is Severity.INFO
    assert kind().update(record(1, 0.0)) is CLEAR


def test_a_lid_keeps_its_hands_off_ticks_that_a_rule_does_not_have() -> None:
    class Ticks(own_rule(OwnRuleSpec("ticks", "x", "above", 0.5, over=1))):  # type: ignore[misc]
        def tick(self, now: float) -> Finding:
            return Finding(Severity.CRITICAL, now, None, "it is late")

    plain = with_lid(own_rule(OwnRuleSpec("plain", "x", "above", 0.5)), Severity.WARNING)
    from rlwatch.detect.rule import Rule

    assert plain.tick is Rule.tick
    engine = Engine([with_lid(Ticks, Severity.WARNING)()], run="r")
    engine.feed(record(1, 0.0))
    [late] = engine.tick(5.0)
    assert late.severity is Severity.WARNING


def test_the_docs_name_every_condition_and_field() -> None:
    from rlwatch.detect.own import FIELDS, WHEN

    page = (Path(__file__).parents[1] / "docs" / "settings.md").read_text()
    assert all(f"`{word}`" in page for word in (*WHEN, *FIELDS))
