"""What a run's open page is told: new points, fresh points of all charts, and where its alerts are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlwatch_dashboard import figures
from rlwatch_dashboard.axes import Axis, viewers_zone
from rlwatch_dashboard.columns import Columns
from rlwatch_dashboard.companions import companions
from rlwatch_dashboard.families import shown
from rlwatch_dashboard.feed import Cursor, Episode, Update, load
from rlwatch_dashboard.lines import Window
from rlwatch_dashboard.pages.alerts import SHOWN
from rlwatch_dashboard.pages.run_charts import Drawn, lines_of
from rlwatch_dashboard.roots import Roots
from rlwatch_dashboard.run_view import RunView

MOST_NEW = 500
"""How many new steps come one by one; more, as after a night with the lid shut, come as fresh points of all charts."""

GONE = "Its folder is no longer there, or is no run any more."


def chunk(cursor: Cursor, update: Update, view: RunView | None = None, unfolded: Sequence[str] = ()) -> dict[str, Any]:
    """What the browser is told of an update: where it starts, where it ends, and the points between.

    Only of the charts that the page draws. `fresh` says that a metric has its first points, for which the page has to
    be made anew; `many` that there are more points than come this way.
    """
    said: dict[str, Any] = {"from": cursor, "to": update.cursor, "series": {}, "latest": {}}
    said["restarted"] = update.restarted
    if update.restarted or update.row == len(update.columns.steps):
        return said
    said["fresh"] = any(update.columns.begins(name) >= update.row for name in update.columns.values)
    said["many"] = len(update.columns.steps) - update.row > MOST_NEW
    if said["fresh"] or said["many"]:
        return said
    lines = lines_of(update.columns, view or RunView())
    drawn = shown(figures.charts_for(update.columns.values), unfolded)
    for one in drawn:
        said["series"] |= lines.since(one, update.row)
    said["latest"] = update.latest_of(dict.fromkeys(name for one in drawn for name in one.labels))
    return said


def seed(roots: Roots, key: str, view: RunView, unfolded: Sequence[str], asked: Any) -> dict[str, Any]:
    """Fresh points of all charts that the page draws, nearly all of them in the window that is looked at.

    Raises:
        ValueError: The run is gone.
    """
    asked = asked if isinstance(asked, dict) else {}
    window = window_of(asked.get("window"))
    drawn = drawn_of(roots, key, view)
    lines = drawn.lines
    series: dict[str, Any] = {}
    for one in shown(figures.charts_for(drawn.columns.values), unfolded):
        series |= lines.whole(one, window) | drawn.beside.curves(one, window)
    ends, steps = drawn.columns.ends, drawn.columns.steps
    at = {"metrics": int(ends[-1]), "step": int(steps[-1])} if len(ends) else {}
    return {"series": series, "at": at, "n": asked.get("n")}


def window_of(given: Any) -> Window | None:
    """A window of x out of what a browser says, or None.

    >>> window_of([3, 1.5]), window_of([1]), window_of(["1", None])
    ((1.5, 3.0), None, None)
    """
    if not isinstance(given, list) or len(given) != 2:
        return None
    if not all(isinstance(end, (int, float)) and math.isfinite(end) for end in given):
        return None
    return float(min(given)), float(max(given))


def drawn_of(roots: Roots, key: str, view: RunView) -> Drawn:
    """What the charts of a run in a view are made from.

    Raises:
        ValueError: The run is gone.
    """
    run = roots.find(key)
    if run is None:
        raise ValueError(GONE)
    now = load(run, key)
    beside = companions(roots, run, view, Axis(view.x, viewers_zone()))
    return Drawn(key, now.summary, now.columns, view, beside)


def spans_of(episodes: list[Episode], columns: Columns, view: RunView) -> list[dict[str, Any]]:
    """What the charts draw of the alerts, where they are in this view."""
    spans = [episode.span() for episode in episodes[:SHOWN]]
    if view.x == "step":
        return spans
    axis = Axis(view.x, viewers_zone())
    steps = [step for span in spans for band in span["bands"] for step in (band["from"], band["to"])]
    steps = [step for step in [*steps, *(span["fired"] for span in spans)] if step is not None]
    at = dict(zip(steps, axis.places(columns, steps), strict=True)) | {None: None}
    for span in spans:
        span["fired"] = at[span["fired"]]
        span["bands"] = [{**band, "from": at[band["from"]], "to": at[band["to"]]} for band in span["bands"]]
        span["bands"] = [band for band in span["bands"] if band["from"] is not None]
    return [span for span in spans if span["fired"] is not None]
