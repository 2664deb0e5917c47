"""A run as a row of the grid: what its cells say, and the numbers that they are sorted by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.report.grouping import base_name, seed_of, settings_of
from rlwatch.report.words import headline
from rlwatch.runs.reader import RunSummary
from rlwatch.runs.records import Run
from rlwatch_dashboard import numbers
from rlwatch_dashboard.alert_answers import said_of
from rlwatch_dashboard.pages.facts import planned_steps

CURVES = {"reward": "reward/mean", "entropy": "entropy/mean"}
"""The columns with a curve, and the metric of each."""

NUMBERS = {**CURVES, "zero": "groups/zero_std"}
"""The columns that show a metric's newest value."""


def run_row(summary: RunSummary, key: str, root: str = "") -> dict[str, Any]:
    """A run's row, without its curves and its group.

    A number is `{"value": what it is sorted by or null, "text": as it is said}`; null where it was not recorded.

    Args:
        summary: The run.
        key: What the site calls it.
        root: The folder that it lies under, where there are several.
    """
    words = headline(summary)
    last = summary.last
    open_alerts = summary.open_alerts
    return {
        "id": key,
        "kind": "run",
        "name": summary.name,
        "state": summary.state,
        "tone": words.tone,
        "how": words.text,
        "step": last.step if last else None,
        "planned": planned_steps(summary.info),
        **{column: number(metric, last.metrics if last else {}) for column, metric in NUMBERS.items()},
        "alerts": len(open_alerts),
        "severity": open_alerts[0].severity.value if open_alerts else None,
        "answered": said_of(summary.path, last.step if last else None).words(open_alerts[0]) if open_alerts else "",
        "started": _moment(summary.created),
        "seen": _moment(last.time) if last else None,
        "seed": _whole(seed_of(_as_run(summary))),
        "root": root,
        "lines": {},
    }


def number(metric: str, metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """A metric's value as a cell shows it.

    >>> number("loss", {"loss": 0.5}), number("loss", {"loss": float("nan")}), number("loss", {})
    ({'value': 0.5, 'text': '0.5'}, {'value': None, 'text': 'NaN'}, None)
    """
    if metric not in metrics:
        return None
    return {"value": numbers.for_chart(metrics[metric]), "text": numbers.of_metric(metric, metrics[metric])}


def fold_key(summary: RunSummary, root: str = "") -> str | None:
    """What a run has in common with the runs that differ from it by their seed alone; None where nothing can say that.

    It is the rule of `rlwatch compare`: the trainer, the world size, the model, the reward functions and all settings
    of the configuration, but for seeds, names, places, times, and how often something is written down
    (`rlwatch.report.grouping`). Versions of libraries and the machine do not count. Only runs of one folder are
    folded together, and a run whose configuration or seed is not known is folded with none.
    """
    run = _as_run(summary)
    settings = settings_of(run)
    if not settings or seed_of(run) is None:
        return None
    more = {name: summary.info.get(name) for name in ("trainer", "world_size")}
    return repr((root, sorted((name, repr(value)) for name, value in (settings | more).items())))


def fold_name(summary: RunSummary) -> str:
    """A run's name without its seed and its time."""
    return base_name(_as_run(summary))


def _as_run(summary: RunSummary) -> Run:
    return Run(summary.name, str(summary.path), "rlwatch", None, (), summary.info)


def _moment(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) and 0 < seconds < 1e11 else None


def _whole(value: int | None) -> int | None:
    """A seed that a browser can hold exactly."""
    return value if value is not None and abs(value) < 2**53 else None
