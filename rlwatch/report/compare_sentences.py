"""What the seeds can show, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlwatch.report.compare import ALPHA, Comparison, Group, Pair
from rlwatch.report.sentences import counted
from rlwatch.report.statistics import EXACT, least_p, seeds_needed

MOST = 1000
"""Seeds a side from which on the number is not said."""
AT_ONCE = 3
"""Pairs up to which each has its sentences; more of them are a table."""
_LISTED = 4


def sentences(comparison: Comparison) -> list[str]:
    """What can be said about the differences between the groups: first of single runs, then of the pairs.

    Of more than [`AT_ONCE`][rlwatch.report.compare_sentences.AT_ONCE] pairs only those that show something have a
    sentence each.
    """
    said = []
    alone = [group for group in comparison.groups if len(group.finals) == 1]
    if len(comparison.groups) > 1 and alone:
        said.append(_alone(alone, len(comparison.groups)))
    if len(comparison.groups) == 1:
        said.append("There is one group: nothing to compare it with.")
    several = [group for group in comparison.groups if len(group.finals) > 1]
    many = len(comparison.pairs) > AT_ONCE
    if many:
        said.append(_many(comparison.pairs))
    for pair in comparison.pairs:
        collapse_shown = pair.collapse_p_adjusted is not None and pair.collapse_p_adjusted < ALPHA
        if many and not (pair.shown or collapse_shown):
            continue
        said.append(reward_sentence(pair, name=len(comparison.groups) > 2, pairs=len(comparison.pairs)))
        collapse = collapse_sentence(pair, several, name=len(comparison.groups) > 2)
        said += [collapse] if collapse else []
    return said


def reward_sentence(pair: Pair, *, name: bool = True, pairs: int = 1) -> str:
    """Whether this many seeds show this difference in final reward, and how many would.

    Args:
        pair: The two groups.
        name: Say which two: needless where there are only two.
        pairs: How many comparisons are made at once.
    """
    n, m = pair.seeds
    seeds = f"{n} seeds a side" if n == m else f"{n} and {m} seeds"
    of_what = f" between {pair.first} and {pair.second}" if name else ""
    begin = f"With {seeds}, a difference of {plus_minus(pair)} in final reward{of_what}"
    if pair.effect is None:
        return f"With {seeds}, there is no difference in final reward{of_what} at all."
    after = f" after {pairs} comparisons" if pairs > 1 else ""
    before = f", and {pairs} comparisons are made" if pairs > 1 else ""
    how = "by exact permutation" if math.comb(n + m, n) <= EXACT else "by permutation"
    if pair.shown:
        better = "" if name else f": {pair.first} ends above {pair.second}"
        return f"{begin} is shown ({p_text(pair.p_adjusted)}{after}, {how}){better}."
    why = f"is not shown ({p_text(pair.p_adjusted)}{after})"
    if not pair.possible:
        why = f"is not shown, nor could any be (p is at least {least_p(n, m):.2g}{before})"
    if pair.needed is None:
        return f"{begin} {why}."
    if pair.needed > MOST:
        return f"{begin} {why}; more than {MOST:,} a side would be needed for one of this size."
    return f"{begin} {why}; about {pair.needed} a side would show one of this size."


def collapse_sentence(pair: Pair, groups: Sequence[Group], *, name: bool = True) -> str | None:
    """Whether the groups differ in their time to the first critical alert; None where no run had one."""
    if pair.collapse is None or pair.collapse_p_adjusted is None:
        return None
    first, second = (next(g for g in groups if g.name == which) for which in (pair.first, pair.second))
    counts = f"{first.collapsed} of {first.watched} runs and {second.collapsed} of {second.watched} collapsed"
    who = f"Of {pair.first} and {pair.second}, " if name else ""
    shown = "shown" if pair.collapse_p_adjusted < ALPHA else "not shown"
    return (
        f"{who}{counts}: a difference in time to collapse is {shown} "
        f"(log-rank, permuted, {p_text(pair.collapse_p_adjusted)})."
    )


def plus_minus(pair: Pair) -> str:
    """A difference with its half-width, to as many places as the half-width has meaning; `0.04 ± 0.11`."""
    value, high = pair.difference.value, pair.difference.high
    half = None if high is None else high - value
    if not half:
        return f"{value:.3g}"
    places = min(8, max(0, 1 - math.floor(math.log10(half))))
    return f"{value:.{places}f} ± {half:.{places}f}"


def p_text(p: float) -> str:
    """A p as a person reads it.

    >>> p_text(0.0286), p_text(0.00001), p_text(0.4)
    ('p = 0.029', 'p < 0.001', 'p = 0.4')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _many(pairs: Sequence[Pair]) -> str:
    shown = sum(pair.shown for pair in pairs)
    said = f"Of the {len(pairs)} differences in final reward between two groups, {shown or 'none'} "
    said += f"{'is' if shown < 2 else 'are'} shown"
    could = sum(pair.possible for pair in pairs)
    if could < len(pairs):
        said += f"; with so few seeds, {could or 'none'} could be"
    return said + "."


def _alone(alone: Sequence[Group], groups: int) -> str:
    if len(alone) == groups:
        who = "One run a side" if groups == 2 else f"One run each of {counted(groups, 'group')}"
    else:
        names = [group.name for group in alone[:_LISTED]] + (["others"] if len(alone) > _LISTED else [])
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
        who = f"One run {'each ' if len(names) > 1 else ''}of {listed}"
    least = seeds_needed(math.inf)
    return (
        f"{who} shows nothing about the method: seeds alone make runs differ by an unknown amount, and fewer than "
        f"{least} a side cannot show a difference."
    )
