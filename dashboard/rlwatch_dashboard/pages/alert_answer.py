"""What people have said of an alert, and where one says it: to acknowledge it, or to silence its rule for a while.

The buttons say what they send in `data-answer`; assets/alert.js sends it and has the page made anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dash import dcc, html

from rlwatch.runs import acks
from rlwatch.runs.acks import ACKNOWLEDGE, Answer
from rlwatch_dashboard import addresses, parts, plain_text
from rlwatch_dashboard.alert_answers import Said
from rlwatch_dashboard.feed import Episode

STEPS_AHEAD = 200
"""The step that a silence is offered until: so many after the newest one."""


def pills(answers: list[Answer]) -> list[Any]:
    """What was said of an alert, as small words: "acknowledged", "silenced until step 400"."""
    return [html.Span(_words(answer), className="pill answered") for answer in answers]


def said(answers: list[Answer]) -> list[Any]:
    """The same with who said it and when, and a way to take it back; nothing where nobody has said anything."""
    items = []
    for answer in answers:
        by = [" by ", html.B(plain_text.visible(answer.who))] if answer.who else []
        undo = json.dumps({"kind": answer.kind, "undo": True})
        items.append(
            html.Li(
                [
                    *pills([answer]),
                    html.Span([*by, " ", parts.moment(answer.time, relative=True)], className="by"),
                    html.Button("Undo", type="button", className="undo", **{"data-answer": undo}),
                ]
            )
        )
    return [html.Ul(items, className="answers")] if items else []


def form(episode: Episode, run: Path, key: str, now: Said, *, ended: bool = False) -> Any:
    """The part of the page where one answers."""
    alert = episode.alert
    about = json.dumps({"rule": alert.rule, "since": alert.since})
    return html.Section(
        [
            html.H2("Who knows, and who wants to hear of it", id="alert-answer-head"),
            html.Div(said(now.of(alert)), id="alert-said"),
            html.P("The training has ended: of it, nothing more is told to anybody.") if ended else None,
            html.Div(_fields(episode, now) if acks.can_write(run) else [_read_only(run, alert.rule)]),
            html.P("", id="alert-result", role="status"),
        ],
        className="alert-answer",
        **{"aria-labelledby": "alert-answer-head", "data-answer-to": addresses.answer(key), "data-answer-about": about},
    )


def _fields(episode: Episode, now: Said) -> list[Any]:
    rule = html.Code(str(episode.alert.rule))
    acknowledge = [
        html.P("Acknowledged, it is told again only if it becomes worse, or when it is over."),
        html.Button("Acknowledge", type="button", className="main", **{"data-answer": _send(ACKNOWLEDGE)}),
    ]
    return [
        _row("Your name", _text("alert-who", placeholder="optional", maxLength=acks.LONGEST_NAME, autoComplete="name")),
        *([] if episode.over else [html.Div(acknowledge, className="answer-way")]),
        html.Div(
            [
                html.P(["Silenced, nobody is told of ", rule, " in this run; this page and alerts.jsonl go on."]),
                _row("until step", _text("alert-step", value=(now.step or 0) + STEPS_AHEAD), "until_step"),
                _row("for hours", _text("alert-hours", value=8), "hours"),
                html.Button("Silence for the rest of the run", type="button", **{"data-answer": _send("silence")}),
            ],
            className="answer-way",
        ),
    ]


def _text(name: str, **more: Any) -> Any:
    return dcc.Input(id=name, type="text", inputMode="text" if "placeholder" in more else "decimal", **more)


def _row(label: str, field: Any, sends: str = "") -> Any:
    button = html.Button("Silence", type="button", **{"data-answer": _send("silence"), "data-number": sends})
    return html.Div([html.Label(label, htmlFor=field.id), field, *([button] if sends else [])], className="answer-row")


def _send(kind: str) -> str:
    return json.dumps({"kind": kind})


def _read_only(run: Path, rule: str) -> Any:
    return html.P(
        [
            "This run directory is read-only for the dashboard, so nothing can be said here. Who may write to it says "
            "it by ",
            html.Code(f"rlwatch alerts ack {run.name} {rule}"),
            ".",
        ],
        className="read-only",
    )


def _words(answer: Answer) -> Any:
    if answer.kind == ACKNOWLEDGE or answer.until_time is None:
        return answer.words
    step = [f" or step {answer.until_step:,}"] if answer.until_step is not None else []
    return [html.Span("silenced until "), parts.moment(answer.until_time), *step]
