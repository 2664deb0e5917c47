"""The page "/run/<name>/alert/<rule>/<since>": one alert, what it rests on, what happened, and what is said about it.

A slow timer asks whether there is anything new; the answer then replaces what is told, never the fields.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dash
from dash import Input, Output, State, dcc, html

from rlwatch.runs.records import Alert
from rlwatch_dashboard import addresses, alert_answers, alert_story, numbers, parts
from rlwatch_dashboard.alert_answers import Said, said_of
from rlwatch_dashboard.feed import Episode, episodes_of
from rlwatch_dashboard.followed import Now, look
from rlwatch_dashboard.pages import alert_answer
from rlwatch_dashboard.pages.alert_charts import charts, window_of
from rlwatch_dashboard.pages.alerts import advice, causes, evidence, to_completions, when
from rlwatch_dashboard.pages.run import tabs
from rlwatch_dashboard.roots import Roots

REFRESH_SECONDS = 3


def layout(run: Path, key: str, rule: str, since: str) -> list[Any]:
    """The page of an alert.

    Raises:
        ValueError: It is no run; the message says why.
    """
    now = look(run)
    episodes = episodes_of(now.alerts.items)
    episode = alert_story.find(episodes, rule, since)
    if episode is None:
        return [_missing(now.summary.name, key, rule, since)]
    said = said_of(run, _newest(now))
    return [
        html.Header(
            [
                html.Div(
                    [
                        html.H1([html.Code(str(rule)), " in ", dcc.Link(now.summary.name, href=addresses.run(key))]),
                        html.Div([parts.state_pill(now.summary.state)], className="vitals"),
                    ]
                ),
                tabs(key, "alert"),
            ],
            className="run-head alert-page-head",
        ),
        html.Div(
            [
                html.Div(_now(now, episodes, episode, said, key), id="alert-now", className="alert-now"),
                alert_answer.form(episode, run, key, said, ended=now.summary.state == "ended"),
            ],
            className="alert-page",
        ),
        parts.skipped_list([*now.alerts.skipped, *said.skipped]),
        dcc.Store(id="alert-where", data={"run": key, "rule": rule, "since": since}),
        dcc.Store(id="alert-shown", data=_fingerprint(now, episode, said)),
        dcc.Interval(id="alert-timer", interval=REFRESH_SECONDS * 1000),
    ]


def title(run: str, rule: str) -> str:
    """What the browser's tab says."""
    return f"{rule} in {run} · rlwatch"


