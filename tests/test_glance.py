"""A rule that a glance leaves out would have been silent all through the log."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from rlwatch.detect.adjust import with_lid
from rlwatch.detect.engine import Engine
from rlwatch.detect.glance import Glance, in_question, walk
from rlwatch.detect.own import OwnRuleSpec, own_rule
from rlwatch.detect.rule import Quiet, Rule
from rlwatch.detect.rules import RULES, default_rules
from rlwatch.detect.rules.regulariser_dominates import RegulariserDominates
from rlwatch.detect.rules.truncation import Truncation
from rlwatch.detect.sharing import share
from rlwatch.runs.records import Severity, StepRecord

SPLIT = ("groups/solved", "groups/failed", "groups/stuck")
READS: dict[str, tuple[str, ...]] = {
    "non-finite": ("loss", "entropy/mean"),
    "stalled": ("loss", "step_seconds"),
    "group-size-one": ("advantage/mean", "reward/mean"),
    "sampler-mismatch": ("sampler/ratio_mean",),
    "no-gradient": ("grad/norm", "groups/zero_std", "groups/reward_std", "kl/ref", "signal/active_tokens"),
    "truncation": ("length/truncated", "reward/mean"),
    "clip-saturated": ("clip/low", "clip/high", "signal/active_tokens", "groups/zero_std", "reward/mean"),
    "grad-spike": ("grad/norm", "grad/clip_coef"),
    "kl-runaway": ("kl/ref", "reward/mean", "groups/solved"),
    "regulariser-dominates": (
        "grad/regulariser_norm", "grad/policy_norm", "grad/effective_estimate", "grad/clip_coef", "grad/norm",
        "groups/zero_std", "groups/reward_std", "kl/ref", "reward/mean", "rollouts/age", *SPLIT,
    ),
    "entropy-collapse": ("entropy/mean", "reward/mean", "reward/std", "groups/zero_std", *SPLIT),
    "dead-groups": ("reward/mean", "groups/zero_std", "groups/reward_std", *SPLIT),
    "low-diversity": ("groups/unique", "reward/mean", *SPLIT),
    "reward-collapse": ("reward/mean", "reward/std", "entropy/mean"),
    "entropy-explosion": ("entropy/mean", "reward/mean", "length/share_correct", "groups/solved"),
    "length-bias": ("length/gap", "length/mean", "length/incorrect", "length/correct"),
    "length-explosion": ("length/mean", "reward/mean", "length/truncated", "entropy/mean"),
    "length-collapse": ("length/mean", "reward/mean", "reward/std"),
    "reward-hacking": ("reward/mean", "reward/std", "reward/correct", "reward/format", "eval/accuracy"),
    "reward-stall": ("reward/mean", "reward/std", "groups/zero_std", "signal/active_tokens", "grad/effective_norm"),
}  # fmt: skip
"""Rule → the metrics that it looks at."""

USUAL = {
    "advantage/mean": 0.01, "sampler/ratio_mean": 1.0, "length/mean": 200.0, "length/correct": 190.0,
    "length/incorrect": 220.0, "length/gap": 30.0, "kl/ref": 0.05, "loss": 0.01, "step_seconds": 20.0,
    "grad/clip_coef": 1.0, "groups/unique": 0.9, "rollouts/age": 0.0, "clip/low": 0.05, "clip/high": 0.05,
    "groups/solved": 0.2, "groups/failed": 0.1, "groups/stuck": 0.1, "groups/zero_std": 0.3, "entropy/mean": 1.0,
}  # fmt: skip
"""What a metric is in a healthy run; 0.4 else."""

LATER = (0.0, 0.0, 0.05, 0.2, 0.45, 0.9, 1.2, 2.0, 2.6, 5.0, 40.0, 40.0)
"""What it may become, as a multiple of that."""

MISSING = object()

SEEDS = 50


def log(rule: str, seed: int) -> list[StepRecord]:
    """A run that is healthy at first, and in which then some of what a rule looks at changes, is odd, or is missing."""
    draw = random.Random(f"{rule} {seed}")
    calm = seed % 3 == 0
    curves = {name: curve(draw, USUAL.get(name, 0.4), calm) for name in READS[rule] if draw.random() < 0.9}
    if rule == "group-size-one" and draw.random() < 0.3:
        curves["reward/mean"] = curves.get("advantage/mean", iter(()))
    if rule == "kl-runaway" and draw.random() < 0.2:
        curves["kl/ref"] = (min(50.0, 0.01 * 1.07**at) for at in count())
    every, gap = draw.choice((1, 1, 1, 10)), draw.choice((0.0, 0.0, 0.03))
    pace, hang = draw.choice((2.0, 2.0, 30.0, math.nan)), draw.choice((0.0, 0.0, 0.01))
    step, time, records = draw.choice((0, 0, 700)), 1.7e9, []
    for _ in range(draw.choice((15, 100, 300))):
        step += every * (draw.randrange(2, 40) if draw.random() < gap else 1)
        time += pace * draw.uniform(0.9, 1.1) + (draw.choice((90.0, 500.0, -50.0)) if draw.random() < hang else 0.0)
        cells = [(name, next(values, MISSING)) for name, values in curves.items()]
        records.append(StepRecord(step, time, {name: value for name, value in cells if value is not MISSING}))
    return records


def curve(draw: random.Random, usual: float, calm: bool) -> Iterator[object]:
    """Values without end."""
    noise, odd = draw.choice((0.0, 0.02, 0.02, 0.4)), 0.0 if calm else draw.choice((0.0, 0.0, 0.02, 0.3))
    begin, over = draw.randrange(10, 150), draw.choice((1, 30, 200))
    later = 1.0 if calm else draw.choice(LATER)
    sign, back = draw.choice((1, 1, 1, -1)), not calm and draw.random() < 0.3
    odds = MISSING, MISSING, MISSING, None, math.nan, math.inf, 1e120, 0.0, usual * 10, usual * 100, -usual
    at = 0
    while True:
        share = min(1.0, max(0.0, (at - begin) / over))
        if back and at > begin + 2 * over:
            share = 0.0
        change = later**share if later else float(share < 1)
        at += 1
        value = sign * usual * change * (1 + noise * draw.gauss(0, 1))
        yield draw.choice(odds) if draw.random() < odd else value


def speaks(rule: Rule, records: Sequence[StepRecord]) -> bool:
    """Whether it finds anything at any record, or fails at one."""
    try:
        return any(not isinstance(said, Quiet) for said in map(rule.update, records))
    except Exception:
        return True


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_is_left_out_would_have_been_silent(rule: type[Rule]) -> None:
    left_out = spoke = 0
    for seed in range(SEEDS):
        records = log(rule.name, seed)
        found = speaks(rule(), records)
        spoke += found
        if not in_question([rule()], records, worth=0):
            left_out += 1
            assert not found, seed
    assert left_out >= SEEDS // 10, "else nothing was asked here"
    assert spoke >= 1


def test_all_rules_together_tell_the_same_without_those_that_are_left_out() -> None:
    told = []
    for seed in range(10):
        kinds = [log(kind, seed) for kind in ("dead-groups", "reward-hacking", "kl-runaway")]
        records = [
            StepRecord(step, rows[0].time, {name: value for row in rows for name, value in row.metrics.items()})
            for step, rows in enumerate(zip(*kinds, strict=False), 1)
        ]
        asked = in_question(default_rules(), records, worth=0)
        assert len(asked) < len(RULES)
        heard = [
            repr([*(change for record in records for change in engine.feed(record)), *engine.held_back()])
            for engine in (Engine(default_rules(), run="run"), Engine(asked, run="run"))
        ]
        assert heard[0] == heard[1]
        told.append(heard[0])
    assert len(set(told)) > 3


QUIET = [StepRecord(step, 30.0 * step, {"length/truncated": 0.1}) for step in range(1, 30)]
CUT_OFF = [StepRecord(step, 30.0 * step, {"length/truncated": 1.0}) for step in range(1, 30)]


class TestWhoIsAsked:
    def test_a_short_log_is_not_worth_a_glance(self) -> None:
        rules = default_rules()
        assert in_question(rules, QUIET) == rules
        assert in_question(rules, QUIET, worth=len(QUIET)) == []

    def test_they_stay_in_their_order(self) -> None:
        rules = [rule() for rule in RULES]
        records = log("entropy-collapse", 1)
        asked = in_question(rules, records, worth=0)
        assert asked == [rule for rule in rules if rule in asked]
        assert len(asked) > 1

    def test_a_class_made_from_a_rule_is_not_left_out_by_what_that_rule_says(self) -> None:
        class Stricter(Truncation):
            name = "stricter"

            def update(self, record: StepRecord) -> Quiet:
                return super().update(record)  # type: ignore[return-value]

        assert not in_question([Truncation()], QUIET, worth=0)
        assert len(in_question([Stricter()], QUIET, worth=0)) == 1

    def test_a_rule_whose_answer_fails_is_not_left_out(self) -> None:
        class Broken(Truncation):
            def may_find(self, log: Glance) -> bool:
                raise ZeroDivisionError

        assert len(in_question([Broken()], QUIET, worth=0)) == 1

    def test_a_rule_with_a_lid_is_left_out_where_it_would_be_without(self) -> None:
        rule = with_lid(Truncation, Severity.INFO)
        assert not in_question([rule()], QUIET, worth=0)
        assert in_question([rule()], CUT_OFF, worth=0)

    @pytest.mark.parametrize(("when", "value", "left_out"), [
        ("above", 0.2, True), ("above", 0.05, False), ("below", 0.05, True), ("below", 0.2, False),
        ("rises", 0.2, False), ("falls", 0.2, False),
    ])  # fmt: skip
    def test_rules_of_the_users_own(self, when: str, value: float, left_out: bool) -> None:
        rule = own_rule(OwnRuleSpec("mine", "length/truncated", when, value))
        assert (not in_question([rule()], QUIET, worth=0)) is left_out

    def test_settings_count(self) -> None:
        assert in_question([Truncation(settings={"nearly_all": 0.1})], QUIET, worth=0)

    def test_where_no_rule_is_left_nobody_walks(self) -> None:
        assert list(walk([], QUIET)) == []
        assert list(walk([Truncation()], QUIET)) == QUIET

    def test_what_is_not_given_every_record_is_shared_with_none(self) -> None:
        """Else what a rule says hung on which others were there."""
        rule, other = RegulariserDominates(settings={"groups_half_life": 20.0}), default_rules()
        share([*other, rule])
        assert not any(getattr(one, "_dead", None) is rule._groups for one in other)
        assert not any(getattr(one, "_groups", None) is rule._groups for one in other)
