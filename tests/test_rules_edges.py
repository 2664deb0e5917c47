"""Rules at their very marks: a first row that reaches one is found, a row that just does not is not.

The first row of a smoothed series is its own level, so what is judged is exactly what stands here.
"""

from __future__ import annotations

import math

import pytest

from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Quiet, Rule, Untold
from rlwatch.detect.rules import RULES
from rlwatch.detect.rules.clip_saturated import ClipSaturated
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.group_size_one import GroupSizeOne
from rlwatch.detect.rules.no_gradient import NoGradient
from rlwatch.detect.rules.non_finite import NonFinite
from rlwatch.detect.rules.sampler_mismatch import SamplerMismatch
from rlwatch.detect.rules.truncation import Truncation
from rlwatch.detect.setting import settings_of
from rlwatch.runs.records import Severity, StepRecord

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL


def said(rule: Rule, metrics: dict[str, float], step: int = 1) -> Severity | Quiet:
    found = rule.update(StepRecord(step, 0.0, dict(metrics)))
    if isinstance(found, Untold):
        assert found.tell().severity is found.severity, "in words it is as bad as it was judged"
    return found if isinstance(found, Quiet) else found.severity


def cut(share: float, **reward: float) -> dict[str, float]:
    return {"length/truncated": share, **{f"reward/{name}": value for name, value in reward.items()}}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (cut(0.95), INFO),
        (cut(0.9499), CLEAR),
        (cut(0.95, mean=0.0), CRITICAL),
        (cut(0.95, mean=-1.0), CRITICAL),
        (cut(0.95, mean=1.0), INFO),  # one and the same, but it is earned
        ({"reward/mean": 0.0}, NO_DATA),
    ],
)
def test_truncation(metrics: dict[str, float], expected: object) -> None:
    assert said(Truncation(), metrics) is expected


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [((0.0, 0.0), CRITICAL), ((-1.0, -1.0), CRITICAL), ((-1.0, 0.0), INFO), ((0.0, -1.0), INFO), ((-1.0, 2.0), INFO)],
)
def test_truncation_is_critical_only_while_no_reward_ever_differed(
    rewards: tuple[float, float], expected: Severity
) -> None:
    rule = Truncation()
    said(rule, cut(1.0, mean=rewards[0]))
    assert said(rule, cut(1.0, mean=rewards[1]), 2) is expected


def clip(low: float | None = None, high: float | None = None, **others: float) -> dict[str, float]:
    shares = {"clip/low": low, "clip/high": high, "signal/active_tokens": others.get("active")}
    shares["groups/zero_std"] = others.get("dead")
    return {name: value for name, value in shares.items() if value is not None}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (clip(0.1, 0.1, active=0.2), WARNING),  # 0.2 are cut, and 0.2 / 0.4 lost
        (clip(0.1, 0.0999, active=0.1), CLEAR),  # hardly any cut
        (clip(0.1, 0.1, active=0.201), CLEAR),
        (clip(high=0.3, active=0.7), INFO),
        (clip(high=0.299, active=0.7), CLEAR),
        (clip(low=0.3, active=0.7), INFO),  # one side alone: the other counts as 0
        (clip(high=0.25, dead=0.5), WARNING),  # of half of the groups: 0.25 / 0.5
        (clip(high=0.25, dead=0.49), CLEAR),
        (clip(high=0.5), WARNING),  # nobody knows how many have an advantage: all
        (clip(high=0.49), INFO),
        (clip(active=0.1), NO_DATA),
    ],
)
def test_clip_saturated(metrics: dict[str, float], expected: object) -> None:
    assert said(ClipSaturated(), metrics) is expected


@pytest.mark.parametrize(
    ("cap", "high", "expected"),
    [(1.0, 0.25, WARNING), (1.01, 0.25, INFO), (1.0, 0.24, CLEAR), (None, 0.25, INFO), (None, 0.3, INFO)],
)
def test_cispo_loses_twice_what_rises_and_warns_only_of_a_cap_below_what_stands_still(
    cap: float | None, high: float, expected: object
) -> None:
    config = {"loss_type": "cispo"} | ({} if cap is None else {"epsilon_high": cap})
    assert said(ClipSaturated(config), clip(high=high, active=0.9)) is expected


def test_nothing_cut_is_nothing_lost_however_little_is_asked_for() -> None:
    assert said(ClipSaturated(settings={"usual": 0.0}), clip(0.0, 0.0, active=0.5)) is CLEAR


