"""The charts on the page of an alert: a card each, of the stretch of the run around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from rlwatch.runs.records import Alert
from rlwatch_dashboard import alert_figures, alert_story, downloads, figures, parts, theme
from rlwatch_dashboard.alert_story import Window
from rlwatch_dashboard.feed import Episode
from rlwatch_dashboard.followed import Now


def charts(now: Now, episode: Episode, changes: Sequence[Alert]) -> list[Any]:
    """The charts of the stretch around an alert, and which stretch it is."""
    shown = window_of(now, episode)
    drawn, left = alert_story.charts(changes, now.columns.values)
    if not drawn:
        return [html.P("The metrics that it rests on were not recorded.", className="absent")]
    cut = ", and no further: it lasted too long for one picture" if shown.cut else ""
    words = f"Steps {shown.first:,} to {shown.last:,}{cut}."
    more = f" Not drawn: {', '.join(left)}." if left else ""
    cards = [_card(chart, now, episode, shown) for chart in drawn]
    return [html.P(words + more, className="absent"), html.Div(cards, className="alert-charts")]


def _card(chart: figures.Chart, now: Now, episode: Episode, shown: Window) -> Any:
    marked = ", ".join(f"{word} at step {step:,}" for step, word, _ in alert_story.events(episode))
    there = [name for name in chart.labels if name in now.columns.values]
    only = there[0] if len(chart.labels) == 1 else None
    legend = [
        html.Li(
            [html.I(className="swatch", style={"background": theme.colour_of(name)}), parts.metric_label(name, words)]
        )
        for name, words in chart.labels.items()
        if name in there and words
    ]
    heading = parts.metric_label(only, chart.title) if only else chart.title
    graph = parts.graph(alert_figures.figure(chart, now.columns, episode, shown))
    return html.Article(
        [
            html.Header(
                [html.H3([heading, html.Span(chart.unit, className="unit")]), html.Ul(legend, className="readouts")]
            ),
            html.Div(
                graph,
                className="alert-plot",
                role="img",
                **{"aria-label": f"Chart: {chart.title}, steps {shown.first:,} to {shown.last:,}; {marked}"},
            ),
            html.Footer(downloads.chart_menu(chart.key, chart.title)),
        ],
        className="card",
    )


def window_of(now: Now, episode: Episode) -> Window:
    """The stretch around an alert that is shown."""
    steps = now.columns.steps
    first, last = (int(steps[0]), int(steps[-1])) if len(steps) else (episode.alert.since, episode.alert.step)
    return alert_story.window(episode, min(first, episode.alert.since), max(last, episode.fired))
