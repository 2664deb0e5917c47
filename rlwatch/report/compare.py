"""Runs, or groups of runs, side by side, and what so many seeds can show of the difference between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from rlwatch.report.analysis import Analysis
from rlwatch.report.compare_notes import notes_of, without_copies
from rlwatch.report.grouping import Grouped, group_runs
from rlwatch.report.outcomes import Outcome, outcome
from rlwatch.report.statistics import (
    Interval,
    cohens_d,
    holm,
    interquartile_mean,
    iqm_difference,
    iqm_interval,
    least_p,
    mean_difference,
    permutation_test,
    seeds_needed,
)
from rlwatch.report.survival import LogRank, Survival, kaplan_meier, log_rank, median_time

ALPHA = 0.05
FEWEST = 4
"""Runs below which no bootstrap interval is given: that of three normal values holds the truth in 73 % of cases."""


@dataclass(frozen=True)
class Group:
    """Runs that are repetitions of each other, and what came of them.

    Args:
        name: What it is called.
        settings: What sets it apart.
        outcomes: One a run.
        final: IQM of the final rewards, with a 95 % bootstrap interval from four runs on; None where no run has one.
        best: The same of the best smoothed rewards.
        wasted: The same of the shares that taught nothing.
        collapsed: Runs in which a critical alert was told.
        watched: Runs in which one could have been.
        survival: Kaplan-Meier: the share of runs without one, from step to step.
        median_collapse: The step by which half of the runs had one; None if fewer than half did.
        reached: Runs that reached the comparison's reward level.
        cost: The median of what they took to reach it, in its unit, the others censored; None if most did not.
        verdicts: Verdict → runs.
    """

    name: str
    settings: dict[str, Any]
    outcomes: Sequence[Outcome]
    final: Interval | None
    best: Interval | None
    wasted: Interval | None
    collapsed: int
    watched: int
    survival: Sequence[Survival]
    median_collapse: float | None
    reached: int | None
    cost: float | None
    verdicts: dict[str, int]

    @property
    def finals(self) -> list[float]:
        """The final rewards of the runs that have one."""
        return [o.final_reward for o in self.outcomes if o.final_reward is not None]


@dataclass(frozen=True)
class Pair:
    """Two groups with at least two final rewards each, the one with the higher mean first.

    Args:
        first: Its name.
        second: The other's name.
        seeds: Final rewards in each.
        difference: Of the mean final rewards, ± Welch's 95 % half-width.
        iqm: Difference of the IQMs, with a 95 % bootstrap interval from four runs a side on.
        effect: Cohen's d; inf where no reward varies inside a group, None where nothing differs at all.
        p: Of the permutation test on the means.
        p_adjusted: After all pairs of the comparison (Holm).
        shown: Whether that is below 5 %.
        possible: Whether it could be, with so many seeds, were the groups as far apart as can be.
        needed: Seeds a side that would show a difference of this size with 80 % power; None if there is none.
        alpha: The level that `needed` is for: 5 % by the number of pairs.
        collapse: The log-rank test on the time to the first critical alert; None where no run collapsed.
        collapse_p_adjusted: Its permutation p after all pairs that have one (Holm).
    """

    first: str
    second: str
    seeds: tuple[int, int]
    difference: Interval
    iqm: Interval
    effect: float | None
    p: float
    p_adjusted: float
    shown: bool
    possible: bool
    needed: int | None
    alpha: float
    collapse: LogRank | None = None
    collapse_p_adjusted: float | None = None


@dataclass(frozen=True)
class Comparison:
    """What was found.

    Args:
        by: What the runs are grouped by: names of settings, `name`, or the patterns that were given.
        groups: In the order of their first runs.
        pairs: All pairs of groups with two final rewards each.
        level: The reward that reaching is measured by: the best of the median run of the group that does worst at it;
            None where no run had to learn anything for it, or there is only one group.
        unit: Of `Group.cost`: `tokens` (generated so far) where all runs tell it, else `steps`.
        notes: What a reader has to know before believing it, a sentence each.
    """

    by: Sequence[str]
    groups: Sequence[Group]
    pairs: Sequence[Pair]
    level: float | None
    unit: str
    notes: Sequence[str] = field(default_factory=list)


def compare(analyses: Sequence[Analysis], by: Sequence[str] = ()) -> Comparison:
    """Group the runs, and compare every two groups.

    Args:
        analyses: One a run, of any formats.
        by: See [`group_runs`][rlwatch.report.grouping.group_runs].

    Raises:
        ValueError: `by` makes no sense for these runs.
    """
    found, keys, notes = group_runs(analyses, by)
    for one in found:
        one.members, said = without_copies(one)
        notes += said
    outcomes = [[outcome(analysis) for analysis in one.members] for one in found]
    level = _level(outcomes)
    in_tokens = all(o.counts_tokens for own in outcomes for o in own if o.curve)
    groups = [_group(one, own, level, in_tokens) for one, own in zip(found, outcomes, strict=True)]
    notes += notes_of(found, outcomes)
    return Comparison(keys, groups, _pairs(groups), level, "tokens" if in_tokens else "steps", notes)


def _group(one: Grouped, outcomes: Sequence[Outcome], level: float | None, in_tokens: bool) -> Group:
    times, had = collapse_times(outcomes)
    curve = kaplan_meier(times, had)
    spent = [] if level is None else [s for o in outcomes if (s := o.spent_to_reach(level, in_tokens=in_tokens))]
    return Group(
        name=one.name,
        settings=one.settings,
        outcomes=outcomes,
        final=_estimate([o.final_reward for o in outcomes]),
        best=_estimate([o.best_reward for o in outcomes]),
        wasted=_estimate([o.wasted for o in outcomes]),
        collapsed=sum(had),
        watched=len(had),
        survival=curve,
        median_collapse=median_time(curve),
        reached=sum(reached for _, reached in spent) if spent else None,
        cost=median_time(kaplan_meier([at for at, _ in spent], [reached for _, reached in spent])) if spent else None,
        verdicts=dict(Counter(o.verdict for o in outcomes)),
    )


def _pairs(groups: Sequence[Group]) -> list[Pair]:
    several = [group for group in groups if len(group.finals) > 1]
    two = [(a, b) if _mean(a.finals) >= _mean(b.finals) else (b, a) for a, b in combinations(several, 2)]
    alpha = ALPHA / max(1, len(two))
    least_p_values = holm([least_p(len(a.finals), len(b.finals)) for a, b in two])
    p_values = [permutation_test(a.finals, b.finals) for a, b in two]
    collapses = [
        log_rank(collapse_times(a.outcomes), collapse_times(b.outcomes)) if _both_watched(a, b) else None
        for a, b in two
    ]
    adjusted = iter(holm([test.p_permutation for test in collapses if test is not None]))
    pairs = []
    rows = zip(two, p_values, holm(p_values), least_p_values, collapses, strict=True)
    for (a, b), p, p_adjusted, could, collapse in rows:
        effect = cohens_d(a.finals, b.finals)
        shown = p_adjusted < ALPHA
        needed = None if effect is None else seeds_needed(effect, alpha=alpha)
        more = max(len(a.finals), len(b.finals)) + 1
        pairs.append(
            Pair(
                first=a.name,
                second=b.name,
                seeds=(len(a.finals), len(b.finals)),
                difference=mean_difference(a.finals, b.finals),
                iqm=_iqm_difference(a.finals, b.finals),
                effect=effect,
                p=p,
                p_adjusted=p_adjusted,
                shown=shown,
                possible=could < ALPHA,
                needed=needed if needed is None or shown else max(needed, more),
                alpha=alpha,
                collapse=collapse,
                collapse_p_adjusted=None if collapse is None else next(adjusted),
            )
        )
    return pairs


def _both_watched(a: Group, b: Group) -> bool:
    return a.watched > 1 and b.watched > 1


def collapse_times(outcomes: Sequence[Outcome]) -> tuple[list[float], list[bool]]:
    """Step of the collapse or of the end, and which it is, of the runs in which a collapse would have been seen."""
    seen = [(o.collapse_step, o.last_step) for o in outcomes if o.collapse_known]
    times = [float(last or 0 if collapse is None else collapse) for collapse, last in seen]
    return times, [collapse is not None for collapse, _ in seen]


def _level(outcomes: Sequence[Sequence[Outcome]]) -> float | None:
    """Half of the runs of every group reach it; None if it is not above where the runs began."""
    bests = [sorted(o.best_reward for o in own if o.best_reward is not None) for own in outcomes]
    if len(bests) < 2 or not all(bests):
        return None
    level = min(best[(len(best) - 1) // 2] for best in bests)
    began = sorted(o.curve[0][1] for own in outcomes for o in own if o.curve)
    return level if level > began[len(began) // 2] else None


def _estimate(values: Sequence[float | None]) -> Interval | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return iqm_interval(known) if len(known) >= FEWEST else Interval(float(interquartile_mean(known)))


def _iqm_difference(first: Sequence[float], second: Sequence[float]) -> Interval:
    if min(len(first), len(second)) >= FEWEST:
        return iqm_difference(first, second)
    return Interval(float(interquartile_mean(first) - interquartile_mean(second)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
