"""The charts of an experiment's document."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from rlwatch.lab.outcome import Outcome
from rlwatch.report.survival import kaplan_meier


@dataclass(frozen=True)
class Curve:
    """A line of a chart, and what lies around it; `place` is its arm's, which gives it its colour in every chart."""

    label: str
    place: int
    x: list[int]
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Chart:
    """Lines over the steps, or over what else `over` says; with `rows` y is the place of one of these names."""

    title: str
    curves: list[Curve]
    share: bool = False
    over: str = "step"
    rows: list[str] = field(default_factory=list)


def timeline(found: Outcome) -> Chart:
    """A row a link, a line an arm: where the links came, as median and range over the seeds that had them."""
    curves, arms = [], found.arms()
    for number, (arm, links) in enumerate(found.chain.items()):
        off, place = (number - (len(found.chain) - 1) / 2) * 0.7 / len(found.chain), arms.index(arm)
        came = [(row + off, link) for row, link in enumerate(links) if link.middle is not None]
        curves.append(Curve(arm, place, [int(link.middle or 0) for _, link in came], [row for row, _ in came]))
        curves += [
            Curve("", place, [int(min(link.steps)), int(max(link.steps))], [row, row])
            for row, link in came
            if len(link.steps) > 1
        ]
    return Chart("when each link came", curves, rows=list(found.experiment.chain))


def survival(found: Outcome) -> Chart:
    """The share of each arm's runs that have not failed, as steps."""
    event, curves = found.experiment.event, []
    for place, arm in enumerate(found.arms()):
        runs = [run for run in found.measured if run.arm == arm]
        times = [x if (x := run.numbers[event]) is not None else float(run.last_step) for run in runs]
        left, x_values, shares = 1.0, [0], [1.0]
        for point in kaplan_meier(times, [run.numbers[event] is not None for run in runs]):
            x_values += [int(point.time), int(point.time)]
            shares += [left, point.share]
            left = point.share
        end = max(run.last_step for run in runs)
        curves.append(Curve(arm, place, [*x_values, end], [*shares, left]))
    return Chart(f"share of runs without: {event}", curves, share=True)


def curves(found: Outcome) -> list[Chart]:
    """Each metric of the experiment over the steps."""
    charts = []
    for metric, arms in found.curves.items():
        curves = []
        for place, arm in enumerate(found.arms()):
            steps, values = arms.get(arm, ([], []))
            if steps:
                middle, low, high = ([of(v) for v in values] for of in (median, min, max))
                curves.append(Curve(arm, place, steps, middle, low, high))
        if curves:
            charts.append(Chart(metric, curves))
    return charts


def reward_for_tokens(found: Outcome) -> list[Chart]:
    """What the tokens that a policy has written have brought: medians over the seeds, step by step."""
    tokens, rewards, curves = found.tokens, found.rewards, []
    for place, arm in enumerate(found.arms()):
        written, earned = (dict(zip(*by_arm.get(arm, ([], [])), strict=True)) for by_arm in (tokens, rewards))
        steps = [step for step in written if step in earned]
        if steps:
            x, y = [int(median(written[step])) for step in steps], [earned[step] for step in steps]
            middle, low, high = ([of(values) for values in y] for of in (median, min, max))
            curves.append(Curve(arm, place, x, middle, low, high))
    return [Chart("reward/mean for the tokens generated", curves, over="token")] if curves else []
