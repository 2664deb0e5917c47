"""The tables of a comparison as plain text cells, which the text and the HTML report share; a dash is an unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlwatch.report.analysis import VERDICTS
from rlwatch.report.compare import FEWEST, Comparison, Group, Pair
from rlwatch.report.compare_sentences import AT_ONCE, MOST, p_text, plus_minus
from rlwatch.report.outcomes import Outcome
from rlwatch.report.sentences import percent
from rlwatch.report.statistics import Interval

UNKNOWN = "–"


@dataclass(frozen=True)
class Rows:
    """A table: titles of the columns, and rows of as many cells."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


def group_rows(comparison: Comparison) -> Rows:
    """A row a group; columns that no group has anything for are left out."""
    columns: dict[str, Callable[[Group], str]] = {
        "group": lambda g: g.name,
        "runs": lambda g: str(len(g.outcomes)),
        "final reward": lambda g: _interval(g.final),
        "best": lambda g: number(g.best.value if g.best else None),
        "collapsed": _collapsed,
        "to reach": _cost,
        "wasted": lambda g: UNKNOWN if g.wasted is None else percent(g.wasted.value),
        "verdicts": lambda g: ", ".join(f"{g.verdicts[v]} {v}" for v in VERDICTS if v in g.verdicts),
    }
    known = {t: cell for t, cell in columns.items() if any(cell(group) != UNKNOWN for group in comparison.groups)}
    return Rows(list(known), [[cell(group) for cell in known.values()] for group in comparison.groups])


def pair_rows(comparison: Comparison) -> Rows:
    """A row a pair: the difference, what the seeds show of it, and how many would."""
    titles = ["higher", "lower", "seeds", "difference", "p", "shown", "needed", "p of collapse"]
    return Rows(titles, [_pair(pair) for pair in comparison.pairs])


def run_rows(outcomes: Sequence[Outcome]) -> Rows:
    """A row a run."""
    titles = ["run", "seed", "last step", "final", "best", "collapse", "verdict"]
    return Rows(
        titles,
        [
            [
                o.run,
                UNKNOWN if o.seed is None else str(o.seed),
                UNKNOWN if o.last_step is None else str(o.last_step),
                number(o.final_reward),
                number(o.best_reward),
                UNKNOWN if o.collapse_step is None else f"step {o.collapse_step}",
                o.verdict,
            ]
            for o in outcomes
        ],
    )


def legend(comparison: Comparison) -> list[str]:
    """What the numbers are, and what to know before believing them, a sentence each."""
    said = [f"Grouped by {', '.join(comparison.by)}."] if comparison.groups else []
    several = any(len(group.outcomes) > 1 for group in comparison.groups)
    final = "Final reward: the mean over the last tenth of the steps"
    if any(group.final is not None and group.final.low is not None for group in comparison.groups):
        final += f"; of a group the interquartile mean, and from {FEWEST} runs on its 95 % bootstrap interval"
    elif several:
        final += "; of a group the mean"
    said.append(final + (". ± is Welch's 95 % interval of the difference of means." if comparison.pairs else "."))
    if comparison.level is not None:
        what = "generated tokens" if comparison.unit == "tokens" else "steps"
        who = "half of the runs of every group reach; the median of a group" if several else "every run reaches"
        said.append(f"To reach: {what} until a smoothed reward of {comparison.level:.3g}, which {who}.")
    if len(comparison.pairs) > AT_ONCE:
        said.append(
            f"p: by permutation, after {len(comparison.pairs)} comparisons (Holm). Needed: seeds a side that would "
            "show a difference of this size. P of collapse: log-rank, by permutation."
        )
    return said + [f"{note[0].upper()}{note[1:]}." for note in comparison.notes]


def number(value: float | None) -> str:
    """Three digits, or a dash."""
    return UNKNOWN if value is None else f"{value:.3g}"


def _pair(pair: Pair) -> list[str]:
    needed = UNKNOWN if pair.needed is None or pair.shown else f">{MOST}" if pair.needed > MOST else str(pair.needed)
    return [
        pair.first,
        pair.second,
        f"{pair.seeds[0]}, {pair.seeds[1]}",
        plus_minus(pair),
        _p(pair.p_adjusted),
        "yes" if pair.shown else "no" if pair.possible else "cannot",
        needed,
        UNKNOWN if pair.collapse_p_adjusted is None else _p(pair.collapse_p_adjusted),
    ]


def _p(p: float) -> str:
    return p_text(p).removeprefix("p = ").removeprefix("p ")


def _collapsed(group: Group) -> str:
    if not group.watched:
        return UNKNOWN
    when = "" if group.median_collapse is None else f"step {group.median_collapse:.0f}"
    if group.watched == 1:
        return when or "no"
    return f"{group.collapsed} of {group.watched}" + (f", median {when}" if when else "")


def _cost(group: Group) -> str:
    if group.reached is None:
        return UNKNOWN
    if group.cost is None:
        return f"{group.reached} of {len(group.outcomes)} did"
    return f"{group.cost:.3g}" if group.cost >= 1e9 else f"{group.cost:,.0f}"


def _interval(interval: Interval | None) -> str:
    if interval is None or interval.low is None or interval.high is None:
        return number(interval.value if interval else None)
    return f"{number(interval.value)} [{number(interval.low)}, {number(interval.high)}]"
