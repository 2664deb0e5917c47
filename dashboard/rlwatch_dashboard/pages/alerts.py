"""The alerts of a run in words: what, since when, the numbers, likely reasons, what to try, what people have said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash
from dash import Input, Output, State, dcc, html

from rlwatch.runs.reader import read_alerts
from rlwatch_dashboard import addresses, numbers, parts
from rlwatch_dashboard.alert_answers import Said, said_of
from rlwatch_dashboard.feed import Episode, episodes_of
from rlwatch_dashboard.pages.alert_answer import pills
from rlwatch_dashboard.roots import Roots
from rlwatch_dashboard.view import View, address

SHOWN = 40
"""How many alerts a page shows, in its list and on its curves; an alert that comes and goes can be there very often."""


def alert_list(episodes: list[Episode], run: str, said: Said | None = None) -> list[Any]:
    """All alerts of a run that have fired, the open and severe ones first; nothing where none has.

    Args:
        episodes: They.
        run: What the site calls the run.
        said: What people have said of them.
    """
    if not episodes:
        return []
    still_open = sum(not episode.over for episode in episodes)
    over = len(episodes) - still_open
    words = [f"{still_open} open" if still_open else "", f"{over} resolved" if over else ""]
    count = html.Span(", ".join(word for word in words if word), className="count")
    cards = [_card(episode, run, said, unfolded=place == 0) for place, episode in enumerate(episodes[:SHOWN])]
    rest = len(episodes) - len(cards)
    more = [html.P(f"{rest} more are in the run's alerts.jsonl.", className="absent")] if rest else []
    return [html.H2(["Alerts ", count]), *cards, *more]


def register(app: dash.Dash, roots: Roots) -> None:
    """The list again, where somebody has answered an alert, or a silence has ended, while the page is open."""

    @app.callback(  # type: ignore[untyped-decorator]
        Output("alerts", "children", allow_duplicate=True),
        Output("answered", "data"),
        Input("run-timer", "n_intervals"),
        State("run", "data"),
        State("answered", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, key: str, answered: str) -> Any:
        run = roots.find(key)
        said = said_of(run) if run is not None else None
        if run is None or said is None or said.fingerprint == answered:
            raise dash.exceptions.PreventUpdate
        return alert_list(episodes_of(read_alerts(run).items), key, said), said.fingerprint


def _card(episode: Episode, run: str, said: Said | None, unfolded: bool) -> Any:
    alert = episode.alert
    severity = alert.severity.value
    head = html.Div(
        [
            parts.severity_pill(severity),
            dcc.Link(
                html.Code(str(alert.rule), className="rule"), href=addresses.alert(run, str(alert.rule), alert.since)
            ),
            html.Span(when(episode), className="when"),
            *pills(said.of(alert) if said is not None else []),
        ],
        className="alert-head",
    )
    details = [*evidence(episode)]
    details += [html.H3("Likely causes"), *causes(episode)] if alert.causes else []
    details += [html.H3("What to try"), *advice(episode)] if alert.advice else []
    if alert.forecast is not None:
        details.insert(1, html.P(f"Ahead: {alert.forecast.text}", className="ahead"))
    body: list[Any] = [head, html.P(str(alert.message), className="message"), to_completions(episode, run)]
    if details:
        unfold = unfolded and not episode.over
        body.append(html.Details([html.Summary("Why, and what to try"), *details], open=unfold))
    state = "over" if episode.over else "open"
    return html.Article(body, className=f"alert severity-{severity} {state}")


def to_completions(episode: Episode, run: str) -> Any:
    """Links to what was written at the steps where it fired and where its severity changed."""
    steps = list(dict.fromkeys(step for step, _ in episode.stages[-3:]))
    links: list[Any] = ["Completions of "]
    for step in steps:
        kind = _kind(episode.alert.evidence) if step == steps[-1] else None
        link = dcc.Link(f"step {step:,}", href=address(run, View(step=step, kind=kind)))
        links += [", ", link] if len(links) > 1 else [link]
    return html.P(links, className="to-completions")


def _kind(evidence: Any) -> str | None:
    """The kind of groups that an alert is about, where most of them are of it."""
    shares = evidence if isinstance(evidence, Mapping) else {}
    kinds = ((shares.get(f"groups/{kind}"), kind) for kind in ("stuck", "failed"))
    return next((kind for share, kind in kinds if isinstance(share, (int, float)) and share >= 0.5), None)


def when(episode: Episode) -> str:
    """Since when, and when it was told; or from when to when."""
    alert = episode.alert
    if episode.over:
        return f"steps {alert.since:,} to {numbers.plain(alert.resolved_step)}, resolved"
    later = [f", {severity.value} at {step:,}" for step, severity in episode.stages[1:]]
    return f"since step {alert.since:,}, fired at {episode.fired:,}" + "".join(later)


def evidence(episode: Episode) -> list[Any]:
    """The number that was judged, what against, and the numbers of that step."""
    alert = episode.alert
    # A metric has its unit from the table. The value that was judged may be anything, so it is shown plainly.
    judged = {"value": alert.value, "reference": alert.reference}
    rows = [(name, numbers.plain(value)) for name, value in judged.items() if value is not None]
    return [_table(rows, alert.evidence)]


def causes(episode: Episode) -> list[Any]:
    """Likely reasons, each with its numbers; nothing where there is none."""
    if not episode.alert.causes:
        return []
    items = [html.Li([html.Span(str(cause.text)), _table([], cause.evidence)]) for cause in episode.alert.causes]
    return [html.Ol(items)]


def advice(episode: Episode) -> list[Any]:
    """What to try, each with its source; nothing where there is none."""
    if not episode.alert.advice:
        return []
    items = [
        html.Li([html.Span(str(one.text)), html.Cite(str(one.source))] if one.source else str(one.text))
        for one in episode.alert.advice
    ]
    return [html.Ol(items)]


def _table(rows: list[tuple[str, str]], metrics: Any) -> Any:
    cells = [html.Div([html.Dt(name), html.Dd(value)]) for name, value in rows]
    if isinstance(metrics, Mapping):
        cells += [
            html.Div([html.Dt(parts.metric_label(str(name), str(name))), html.Dd(numbers.of_metric(str(name), value))])
            for name, value in metrics.items()
        ]
    return html.Dl(cells, className="evidence") if cells else None
