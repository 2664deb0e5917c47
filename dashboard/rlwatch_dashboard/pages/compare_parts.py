"""The parts of the page of the comparison: its figures with their cards, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dash import dcc, html

from rlwatch.report.analysis import Analysis
from rlwatch.report.compare import FEWEST, Comparison, Group
from rlwatch.report.compare_rows import Rows, group_rows, legend, pair_rows, run_rows
from rlwatch.report.sentences import counted
from rlwatch.runs.metrics import describe
from rlwatch_dashboard import addresses, downloads, parts
from rlwatch_dashboard.pages import compare_figures as drawn
from rlwatch_dashboard.pages.compare_curves import band, points_of, width_of

CURVES = {"reward/mean": "Reward", "entropy/mean": "Entropy"}
"""What is drawn over the steps."""

_RISK_COLUMNS = 5


def section(key: str, heading: str, *children: Any) -> Any:
    """A part of the page, named by its heading."""
    return html.Section(
        [html.H2(heading, id=f"compared-{key}"), *children],
        className=f"compare-part part-{key}",
        **{"aria-labelledby": f"compared-{key}"},
    )


def legend_of(comparison: Comparison) -> Any:
    """Which letter, colour and line is which group."""
    items = [
        html.Li([_sign(place), html.Span(group.name, className="name"), html.Span(_size(group), className="absent")])
        for place, group in enumerate(comparison.groups)
    ]
    return html.Ul(items, className="compare-legend", **{"aria-label": "Groups"})


def figures(comparison: Comparison, analyses: Sequence[Analysis]) -> list[Any]:
    """Final rewards, time to collapse, reward and entropy over the steps."""
    groups = comparison.groups
    cards = []
    if any(group.finals for group in groups):
        rows = f"{max(220, 46 + 46 * len(groups))}px"
        what = "a dot a seed; a diamond for the group: the interquartile mean"
        what += f", with its 95 % bootstrap interval from {FEWEST} seeds on"
        cards.append(_card("final", "Final reward", what, drawn.final_rewards(groups), height=rows))
    last = max((until for group in groups for until, _ in drawn.watched_until(group)), default=0.0)
    if last:
        what = "share of the runs without a critical alert (Kaplan-Meier); a tick: a run that ended without one"
        cards.append(_card("survival", "Time to collapse", what, drawn.survival(groups, last), _risk(groups, last)))
    runs = {analysis.run.path: analysis.run for analysis in analyses}
    for metric, title in CURVES.items():
        points = [[points_of(runs[o.path], metric) for o in group.outcomes] for group in groups]
        steps = [x for own in points for x, _ in own if x]
        if not steps:
            continue
        width = width_of(max(x[-1] for x in steps), steps)
        bands = [band(own, width) if any(x for x, _ in own) else None for own in points]
        mean = "" if width == 1 else f", of means over {width} steps"
        what = f"{describe(metric).unit}; the median over the seeds{mean}, and from their lowest to their highest"
        cards.append(_card(metric, title, what, drawn.curves(metric, bands, groups, width)))
    return [html.Div(cards, className="compare-cards")]


def tables(comparison: Comparison, keys: Mapping[str, str]) -> list[Any]:
    """The groups, the pairs, each run with a link to its page, and how to read them.

    Args:
        comparison: What was found.
        keys: Path of a run → what the site calls it.
    """
    signs = [_sign(place) for place in range(len(comparison.groups))]
    found = [section("groups", "Groups", _table(group_rows(comparison), "Groups", signs))]
    if comparison.pairs:
        found.append(section("pairs", "Pairs of groups", _table(pair_rows(comparison), "Pairs of groups")))
    bodies = []
    for place, group in enumerate(comparison.groups):
        links = [dcc.Link(o.run, href=addresses.run(keys[o.path])) for o in group.outcomes]
        rows = run_rows(group.outcomes)
        bodies += [html.H3([_sign(place), group.name]), _table(rows, f"Runs of {group.name}", heads=links)]
    found.append(section("runs", "Runs", *bodies))
    known = legend(replace(comparison, notes=()))  # the notes stand with the sentences
    found.append(section("read", "How to read it", html.Ul([html.Li(text) for text in known])))
    return found


def _card(key: str, title: str, what: str, figure: dict[str, Any], below: Any = None, height: str = "") -> Any:
    graph = parts.graph(figure, id={"type": "compare", "key": key})
    style = {"minHeight": height} if height else None
    label = {"aria-label": f"Chart: {title}. The tables below hold its numbers."}
    return html.Article(
        [
            html.Header([html.H2(title), downloads.chart_menu(key, title)]),
            html.P(what, className="what"),
            html.Div(graph, className="compare-plot", style=style, role="img", **label),
            below,
        ],
        className="card",
    )


def _risk(groups: Sequence[Group], last: float) -> Any:
    """How many runs were still watched and had not collapsed, at a few steps."""
    times = list(dict.fromkeys(round(last * i / (_RISK_COLUMNS - 1)) for i in range(_RISK_COLUMNS)))
    heads = [html.Th("at risk", scope="col"), *(html.Th(f"step {time:,}", scope="col") for time in times)]
    rows = [
        html.Tr([html.Th(_sign(place), scope="row"), *(html.Td(drawn.at_risk(group, time)) for time in times)])
        for place, group in enumerate(groups)
        if drawn.watched_until(group)
    ]
    return html.Table([html.Thead(html.Tr(heads)), html.Tbody(rows)], className="at-risk")


def _sign(place: int) -> Any:
    own = drawn.look(place)
    return html.B(own.letter, className="group-sign", style={"borderColor": own.colour})


def _size(group: Group) -> str:
    return counted(len(group.outcomes), "run")


def _table(table: Rows, name: str, signs: Sequence[Any] = (), heads: Sequence[Any] = ()) -> Any:
    """Rows as a table that scrolls by itself where it is too wide. The first cell of a row heads it."""
    titles = [f"{title[:1].upper()}{title[1:]}" for title in table.titles]
    body = []
    for place, (first, *cells) in enumerate(table.rows):
        head = [*signs[place : place + 1], heads[place] if heads else first]
        rest = [html.Td(cell, **{"data-label": title}) for cell, title in zip(cells, titles[1:], strict=True)]
        body.append(html.Tr([html.Th(head, scope="row"), *rest]))
    top = html.Thead(html.Tr([html.Th(title, scope="col") for title in titles]))
    return html.Div(
        html.Table([top, html.Tbody(body)], className="compare-table"),
        className="scrolls", role="region", tabIndex=0, **{"aria-label": f"Table: {name}"},
    )  # fmt: skip
