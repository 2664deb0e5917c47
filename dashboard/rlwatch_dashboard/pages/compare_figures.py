"""The figures of a comparison, as Plotly takes them. A group has one letter and one look in all of them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlwatch.report.compare import Group, collapse_times
from rlwatch_dashboard import numbers, theme
from rlwatch_dashboard.pages.compare_curves import Band

COLOURS = (theme.BLUE, theme.STUCK, theme.VIOLET, theme.TEAL, theme.FAILED, theme.SOLVED, theme.NEUTRAL)
DASHES = ("solid", "6px,3px", "2px,2px", "9px,3px,2px,3px")

_QUIET = {"showline": False, "zeroline": False, "gridcolor": "rgba(124,135,152,.18)", "automargin": False}
_STEPS = {
    **_QUIET, "showgrid": False, "rangemode": "tozero", "nticks": 6, "tickformat": ",d", "tickprefix": "step ",
    "showtickprefix": "first", "ticks": "outside", "ticklen": 6, "tickcolor": "rgba(0,0,0,0)", "hoverformat": ",.0f",
    "unifiedhovertitle": {"text": "step %{x}"},
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """How a group is drawn: by a letter and a line that no other group has, not by colour alone."""

    letter: str
    colour: str
    dash: str


def look(place: int) -> Look:
    """Of the group at this place in the comparison.

    >>> look(0).letter, look(25).letter, look(26).letter
    ('A', 'Z', 'AA')
    """
    letter = chr(ord("A") + place % 26)
    dash = DASHES[(place % len(COLOURS) + place // len(COLOURS)) % len(DASHES)]
    return Look(letter * (1 + place // 26), COLOURS[place % len(COLOURS)], dash)


def final_rewards(groups: Sequence[Group]) -> dict[str, Any]:
    """A row a group: a dot for each seed's final reward, over it the interquartile mean with its interval."""
    traces: list[dict[str, Any]] = []
    for place, group in enumerate(groups):
        own = look(place)
        known = [outcome for outcome in group.outcomes if outcome.final_reward is not None]
        name = html.escape(f"{own.letter}  {group.name}")
        traces.append(
            {
                "type": "scatter", "mode": "markers", "name": name, "meta": f"seeds:{group.name}",
                "x": [numbers.for_chart(outcome.final_reward) for outcome in known],
                "y": [place - 0.22 + 0.06 * (i % 3 - 1) for i in range(len(known))],
                "text": [html.escape(outcome.run) for outcome in known],
                "marker": {"size": 8, "color": own.colour, "opacity": 0.75},
                "hovertemplate": "%{text}<br>final reward %{x:.4~g}<extra></extra>",
            }
        )  # fmt: skip
        if group.final is not None:
            traces.append(_estimate(place, group, own, name))
    quiet_rows = {**_QUIET, "showgrid": False, "fixedrange": True, "range": [len(groups) - 0.4, -0.6]}
    rows = list(range(len(groups)))
    return {
        "data": traces,
        "layout": {
            **_layout("final"),
            "hovermode": "closest",
            "margin": {"l": 34, "r": 14, "t": 6, "b": 40, "pad": 0},
            "xaxis": {**_QUIET, "nticks": 6, "title": {"text": "final reward", "standoff": 6}, "fixedrange": True},
            "yaxis": {**quiet_rows, "tickvals": rows, "ticktext": [f"<b>{look(row).letter}</b>" for row in rows]},
        },
    }


def _estimate(place: int, group: Group, own: Look, name: str) -> dict[str, Any]:
    final = group.final
    assert final is not None
    trace: dict[str, Any] = {
        "type": "scatter", "mode": "markers", "name": name, "meta": f"final:{group.name}",
        "x": [numbers.for_chart(final.value)], "y": [place + 0.1],
        "marker": {"size": 13, "symbol": "diamond", "color": own.colour},
        "hovertemplate": f"{name}<br>%{{x:.4~g}}<extra></extra>",
    }  # fmt: skip
    if final.low is not None and final.high is not None:
        trace["error_x"] = {
            "type": "data", "symmetric": False, "color": own.colour, "thickness": 2, "width": 6,
            "array": [final.high - final.value], "arrayminus": [final.value - final.low],
        }  # fmt: skip
        trace["hovertemplate"] = f"{name}<br>%{{x:.4~g}} [{final.low:.3g}, {final.high:.3g}]<extra></extra>"
    return trace


def watched_until(group: Group) -> list[tuple[float, bool]]:
    """Of each run in which a collapse would have been seen: the step of the first, or of its end; and which it is."""
    return list(zip(*collapse_times(group.outcomes), strict=True))


def at_risk(group: Group, time: float) -> int:
    """Runs that were watched and had not collapsed just before this step."""
    return sum(until >= time for until, _ in watched_until(group))


