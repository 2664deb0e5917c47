"""What was found, for a person at a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlwatch.report.analysis import VERDICTS, Analysis
from rlwatch.report.colours import SEVERITY_STYLES
from rlwatch.report.remarks import in_lines, remarks
from rlwatch.report.replay import in_a_word, what_was_set
from rlwatch.report.sentences import span, verdict_sentence, waste_sentence
from rlwatch.runs.records import Alert, AlertState, Run, Severity
from rlwatch.runs.table import glimpses

VERDICT_STYLES = {
    "failed": "bold red",
    "degraded": "red",
    "at-risk": "yellow",
    "healthy": "green",
    "insufficient": "dim",
}
"""How each verdict looks at a terminal."""


def run_report(analysis: Analysis, *, gpu_hour_price: float | None = None, gpus: int = 1) -> RenderableType:
    """One run: the verdict in a sentence, a timeline, each alert with its evidence, what was wasted and not checked.

    Args:
        analysis: What was found.
        gpu_hour_price: The price of a GPU for an hour, to say what was wasted in money.
        gpus: How many were used.
    """
    run = analysis.run
    parts: list[RenderableType] = [
        Text(run.name, style="bold"),
        Text(
            f"{run.path} · {run.format}" + (f" · {run.framework}" if run.framework else "") + f" · {span(analysis)}",
            "dim",
        ),
        Text(verdict_sentence(analysis), style=VERDICT_STYLES[analysis.verdict]),
    ]
    if analysis.settings.source or analysis.by_default is not None:
        parts += [_heading(f"Set by {analysis.settings.source or 'rules in Python'}"), *_what_was_set(analysis)]
    if len(analysis.changes) > 1:
        parts += [_heading("Timeline"), _timeline(analysis.changes)]
    for alert in analysis.alerts:
        parts += [
            _heading(f"{alert.severity.value} · {alert.rule}", SEVERITY_STYLES[alert.severity.value]),
            _alert(alert),
        ]
    wasted = waste_sentence(analysis.waste, gpu_hour_price, gpus)
    if wasted:
        parts += [_heading("What taught nothing"), Padding(Text(wasted), (0, 0, 0, 2))]
    about = in_lines(remarks(run, analysis.settings.silenced_lints), run.path)
    if about:
        parts += [_heading("About its configuration"), _pairs(dict(about))]
    if analysis.unchecked:
        parts += [_heading("What this log cannot show"), _pairs(analysis.unchecked)]
    if run.notes:
        parts += [_heading("How it was read"), *(Padding(Text(note), (0, 0, 0, 2)) for note in run.notes)]
    return Group(*parts)


def runs_report(analyses: Sequence[Analysis], unreadable: Mapping[str, str]) -> RenderableType:
    """Many runs: a line each, the worst first, and under it what could not be read and why."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("run", overflow="fold", ratio=3)
    table.add_column("verdict", no_wrap=True)
    table.add_column("steps", justify="right", no_wrap=True)
    table.add_column("reward", no_wrap=True)
    table.add_column("first alarm", no_wrap=True)
    table.add_column("what", overflow="fold", ratio=4)
    for analysis in sorted(analyses, key=lambda a: (VERDICTS.index(a.verdict), a.run.name)):
        worst = next((a for a in analysis.alerts if a.severity is not Severity.INFO), None)
        told = [c.step for c in analysis.changes if c.severity is not Severity.INFO and c.state is AlertState.FIRING]
        table.add_row(
            escape(analysis.run.name),
            Text(analysis.verdict, style=VERDICT_STYLES[analysis.verdict]),
            str(analysis.run.records[-1].step) if analysis.run.records else "–",
            reward_from_to(analysis.run),
            f"step {min(told)}" if told else "–",
            Text(f"{worst.rule}: {worst.message}" if worst else "", style="" if worst else "dim"),
        )
    counts = [f"{n} {v}" for v in VERDICTS if (n := sum(a.verdict == v for a in analyses))]
    notes = [Text(f"could not read {path}: {why}", style="red") for path, why in unreadable.items()]
    found: list[RenderableType] = [table, Text(f"\n{len(analyses)} runs: {', '.join(counts)}.")] if analyses else []
    found += [Text(line) for line in _which_differ(analyses)]
    return Group(*found, *notes)


