"""What is chosen on the page of the comparison: its runs by checkboxes, and what they are grouped by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from rlwatch.report.grouping import BY_NAME
from rlwatch.runs.reader import RunSummary, list_runs
from rlwatch_dashboard.pages.compare_view import MOST_RUNS, Chosen
from rlwatch_dashboard.pages.missing import no_runs
from rlwatch_dashboard.roots import Roots


def form(roots: Roots, chosen: Chosen) -> Any:
    """The runs that there are, those that are compared ticked; folded away once some are."""
    found = [run for folder in roots.folders for run in list_runs(folder)[0]]
    runs = sorted(found, key=lambda run: run.name)  # seeds of one method beside each other
    if not runs:
        return no_runs(roots)
    keys = [roots.key_of(run.path) for run in runs]
    # Mantine's: the list of boxes of Dash itself says to a screen reader that it is something else.
    boxes = dmc.CheckboxGroup(
        [dmc.Checkbox(label=_label(run, key), value=key) for run, key in zip(runs, keys, strict=True)],
        id="compare-runs",
        value=[key for key in chosen.runs if key in keys],
        className="compare-boxes",
    )
    body = [
        html.Fieldset([html.Legend(f"Runs to compare, up to {MOST_RUNS}"), _with_mantine(boxes)]),
        dcc.Store(id="compare-listed", data=keys),
        html.Div(
            [
                html.Button("Compare", id="compare-go", type="button"),
                html.Span(
                    "Those of equal settings but for the seed make a group: four or more of them say something.",
                    className="absent",
                ),
            ],
            className="compare-act",
        ),
    ]
    if chosen.runs:
        return html.Details([html.Summary("Choose other runs"), *body], className="compare-form folded")
    return html.Div(body, className="compare-form")


def groupings(chosen: Chosen, differing: Sequence[str], used: Sequence[str]) -> Any:
    """Links that group the same runs otherwise: by all settings that differ, by some of them, or by name."""
    names = list(dict.fromkeys([*differing, BY_NAME, *chosen.by]))
    links = [_way("all that differ", chosen.grouped(()), is_on=not chosen.by)]
    for name in names:
        is_on = name in chosen.by
        by = tuple(one for one in chosen.by if one != name) if is_on else (*chosen.by, name)
        links.append(_way(name, chosen.grouped(by), is_on=is_on, used=not chosen.by and name in used))
    return html.Nav(
        [html.Span("Grouped by"), *links], className="groupings", **{"aria-label": "What runs are grouped by"}
    )


def _with_mantine(part: Any) -> Any:
    """What Mantine's components have to be in; the other pages have none, and come without Mantine's script."""
    theme = {"fontFamily": "inherit", "respectReducedMotion": True}
    return dmc.MantineProvider(part, defaultColorScheme="auto", theme=theme)


def _way(words: str, href: str, *, is_on: bool, used: bool = False) -> Any:
    on = (
        [html.Span("✓ ", **{"aria-hidden": "true"}), html.Span("chosen: ", className="visually-hidden")]
        if is_on
        else []
    )
    return dcc.Link([*on, words], href=href, className="filter" + " current" * is_on + " used" * used)


def _label(run: RunSummary, key: str) -> Any:
    last = f"step {run.last.step:,}" if run.last is not None else "no step"
    folder = [html.Span(f"in {run.path.parent}", className="absent")] if key != run.name else []
    return html.Span(
        [html.Span(run.name, className="name"), html.Span(f"{run.state}, {last}", className="absent"), *folder],
        className="compare-label",
    )