def register(app: dash.Dash, roots: Roots) -> None:
    """The page's refresh, and the route that takes answers."""
    alert_answers.register(app, roots)

    @app.callback(  # type: ignore[untyped-decorator]
        Output("alert-now", "children"),
        Output("alert-said", "children"),
        Output("alert-shown", "data"),
        Input("alert-timer", "n_intervals"),
        State("alert-where", "data"),
        State("alert-shown", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, where: dict[str, str], shown: str) -> Any:
        key, rule, since = (str(where.get(name, "")) for name in ("run", "rule", "since"))
        run = roots.find(key)
        try:
            if run is None:
                raise ValueError
            now = look(run)
        except ValueError:
            raise dash.exceptions.PreventUpdate from None
        episodes = episodes_of(now.alerts.items)
        episode = alert_story.find(episodes, rule, since)
        said = said_of(run, _newest(now))
        there = _fingerprint(now, episode, said)
        if there == shown:
            raise dash.exceptions.PreventUpdate
        if episode is None:
            return [_gone(key)], [], there
        return _now(now, episodes, episode, said, key), alert_answer.said(said.of(episode.alert)), there


def _fingerprint(now: Now, episode: Episode | None, said: Said) -> str:
    """What differs where the page has to show something else: not where the run goes on far beyond what it shows."""
    shown = None if episode is None else window_of(now, episode)
    text = repr((now.alerts.items, shown, now.summary.state, said.fingerprint))
    return f"{zlib.crc32(text.encode(errors='replace')):08x}"


def _newest(now: Now) -> int | None:
    return int(now.columns.steps[-1]) if len(now.columns.steps) else None


def _now(now: Now, episodes: Sequence[Episode], episode: Episode, said: Said, key: str) -> list[Any]:
    """All that may change while the page is open, but what people have said, which is beside the fields."""
    alert = episode.alert
    changes = alert_story.changes_of(now.alerts.items, alert)
    ahead = html.P([html.B("Ahead: "), alert.forecast.text], className="ahead") if alert.forecast is not None else None
    return [
        html.Section(
            [
                html.Div(
                    [
                        parts.severity_pill(alert.severity.value),
                        html.Span(when(episode), className="when"),
                        *alert_answer.pills(said.of(alert)),
                    ],
                    className="alert-head",
                ),
                html.P(str(alert.message), className="message"),
                ahead,
                *evidence(episode),
                to_completions(episode, key),
            ],
            className=f"alert severity-{alert.severity.value} {'over' if episode.over else 'open'}",
            **{"aria-label": "The alert"},
        ),
        _section("Around its onset", *charts(now, episode, changes)),
        html.Div(
            [_section("Likely causes", *causes(episode)), _section("What to try", *advice(episode))],
            className="alert-why",
        ),
        _section("What happened", _history(now, episode, changes)),
        _section("What else held then", _beside(alert_story.beside(episodes, episode), key)),
    ]


def _section(heading: str, *body: Any) -> Any:
    there = [part for part in body if part is not None]
    return html.Section([html.H2(heading), *there], className="alert-part") if there else None


def _history(now: Now, episode: Episode, changes: Sequence[Alert]) -> Any:
    row = now.columns.row_of(episode.alert.since)
    known = row < len(now.columns.steps) and int(now.columns.steps[row]) == episode.alert.since
    began = parts.moment(float(now.columns.times[row])) if known else "–"
    rows = [_row("began", f"{episode.alert.since:,}", began, "–", "It has held since then.")]
    for change in changes:
        state = change.state.value if change.state.value != "firing" else change.severity.value
        pill = parts.severity_pill(state) if change.state.value == "firing" else state
        step = change.resolved_step if change.resolved_step is not None else change.step
        value = numbers.plain(change.value) if change.value is not None else "–"
        rows.append(_row(pill, f"{step:,}", parts.moment(change.time), value, str(change.message)))
    heads = [html.Th(words, scope="col") for words in ("State", "Step", "Time", "Value", "What was said")]
    return html.Table([html.Thead(html.Tr(heads)), html.Tbody(rows)], className="history")


def _row(state: Any, step: str, at: Any, value: str, message: str) -> Any:
    cells = [("Step", step, "n"), ("Time", at, ""), ("Value", value, "n"), ("What was said", message, "message")]
    return html.Tr(
        [
            html.Th(state, scope="row"),
            *(html.Td(content, className=kind or None, **{"data-label": label}) for label, content, kind in cells),
        ]
    )


def _beside(others: Sequence[Episode], key: str) -> Any:
    if not others:
        return html.P("No other alert.", className="absent")
    items = [
        html.Li(
            [
                parts.severity_pill(other.alert.severity.value),
                dcc.Link(
                    html.Code(str(other.alert.rule)), href=addresses.alert(key, other.alert.rule, other.alert.since)
                ),
                html.Span(when(other), className="when"),
            ]
        )
        for other in others[:20]
    ]
    rest = [html.Li(f"and {len(others) - 20} more", className="absent")] if len(others) > 20 else []
    return html.Ul([*items, *rest], className="beside")


def _missing(run: str, key: str, rule: str, since: str) -> Any:
    return html.Section(
        [
            html.H1("No such alert"),
            html.P(
                [
                    html.Code(run),
                    " has told of no alert of ",
                    html.Code(rule),
                    " since step ",
                    html.Code(since),
                    ". A training that was resumed may have taken it back.",
                ]
            ),
            html.P(dcc.Link("The run, with all its alerts", href=addresses.run(key))),
        ],
        className="empty-state",
    )


def _gone(key: str) -> Any:
    return html.P(
        ["This alert is gone: the training was resumed from before it. ", dcc.Link("The run", href=addresses.run(key))],
        className="headline tone-unknown",
    )
