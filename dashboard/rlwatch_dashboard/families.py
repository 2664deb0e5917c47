"""The charts that are not always shown, by the family of their metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlwatch.runs.metrics import describe
from rlwatch_dashboard.figures import BASICS, SIGNALS, Chart

WORDS = {
    "entropy": "Entropy",
    "surprisal": "Surprisal",
    "groups": "Groups",
    "reward": "Reward",
    "length": "Length",
    "grad": "Gradient",
    "update": "Weight updates",
    "signal": "Signal",
    "advantage": "Advantage",
    "weight": "Weight of examples",
    "ratio": "Ratio",
    "clip": "Clipping",
    "kl": "KL",
    "sampler": "Sampler",
    "cov": "Covariance",
    "step_seconds": "Time",
    "rollouts": "Rollouts",
    "counterfactual": "Counterfactual",
    "weight_grpo": "Weight under grpo",
    "weight_dapo": "Weight under dapo",
    "eval": "Evaluation",
    "raw": "As logged",
}


@dataclass(frozen=True)
class Family:
    """Charts of one family.

    Args:
        key: What comes before the slash in its metrics' names.
        title: What it is called.
        charts: Its charts.
    """

    key: str
    title: str
    charts: tuple[Chart, ...]


def families(charts: Sequence[Chart]) -> list[Family]:
    """The families of those charts that are not always shown, in the order of their first chart."""
    fixed = {chart.key for chart in (*SIGNALS, *BASICS)}
    found: dict[str, list[Chart]] = {}
    for chart in charts:
        if chart.key not in fixed:
            found.setdefault(describe(next(iter(chart.labels))).family, []).append(chart)
    return [Family(key, WORDS.get(key, key), tuple(members)) for key, members in found.items()]


def shown(charts: Sequence[Chart], unfolded: Sequence[str]) -> list[Chart]:
    """The charts that a page draws: those that are always there, and those of the families that are unfolded."""
    always = {chart.key for chart in (*SIGNALS, *BASICS)}
    fixed = [chart for chart in charts if chart.key in always]
    if not unfolded:
        return fixed
    return fixed + [chart for family in families(charts) if family.key in unfolded for chart in family.charts]
