"""The sentences of the reports: a verdict always comes with its step and its number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from rlwatch.report.analysis import Analysis, analyze_run
from rlwatch.report.sentences import first_critical, span, verdict_sentence, waste_sentence
from rlwatch.report.waste import Waste
from rlwatch.runs.records import Run, StepRecord

Curve = Callable[[int], "float | None"]


def analysis(steps: int, every: int = 1, **curves: Curve) -> Analysis:
    """A run with a full set of metrics, all well unless a curve says otherwise (`reward__mean` is reward/mean)."""
    usual: dict[str, Curve] = {
        "reward/mean": lambda step: 0.3 + 0.001 * step + 0.02 * math.sin(step),
        "entropy/mean": lambda step: 1.2 + 0.05 * math.sin(step / 3),
        "groups/zero_std": lambda step: 0.2,
        "groups/solved": lambda step: 0.1,
        "groups/failed": lambda step: 0.1,
        "groups/stuck": lambda step: 0.0,
        "loss": lambda step: 0.01 * math.sin(step),
    }
    usual |= {name.replace("__", "/"): curve for name, curve in curves.items()}
    records = [
        StepRecord(step, float(step), {name: curve(step) for name, curve in usual.items()})
        for step in range(every, steps * every + 1, every)
    ]
    return analyze_run(Run("made", "logs/made.jsonl", "jsonl", "trl", records))


def collapse(at: int, back: int | None = None) -> Curve:
    return lambda step: 0.8 if step < at or (back is not None and step >= back) else 0.02


def test_failed_says_since_when_and_why() -> None:
    found = analysis(200, reward__mean=collapse(100))
    sentence = verdict_sentence(found)
    assert found.verdict == "failed"
    assert sentence.startswith("Failed: not learning since step 1")
    assert "(reward-collapse: the reward is down to 0." in sentence
    assert sentence.endswith(".")
    assert 100 < (first_critical(found) or 0) < 120


def test_more_open_alerts_are_counted() -> None:
    found = analysis(
        200,
        reward__mean=collapse(100),
        groups__failed=lambda step: 1.0 if step > 120 else 0.1,
        groups__solved=lambda step: 0.0 if step > 120 else 0.1,
        groups__zero_std=lambda step: 1.0 if step > 120 else 0.2,
    )
    assert len(found.alerts) > 1
    assert " more alert" in verdict_sentence(found)


def test_degraded_says_from_when_to_when() -> None:
    found = analysis(300, reward__mean=collapse(100, back=150))
    assert found.verdict == "degraded"
    assert verdict_sentence(found).startswith("Degraded: not learning from step 1")
    assert " to step 1" in verdict_sentence(found)
    assert verdict_sentence(found).endswith("and recovered.")


def test_healthy_says_in_how_many_steps_and_what_could_not_be_checked() -> None:
    whole = analysis(200)
    unchecked = len(whole.unchecked)
    assert (
        verdict_sentence(whole) == f"Healthy: no rule has fired in 200 steps; {unchecked} rules could not be checked."
    )
    blind = analyze_run(
        Run(
            "made",
            "x",
            "jsonl",
            None,
            [StepRecord(s, s, {"reward/mean": 0.5, "entropy/mean": 1.0, "loss": 0.1}) for s in range(1, 101)],
        )
    )
    assert blind.verdict == "healthy"
    assert len(blind.unchecked) > unchecked
    assert verdict_sentence(blind).endswith(f"in 100 steps; {len(blind.unchecked)} rules could not be checked.")


@pytest.mark.parametrize(
    ("steps", "said"),
    [(0, "there is no step in it"), (1, "1 step, and no rule can judge"), (12, "12 steps, and no rule can judge")],
)
def test_too_little_to_say(steps: int, said: str) -> None:
    sentence = verdict_sentence(analysis(steps))
    assert sentence.startswith("Too little to say: ")
    assert said in sentence


def test_a_log_in_which_nothing_can_be_checked_is_not_called_healthy() -> None:
    run = Run("made", "x", "jsonl", None, [StepRecord(s, s, {"loss": 0.1}) for s in range(1, 101)])
    assert "rules could not be checked in 100 steps" in verdict_sentence(analyze_run(run))


def test_span() -> None:
    assert span(analysis(0)) == "no step"
    assert span(analysis(1)) == "step 1"
    assert span(analysis(1500)) == "steps 1 to 1,500"
    assert span(analysis(20, every=10)) == "steps 10 to 200 in 20 rows"


@pytest.mark.parametrize(
    ("waste", "said"),
    [
        ({"share": 0.0}, "None of the generated tokens"),
        ({"share": 0.384, "tokens": 1_234_567.0}, "38 % of the generated tokens went into groups"),
        ({"share": 0.384, "tokens": 1_234_567.0}, "taught nothing: about 1.2 million tokens."),
        ({"share": 0.384, "by_groups": True}, "In 38 % of the groups all completions earned the same"),
        ({"share": 0.5, "seconds": 7200.0}, "2.0 h of training"),
        ({"share": 0.5, "seconds": 7200.0, "generation_seconds": 3600.0}, "1.0 h of generating, worth 20.00 at 2.50"),
        ({"share": 0.5, "seconds": 3600.0}, "on 8 GPUs."),
    ],
)
def test_waste(waste: dict[str, Any], said: str) -> None:
    sentence = waste_sentence(Waste(**{"by_groups": False, "steps": 10, **waste}), price=2.5, gpus=8)
    assert said in (sentence or "")


def test_without_a_waste_there_is_no_sentence_and_without_a_price_no_money() -> None:
    assert waste_sentence(None, 2.5, 8) is None
    assert "GPU hour" not in (waste_sentence(Waste(0.5, False, 10, seconds=60.0)) or "")
