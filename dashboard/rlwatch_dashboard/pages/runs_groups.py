"""Runs that differ by their seed alone, folded into one row."""

from __future__ import annotations

import math
import statistics
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlwatch_dashboard import numbers
from rlwatch_dashboard.pages.runs_rows import CURVES, NUMBERS

WORST_STATE = ("stalled", "live", "empty", "ended")
WORST_TONE = {
    "critical": "not learning",
    "warning": "at risk",
    "info": "worth knowing",
    "unknown": "too early to say",
    "good": "without an open alert",
}
WORST_SEVERITY = ("critical", "warning", "info", None)

Row = dict[str, Any]


def folds(keys: Mapping[str, str | None], rows: Mapping[str, Row]) -> dict[str, list[str]]:
    """The groups: name of a group → its runs, in their order.

    Two runs of one seed are repetitions, not seeds: without a second seed there is no group.

    Args:
        keys: Run → what it has in common with those that it is folded with, or None.
        rows: Run → its row.
    """
    together: dict[str, list[str]] = {}
    for run, key in keys.items():
        if key is not None:
            together.setdefault(key, []).append(run)
    return {
        f"seeds-{zlib.crc32(key.encode(errors='replace')):08x}": runs
        for key, runs in together.items()
        if len({rows[run]["seed"] for run in runs}) > 1
    }


def group_row(group: str, name: str, members: Sequence[Row]) -> Row:
    """The row of a group.

    A number is the median of the runs that have it, with the range of those; one that no run has is missing. State,
    verdict and severity are the worst of the runs', each with how many runs it is of.
    """
    tones = [row["tone"] for row in members]
    states = [row["state"] for row in members]
    steps = [row["step"] for row in members if row["step"] is not None]
    planned = {row["planned"] for row in members}
    state = min(states, key=WORST_STATE.index)
    return {
        "id": group,
        "kind": "group",
        "name": name,
        "members": [row["id"] for row in members],
        "state": state,
        "of_state": states.count(state),
        "states": sorted(set(states)),
        "tone": min(tones, key=list(WORST_TONE).index),
        "tones": sorted(set(tones)),
        "how": verdicts(tones),
        "step": statistics.median_low(steps) if steps else None,
        "planned": planned.pop() if len(planned) == 1 else None,
        **{column: middle(metric, [row[column] for row in members]) for column, metric in NUMBERS.items()},
        "alerts": sum(row["alerts"] for row in members),
        "severity": min((row["severity"] for row in members), key=WORST_SEVERITY.index),
        "answered": answers([row["answered"] for row in members if row["alerts"]]),
        "severities": sorted({row["severity"] or "none" for row in members}),
        "started": min(_there(row["started"] for row in members), default=None),
        "seen": max(_there(row["seen"] for row in members), default=None),
        "seed": None,
        "seeds": len({row["seed"] for row in members}),
        "root": members[0]["root"],
        "lines": {column: _lines(row["lines"].get(column) for row in members) for column in CURVES},
    }


def verdicts(tones: Sequence[str]) -> str:
    """How many runs are how, the worst first.

    >>> verdicts(["good", "critical", "good"])
    '1 of 3 not learning, 2 without an open alert.'
    >>> verdicts(["good", "good"])
    'All 2 without an open alert.'
    """
    counts = [(tones.count(tone), words) for tone, words in WORST_TONE.items() if tone in tones]
    if len(counts) == 1:
        return f"All {len(tones)} {counts[0][1]}."
    (first, words), *rest = counts
    return ", ".join([f"{first} of {len(tones)} {words}", *(f"{count} {words}" for count, words in rest)]) + "."


def answers(said: Sequence[str]) -> str:
    """In how many of the runs with an open alert somebody has answered the worst one; empty where nobody has.

    >>> answers(["acknowledged by Ada", "", "acknowledged"]), answers(["silenced", "acknowledged"]), answers([""])
    ('2 of 3 acknowledged', '2 of 2 answered', '')
    """
    kinds = {words.split(" ")[0] for words in said if words}
    if not kinds:
        return ""
    return f"{sum(map(bool, said))} of {len(said)} {kinds.pop() if len(kinds) == 1 else 'answered'}"


def middle(metric: str, cells: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """The median m of the finite values, said with their range; how many runs have a value that is no number is said.

    m is the middle one, or the mean of the two in the middle, in the metric's own unit.

    >>> middle("loss", [{"value": 1.0, "text": "1"}, None, {"value": 4.0, "text": "4"}, {"value": None, "text": "NaN"}])
    {'value': 2.5, 'text': '2.5', 'range': '1–4', 'strange': 1}
    """
    there = [cell for cell in cells if cell is not None]
    if not there:
        return None
    values = [cell["value"] for cell in there if cell["value"] is not None and math.isfinite(cell["value"])]
    strange = len(there) - len(values)
    if not values:
        return {"value": None, "text": there[0]["text"], "range": "", "strange": strange}
    low, high = (numbers.of_metric(metric, float(f"{value:.3g}")) for value in (min(values), max(values)))
    median = statistics.median(values)
    return {
        "value": median,
        "text": numbers.of_metric(metric, float(f"{median:.3g}")),
        "range": low if low == high else f"{low.removesuffix(' %')}{' to ' if '−' in low + high else '–'}{high}",
        "strange": strange,
    }


def _there(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _lines(of_runs: Iterable[Sequence[Mapping[str, Any]] | None]) -> list[Mapping[str, Any]]:
    return [line for lines in of_runs for line in lines or ()]