def test_what_the_clip_loses_is_told_as_it_was_judged() -> None:
    found = ClipSaturated().update(StepRecord(1, 0.0, clip(0.1, 0.2, active=0.1)))
    assert isinstance(found, Untold)
    finding = found.tell()
    assert finding.value == pytest.approx(0.3 / 0.4)


@pytest.mark.parametrize(
    ("config", "metrics", "words"),
    [
        ({}, {}, ["moves further between sampling and update"]),
        ({"epsilon": 3e-4}, {}, ["moves further between sampling and update"]),
        ({"epsilon": 3e-4, "importance_sampling_level": "token"}, {}, ["moves further"]),
        ({"epsilon": 3e-4, "importance_sampling_level": "sequence"}, {}, ["epsilon=0.0003 for one ratio a sequence"]),
        ({"importance_sampling_level": "sequence"}, {}, ["moves further"]),  # nobody knows how wide it is
        ({}, {"ratio/max": 2.0}, ["moves further"]),
        ({}, {"ratio/max": 2.1}, ["a ratio of up to 2.1"]),
        ({"loss_type": "cispo", "epsilon_high": 1.0}, {"ratio/max": 9.0}, ["CISPO caps the weight itself"]),
        ({"loss_type": "cispo", "epsilon_high": 1.1}, {"ratio/max": 9.0}, ["moves further"]),
    ],
)
def test_causes_of_a_clip_that_loses_much(
    config: dict[str, object], metrics: dict[str, float], words: list[str]
) -> None:
    found = ClipSaturated(config).update(StepRecord(1, 0.0, clip(high=0.4, active=0.1) | metrics))
    assert isinstance(found, Untold)
    causes = [cause.text for cause in found.tell().causes]
    assert len(causes) == len(words)
    assert all(word in cause for word, cause in zip(words, causes, strict=True))


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (2.0, WARNING), (1.999, CLEAR), (0.5, WARNING), (0.501, CLEAR), (1.0, CLEAR), (5.0, CRITICAL),
        (4.999, WARNING), (0.199, CRITICAL), (0.201, WARNING), (0.0, CRITICAL), (-0.1, NO_DATA), (math.nan, NO_DATA),
    ],
)  # fmt: skip
def test_sampler_mismatch_both_ways(ratio: float, expected: object) -> None:
    assert said(SamplerMismatch(), {"sampler/ratio_mean": ratio}) is expected


@pytest.mark.parametrize(
    ("advantage", "reward", "expected"),
    [
        (1.0, 1.0, CRITICAL), (0.96, 1.0, CRITICAL), (0.94, 1.0, CLEAR), (1.06, 1.0, CLEAR), (-0.97, -1.0, CRITICAL),
        (-1.0, 1.0, CLEAR), (0.0, 0.0, CLEAR),
    ],
)  # fmt: skip
def test_an_advantage_that_is_the_reward(advantage: float, reward: float, expected: object) -> None:
    assert said(GroupSizeOne(), {"advantage/mean": advantage, "reward/mean": reward}) is expected


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"grad/norm": 0.0, "groups/zero_std": 0.9}, CRITICAL),
        ({"grad/norm": 0.0, "groups/zero_std": 0.901}, CLEAR),  # no gradient is what dead groups give
        ({"grad/norm": 1e-12, "groups/zero_std": 0.0}, CLEAR),
        ({"grad/norm": 0.0, "groups/reward_std": 0.1}, CRITICAL),
        ({"grad/norm": 0.0, "groups/reward_std": 0.0}, CLEAR),
        ({"grad/norm": 0.0}, NO_DATA),
        ({"groups/zero_std": 0.5}, NO_DATA),
    ],
)
def test_no_gradient(metrics: dict[str, float], expected: object) -> None:
    assert said(NoGradient(), metrics) is expected


def test_no_gradient_asks_for_the_kl_only_in_rows_of_several_steps() -> None:
    dead = {"grad/norm": 0.0, "groups/zero_std": 0.0}
    rule = NoGradient()
    said(rule, dead, 1)
    assert said(rule, dead, 2) is CRITICAL
    assert said(rule, dead, 12) is NO_DATA
    assert said(rule, dead, 14) is NO_DATA
    assert said(rule, dead | {"kl/ref": 0.0}, 22) is CRITICAL
    assert said(rule, dead | {"kl/ref": 0.1}, 32) is CLEAR, "the policy moved in between"


