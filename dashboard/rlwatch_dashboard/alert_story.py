"""What there is to tell of one alert: its changes, which stretch of the run, which metrics, what else held then.

Pure functions of what the run's files say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rlwatch.runs.records import Alert, AlertState
from rlwatch_dashboard.feed import Episode
from rlwatch_dashboard.figures import Chart, charts_for

AROUND = 3
"""How many times the steps from the onset to the firing are shown before and after."""

AT_LEAST = 40
"""Optimizer steps that are shown before the onset and after the last event, where there are."""

WIDEST = 4000
"""Optimizer steps that are shown at the most."""

MOST_CHARTS = 8

REFERENCES = {
    "clip-saturated": None,
    "dead-groups": None,
    "entropy-collapse": "entropy/mean",
    "entropy-explosion": "entropy/mean",
    "grad-spike": None,
    "group-size-one": "advantage/mean",
    "kl-runaway": "kl/ref",
    "length-bias": "length/gap",
    "length-collapse": "length/mean",
    "length-explosion": "length/mean",
    "low-diversity": "groups/unique",
    "no-gradient": None,
    "non-finite": None,
    "regulariser-dominates": None,
    "reward-collapse": "reward/mean",
    "reward-stall": "reward/mean",
    "sampler-mismatch": "sampler/ratio_mean",
    "stalled": None,
    "truncation": "length/truncated",
}
"""The metric that a rule's reference is a value of; None where it is of none (a sum, a share, a factor, seconds)."""


@dataclass(frozen=True)
class Window:
    """The steps that are looked at.

    Args:
        first: The first one.
        last: The last one.
        cut: Something of the alert lies after it: it lasted too long for one picture.
    """

    first: int
    last: int
    cut: bool = False


def find(episodes: Iterable[Episode], rule: str, since: str) -> Episode | None:
    """The alert that an address means, or None."""
    digits = since.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        return None
    wanted = (rule, int(since))
    return next((e for e in episodes if (e.alert.rule, e.alert.since) == wanted), None)


def changes_of(changes: Iterable[Alert], alert: Alert) -> list[Alert]:
    """Every change of one alert, in the order in which it happened."""
    return [change for change in changes if (change.rule, change.since) == (alert.rule, alert.since)]


def events(episode: Episode) -> list[tuple[int, str, str]]:
    """What is marked in a chart: a step, a word, and the severity from then on ("" for what has none).

    What falls on one step is one mark: "began, critical".
    """
    alert = episode.alert
    found = [(alert.since, "began", "")]
    found += [(step, severity.value, severity.value) for step, severity in episode.stages]
    if episode.over and alert.resolved_step is not None:
        found.append((alert.resolved_step, "over", ""))
    at: dict[int, tuple[int, str, str]] = {}
    for step, word, severity in found:
        before = at.get(step)
        at[step] = (step, f"{before[1]}, {word}", severity or before[2]) if before else (step, word, severity)
    return list(at.values())


def window(episode: Episode, first: int, last: int) -> Window:
    """The stretch around an alert, within the run's first and last step.

    On each side max(40, 3·(fired − began)) steps; from the onset to the last event, or not further than `WIDEST`.
    """
    margin = max(AT_LEAST, AROUND * (episode.fired - episode.alert.since))
    start = max(first, episode.alert.since - margin)
    end = min(last, max(step for step, *_ in events(episode)) + margin)
    shown = min(end, start + WIDEST)
    return Window(start, max(start, shown), shown < end)


def metrics_of(changes: Sequence[Alert]) -> list[str]:
    """The metrics that an alert and its causes name, the newest change's first, each once."""
    names: dict[str, None] = {}
    for alert in reversed(changes):
        for numbers in (alert.evidence, *(cause.evidence for cause in alert.causes)):
            if isinstance(numbers, Mapping):
                names.update(dict.fromkeys(str(name) for name in numbers))
    return list(names)


def charts(changes: Sequence[Alert], recorded: Iterable[str]) -> tuple[list[Chart], list[str]]:
    """The charts to show, with the metric that was judged first; and the metrics that there was no room for.

    A metric of one of the run page's charts is shown in that chart. What was not recorded has none.
    """
    there = set(recorded)
    known = charts_for(there)
    found: dict[str, Chart] = {}
    left = []
    judged = metric_of_reference(changes[-1]) if changes else None
    names = ([judged] if judged else []) + metrics_of(changes)
    for name in dict.fromkeys(names):
        chart = next((chart for chart in known if name in chart.labels), None) if name in there else None
        if chart is None or chart.key in found:
            continue
        if len(found) < MOST_CHARTS:
            found[chart.key] = chart
        else:
            left.append(name)
    return list(found.values()), left


def metric_of_reference(alert: Alert) -> str | None:
    """The metric that an alert's reference is a value of, as far as one can know.

    That of a rule of ours is in a table. Of another rule it is the metric whose value was judged, or the only one that
    its evidence names.
    """
    if alert.reference is None or not math.isfinite(alert.reference):
        return None
    if alert.rule in REFERENCES:
        return REFERENCES[alert.rule]
    evidence = alert.evidence if isinstance(alert.evidence, Mapping) else {}
    same = [name for name, value in evidence.items() if value is not None and value == alert.value]
    names = same if len(same) == 1 else list(evidence)
    return str(names[0]) if len(names) == 1 else None


def beside(episodes: Iterable[Episode], episode: Episode) -> list[Episode]:
    """The other alerts that held at a step at which this one did."""
    start, end = _span(episode)
    own = (episode.alert.rule, episode.alert.since)
    others = (other for other in episodes if (other.alert.rule, other.alert.since) != own)
    return [other for other in others if _span(other)[0] <= end and start <= _span(other)[1]]


def _span(episode: Episode) -> tuple[float, float]:
    alert = episode.alert
    over = alert.state is AlertState.RESOLVED and alert.resolved_step is not None
    return alert.since, float(alert.resolved_step or 0) if over else math.inf
