"""Whether the runs show what was claimed: shown, not shown, or reversed; with the numbers that say so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from rlwatch.lab.experiment import Claim, Experiment, Measure
from rlwatch.lab.paired import effect_size, mean_interval, pairs_needed, sign_flip
from rlwatch.report.statistics import Interval
from rlwatch.report.survival import kaplan_meier, log_rank, median_time

ALPHA = 0.05


class Verdict(str, Enum):
    """What became of a claim."""

    SHOWN = "shown"
    NOT_SHOWN = "not shown"
    REVERSED = "reversed"


@dataclass(frozen=True)
class Measured:
    """What was measured in one run.

    Args:
        arm: Its arm.
        seed: Its seed.
        last_step: The last step that it was seen at: where a time is censored.
        numbers: Measure → number, None where there is none.
    """

    arm: str
    seed: int
    last_step: int
    numbers: Mapping[str, float | None]


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict.

    Args:
        claim: It.
        verdict: What became of it.
        numbers: The numbers in a sentence.
        difference: Mean paired difference, or for `below` and `above` the mean, with its 95 % interval; None for times.
        effect: d_z of the pairs.
        pairs: Seeds that both arms have.
        agree: Pairs in which it is as claimed.
        needed: Pairs that would show such an effect four times of five.
        p: Of the exact test.
    """

    claim: Claim
    verdict: Verdict
    numbers: str
    difference: Interval | None = None
    effect: float | None = None
    pairs: int = 0
    agree: int = 0
    needed: int | None = None
    p: float | None = None


def judge(experiment: Experiment, measured: Sequence[Measured]) -> list[Judged]:
    """Every claim of an experiment that the runs have something to say about, in the order of the claims."""
    ran = {run.arm for run in measured}
    claims = [claim for claim in experiment.claims if claim.arms() <= ran]
    return [_judge(claim, experiment.measure(claim.measure), measured) for claim in claims]


def _judge(claim: Claim, measure: Measure, measured: Sequence[Measured]) -> Judged:
    if claim.kind == "sooner":
        return _sooner(claim, measure, measured)
    if claim.kind in ("below", "above"):
        return _against_number(claim, measure, measured)
    return _paired(claim, measure, measured)


def _paired(claim: Claim, measure: Measure, measured: Sequence[Measured]) -> Judged:
    """`more`, `less` and `same`: the differences of the pairs, or the contrasts of the seeds.

    An order is shown where the exact one-sided test and the 95 % interval agree that it is no chance: the first asks
    nothing of the distribution, the second does not take five small differences of one sign for a large effect. That
    two are the same is shown where the whole interval lies within the bound.
    """
    differences = _differences(claim, measured)
    if not differences:
        return Judged(claim, Verdict.NOT_SHOWN, "no seed has this number in all of these arms")
    sign = -1.0 if claim.kind == "less" else 1.0
    interval, effect = mean_interval(differences), effect_size(differences)
    towards, p = [sign * d for d in differences], None
    if claim.kind == "same":
        verdict = Verdict.SHOWN if _within(interval, claim.bound) else Verdict.NOT_SHOWN
        agree = sum(abs(d) <= claim.bound for d in differences)
    else:
        p, back = sign_flip(towards), sign_flip([-d for d in towards])
        ends = sorted(sign * end for end in (interval.low, interval.high) if end is not None)
        verdict = Verdict.NOT_SHOWN
        if ends and ends[0] > 0 and p <= ALPHA:
            verdict = Verdict.SHOWN
        elif ends and ends[1] < 0 and back <= ALPHA:
            verdict = Verdict.REVERSED
        agree = sum(d > 0 for d in towards)
    return Judged(
        claim,
        verdict,
        _pair_words(claim, measure, interval, effect, agree, len(differences), p),
        interval,
        effect,
        len(differences),
        agree,
        pairs_needed(effect) if claim.kind != "same" else None,
        p,
    )


def _differences(claim: Claim, measured: Sequence[Measured]) -> list[float]:
    """Σ weight · number over the arms, of each seed that has it in all of them: 1 and −1 are a difference."""
    weights = claim.weights or {claim.arm: 1.0, claim.than: -1.0}
    by_seed: dict[int, dict[str, float]] = {}
    for run in measured:
        value = run.numbers.get(claim.measure)
        if run.arm in weights and value is not None:
            by_seed.setdefault(run.seed, {})[run.arm] = value
    whole = [found for _, found in sorted(by_seed.items()) if found.keys() == weights.keys()]
    return [sum(weight * found[arm] for arm, weight in weights.items()) for found in whole]