def split(solved: float = 0.0, failed: float = 0.0, stuck: float = 0.0) -> dict[str, float]:
    return {"groups/solved": solved, "groups/failed": failed, "groups/stuck": stuck}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (split(failed=0.995), CRITICAL),
        (split(failed=0.5, stuck=0.495), CRITICAL),
        (split(failed=0.994), WARNING),
        (split(stuck=0.3), WARNING),
        (split(stuck=0.299), CLEAR),
        (split(failed=0.5, stuck=0.25), WARNING),
        (split(failed=0.5, stuck=0.24), INFO),
        (split(failed=0.499), CLEAR),
        (split(solved=0.9), INFO),
        (split(solved=0.899), CLEAR),
        (split(solved=1.0), INFO),
    ],
)
def test_dead_groups(metrics: dict[str, float], expected: object) -> None:
    assert said(DeadGroups(), metrics) is expected


@pytest.mark.parametrize(
    ("metrics", "stalled", "running"),
    [
        (split(stuck=0.75), CRITICAL, WARNING),
        (split(stuck=0.749), WARNING, WARNING),
        (split(failed=0.2, stuck=0.6), CRITICAL, WARNING),  # 0.6 of the 0.8 that can be stuck
        (split(failed=0.2, stuck=0.59), WARNING, WARNING),
        (split(failed=0.95), CRITICAL, WARNING),  # hopeless
        (split(failed=0.949), WARNING, WARNING),
    ],
)
def test_dead_groups_are_critical_once_nothing_has_been_gained_for_fifty_steps(
    metrics: dict[str, float], stalled: Severity, running: Severity
) -> None:
    for last, expected in ((51, stalled), (50, running)):
        rule = DeadGroups()
        for step in (1, last):
            found = said(rule, metrics | {"reward/mean": 0.5, "reward/std": 0.1}, step)
        assert found is expected


@pytest.mark.parametrize(("failed", "stuck", "widen"), [(0.4, 0.4, True), (0.3, 0.5, True), (0.41, 0.39, False)])
def test_dead_groups_advise_by_what_most_of_them_are(failed: float, stuck: float, widen: bool) -> None:
    found = DeadGroups().update(StepRecord(1, 0.0, split(failed=failed, stuck=stuck)))
    assert isinstance(found, Untold)
    assert ("epsilon_high" in found.tell().advice[0].text) is widen


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"loss": math.nan}], CRITICAL),
        ([{"entropy/mean": math.inf}], CRITICAL),
        ([{"grad/norm": math.nan}], WARNING),
        ([{"grad/norm": math.nan}] * 2, WARNING),
        ([{"grad/norm": math.nan}] * 3, CRITICAL),
        ([{"grad/norm": math.nan}] * 2 + [{"grad/norm": 1.0}, {"grad/norm": math.nan}], WARNING),
        ([{"grad/norm": math.nan}, {"lr": math.nan}, {"grad/norm": math.nan}], WARNING),  # not in a row
        ([{"grad/norm": 1.0}], CLEAR),
        ([{}], NO_DATA),
    ],
)
def test_non_finite(rows: list[dict[str, float]], expected: object) -> None:
    rule = NonFinite()
    assert [said(rule, row, step) for step, row in enumerate(rows, 1)][-1] is expected


@pytest.mark.parametrize(
    ("others", "words"), [(0, ""), (1, ", and one more metric is"), (2, ", and 2 more metrics are")]
)
def test_non_finite_counts_what_it_does_not_name(others: int, words: str) -> None:
    broken = {"loss": math.nan} | {f"extra/{i}": math.inf for i in range(others)}
    finding = NonFinite().update(StepRecord(1, 0.0, broken))
    assert isinstance(finding, Finding)
    assert finding.message == "loss is nan" + (f"{words} not finite" if others else "")


@pytest.mark.parametrize("rule", RULES)
def test_a_share_is_no_more_than_all_of_it_and_a_half_life_may_be_short(rule: type[Rule]) -> None:
    wide = ("share of length/mean", "share of kl/ref in kl_half_life", "share of the reward's spread or size", "share")
    for name, setting in settings_of(rule).items():
        if setting.unit.startswith("share") and setting.unit not in wide:
            assert 0.9 <= setting.most <= 1.0, name
            assert rule(settings={name: setting.most}), name
            with pytest.raises(ValueError, match=name):
                rule(settings={name: 1.01})
        if setting.unit == "optimizer steps" and "half_life" in name:
            assert setting.least in (0.1, 1.0), name
            assert rule(settings={name: setting.least}), name
            with pytest.raises(ValueError, match=name):
                rule(settings={name: 0.0})
