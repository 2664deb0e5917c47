"""Numbers a step to rows of a log."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from rlwatch.runs.records import StepRecord

from .events import ONE_ROW
from .loggers import ALIASES, LOGGERS
from .noise import Array
from .plan import Plan

SPLIT = 20
"""Every so many steps a regulariser's gradient is told from the policy's: at the steps 1, 21, 41 ..."""

_SPLIT_ONLY = ("grad/effective_norm", "grad/policy_norm", "grad/regulariser_norm")


def rows_of(series: Mapping[str, Array], every: int) -> dict[str, Array]:
    """What a row shows of the steps that it stands for: of gradients and times the last, else the mean of what is."""
    rows = {}
    for name, values in series.items():
        of_rows = values[: len(values) // every * every].reshape(-1, every)
        if name.startswith("grad/") or name in ("lr", "time"):
            rows[name] = of_rows[:, -1]
        elif np.isnan(of_rows).any():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a row without any value has none
                rows[name] = np.nanmean(of_rows, axis=1)
        else:
            rows[name] = of_rows.mean(axis=1)
    return rows


def hide(plan: Plan, rows: dict[str, Array], every: int) -> None:
    """Takes away what no log has: the parts of the gradient between two splits, and their estimate where they are."""
    count = len(rows["grad/norm"])
    if plan.logs_kl:
        split = np.array([any(step % SPLIT == 0 for step in range(i * every, (i + 1) * every)) for i in range(count)])
        for name in _SPLIT_ONLY:
            rows[name] = np.where(split, rows[name], np.nan)
        rows["grad/effective_estimate"] = np.where(split, np.nan, rows["grad/effective_estimate"])
    else:
        rows["grad/effective_estimate"] = np.full(count, np.nan)


def records_of(plan: Plan, rows: Mapping[str, Array], logger: str, every: int) -> list[StepRecord]:
    """The rows as a log has them: NaN is absent, except in a metric that broke."""
    names = {name: ALIASES[logger].get(name, name) for name in LOGGERS[logger] if plan.logs_kl or name != "kl/ref"}
    broken, since = plan.broken or (None, math.inf)
    return [
        StepRecord(
            step := (i + 1) * every,
            float(rows["time"][i]),
            {
                name: math.nan if name == broken and step >= since else float(rows[key][i])
                for name, key in names.items()
                if (name == broken and step >= since) or not math.isnan(rows[key][i])
            },
        )
        for i in range(len(rows["time"]))
    ]


def event_and_due(plan: Plan, rows: Mapping[str, Array], ends: Sequence[int]) -> tuple[int | None, int | None]:
    """From which step the failure is a fact, and the last one at which an alarm is in time."""
    every = ends[0]
    if plan.event_row is not None:
        assert plan.onset is not None
        start = next(i for i, end in enumerate(ends) if end >= plan.onset)
        shown = np.array(plan.event_row(rows, start), dtype=bool)
        shown[:start] = False
        if not shown.any():
            raise ValueError("the run ends before the failure is a fact")
        event = ends[int(np.argmax(shown))]
    elif plan.event is not None:
        event = plan.event
    else:
        return None, None
    first = next(end for end in ends if end >= event)  # the row that shows it
    later = plan.grace if plan.grace <= ONE_ROW else plan.grace - 1
    return event, first + max(later * every, plan.grace_steps)
