"""What makes a comparison of runs less than it looks: copies, shared seeds, unequal lengths, unlike rewards."""

from __future__ import annotations

from collections.abc import Sequence

from rlwatch.report.analysis import Analysis
from rlwatch.report.grouping import REWARDS, Grouped
from rlwatch.report.outcomes import Outcome
from rlwatch.report.sentences import counted

UNEQUAL = 0.1
"""Share by which the last steps of the runs may differ without a note."""


def without_copies(group: Grouped) -> tuple[list[Analysis], list[str]]:
    """The runs of a group, those once that have the same rewards at the same steps; and a note of each left out.

    A run that was read twice, as its directory and as its log, is still one seed.
    """
    kept: dict[object, Analysis] = {}
    notes = []
    for analysis in group.members:
        series = tuple((r.step, r.metrics["reward/mean"]) for r in analysis.run.records if "reward/mean" in r.metrics)
        key: object = series or id(analysis)
        if key in kept:
            notes.append(
                f"{analysis.run.name} ({analysis.run.path}) has the same rewards at the same steps as "
                f"{kept[key].run.name}: it is counted once"
            )
        kept.setdefault(key, analysis)
    return list(kept.values()), notes


def notes_of(groups: Sequence[Grouped], outcomes: Sequence[Sequence[Outcome]]) -> list[str]:
    """What to know before believing the comparison, a sentence each."""
    notes = []
    for group, own in zip(groups, outcomes, strict=True):
        missing = sum(o.final_reward is None for o in own)
        if missing:
            notes.append(
                f"{group.name}: {missing} of {counted(len(own), 'run')} without a final reward, and left out of it: if "
                "they ended badly, the group looks better than it is"
            )
        blind = sum(not o.collapse_known for o in own)
        if blind:
            notes.append(f"{group.name}: {blind} of {counted(len(own), 'run')} in which no collapse could be seen")
        seeds = {o.seed for o in own}
        if len(own) > 1 and len(seeds) == 1 and None not in seeds:
            notes.append(
                f"{group.name}: all runs have the seed {seeds.pop()}: their spread is not the spread between seeds"
            )
    ends = [o.last_step for own in outcomes for o in own if o.last_step is not None]
    if ends and max(ends) - min(ends) > UNEQUAL * max(ends):
        notes.append(
            f"the runs end between steps {min(ends):,} and {max(ends):,}: their final rewards are of different steps"
        )
    if len({repr(group.settings.get(REWARDS)) for group in groups}) > 1:
        notes.append("the groups have different reward functions: their rewards are not on one scale")
    return notes