def _within(interval: Interval, bound: float) -> bool:
    return interval.low is not None and interval.high is not None and -bound <= interval.low <= interval.high <= bound


def _pair_words(
    claim: Claim, measure: Measure, interval: Interval, effect: float | None, agree: int, pairs: int, p: float | None
) -> str:
    unit = f" {measure.unit}" if measure.unit else ""
    signed = f"+{measure.form}" if not measure.form.startswith("+") else measure.form
    what = f"a contrast of {len(claim.weights)} arms" if claim.weights else f"{claim.arm} minus {claim.than}"
    words = f"{what}: {interval.value:{signed}}{unit}"
    if interval.low is not None:
        words += f" ({interval.low:{signed}} to {interval.high:{signed}})"
    words += f", {agree} of {pairs} seeds " + ("within the bound" if claim.kind == "same" else "as claimed")
    if effect is not None and claim.kind != "same":
        words += f", d = {effect:.2g}" if math.isfinite(effect) else ", the same in every seed"
    return words + (f", p = {p:.2g}" if p is not None else "")


def _against_number(claim: Claim, measure: Measure, measured: Sequence[Measured]) -> Judged:
    """`below` and `above`: the 95 % interval of the mean lies on that side of the bound."""
    found = [x for run in measured if run.arm == claim.arm and (x := run.numbers.get(claim.measure)) is not None]
    if not found:
        return Judged(claim, Verdict.NOT_SHOWN, f"no run of {claim.arm} has this number")
    interval = mean_interval(found)
    is_below = claim.kind == "below"
    agree = sum(x < claim.bound if is_below else x > claim.bound for x in found)
    verdict = Verdict.NOT_SHOWN
    if interval.low is not None and interval.high is not None:
        sides = {"below": interval.high < claim.bound, "above": interval.low > claim.bound}
        other = {"below": interval.low > claim.bound, "above": interval.high < claim.bound}
        verdict = Verdict.SHOWN if sides[claim.kind] else Verdict.REVERSED if other[claim.kind] else Verdict.NOT_SHOWN
    unit = f" {measure.unit}" if measure.unit else ""
    words = f"{claim.arm}: {interval.value:{measure.form}}{unit}"
    if interval.low is not None:
        words += f" ({interval.low:{measure.form}} to {interval.high:{measure.form}})"
    words += f" against {claim.bound:g}, {agree} of {len(found)} seeds as claimed"
    return Judged(claim, verdict, words, interval, None, len(found), agree)


def _sooner(claim: Claim, measure: Measure, measured: Sequence[Measured]) -> Judged:
    """`sooner`: the log-rank test of two groups of times, some of them censored, by dealing the runs anew."""
    groups = []
    for name in (claim.arm, claim.than):
        runs = [run for run in measured if run.arm == name]
        times = [x if (x := run.numbers.get(claim.measure)) is not None else float(run.last_step) for run in runs]
        groups.append((times, [run.numbers.get(claim.measure) is not None for run in runs]))
    test = log_rank(*groups)
    said = [f"{name}: {_times_words(*group)}" for name, group in zip((claim.arm, claim.than), groups, strict=True)]
    agree, pairs = _sooner_pairs(claim, measured)
    words = f"{'; '.join(said)}; {agree} of {pairs} seeds as claimed"
    if test is None:
        return Judged(claim, Verdict.NOT_SHOWN, f"{words}: nothing to compare", pairs=pairs, agree=agree)
    verdict = Verdict.NOT_SHOWN
    if test.p_permutation <= ALPHA:
        verdict = Verdict.SHOWN if test.observed > test.expected else Verdict.REVERSED
    words += f", log-rank p = {test.p_permutation:.2g}"
    return Judged(claim, verdict, words, pairs=pairs, agree=agree, p=test.p_permutation)


def _sooner_pairs(claim: Claim, measured: Sequence[Measured]) -> tuple[int, int]:
    """Seeds in which the event came in the first arm, and not earlier in the other; and seeds of both."""
    times = {(run.arm, run.seed): run.numbers.get(claim.measure) for run in measured}
    seeds = sorted({s for arm, s in times if arm == claim.arm} & {s for arm, s in times if arm == claim.than})
    agree = 0
    for seed in seeds:
        mine, other = times[claim.arm, seed], times[claim.than, seed]
        agree += mine is not None and (other is None or mine < other)
    return agree, len(seeds)


def _times_words(times: Sequence[float], events: Sequence[bool]) -> str:
    """How many had the event, and when half of them had."""
    had = sum(events)
    middle = median_time(kaplan_meier(times, events)) if had else None
    when = f", half of them by step {middle:.0f}" if middle is not None else ""
    return f"{had} of {len(times)} runs{when}"