def reward_from_to(run: Run) -> str:
    """The mean reward of the first and of the last tenth of the rows that have one; a dash where none has."""
    values = (record.metrics.get("reward/mean") for record in glimpses(run.records))
    found = [value for value in values if value is not None and math.isfinite(value)]
    if not found:
        return "–"
    tenth = max(1, len(found) // 10)
    first, last = sum(found[:tenth]) / tenth, sum(found[-tenth:]) / tenth
    return f"{first:.2f} → {last:.2f}".replace("-0.00", "0.00")


def _what_was_set(analysis: Analysis) -> list[RenderableType]:
    """What is set, and what would have been told instead by the defaults."""
    set_here = dict(what_was_set(analysis.settings))
    if not set_here:
        return [Padding(Text("Nothing about the rules.", "dim"), (0, 0, 0, 2))]
    if not analysis.changed:
        return [_pairs(set_here), Padding(Text("The alerts are the same as by the defaults."), (0, 0, 0, 2))]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("  told otherwise", "by these settings", "by the defaults"):
        table.add_column(name, overflow="fold")
    for each in analysis.changed:
        table.add_row(f"  {escape(each.rule)}", in_a_word(each.now), in_a_word(each.by_default))
    return [_pairs(set_here), Text(""), table]


def _which_differ(analyses: Sequence[Analysis]) -> list[str]:
    judged = [analysis for analysis in analyses if analysis.by_default is not None]
    if not judged:
        return []
    sources = ", ".join(dict.fromkeys(analysis.settings.source or "rules in Python" for analysis in judged))
    other = [analysis.run.name for analysis in judged if analysis.changed]
    if not other:
        return [f"Set by {sources}: the alerts are the same as by the defaults."]
    named = ", ".join(other[:5]) + (f" and {len(other) - 5} more" if len(other) > 5 else "")
    where = f"in {len(other)} of {len(judged)} runs: {named}"
    return [f"Set by {sources}: alerts differ from those by the defaults {where}."]


def _heading(text: str, style: str = "bold") -> Text:
    return Text(f"\n{text}", style=style)


def _timeline(changes: Sequence[Alert]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for change in sorted(changes, key=lambda c: c.step):
        if change.state is AlertState.RESOLVED:
            table.add_row(f"  step {change.step}", Text(f"{change.rule} is over", style="green"))
        else:
            style = SEVERITY_STYLES[change.severity.value]
            table.add_row(
                f"  step {change.step}", Text(f"{change.rule} {change.severity.value}: {change.message}", style)
            )
    return table


def _alert(alert: Alert) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("  What", escape(alert.message))
    over = f"; over at step {alert.resolved_step}" if alert.resolved_step is not None else ""
    table.add_row("  When", f"since step {alert.since}; told at step {alert.step}{over}")
    numbers = [f"{name} {value:.3g}" for name, value in alert.evidence.items() if value is not None]
    if numbers:
        table.add_row("  Numbers", escape("   ".join(numbers)))
    if alert.forecast is not None:
        table.add_row("  Ahead", escape(alert.forecast.text))
    for index, cause in enumerate(alert.causes):
        table.add_row("  Why" if index == 0 else "", escape(cause.beside(alert.evidence)))
    for index, advice in enumerate(alert.advice):
        table.add_row("  Try" if index == 0 else "", escape(f"{advice.text} [{advice.source}]"))
    return table


def _pairs(pairs: Mapping[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", style="dim")
    for name, why in pairs.items():
        table.add_row(f"  {escape(name)}", escape(why))
    return table
