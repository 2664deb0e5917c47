"""Entropy that explodes, a clip that throws the update away, siblings that are alike, gradients that spike."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Quiet, Rule, Untold
from rlwatch.detect.rules.clip_saturated import ClipSaturated
from rlwatch.detect.rules.entropy_explosion import EntropyExplosion
from rlwatch.detect.rules.grad_spike import GradSpike
from rlwatch.detect.rules.low_diversity import LowDiversity
from rlwatch.detect.rules.non_finite import NonFinite
from rlwatch.detect.rules.reward_collapse import RewardCollapse
from rlwatch.detect.rules.sampler_mismatch import SamplerMismatch
from rlwatch.detect.rules.truncation import Truncation
from rlwatch.detect.setting import settings_of
from rlwatch.detect.state import dump, restore
from rlwatch.runs.records import Alert, AlertState, Severity, StepRecord

STEPS = 1500
Curves = Mapping[str, Callable[[int], "float | None"]]


def rows(curves: Curves, every: int = 1, steps: int = STEPS) -> list[StepRecord]:
    """A curve gives None where the metric is absent."""
    return [
        StepRecord(step, float(step), {n: v for n, c in curves.items() if (v := c(step)) is not None})
        for step in range(every, steps + 1, every)
    ]


def ramp(start: float, end: float, begin: int, until: int) -> Callable[[int], float]:
    return lambda step: start + (end - start) * min(1.0, max(0.0, (step - begin) / (until - begin)))


def grows(start: float, end: float, begin: int, until: int) -> Callable[[int], float]:
    """In a straight line on a logarithmic scale."""
    line = ramp(math.log(start), math.log(end), begin, until)
    return lambda step: math.exp(line(step))


def noisy(curve: Callable[[int], float], amount: float, seed: int, *, factor: bool = False) -> Callable[[int], float]:
    generator = random.Random(seed)
    if factor:
        return lambda step: curve(step) * math.exp(generator.gauss(0, amount))
    return lambda step: curve(step) + generator.gauss(0, amount)


def const(value: float | None) -> Callable[[int], float | None]:
    return lambda step: value


def judge(rule: Rule, records: Iterable[StepRecord]) -> list[Alert]:
    engine = Engine([rule])
    return [change for record in records for change in engine.feed(record)]


def severities(alerts: Iterable[Alert]) -> list[str]:
    return [a.severity.value for a in alerts if a.state is AlertState.FIRING]


def finding(found: Finding | Untold | Quiet) -> Finding:
    assert isinstance(found, Untold)
    return found.tell()


# --- entropy-explosion ------------------------------------------------------------------------------------------------


def exploding(seed: int = 0, **changes: Callable[[int], float | None]) -> dict[str, Callable[[int], float | None]]:
    """It sharpens, comes apart from step 600 on, and from step 800 on the reward goes by 60 %."""
    reward = ramp(0.3, 0.7, 0, 500)
    lost = ramp(1.0, 0.4, 800, 1100)
    return {
        "entropy/mean": noisy(
            lambda s: grows(0.5, 0.25, 0, 500)(s) * grows(1, 8, 600, 900)(s), 0.06, seed, factor=True
        ),
        "reward/mean": noisy(lambda s: reward(s) * lost(s), 0.02, seed + 1),
        **{name.replace("__", "/"): curve for name, curve in changes.items()},
    }


@pytest.mark.parametrize("every", [1, 10, 50])
def test_an_explosion_that_costs_reward_is_critical_before_half_of_it_is_gone(every: int) -> None:
    records = rows(exploding(), every)
    alerts = judge(EntropyExplosion(), records)
    critical = [a for a in alerts if a.severity is Severity.CRITICAL]
    theirs = [a for a in judge(RewardCollapse(), records) if a.severity is Severity.CRITICAL]
    assert critical[0].step > 800
    assert critical[0].step <= theirs[0].step
    if every < 50:
        assert critical[0].step < theirs[0].step
    assert "nats per token, from 0.2" in critical[0].message
    assert "the reward is down to" in critical[0].message
    assert "apart" in critical[0].causes[0].text
    assert all(a.source for a in critical[0].advice)


@pytest.mark.parametrize("every", [1, 10])
def test_a_reward_that_only_stops_is_a_warning_for_a_doubled_entropy(every: int) -> None:
    curves = exploding(reward__mean=noisy(ramp(0.3, 0.7, 0, 500), 0.02, 5))
    alerts = judge(EntropyExplosion(), rows(curves, every))
    assert severities(alerts) == ["warning"]
    assert 650 < alerts[0].step < 850
    assert "does not gain" in alerts[0].message


@pytest.mark.parametrize("every", [1, 10, 50])
@pytest.mark.parametrize(
    "curves",
    [
        exploding(reward__mean=noisy(ramp(0.1, 0.9, 0, 1500), 0.02, 5)),
        exploding(entropy__mean=noisy(grows(0.5, 0.25, 0, 500), 0.06, 3, factor=True)),
        exploding(entropy__mean=noisy(grows(0.5, 0.05, 0, 1500), 0.06, 3, factor=True)),
        exploding(entropy__mean=lambda s: 0.02 * grows(1, 4, 600, 900)(s)),
        exploding(entropy__mean=lambda s: 0.3 * (1 + 0.3 * math.sin(s / 40)), reward__mean=lambda s: 0.6),
        exploding(reward__mean=const(None)),
    ],
    ids=["reward rises", "entropy stays", "entropy falls", "0.02 to 0.08 nats", "a wave", "no reward"],
)
def test_what_is_no_explosion(curves: Curves, every: int) -> None:
    assert severities(judge(EntropyExplosion(), rows(curves, every))) == []


@pytest.mark.parametrize("seed", range(10))
def test_noise_of_entropy_and_reward_is_no_explosion(seed: int) -> None:
    curves = {
        "entropy/mean": noisy(lambda s: 0.4, 0.3, seed, factor=True),
        "reward/mean": noisy(lambda s: 0.5, 0.15, seed + 100),
    }
    assert severities(judge(EntropyExplosion(), rows(curves, 1, 600))) == []
    assert severities(judge(EntropyExplosion(), rows(curves, 10, 2000))) == []


REST = {"groups__failed": const(0.0), "groups__stuck": const(0.0)}


def test_a_reward_that_can_hardly_gain_is_not_asked_to() -> None:
    curves = exploding(reward__mean=noisy(ramp(0.3, 0.95, 0, 500), 0.01, 5), reward__std=const(0.2))
    assert severities(judge(EntropyExplosion(), rows(curves))) == []
    assert severities(judge(EntropyExplosion(settings={"near_best": 1.0}), rows(curves))) == ["warning"]


def test_more_right_answers_are_no_explosion_whatever_the_sum_of_rewards_does() -> None:
    """The failure room: a safe answer that earned a half is given up for a right one, and the sum slips at first."""
    curves = {
        "entropy/mean": noisy(grows(0.2, 0.8, 20, 60), 0.02, 1),
        "reward/mean": noisy(lambda s: ramp(0.5, 0.35, 20, 60)(s) + ramp(0.0, 0.6, 60, 300)(s), 0.02, 2),
    }
    right = {"length/share_correct": noisy(ramp(0.06, 0.9, 20, 250), 0.02, 3)}
    assert severities(judge(EntropyExplosion(), rows(curves)))[-1] == "critical"
    assert severities(judge(EntropyExplosion(), rows({**curves, **right}))) == []


def test_solved_groups_do_not_mind_entropy() -> None:
    reward = noisy(ramp(0.3, 0.95, 0, 500), 0.01, 5)
    curves = exploding(reward__mean=reward, groups__solved=ramp(0.1, 0.9, 0, 500), **REST)
    assert severities(judge(EntropyExplosion(), rows(curves))) == []


def test_an_entropy_that_comes_back_before_the_reward_slips_is_a_wave() -> None:
    up_and_down = {
        "entropy/mean": lambda s: grows(0.3, 1.5, 300, 320)(s) * grows(1, 0.28, 320, 340)(s),
        "reward/mean": lambda s: ramp(0.7, 0.4, 340, 370)(s),
    }
    assert severities(judge(EntropyExplosion(), rows(up_and_down, 1, 800))) == []


@pytest.mark.parametrize(
    ("config", "metrics", "words"),
    [
        ({"epsilon": 0.2, "epsilon_high": 0.5}, {}, "epsilon_high=0.5 above epsilon=0.2"),
        ({"entropy_coef": 0.01}, {}, "a fixed entropy bonus (entropy_coef=0.01)"),
        ({"entropy_coef": 0.01, "use_adaptive_entropy": True}, {}, "an adaptive entropy bonus"),
        ({"temperature": 1.3}, {}, "temperature 1.3"),
        ({"num_iterations": 8}, {}, "8 updates a rollout"),
        ({"beta": 0.0}, {}, "no KL term holds it (beta=0)"),
        ({}, {"length/mean": ramp(200, 500, 600, 900)}, "entropy and length rise together"),
        ({}, {"surprisal/mean": const(30.0)}, "surprisal 30 nats"),
    ],
)
def test_causes_of_an_explosion(config: dict[str, object], metrics: Curves, words: str) -> None:
    [alert] = [
        a for a in judge(EntropyExplosion(config), rows({**exploding(), **metrics})) if a.severity is Severity.CRITICAL
    ]
    assert any(words in cause.text for cause in alert.causes)
    assert alert.advice


def test_an_explosion_is_over_and_can_come_again() -> None:
    def wave(step: int) -> float:
        return grows(0.3, 2, 300, 340)(step) * grows(1, 0.15, 600, 640)(step) * grows(1, 6.67, 900, 940)(step)

    curves = {
        "entropy/mean": wave,
        "reward/mean": lambda s: (
            0.7 - ramp(0, 0.4, 330, 400)(s) + ramp(0, 0.4, 600, 700)(s) - ramp(0, 0.4, 930, 1000)(s)
        ),
    }
    alerts = judge(EntropyExplosion(), rows(curves, 1, 1200))
    critical = [(a.state.value, a.severity.value) for a in alerts if a.severity is Severity.CRITICAL]
    assert critical == [("firing", "critical"), ("resolved", "critical"), ("firing", "critical")]


def test_explosion_numbers_are_those_of_the_definition() -> None:
    records = rows(exploding(), 5)
    rule, lowest, best, sums = EntropyExplosion(), math.inf, -math.inf, [[0.0, 0.0, 0.0] for _ in range(2)]
    for i, record in enumerate(records):
        found = rule.update(record)
        values = (math.log(max(0.1, record.metrics["entropy/mean"] or 0)), record.metrics["reward/mean"] or 0, 1.0)
        for which, decay in enumerate((0.5, 0.5**0.5)):  # rows are a half-life apart, and half a slow one
            sums[which] = [kept * decay + value for kept, value in zip(sums[which], values, strict=True)]
        (entropy, reward), (slow_entropy, slow_reward) = ((e / w, r / w) for e, r, w in sums)
        if i >= 1:  # a half-life past the first row
            lowest, best = min(lowest, slow_entropy), max(best, slow_reward)
    told = finding(found)
    assert told.value == pytest.approx(math.exp(entropy))
    assert told.reference == pytest.approx(math.exp(lowest))
    assert told.evidence["best reward/mean"] == pytest.approx(best)
    assert told.evidence["reward/mean"] == pytest.approx(reward)


# --- clip-saturated ---------------------------------------------------------------------------------------------------


def clipping(share: Callable[[int], float], alive: float = 0.6, **more: Callable[[int], float | None]) -> Curves:
    """`share` of the tokens that have an advantage is cut, most of it above."""
    return {
        "clip/high": noisy(lambda s: 0.7 * share(s) * alive, 0.01, 1),
        "clip/low": noisy(lambda s: 0.3 * share(s) * alive, 0.01, 2),
        "signal/active_tokens": lambda s: (1 - share(s)) * alive,
        "groups/zero_std": const(1 - alive),
        **{name.replace("__", "/"): curve for name, curve in more.items()},
    }


@pytest.mark.parametrize("every", [1, 10, 50])
@pytest.mark.parametrize("without", [(), ("signal/active_tokens",), ("signal/active_tokens", "groups/zero_std")])
def test_a_clip_that_cuts_more_than_it_leaves_is_a_warning(every: int, without: tuple[str, ...]) -> None:
    curves = {n: c for n, c in clipping(ramp(0.1, 0.9, 400, 800)).items() if n not in without}
    alerts = judge(ClipSaturated({"num_iterations": 16}), rows(curves, every))
    assert severities(alerts)[-1] == "warning"
    warning = next(a for a in alerts if a.severity is Severity.WARNING)
    assert 500 < warning.step <= 900
    assert "are clipped" in warning.message
    assert "16 updates a rollout" in warning.causes[0].text
    assert any("fewer updates" in advice.text for advice in warning.advice)


@pytest.mark.parametrize("every", [1, 10, 50])
@pytest.mark.parametrize("alive", [0.2, 0.6, 1.0])
def test_a_steady_clip_of_a_fifth_is_nothing(every: int, alive: float) -> None:
    assert severities(judge(ClipSaturated(), rows(clipping(lambda s: 0.2, alive), every))) == []
    assert severities(judge(ClipSaturated(), rows(clipping(lambda s: 0.15, alive), every))) == []


def test_a_third_is_worth_knowing() -> None:
    assert severities(judge(ClipSaturated(), rows(clipping(lambda s: 0.38, 0.9)))) == ["info"]


def test_a_clip_that_comes_and_goes_with_the_updates_of_a_rollout_is_judged_by_its_mean() -> None:
    assert severities(judge(ClipSaturated(), rows(clipping(lambda s: 0.5 * (s % 8) / 7, 0.9)))) == []
    assert severities(judge(ClipSaturated(), rows(clipping(lambda s: 0.95 if s % 8 else 0.0, 0.9))))[-1] == "warning"


def test_where_hardly_any_group_lives_it_is_no_matter_of_the_clip() -> None:
    assert severities(judge(ClipSaturated(), rows(clipping(lambda s: 0.7, 0.2)))) == []


@pytest.mark.parametrize(("cap", "severity"), [(0.2, "warning"), (5.0, "info"), (None, "info")])
def test_cispo_caps_weights_and_leaves_gradients(cap: float | None, severity: str) -> None:
    config = {"loss_type": "cispo"} | ({} if cap is None else {"epsilon_high": cap})
    alerts = judge(ClipSaturated(config), rows({"clip/high": const(0.35), "signal/active_tokens": const(0.7)}))
    assert severities(alerts) == [severity]
    assert "have their weight capped by CISPO" in alerts[0].message
    assert (f"epsilon_high={cap:g}" in alerts[0].causes[0].text) if severity == "warning" else True


@pytest.mark.parametrize(
    ("config", "more", "words"),
    [
        ({}, {"ratio__max": const(40.0)}, "a ratio of up to 40"),
        ({"importance_sampling_level": "sequence", "epsilon": 0.0003}, {}, "epsilon=0.0003 for one ratio a sequence"),
        ({"steps_per_generation": 8, "gradient_accumulation_steps": 2}, {}, "4 updates a rollout"),
        ({}, {}, "further between sampling and update than epsilon allows for"),
    ],
)
def test_causes_of_a_saturated_clip(
    config: dict[str, object], more: dict[str, Callable[[int], float | None]], words: str
) -> None:
    [alert] = [
        a
        for a in judge(ClipSaturated(config), rows(clipping(lambda s: 0.8, 0.6, **more)))
        if a.state is AlertState.FIRING
    ]
    assert words in alert.causes[0].text
    assert alert.advice


def test_the_lost_share_is_that_of_smoothed_shares() -> None:
    rule, sums, weight = ClipSaturated(), {"clip/high": 0.0, "clip/low": 0.0, "signal/active_tokens": 0.0}, 0.0
    for record in rows(clipping(lambda s: 0.8), 5, 300):
        found, decay = rule.update(record), 0.5 ** (5 / 5)
        weight = weight * decay + 1
        sums = {name: total * decay + (record.metrics[name] or 0) for name, total in sums.items()}
    cut, active = (sums["clip/high"] + sums["clip/low"]) / weight, sums["signal/active_tokens"] / weight
    assert finding(found).value == pytest.approx(cut / (cut + active))
    evidence = finding(found).evidence
    assert {name: evidence[name] for name in sums} == pytest.approx({name: x / weight for name, x in sums.items()})


def test_a_clip_that_lets_go_is_over_and_can_come_again() -> None:
    curves = clipping(lambda s: 0.9 if 300 < s < 600 or s > 900 else 0.05)
    alerts = [(a.state.value, a.severity.value) for a in judge(ClipSaturated(), rows(curves))]
    assert alerts.count(("resolved", "warning")) == 1
    assert alerts.count(("firing", "warning")) == 2


# --- low-diversity ----------------------------------------------------------------------------------------------------


def alike(**changes: Callable[[int], float | None]) -> dict[str, Callable[[int], float | None]]:
    return {
        "groups/unique": noisy(ramp(0.9, 0.15, 400, 800), 0.03, 1),
        "groups/solved": const(0.05),
        "groups/failed": const(0.05),
        "groups/stuck": ramp(0.05, 0.7, 400, 800),
        "reward/mean": noisy(ramp(0.3, 0.5, 0, 500), 0.02, 2),
        **{name.replace("__", "/"): curve for name, curve in changes.items()},
    }


@pytest.mark.parametrize("every", [1, 10, 50])
def test_siblings_that_become_the_same_text_are_a_warning(every: int) -> None:
    config = {"num_generations": 8, "num_iterations": 4, "epsilon_high": 0.2, "temperature": 0.7}
    alerts = judge(LowDiversity(config), rows(alike(), every))
    assert severities(alerts)[-1] == "warning"
    warning = next(a for a in alerts if a.severity is Severity.WARNING)
    assert 600 < warning.step <= 900
    assert "of 8), from " in warning.message
    texts = " ".join(cause.text for cause in warning.causes)
    assert all(words in texts for words in ("temperature 0.7", "4 updates a rollout under epsilon_high=0.2", "alike"))
    assert any("temperature" in advice.text for advice in warning.advice)


def test_without_stuck_groups_it_takes_a_reward_that_does_not_gain() -> None:
    stalled = judge(LowDiversity(), rows(alike(groups__stuck=const(0.0))))
    rising = {"reward__mean": ramp(0.1, 0.9, 0, STEPS), "reward__std": const(0.2)}
    gaining = judge(LowDiversity(), rows(alike(groups__stuck=const(0.0), **rising)))
    assert severities(stalled)[-1] == "warning"
    assert severities(gaining) == ["info"]


@pytest.mark.parametrize("every", [1, 10, 50])
@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"groups__solved": ramp(0.05, 0.95, 400, 700), "groups__stuck": const(0.0)}, ["info"]),
        ({"groups__solved": const(None)}, ["info"]),
        ({"groups__unique": noisy(lambda s: 0.2, 0.03, 1)}, []),
        ({"groups__unique": ramp(0.95, 0.6, 400, 800)}, []),
        ({"groups__unique": ramp(0.4, 0.25, 400, 800)}, []),
    ],
    ids=["solved", "unknown whether", "few from the start", "still many", "little less"],
)
def test_alike_and_yet_no_failure(
    changes: dict[str, Callable[[int], float | None]], most: list[str], every: int
) -> None:
    assert severities(judge(LowDiversity(), rows(alike(**changes), every))) == most


def test_diversity_is_measured_against_the_median_of_the_first_ten_rows() -> None:
    rule, records, level, weight = LowDiversity(), rows(alike()), 0.0, 0.0
    for record in records:
        found, decay = rule.update(record), 0.5**0.1
        level, weight = level * decay + (record.metrics["groups/unique"] or 0), weight * decay + 1
    told = finding(found)
    assert told.value == pytest.approx(level / weight)
    assert told.reference == pytest.approx(statistics.median(r.metrics["groups/unique"] or 0 for r in records[:10]))


def test_diversity_that_comes_back_is_over_and_can_go_again() -> None:
    unique = noisy(lambda s: 0.1 if 700 < s < 1000 or s > 1250 else 0.9, 0.02, 1)
    alerts = [(a.state.value, a.severity.value) for a in judge(LowDiversity(), rows(alike(groups__unique=unique)))]
    assert alerts == [("firing", "warning"), ("resolved", "warning"), ("firing", "warning")]


# --- grad-spike -------------------------------------------------------------------------------------------------------


def gradients(spikes: Mapping[int, float], amount: float = 0.3, seed: int = 1) -> Curves:
    usual = noisy(lambda s: 0.2, amount, seed, factor=True)
    return {"grad/norm": lambda s: usual(s) * spikes.get(s, 1.0)}


CLUSTER = {300: 40.0, 303: 25.0, 310: 60.0, 316: 30.0}


def test_four_spikes_in_twenty_rows_are_a_warning() -> None:
    alerts = judge(GradSpike({"max_grad_norm": 10.0}), rows(gradients(CLUSTER), 1, 500))
    assert next((a.step, a.severity.value, a.state.value) for a in alerts) == (316, "warning", "firing")
    assert "4 of the last 20 gradients are beyond 5 times the usual norm of 0.2" in alerts[0].message
    assert "steps 300, 303, 310, 316" in alerts[0].causes[0].text
    assert "max_grad_norm=10 lets" in alerts[0].causes[1].text
    assert alerts[1].state is AlertState.RESOLVED
    assert alerts[1].step < 360


@pytest.mark.parametrize("every", [10, 50])
@pytest.mark.parametrize(("size", "at"), [(8.0, 37), (50.0, 35)], ids=["the fourth", "the third of a burst"])
def test_rows_of_several_steps_are_counted_as_rows(every: int, size: float, at: int) -> None:
    spikes = {every * i: size for i in (30, 32, 35, 37)}
    alerts = judge(GradSpike(), rows(gradients(spikes), every, 50 * every))
    assert [a.step for a in alerts if a.state is AlertState.FIRING] == [at * every]


@pytest.mark.parametrize(
    "spikes",
    [
        dict.fromkeys(range(60, 1500, 60), 30.0),
        {300: 40.0, 303: 25.0, 310: 60.0},
        {300: 40.0, 310: 25.0, 320: 60.0, 330: 30.0, 340: 50.0},
        dict.fromkeys(range(300, 320), 4.0),
        {s: 0.0 for s in range(200, 1500) if s % 3},
    ],
    ids=["one now and then", "three", "a row in ten", "small ones", "dead steps"],
)
def test_isolated_spikes_are_nothing(spikes: dict[int, float]) -> None:
    assert judge(GradSpike(), rows(gradients(spikes))) == []


@pytest.mark.parametrize("seed", range(10))
def test_heavy_tails_all_along_are_the_usual(seed: int) -> None:
    """A deviation of 1 in the logarithm, as groups of two give it, and 1 % of rows at 5 to 30 times."""
    generator = random.Random(seed)
    spikes = {s: generator.uniform(5, 30) for s in range(1, STEPS) if generator.random() < 0.01}
    assert judge(GradSpike(), rows(gradients(spikes, amount=1.0, seed=seed))) == []


def test_dead_steps_do_not_set_the_level() -> None:
    """Nine rows in ten tell a norm of exactly 0, and the others stay what they are."""
    curves = {"grad/norm": lambda s: 0.3 if s % 10 == 0 else 0.0}
    assert judge(GradSpike(), rows(curves)) == []
    assert GradSpike().update(StepRecord(1, 0.0, {"grad/norm": 0.0})) is NO_DATA


def test_what_clipping_left_is_told() -> None:
    by_metric = {**gradients(CLUSTER), "grad/clip_coef": lambda s: 0.05 if s in CLUSTER else 1.0}
    for rule, curves in ((GradSpike(), by_metric), (GradSpike({"max_grad_norm": 0.5}), gradients(CLUSTER))):
        [fired] = [a for a in judge(rule, rows(curves, 1, 400)) if a.state is AlertState.FIRING]
        assert "; 4 of them were clipped, to " in fired.causes[0].text


def test_spikes_are_those_beyond_the_median_and_the_noise_of_the_last_fifty() -> None:
    generator = random.Random(5)
    records = rows(
        {"grad/norm": lambda s: math.exp(generator.gauss(0, 0.8)) * (90 if s in range(200, 210, 2) else 1)}, 1, 210
    )
    logs: list[float] = []
    spiked = []
    for record in records:
        now = math.log(record.metrics["grad/norm"] or 0)
        if len(logs) >= 20:
            middle = statistics.median(logs[-50:])
            mad = 1.4826 * statistics.median(abs(x - middle) for x in logs[-50:])
            if now - middle > max(math.log(5), 4 * mad):
                spiked.append((record.step, math.exp(now - middle)))
        logs.append(now)
    rule = GradSpike()
    told = [rule.update(record) for record in records]
    expected = [step for step, _ in spiked if step > 190]
    assert len(expected) >= 4
    last = finding(told[-1])
    assert ", ".join(map(str, expected)) in last.causes[0].text
    assert last.value == pytest.approx(max(size for step, size in spiked if step > 190))


# --- what holds for all of them ---------------------------------------------------------------------------------------

FAILING: dict[type[Rule], Curves] = {
    EntropyExplosion: exploding(),
    ClipSaturated: clipping(ramp(0.1, 0.9, 400, 800)),
    LowDiversity: alike(),
    GradSpike: gradients({s + 600: f for s, f in CLUSTER.items()}),
}
JUDGED = {
    EntropyExplosion: "entropy/mean", ClipSaturated: "clip/high", LowDiversity: "groups/unique", GradSpike: "grad/norm",
}  # fmt: skip
EACH = pytest.mark.parametrize("kind", list(FAILING), ids=lambda kind: kind.name)


@EACH
def test_without_its_metric_it_says_nothing(kind: type[Rule]) -> None:
    for value in (math.nan, math.inf, None):
        rule = kind()
        found = [rule.update(StepRecord(s, 0.0, {JUDGED[kind]: value, "reward/mean": 0.5})) for s in range(1, 50)]
        assert set(found) == {NO_DATA}
    assert kind().update(StepRecord(1, 0.0, {})) is NO_DATA


@EACH
def test_a_metric_that_stops_being_logged_neither_ends_an_alert_nor_makes_one(kind: type[Rule]) -> None:
    records = rows(FAILING[kind])
    fired = next(a.step for a in judge(kind(), records) if a.severity.rank >= 1)
    gone = (JUDGED[kind], "clip/low")
    for since, least in ((fired + 1, 1), (300, 0)):
        cut = [
            StepRecord(r.step, r.time, {n: v for n, v in r.metrics.items() if r.step < since or n not in gone})
            for r in records
        ]
        alerts = judge(kind(), cut)
        assert all(a.state is AlertState.FIRING for a in alerts)
        assert (max((a.severity.rank for a in alerts), default=-1) >= 1) == bool(least)


@EACH
def test_values_that_are_no_numbers_in_between_change_nothing(kind: type[Rule]) -> None:
    records = rows(FAILING[kind])
    holes = itertools.cycle([math.nan, None, math.inf, -math.inf, 1e300])
    broken = []
    for record in records:
        broken.append(record)
        broken.append(StepRecord(record.step, record.time, dict.fromkeys(record.metrics, next(holes))))
    alerts, pierced = judge(kind(), records), judge(kind(), broken)
    assert [(a.severity, a.state) for a in pierced] == [(a.severity, a.state) for a in alerts]


@EACH
@pytest.mark.parametrize("every", [1, 10])
def test_a_rule_that_was_saved_midway_goes_on_as_if_nothing_had_been(kind: type[Rule], every: int) -> None:
    records = rows(FAILING[kind], every)
    for middle in (3, len(records) // 2, len(records) * 4 // 5):
        first, second = kind(), kind()
        for record in records[:middle]:
            first.update(record)
        restore(second, dump(first))
        for record in records[middle:]:
            one, other = first.update(record), second.update(record)
            assert isinstance(one, Untold) == isinstance(other, Untold)
            assert finding(one) == finding(other) if isinstance(one, Untold) else one is other


@EACH
def test_nothing_that_is_remembered_grows(kind: type[Rule]) -> None:
    def size(value: object) -> int:
        if isinstance(value, dict):
            return 1 + sum(map(size, value.values()))
        return 1 + sum(map(size, value)) if isinstance(value, list) else 1

    rule, sizes = kind(), []
    for record in rows(FAILING[kind], 1, 3000):
        rule.update(record)
        if record.step % 1000 == 0:
            sizes.append(size(dump(rule)))
    assert max(sizes) < 300


@EACH
def test_messages_are_one_line_with_a_number_and_no_full_stop(kind: type[Rule]) -> None:
    for alert in judge(kind(), rows(FAILING[kind])):
        assert "\n" not in alert.message
        assert any(c.isdigit() for c in alert.message)
        assert not alert.message.endswith(".")
        assert alert.causes
        assert alert.advice


CHANGED = [
    # a run, and a setting with which it is judged otherwise
    (EntropyExplosion, exploding(), {"rise": 50.0}, []),
    (EntropyExplosion, exploding(), {"noise": 1000.0}, []),
    (EntropyExplosion, exploding(), {"noise_of_second": 1000.0}, []),
    (EntropyExplosion, exploding(), {"floor": 3.0}, []),
    (EntropyExplosion, exploding(), {"lost": 0.99, "patience": 1e6}, ["warning"]),
    (EntropyExplosion, exploding(reward__mean=noisy(ramp(0.3, 0.7, 0, 500), 0.02, 5)), {"patience": 1e6}, []),
    (EntropyExplosion, exploding(reward__mean=ramp(0.3, 0.9, 0, 1500)), {"gain": 1.0}, ["warning"]),
    (EntropyExplosion, exploding(groups__solved=const(0.3), reward__mean=const(0.6), **REST), {"solved": 0.2}, []),
    (ClipSaturated, clipping(lambda s: 0.8), {"most": 0.95}, ["info"]),
    (ClipSaturated, clipping(lambda s: 0.3), {"much": 0.1, "usual": 0.1}, ["info"]),
    (ClipSaturated, clipping(lambda s: 0.8), {"usual": 0.9}, []),
    (LowDiversity, alike(), {"fallen": 0.1}, []),
    (LowDiversity, alike(), {"few": 0.05}, []),
    (LowDiversity, alike(), {"noise": 1000.0}, []),
    (LowDiversity, alike(), {"solved": 0.01}, ["info"]),
    (LowDiversity, alike(reward__mean=ramp(0.1, 0.9, 0, STEPS), reward__std=const(0.2)), {"stuck": 0.9}, ["info"]),
    (GradSpike, gradients(CLUSTER), {"factor": 100.0}, []),
    (GradSpike, gradients(CLUSTER), {"noise": 100.0}, []),
    (GradSpike, gradients(CLUSTER), {"cluster": 5}, []),
    (GradSpike, gradients(CLUSTER), {"window": 10}, []),
    (GradSpike, gradients(CLUSTER), {"enough": 2000, "usual": 1000}, []),
]


@pytest.mark.parametrize(("kind", "curves", "settings", "expected"), CHANGED)
def test_settings_change_the_verdict(
    kind: type[Rule], curves: Curves, settings: dict[str, object], expected: list[str]
) -> None:
    records = rows(curves)
    assert severities(judge(kind(None, settings), records)) == expected
    assert severities(judge(kind(), records)) != expected


@pytest.mark.parametrize("kind", [EntropyExplosion, ClipSaturated, LowDiversity])
def test_a_longer_half_life_is_later(kind: type[Rule]) -> None:
    records = rows(FAILING[kind])
    usual, slow = (
        next(a.step for a in judge(kind(None, settings), records) if a.severity.rank >= 1)
        for settings in ({}, {"half_life": 60})
    )
    assert slow > usual


def test_the_other_settings_change_what_they_say() -> None:
    wave = {
        "entropy/mean": lambda s: grows(0.3, 3, 300, 340)(s) * grows(1, 0.35, 345, 350)(s),
        "reward/mean": lambda s: ramp(0.7, 0.4, 345, 360)(s),
    }
    records = rows(wave, 1, 800)
    assert severities(judge(EntropyExplosion(), records)) != severities(
        judge(EntropyExplosion(None, {"back": 0.0}), records)
    )
    references = [judge(EntropyExplosion(None, {"slow": slow}), rows(exploding()))[0].reference for slow in (2, 50)]
    assert (references[0] or 0) < 0.9 * (references[1] or 0)
    longer = rows(exploding(length__mean=ramp(100, 150, 600, 900)))
    for factor, is_named in ((1.25, True), (2.0, False)):
        rule = EntropyExplosion(None, {"longer": factor})
        assert any("length" in c.text for a in judge(rule, longer) for c in a.causes) is is_named
    for far, words in ((2.0, "runs away"), (100.0, "further between")):
        [alert] = judge(ClipSaturated(None, {"far": far}), rows(clipping(lambda s: 0.8, ratio__max=const(40.0))))
        assert words in alert.causes[0].text
    capped = rows({"clip/high": const(0.35)})
    assert judge(ClipSaturated({"loss_type": "cispo"}, {"rising": 0.5}), capped)[0].value == pytest.approx(0.7)
    assert judge(ClipSaturated({"loss_type": "cispo"}, {"rising": 1.0}), capped)[0].value == pytest.approx(0.35)
    shift = {"grad/norm": lambda s: 0.1 if s < 300 else 1.0}
    few, many = (
        next(a.step for a in judge(GradSpike(None, {"usual": n}), rows(shift)) if a.state is AlertState.RESOLVED)
        for n in (20, 200)
    )
    assert few < many


@pytest.mark.parametrize("kind", [*FAILING, NonFinite, SamplerMismatch, Truncation])
def test_every_setting_says_where_it_is_from(kind: type[Rule]) -> None:
    settings = settings_of(kind)
    assert settings
    for setting in settings.values():
        assert setting.unit
        assert setting.source.split(":")[0].split()[0] in ("theory", "paper", "calibration", "convention", "as")
        assert setting.least <= setting.default <= setting.most


# --- rules whose numbers became settings ------------------------------------------------------------------------------


def test_a_ratio_of_half_is_a_warning_and_one_of_a_fifth_critical_unless_set_otherwise() -> None:
    for ratio, settings, expected in (
        (0.55, {}, []), (0.45, {}, ["warning"]), (0.19, {}, ["critical"]), (5.3, {}, ["critical"]),
        (0.55, {"warning": 1.5}, ["warning"]), (0.19, {"critical": 6.0}, ["warning"]),
    ):  # fmt: skip
        assert (
            severities(judge(SamplerMismatch(None, settings), rows({"sampler/ratio_mean": const(ratio)}, 1, 50)))
            == expected
        )
    jump = rows({"sampler/ratio_mean": lambda s: 1.0 if s < 100 else 0.1}, 1, 300)
    first = [judge(SamplerMismatch(None, {"half_life": h}), jump)[0].step for h in (5, 40)]
    assert first[0] < first[1]


def test_truncation_marks() -> None:
    curves = {"length/truncated": lambda s: 0.0 if s < 100 else 0.9, "reward/mean": const(0.5)}
    assert severities(judge(Truncation(), rows(curves, 1, 500))) == []
    assert severities(judge(Truncation(None, {"nearly_all": 0.8}), rows(curves, 1, 500))) == ["info"]
    first = [
        judge(Truncation(None, {"nearly_all": 0.8, "half_life": h}), rows(curves, 1, 500))[0].step for h in (5, 40)
    ]
    assert first[0] < first[1]


def test_non_finite_patience() -> None:
    records = rows({"kl/ref": lambda s: math.nan if s in (50, 51, 52, 53) else 0.1}, 1, 60)
    assert severities(judge(NonFinite(), records)) == ["warning", "critical"]
    assert severities(judge(NonFinite(None, {"patience": 5}), records)) == ["warning"]


# --- real runs --------------------------------------------------------------------------------------------------------

SHARED = Path(__file__).parents[2] / "shared" / "runs"


@pytest.mark.skipif(not SHARED.is_dir(), reason="no folder of shared runs beside this checkout")
def test_real_runs_that_survived_are_never_critical_and_hardly_ever_warned_of() -> None:
    from rlwatch.readers import load

    warned = []
    for line in (SHARED / "labels.tsv").read_text().splitlines()[1:]:
        path, label = line.split("\t")[:2]
        for run in load(SHARED / path) if label == "survived" else []:
            told = [a for kind in FAILING for a in judge(kind(), run.records) if a.severity.rank >= 1]
            assert all(a.severity is Severity.WARNING for a in told), path
            warned += sorted({(path, a.rule) for a in told})
    assert warned == []
    assert CLEAR is not NO_DATA
