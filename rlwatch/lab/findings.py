"""An experiment's outcome as a document: headings, sentences, tables and charts, for a page, a text and a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median, stdev

from rlwatch.lab.experiment import Measure
from rlwatch.lab.findings_charts import Chart, curves, reward_for_tokens, survival, timeline
from rlwatch.lab.outcome import Link, Outcome, Told
from rlwatch.lab.verdicts import Judged, Verdict
from rlwatch.report.sentences import counted


@dataclass(frozen=True)
class Table:
    """A head and rows."""

    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Section:
    """A heading, and what stands under it in this order: sentences, a table, charts."""

    title: str
    said: list[str] = field(default_factory=list)
    table: Table | None = None
    charts: list[Chart] = field(default_factory=list)


def document(found: Outcome, command: str) -> list[Section]:
    """All of it, what matters first.

    Args:
        found: What came of the runs.
        command: The command line that made them.
    """
    sections = [
        Section("The question", [found.experiment.question, f"Regime: {found.experiment.regime}"]),
        Section("What these seeds show", [_verdict_line(found), *_not_enough(found.judged)], _claims(found.judged)),
        Section("What was measured", [], _measures(found)),
    ]
    if found.chain:
        sections.append(_chain_section(found))
    if found.experiment.event:
        sections.append(Section(f"Runs without the event: {found.experiment.event}", charts=[survival(found)]))
    sections += [
        Section(
            "The curves",
            ["A line is the median of the seeds, its band their range."],
            charts=[*curves(found), *reward_for_tokens(found)],
        ),
        _alerts_section(found),
    ]
    if found.experiment.reading:
        sections.append(Section("What to keep in mind", list(found.experiment.reading)))
    sections.append(_again(found, command))
    return sections


def _verdict_line(found: Outcome) -> str:
    counts = [f"{sum(j.verdict is v for j in found.judged)} {v.value}" for v in Verdict]
    runs, seeds = counted(len(found.measured), "run"), counted(len(found.seeds), "seed")
    return (
        f"{counted(len(found.judged), 'claim')} on {runs} with {seeds}: {', '.join(counts)}. Each was written down "
        "before, and is tested by itself: of twenty that are not true, one may be shown by chance."
    )


def _not_enough(judged: Sequence[Judged]) -> list[str]:
    """What so few seeds cannot show, and how many would."""
    said = []
    for one in judged:
        if one.verdict is not Verdict.NOT_SHOWN or one.needed is None or one.effect is None:
            continue
        if (one.effect > 0) is (one.claim.kind == "less"):
            said.append(f"Not shown: {one.claim.says}. What was seen points the other way (d = {one.effect:.2g}).")
        elif one.needed > one.pairs:
            said.append(
                f"Not shown: {one.claim.says}. If the effect is what it was here (d = {one.effect:.2g}), "
                f"{one.needed} seeds would show it four times of five; there were {one.pairs}."
            )
    return said


def _claims(judged: Sequence[Judged]) -> Table:
    rows = [
        [one.claim.says + (" (where it should vanish)" if one.claim.where else ""), one.verdict.value, one.numbers]
        for one in judged
    ]
    return Table(["Claim", "Verdict", "Numbers"], rows)


def _measures(found: Outcome) -> Table:
    arms = found.arms()
    rows = []
    for measure in found.experiment.measures:
        cells = [_summary(measure, [r.numbers[measure.name] for r in found.measured if r.arm == arm]) for arm in arms]
        rows.append([measure.name + (f", {measure.unit}" if measure.unit and not measure.is_time else ""), *cells])
    return Table(["Measure", *arms], rows)


def _summary(measure: Measure, given: Sequence[float | None]) -> str:
    """Mean ± deviation over the seeds; of times, how many came, and the median."""
    known = [x for x in given if x is not None]
    if measure.is_time:
        if not known:
            return f"in none of {len(given)}"
        return f"{len(known)} of {len(given)}, median step {median(known):.0f}"
    if not known:
        return "–"
    mean = sum(known) / len(known)
    around = f" ± {stdev(known):{measure.form}}" if len(known) > 1 else ""
    return f"{mean:{measure.form}}{around}" + (f" ({len(known)} of {len(given)})" if len(known) < len(given) else "")


def _chain_section(found: Outcome) -> Section:
    said = [
        "The chain, in the order in which it was expected: " + " → ".join(found.experiment.chain) + ".",
        *(_order_words(arm, links) for arm, links in found.chain.items() if _is_whole(links)),
    ]
    rows = []
    for place, name in enumerate(found.experiment.chain):
        rows.append([name, *(_link_words(links[place]) for links in found.chain.values())])
    return Section("The chain, link by link", said, Table(["Link", *found.chain], rows), [timeline(found)])


def _is_whole(links: Sequence[Link]) -> bool:
    return all(link.both for link in links[1:])


def _order_words(arm: str, links: Sequence[Link]) -> str:
    kept = [f"{link.name} after {before.name} in {link.after} of {link.both}" for before, link in pairwise(links)]
    return f"{arm}: {'; '.join(kept)}."


def _link_words(link: Link) -> str:
    if link.middle is None:
        return f"in none of {link.runs}"
    span = f", {min(link.steps):.0f} to {max(link.steps):.0f}" if len(link.steps) > 1 else ""
    return f"step {link.middle:.0f}{span} ({len(link.steps)} of {link.runs})"


def _alerts_section(found: Outcome) -> Section:
    rows = [row for arm in found.arms() if (row := _alerts_row(found, arm)) is not None]
    head = ["Arm", "Failed", "Told by the right rule", "The reward shows it", "Told before that"]
    head += ["Lead to the event, in steps", "Other critical alerts"]
    said = [
        "An arm's right rules were written down before. The reward shows a failure once its mean over eight steps has "
        "lost a third of its best. A lead is from the first warning to the event; below 0 it came after it.",
        *_wrongly(found),
    ]
    return Section("What rlwatch told, and when", said, Table(head, rows))


def _alerts_row(found: Outcome, name: str) -> list[str] | None:
    arm, told = found.experiment.arm(name), [t for t in found.told if t.arm == name]
    leads = [t.lead for t in told if t.lead is not None]
    others = [f"{rule} at {step} (seed {t.seed})" for t in told for rule, step in t.others]
    failed = sum(t.event is not None for t in told) if found.experiment.event else None
    warned = sum(t.warned is not None for t in told)
    bad = [t for t in told if t.event is not None or (arm.fires and not found.experiment.event)]
    shown = [t.shown for t in bad if t.shown is not None]
    return [
        name + (" (to be quiet)" if arm.quiet else ""),
        "–" if failed is None else f"{failed} of {len(told)}",
        f"{warned} of {len(told)}, {_rules(told)}" if warned else ("none" if arm.fires else "–"),
        (f"{len(shown)} of {len(bad)}, median step {median(shown):.0f}" if shown else "never") if bad else "–",
        f"{sum(t.in_time for t in bad)} of {len(bad)}" if bad and arm.fires else "–",
        f"median {median(leads):.0f}, {min(leads):.0f} to {max(leads):.0f}" if leads else "–",
        ", ".join(others) or "none",
    ]


def _rules(told: Sequence[Told]) -> str:
    return ", ".join(dict.fromkeys(t.rule for t in told if t.rule))


def _wrongly(found: Outcome) -> list[str]:
    """What would be an alarm that nobody believes, or a silence that somebody pays for."""
    said = []
    for arm in (found.experiment.arm(name) for name in found.arms()):
        told = [t for t in found.told if t.arm == arm.name]
        held = [t for t in told if t.fell is None]
        loud = [t for t in held if arm.quiet and (t.others or t.critical is not None)]
        fell = [t for t in told if arm.quiet and t.fell is not None]
        silent = [
            t for t in told if arm.fires and t.warned is None and (t.event is not None or not found.experiment.event)
        ]
        if loud:
            said.append(f"{arm.name}: a critical alert in {len(loud)} of {len(held)} runs that should have been quiet.")
        if fell:
            seeds = "; ".join(f"seed {t.seed} by step {t.fell:.0f}, {_of_fall(t)}" for t in fell)
            said.append(
                f"{arm.name}: {len(fell)} of {counted(len(told), 'run')} failed that should not have: over eight "
                f"rollouts the reward lost a third of its best ({seeds})."
            )
        if silent:
            said.append(f"{arm.name}: nothing was told of {counted(len(silent), 'run')} that failed.")
    return said or ["Every failing run was told of by a right rule, and no quiet arm had a critical alert."]


def _of_fall(told: Told) -> str:
    return "not told of" if told.fall_told is None else f"told of at step {told.fall_told}"


def _again(found: Outcome, command: str) -> Section:
    versions = ", ".join(f"{name} {version}" for name, version in found.marks[0]["versions"].items())
    others = {str(mark["versions"]) for mark in found.marks}
    seconds = [float(mark["seconds"]) for mark in found.marks]
    said = [
        f"Command: {command}",
        f"With {versions}." + (" Some runs were made with other versions." if len(others) > 1 else ""),
        f"A run took {median(seconds):.0f} s ({min(seconds):.0f} to {max(seconds):.0f}) on one core. The same seed "
        "gives the same numbers on the same machine.",
    ]
    return Section("To do it again", said)


def command_line(name: str, *, seeds: int, steps: int, first_seed: int, arms: Sequence[str]) -> str:
    """The command that repeats it, in full."""
    words = ["rlwatch", "lab", name, "--seeds", str(seeds), "--steps", str(steps), "--seed", str(first_seed)]
    return shlex.join([*words, "--arms", ",".join(arms)])
