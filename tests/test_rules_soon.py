"""What rules tell of after two rows, at its marks: rewards, clips, groups, tokens and gradients.

Rows 10 000 steps apart are each their own smoothed value, where a mean is of steps.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from rlwatch.detect.advice import CHECK_TRAINABLE, FEWER_UPDATES, WIDER_CLIP
from rlwatch.detect.engine import Engine
from rlwatch.detect.level import Level
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Hold, Quiet, Rule, Untold
from rlwatch.detect.rules.clip_saturated import ClipSaturated
from rlwatch.detect.rules.dead_groups import DeadGroups
from rlwatch.detect.rules.grad_spike import GradSpike
from rlwatch.detect.rules.no_gradient import NoGradient
from rlwatch.detect.rules.reward_collapse import RewardCollapse
from rlwatch.runs.records import Advice, AlertState, Severity, StepRecord

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
Row = dict[str, "float | None"]
FAR = 10_000


def records(rows: Sequence[Row], every: int = 1) -> list[StepRecord]:
    return [StepRecord(every * at, 0.0, dict(row)) for at, row in enumerate(rows, 1)]


def finds(rule: Rule, rows: Sequence[Row], every: int = 1) -> list[Finding | Untold | Quiet]:
    return [rule.update(record) for record in records(rows, every)]


def last(rule: Rule, rows: Sequence[Row], every: int = 1) -> Severity | Quiet:
    found = finds(rule, rows, every)[-1]
    return found if isinstance(found, Quiet) else found.severity


def untold(rule: Rule, rows: Sequence[Row], every: int = 1) -> Untold:
    found = finds(rule, rows, every)[-1]
    assert isinstance(found, Untold)
    assert found.tell().severity is found.severity
    return found


def fired(rule: Rule, rows: Sequence[Row], every: int = 1) -> list[tuple[int, str, int]]:
    engine = Engine([rule])
    changes = [change for record in records(rows, every) for change in engine.feed(record)]
    return [(a.step, a.severity.value, a.since) for a in changes if a.state is AlertState.FIRING]


# --- reward-collapse: two rows that lose half


def rewards(*values: float | None) -> list[Row]:
    return [{"reward/mean": value} for value in values]


GOOD = [1.0] * 30


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ((0.5,), CLEAR),
        ((0.1,), CLEAR),  # one row decides nothing, whatever it is
        ((0.5, 0.5), WARNING),
        ((0.5, 0.501), CLEAR),
        ((0.501, 0.5), CLEAR),
        ((0.5, 1.0, 0.5), CLEAR),  # not in a row
        ((0.5, None, 0.5), WARNING),  # a row without one is none
        ((0.5, 0.2), CRITICAL),
        ((0.5, 0.201), WARNING),
        ((0.2, 0.5), WARNING),
        ((0.501, 0.2), CLEAR),
    ],
)
def test_two_rows_that_lose_half_of_the_reward(then: tuple[float | None, ...], expected: object) -> None:
    assert last(RewardCollapse(), rewards(*GOOD, *then)) is expected


@pytest.mark.parametrize("every", [1, 2, 10])
def test_they_are_told_as_the_second_comes(every: int) -> None:
    rows = rewards(*GOOD, 0.45, 0.45)
    found = untold(RewardCollapse(), rows)
    assert (found.since, found.hold) == (31, Hold(steps=2, records=2))
    assert found.tell().value == 0.45
    assert fired(RewardCollapse(), rows[:-1], every) == []
    assert fired(RewardCollapse(), rows, every) == [(32 * every, "warning", 31 * every)]


@pytest.mark.parametrize(("swing", "noise", "expected"), [(0.02, 4.0, WARNING), (0.2, 4.0, CLEAR), (0.2, 2.0, WARNING)])
def test_they_are_nothing_where_rows_scatter_by_as_much(swing: float, noise: float, expected: object) -> None:
    rows = rewards(*(1 + swing * (-1) ** i for i in range(60)), 0.4, 0.4)
    assert last(RewardCollapse(settings={"noise": noise}), rows) is expected


@pytest.mark.parametrize("seed", range(10))
def test_rewards_that_scatter_by_a_third_are_no_collapse(seed: int) -> None:
    draw = random.Random(seed)
    assert fired(RewardCollapse(), rewards(*(1 + draw.gauss(0, 0.33) for _ in range(400)))) == []


# --- clip-saturated: what is clipped has grown


def clips(shares: Sequence[float], reward: Sequence[float | None]) -> list[Row]:
    return [{"clip/high": share, "reward/mean": value} for share, value in zip(shares, reward, strict=True)]


def grown(first: float, then: float, **settings: float) -> Severity | Quiet:
    return last(ClipSaturated(settings=settings), clips([first] * 12 + [then], [0.5] * 13), FAR)


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        (0.02, 0.12, WARNING),
        (0.02, 0.1199, CLEAR),
        (0.024, 0.1201, WARNING),
        (0.025, 0.1251, WARNING),
        (0.025, 0.1249, CLEAR),  # not five times
        (0.0, 0.12, WARNING),
        (0.1, 0.19, CLEAR),  # so much was clipped from the start
        (0.19, 0.19, CLEAR),
        (0.1, 0.3, INFO),
        (0.05, 0.3, WARNING),
    ],
)
def test_a_clip_that_has_grown(first: float, then: float, expected: object) -> None:
    assert grown(first, then) is expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"grown": 0.13}, WARNING), ({"grown": 0.131}, CLEAR), ({"times": 6.49}, WARNING), ({"times": 6.51}, CLEAR),
        ({"since_gain": 6.49}, WARNING), ({"since_gain": 6.51}, CLEAR), ({"at_first": 13.0}, WARNING),
        ({"at_first": 14.0}, CLEAR),
    ],
)  # fmt: skip
def test_each_number_of_that_counts(settings: dict[str, float], expected: object) -> None:
    assert grown(0.02, 0.13, **settings) is expected


@pytest.mark.parametrize(
    ("reward", "then", "expected"),
    [
        ([0.5] * 13 + [1.0, 1.0], 0.1401, WARNING),
        ([0.5] * 13 + [1.0, 1.0], 0.1399, CLEAR),  # not twice what it was as the reward gained
        ([0.5] * 13 + [0.52, 0.52], 0.1399, WARNING),  # which is no gain
        ([0.5] * 13 + [0.5, 1.0], 0.19, CLEAR),  # it gains now
        ([None] * 15, 0.19, CLEAR),  # nobody knows what it gains
        ([None] * 14 + [0.5], 0.19, CLEAR),  # its first is a gain
    ],
)
def test_a_clip_that_grows_is_weighed_against_what_the_reward_gains(
    reward: list[float | None], then: float, expected: object
) -> None:
    assert last(ClipSaturated(), clips([0.02] * 13 + [0.07, then], reward), FAR) is expected


def test_both_sides_of_the_clip_count_in_what_has_grown() -> None:
    for low, expected in ((0.061, WARNING), (0.058, CLEAR)):
        rows = clips([0.01] * 12 + [0.06], [0.5] * 13)
        for row in rows:
            row["clip/low"] = 0.01 if row["clip/high"] == 0.01 else low
        assert last(ClipSaturated(), rows, FAR) is expected


@pytest.mark.parametrize(("cap", "expected"), [(1.0, WARNING), (1.01, INFO), (None, INFO)])
def test_weights_that_cispo_caps_more_often_are_a_warning_below_what_stands_still(
    cap: float | None, expected: object
) -> None:
    config = {"loss_type": "cispo"} | ({} if cap is None else {"epsilon_high": cap})
    assert last(ClipSaturated(config), clips([0.02] * 12 + [0.13], [0.5] * 13), FAR) is expected


def test_a_clip_that_has_grown_says_from_where_and_is_told_after_two_rows() -> None:
    rows = clips([0.02] * 12 + [0.16] * 2, [0.5] * 14)
    assert "16% of the tokens are clipped, from 2.00% at first" in untold(ClipSaturated(), rows, FAR).tell().message
    assert fired(ClipSaturated(), rows, 100) == [(1400, "warning", 1300)]
    still = untold(ClipSaturated(), clips([0.4] * 12, [0.5] * 12), FAR)
    assert "at first" not in still.tell().message


@pytest.mark.parametrize("every", [1, 10])
def test_a_clip_that_grows_while_the_reward_does_stays_silent(every: int) -> None:
    rows = clips([0.01 + 0.18 * i / 200 for i in range(200)], [0.2 + 0.6 * i / 200 for i in range(200)])
    assert fired(ClipSaturated(), rows, every) == []


# --- dead-groups: stuck ones come up


def groups(stuck: Sequence[float], failed: float = 0.1) -> list[Row]:
    return [
        {"groups/solved": 0.1, "groups/failed": failed, "groups/stuck": share, "reward/mean": 0.5, "reward/std": 0.3}
        for share in stuck
    ]


def to_level(before: Sequence[float], level: float, every: int, half_life: float = 5.0) -> float:
    """The next value that brings the level of all there."""
    kept = 0.5 ** min(1.0, every / half_life)
    weights = [kept ** (len(before) - i) for i in range(len(before))]
    return level * (sum(weights) + 1) - sum(w * x for w, x in zip(weights, before, strict=True))


@pytest.mark.parametrize("every", [1, 2, 10])
@pytest.mark.parametrize(("first", "mark"), [(0.0, 0.2), (0.02, 0.2), (0.05, 0.2), (0.051, 0.201), (0.1, 0.25)])
@pytest.mark.parametrize(("beside", "expected"), [(1e-6, WARNING), (-1e-6, CLEAR)])
def test_stuck_groups_that_come_up(every: int, first: float, mark: float, beside: float, expected: object) -> None:
    before = [first] * 12 + [mark]
    stuck = [*before, to_level(before, mark + beside, every)]
    rule = DeadGroups(settings={"stuck_warning": 1.0})
    assert last(rule, groups(stuck), every) is expected


@pytest.mark.parametrize("share", [0.16, 0.25, 0.299])
def test_groups_that_were_stuck_from_the_start_do_not_come_up(share: float) -> None:
    assert last(DeadGroups(), groups([share] * 60)) is CLEAR


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, WARNING), ({"stuck_soon": 0.24}, WARNING), ({"stuck_soon": 0.26}, CLEAR), ({"stuck_risen": 0.19}, WARNING),
        ({"stuck_risen": 0.21}, CLEAR), ({"at_first": 14.0}, WARNING), ({"at_first": 15.0}, CLEAR),
        ({"soon_half_life": 1000.0}, CLEAR),
    ],
)  # fmt: skip
def test_each_number_of_stuck_groups_that_come_up_counts(settings: dict[str, float], expected: object) -> None:
    before = [0.05] * 12 + [0.15]
    rows = groups([*before, to_level(before, 0.25, 1)])
    assert last(DeadGroups(settings={"stuck_warning": 1.0, **settings}), rows) is expected


def test_stuck_groups_come_up_beyond_their_noise() -> None:
    """Against the same level, kept calm where it has not risen by half as much."""
    draw, seen = random.Random(5), set()
    values = [max(0.0, 0.06 + draw.gauss(0, 0.1)) for _ in range(30)]
    values += [max(0.0, 0.06 + 0.02 * i + draw.gauss(0, 0.1)) for i in range(30)]
    for noise in (0.0, 6.0):
        rule, level = DeadGroups(settings={"noise": noise, "stuck_warning": 1.0}), Level(5.0, first=10)
        for at, (value, found) in enumerate(zip(values, finds(rule, groups(values)), strict=True), 1):
            now = level.update(at, value)
            if level.start is None or now - level.start < 0.075:
                level.keep()
            risen = 0.0 if level.start is None else now - level.start
            much = now >= 0.2 and risen >= 0.15
            assert (found is not CLEAR) == (much and risen >= noise * level.error_of_move), at
            seen.add((much, found is not CLEAR, noise))
    assert seen >= {(True, False, 6.0), (True, True, 6.0), (True, True, 0.0)}, "the noise decided of some rows"


def test_stuck_groups_that_come_up_are_worse_than_groups_that_fail_and_less_than_all() -> None:
    assert last(DeadGroups(), groups([0.0] * 12, failed=0.55)) is INFO
    assert last(DeadGroups(), groups([0.0] * 12 + [0.27] * 2, failed=0.55), 10) is WARNING
    assert last(DeadGroups(), groups([0.0] * 12 + [0.4] * 12, failed=0.6), 10) is CRITICAL


def test_stuck_groups_that_come_up_are_told_after_two_rows() -> None:
    rows = groups([0.02] * 12 + [0.42, 0.3])
    assert untold(DeadGroups(settings={"stuck_warning": 1.0}), rows, 10).hold is SOON
    assert fired(DeadGroups(settings={"stuck_warning": 1.0}), rows, 10) == [(140, "warning", 130)]
    slow = groups([0.35] * 12)
    assert untold(DeadGroups(), slow, 10).hold is None


# --- no-gradient: tokens that do not move the policy


def tokens(active: float, dead: float, **others: float) -> Row:
    return {"grad/norm": 1.0, "groups/zero_std": dead, "signal/active_tokens": active, **others}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (tokens(0.1, 0.5), WARNING),
        (tokens(0.101, 0.5), CLEAR),
        (tokens(0.2, 0.0), WARNING),
        (tokens(0.201, 0.0), CLEAR),
        (tokens(0.0, 0.9), WARNING),
        (tokens(0.0, 0.91), CLEAR),  # hardly a group is alive
        (tokens(0.0, 1.0), CLEAR),
        ({"grad/norm": 1.0, "groups/reward_std": 0.5, "signal/active_tokens": 0.0}, CLEAR),
        ({"grad/norm": 1.0, "groups/zero_std": 0.5}, CLEAR),
        ({"groups/zero_std": 0.5, "signal/active_tokens": 0.0}, NO_DATA),
        ({"grad/norm": 1.0, "signal/active_tokens": 0.0}, NO_DATA),
    ],
)
def test_tokens_of_live_groups_that_move_nothing(row: Row, expected: object) -> None:
    assert last(NoGradient(), [row]) is expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"alive": 0.6}, WARNING), ({"alive": 0.4}, CLEAR), ({"idle": 0.1}, WARNING), ({"idle": 0.09}, CLEAR)],
)
def test_each_number_of_idle_tokens_counts(settings: dict[str, float], expected: object) -> None:
    assert last(NoGradient(settings=settings), [tokens(0.05, 0.5)]) is expected


def test_a_gradient_of_exactly_0_is_worse_than_idle_tokens() -> None:
    still = {"grad/norm": 0.0, "groups/zero_std": 0.2, "kl/ref": 0.0}
    assert fired(NoGradient(), [still] * 30) == [(10, "critical", 1)]
    assert fired(NoGradient(), [{**still, "signal/active_tokens": 0.0}] * 30) == [(10, "critical", 1)]


def test_idle_tokens_need_no_kl_in_rows_of_several_steps_and_are_told_after_two_rows() -> None:
    rows = [tokens(0.4, 0.5)] * 3 + [tokens(0.01, 0.5)] * 2
    assert untold(NoGradient(), rows, 10).hold is SOON
    assert fired(NoGradient(), rows, 10) == [(50, "warning", 40)]
    assert fired(NoGradient(), rows + [tokens(0.01, 0.5)] * 3) == [(8, "warning", 4)]
    assert fired(NoGradient(), rows + [tokens(0.01, 0.5)] * 2) == []


@pytest.mark.parametrize(
    ("shares", "words", "advice"),
    [
        ({"clip/high": 0.25}, "25% of the tokens are clipped", [FEWER_UPDATES, WIDER_CLIP]),
        ({"clip/high": 0.2, "clip/low": 0.05}, "25% of the tokens are clipped", [FEWER_UPDATES, WIDER_CLIP]),
        ({"clip/high": 0.249}, "a mask takes the tokens out", [CHECK_TRAINABLE]),
        ({}, "a mask takes the tokens out", [CHECK_TRAINABLE]),
    ],
)
def test_idle_tokens_are_clipped_or_masked(shares: dict[str, float], words: str, advice: list[Advice]) -> None:
    told = untold(NoGradient(), [tokens(0.01, 0.5, **shares)]).tell()
    assert told.message == "50% of the groups have an advantage, and 1.0% of the tokens move the policy"
    assert words in told.causes[0].text
    assert (told.value, told.reference) == (0.01, 0.5)
    assert told.advice == advice


# --- grad-spike: three of eight rows at twice the factor


def norms(spikes: dict[int, float], count: int) -> list[Row]:
    return [{"grad/norm": spikes.get(at, 1.0)} for at in range(1, count + 1)]


@pytest.mark.parametrize(
    ("spikes", "expected"),
    [
        ({31: 11.0, 34: 11.0, 38: 11.0}, WARNING),
        ({31: 11.0, 34: 11.0, 39: 11.0}, CLEAR),  # in nine rows
        ({31: 11.0, 38: 11.0}, CLEAR),
        ({31: 10.01, 34: 10.01, 38: 10.01}, WARNING),
        ({31: 10.01, 34: 9.99, 38: 10.01}, CLEAR),
        ({31: 9.99, 34: 9.99, 36: 9.99, 38: 9.99}, WARNING),  # four of twenty
        ({31: 11.0, 34: 11.0, 36: 9.99, 38: 11.0}, WARNING),
    ],
)
def test_a_burst_of_gradients(spikes: dict[int, float], expected: object) -> None:
    assert last(GradSpike(), norms(spikes, max(spikes))) is expected


def test_a_burst_is_over_as_its_first_row_leaves_the_window() -> None:
    found = finds(GradSpike(), norms({31: 11.0, 34: 11.0, 36: 11.0}, 41))
    assert [at for at, said in enumerate(found, 1) if said is not CLEAR and said is not NO_DATA] == [36, 37, 38]
    assert fired(GradSpike(), norms({31: 11.0, 34: 11.0, 36: 11.0}, 41)) == [(36, "warning", 36)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, WARNING), ({"burst": 4.0}, CLEAR), ({"burst_window": 6.0}, WARNING), ({"burst_window": 5.0}, CLEAR),
        ({"burst_factor": 2.19}, WARNING), ({"burst_factor": 2.21}, CLEAR), ({"factor": 5.6}, CLEAR),
    ],
)  # fmt: skip
def test_each_number_of_a_burst_counts(settings: dict[str, float], expected: object) -> None:
    assert last(GradSpike(settings=settings), norms({31: 11.0, 34: 11.0, 36: 11.0}, 36)) is expected


def test_a_burst_tells_how_many_there_were() -> None:
    told = untold(GradSpike(), norms({31: 11.0, 34: 12.0, 36: 11.0}, 36)).tell()
    assert "3 of the last 20 gradients" in told.message
    assert "up to 12 times" in told.message
    assert "steps 31, 34, 36" in told.causes[0].text


@pytest.mark.parametrize("seed", range(5))
def test_spikes_that_come_alone_or_in_twos_are_no_burst(seed: int) -> None:
    draw, spikes = random.Random(seed), {}
    for at in itertools.accumulate([60] * 20):
        spikes[at] = draw.uniform(5, 30)
        spikes[at + draw.randrange(1, 5)] = draw.uniform(5, 30)
    rows = norms(spikes, 1300)
    for row in rows:
        row["grad/norm"] = (row["grad/norm"] or 0.0) * (1 + draw.gauss(0, 0.1))
    assert fired(GradSpike(), rows) == []