def survival(groups: Sequence[Group], last: float) -> dict[str, Any]:
    """The share of runs without a critical alert, step by step (Kaplan-Meier); a tick where a run was censored."""
    traces: list[dict[str, Any]] = []
    for place, group in enumerate(groups):
        times = watched_until(group)
        if not times:
            continue
        own = look(place)
        name = html.escape(f"{own.letter}  {group.name}")
        x, y = [0.0], [1.0]
        for point in group.survival:
            x.append(point.time)
            y.append(point.share)
        x.append(max(until for until, _ in times))
        y.append(y[-1])
        line = {"shape": "hv", "color": own.colour, "width": 2.2, "dash": own.dash}
        base = {"type": "scatter", "name": name, "hovertemplate": "%{y:.0%}"}
        traces.append({**base, "meta": f"survival:{group.name}", "mode": "lines", "x": x, "y": y, "line": line})
        ends = sorted(until for until, had in times if not had)
        if ends:
            left = [min((p.share for p in group.survival if p.time <= end), default=1.0) for end in ends]
            marker = {"symbol": "line-ns-open", "size": 12, "color": own.colour, "line": {"width": 2}}
            censored = {"mode": "markers", "x": ends, "y": left, "marker": marker, "hoverinfo": "skip"}
            traces.append({**base, "meta": f"censored:{group.name}", **censored, "hovertemplate": None})
    axis = {**_QUIET, "range": [-0.02, 1.05], "tickformat": ".0%", "nticks": 5, "fixedrange": True}
    return {
        "data": traces,
        "layout": {**_layout("survival"), "xaxis": {**_STEPS, "range": [0, last * 1.02 or 1]}, "yaxis": axis},
    }


def curves(metric: str, bands: Sequence[Band | None], groups: Sequence[Group], width: int) -> dict[str, Any]:
    """A metric of each group: the median over its seeds as a line, from the lowest to the highest as a band.

    Args:
        metric: Its name.
        bands: One a group; None where the group has no number of it.
        groups: They.
        width: Steps to a stretch: over more than that without a number there is a gap.
    """
    traces: list[dict[str, Any]] = []
    for place, (group, own_band) in enumerate(zip(groups, bands, strict=True)):
        if own_band is None:
            continue
        own = look(place)
        name = html.escape(f"{own.letter}  {group.name}")
        gaps = _gaps(own_band.steps, width)
        x = _with_gaps(own_band.steps, gaps)
        low, median, high = (_with_gaps(y, gaps) for y in (own_band.low, own_band.median, own_band.high))
        edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip", "name": name}
        if max(own_band.runs) > 1:
            traces.append({**edge, "meta": f"low:{group.name}", "y": low})
            fill = {"fill": "tonexty", "fillcolor": own.colour + "2e"}
            traces.append({**edge, "meta": f"high:{group.name}", "y": high, **fill})
        seeds = [None if i is None else f"{i} run{'s' * (i != 1)}" for i in _with_gaps(own_band.runs, gaps)]
        traces.append(
            {
                "type": "scatter", "mode": "lines", "name": name, "meta": f"median:{group.name}", "x": x, "y": median,
                "customdata": seeds, "line": {"color": own.colour, "width": 2, "dash": own.dash},
                "hovertemplate": "%{y:.4~g} of %{customdata}",
            }
        )  # fmt: skip
    share = numbers.is_share(metric)
    axis = {**_QUIET, "nticks": 6, "fixedrange": True, "tickformat": ".0%" if share else ""}
    axis["rangemode"] = "normal" if metric.startswith("reward") else "tozero"
    return {"data": traces, "layout": {**_layout(metric), "xaxis": _STEPS, "yaxis": axis}}


def _gaps(steps: Sequence[float], width: int) -> set[int]:
    """Places before which there is a stretch without a number."""
    return {place for place in range(1, len(steps)) if steps[place] - steps[place - 1] > 1.5 * width}


def _with_gaps(values: Sequence[Any], gaps: set[int]) -> list[Any]:
    found: list[Any] = []
    for place, value in enumerate(values):
        if place in gaps:
            found.append(None)
        found.append(numbers.for_chart(value) if isinstance(value, float) else value)
    return found


def _layout(key: str) -> dict[str, Any]:
    return {
        "uirevision": key,
        "hovermode": "x unified",
        "hoverlabel": {"font": {"size": 12}, "namelength": 40},
        "dragmode": False,
        "showlegend": False,
        "margin": {"l": 46, "r": 12, "t": 8, "b": 28, "pad": 0},
        "font": {"family": "system-ui, sans-serif", "size": 11, "color": theme.NEUTRAL},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }
