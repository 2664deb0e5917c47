"""What can be chosen on a run's page: the x axis, smoothing, other runs. A choice is a link to the page as chosen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dash import html

from rlwatch_dashboard import addresses
from rlwatch_dashboard.axes import TOKENS, tokens_metric
from rlwatch_dashboard.columns import Columns
from rlwatch_dashboard.companions import MOST_SEEDS, Companions, seeds_of
from rlwatch_dashboard.roots import Roots
from rlwatch_dashboard.run_view import MOST_OTHERS, RunView, X

WEIGHTS = (0.0, 0.5, 0.9, 0.97, 0.99)

MOST_NAMED = 200
"""How many runs there are to choose from; others go by the address."""


def tools(roots: Roots, run: Path, key: str, columns: Columns, view: RunView, beside: Companions) -> Any:
    """The row of choices, and under it what is drawn beside the run."""
    return html.Section(
        [
            html.Div(
                [_over(key, columns, view), _smoothing(key, view), _beside(roots, run, key, view)], className="row"
            ),
            _legend(key, view, beside),
        ],
        className="view-tools",
        **{"aria-label": "How the charts are drawn"},
    )


def _over(key: str, columns: Columns, view: RunView) -> Any:
    links = []
    for kind, words in X.items():
        if kind == "tokens" and tokens_metric(columns) is None:
            why = f"This run records no count of tokens ({', '.join(TOKENS)})."
            tip = {"data-tip": why, "aria-disabled": "true", "role": "link"}
            links.append(html.Span(words, className="choice missing", tabIndex=0, **tip))
        else:
            links.append(_choice(words, key, view.but(x=kind), view.x == kind))
    return _group("Over", links)


def _smoothing(key: str, view: RunView) -> Any:
    weights = sorted({*WEIGHTS, view.smooth})
    links = [_choice(f"{w:g}" if w else "off", key, view.but(smooth=w), view.smooth == w) for w in weights]
    tip = "Moving average\nEach point is the mean of those up to it, weighed by this number to the power of how many "
    tip += "points ago they were. NaN is passed over. The curve as it was stays behind it."
    return _group(html.Span("Smoothing", className="metric-label", tabIndex=0, **{"data-tip": tip}), links, "Smoothing")


def _beside(roots: Roots, run: Path, key: str, view: RunView) -> Any:
    """Seeds as a band, and other runs by name, folded."""
    alike = len(seeds_of(run))
    links: list[Any] = []
    if alike > 1:
        words = f"Seeds as a band ({alike})"
        links.append(_choice(words, key, view.but(band=not view.band), view.band, is_toggle=True))
    names = [name for name in _keys(roots) if name != key]
    rows = [
        html.Li(_choice(name, key, view.toggled("others", name), name in view.others, is_toggle=True))
        for name in names[:MOST_NAMED]
    ]
    if rows:
        full = f"At most {MOST_OTHERS} at once; each is drawn in the first curve of every chart."
        fold = html.Details(
            [html.Summary("Other runs"), html.Div([html.P(full, className="absent"), html.Ul(rows)], className="menu")],
            className="other-runs",
        )
        links.append(fold)
    return _group("Beside it", links) if links else None


def _legend(key: str, view: RunView, beside: Companions) -> Any:
    """Whose curves they are, and what of them there is not."""
    rows: list[Any] = []
    for other in beside.others:
        mark = html.I(className="swatch", style={"background": other.colour})
        off = html.A(
            "×",
            href=addresses.run(key, "", view.toggled("others", other.key).search()),
            className="view-link off",
            **{"aria-label": f"Without {other.key}"},
        )
        steps = "there is no such run" if other.lines is None else _ends([other.lines.columns])
        rows.append(html.Li([mark, other.key, html.Span(steps, className="absent"), off]))
    if view.band:
        rows.append(html.Li([html.I(className="swatch band"), _band_words(view, beside)]))
    return html.Ul(rows, className="legend beside") if rows else None


def _band_words(view: RunView, beside: Companions) -> str:
    if view.x != "step":
        return "The band of seeds is drawn over steps alone: their clocks and tokens do not run together."
    if len(beside.seeds) < 2:
        return "No other run here differs from this one by its seed alone, and has steps."
    count = len(beside.seeds)
    most = f" (the first {MOST_SEEDS})" if count == MOST_SEEDS else ""
    alike = f"Median and range of {count} runs{most} that differ by their seed alone, step by step"
    return f"{alike}; {_ends([columns for _, columns in beside.seeds])}"


def _ends(runs: list[Columns]) -> str:
    """At which steps runs are at their end.

    >>> import numpy as np
    >>> _ends([Columns(np.array([n]), np.zeros(1), np.ones(1, int)) for n in (480, 480, 90)])
    'they reach to step 90 (1 run) and 480 (2 runs)'
    """
    ends = sorted(int(columns.steps[-1]) for columns in runs if len(columns.steps))
    if not ends:
        return "no step yet"
    if len(runs) == 1:
        return f"to step {ends[0]:,}"
    if len(set(ends)) > 4:
        return f"they reach to steps {ends[0]:,} to {ends[-1]:,}"
    said = [f"{end:,} ({ends.count(end)} run{'s' if ends.count(end) > 1 else ''})" for end in sorted(set(ends))]
    return f"they reach to step {' and '.join(said)}"


def _keys(roots: Roots) -> list[str]:
    """What the runs are called; a folder without run.json is none."""
    keys = []
    for folder in roots.folders:
        try:
            found = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
        except OSError:
            continue
        keys += [roots.key_of(folder / name) for name in found if (folder / name / "run.json").exists()]
    return keys


def _choice(words: str, key: str, view: RunView, is_chosen: bool, *, is_toggle: bool = False) -> Any:
    state = {"aria-current": "true"} if is_chosen else {}
    text = [html.Span("✓ " if is_chosen else "+ ", **{"aria-hidden": "true"}), words] if is_toggle else words
    return html.A(text, href=addresses.run(key, "", view.search()), className="view-link choice", **state)


def _group(label: Any, links: list[Any], name: str = "") -> Any:
    words = name or str(label)
    return html.Div(
        [html.Span(label, className="label"), *links], role="group", className="choices", **{"aria-label": words}
    )
