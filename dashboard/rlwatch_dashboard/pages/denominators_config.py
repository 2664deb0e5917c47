"""What a run's configuration makes of which examples: what is unwise, who weighs what, and where it divides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from dash import dcc, html

from rlwatch.audit import Audit, audit
from rlwatch.audit.example import Kind
from rlwatch.audit.lints import LINTS, Lint
from rlwatch.audit.places import Place
from rlwatch.report.audit_sentences import formula, how_to_read, setup, size_sentence
from rlwatch.runs.reader import RunSummary
from rlwatch.runs.records import Severity
from rlwatch_dashboard import addresses, parts
from rlwatch_dashboard.pages.panels import bar, cell, heads, number, section

OWN_LOOP = """monitor = Monitor("runs", config={"loss_type": "dapo", "scale_rewards": "group", "num_generations": 8})"""


def audited(summary: RunSummary) -> Audit | str:
    """The audit of a run's configuration as it is now, or why there is none."""
    settings = summary.info.get("settings")
    lints = settings.get("lints") if isinstance(settings, Mapping) else None
    off = [name for name in LINTS if lints.get(name) is False] if isinstance(lints, Mapping) else []
    try:
        return audit(summary.path, silence=off)
    except ValueError as error:
        return str(error)
    except TypeError as error:  # a value of another type than any trainer writes
        return f"{summary.path / 'run.json'}: config: {error}"


def hint(summary: RunSummary, key: str) -> Any:
    """A line for the run's header, where its configuration has something that one should look at."""
    found = audited(summary)
    if isinstance(found, str):
        return None
    grave = [lint for lint in found.lints if lint.severity is not Severity.INFO]
    if not grave:
        return None
    words = f"{len(grave)} remark{'s' if len(grave) > 1 else ''} on the configuration"
    link = dcc.Link(words, href=addresses.run(key, "denominators"))
    return html.P([parts.severity_pill(grave[0].severity.value), link], className="config-hint")


def how_weighed(found: Audit) -> Any:
    """The formula of a token's weight, the batches, and what had to be assumed."""
    text, _, letters = formula(found).partition("   (")
    return html.Div(
        [
            html.P(html.Code(text), className="formula"),
            html.P(letters.rstrip(")"), className="absent") if letters else None,
            html.P(setup(found), className="absent"),
            *(html.P(note) for note in found.config.notes),
        ],
        className="how-weighed",
    )


def lints(found: Audit) -> Any:
    """What is unwise about the configuration, the worst first."""
    silenced = ", ".join(lint.name for lint in found.silenced)
    return section(
        "lints",
        "What to look at" if found.lints else "What to look at: nothing",
        html.P("No lint fires on this configuration.", className="absent") if not found.lints else None,
        html.Div([_lint(lint) for lint in found.lints], className="lints"),
        html.P(f"silenced: {silenced}", className="absent") if silenced else None,
    )


def _lint(lint: Lint) -> Any:
    severity = lint.severity.value
    return html.Article(
        [
            html.Div([parts.severity_pill(severity), html.Code(lint.name, className="rule")], className="lint-head"),
            html.P(lint.message, className="message"),
            html.P(lint.why),
            html.P([html.Code(lint.setting), ": ", lint.advice], className="advice"),
            html.Cite(lint.source),
        ],
        className=f"lint severity-{severity}",
    )


def weights(found: Audit) -> Any:
    """Who weighs what in the batch that is the same for every configuration."""
    predicted = [f"Predicted: {found.drift.sentence}."] if found.drift else []
    return section(
        "weights",
        "Who weighs what",
        html.P(how_to_read(found)),
        _weights(found.example.kinds, rewards=found.config.is_policy),
        html.Ul([html.Li(said) for said in [*found.example.contrasts.values(), *predicted]], className="said"),
        html.P(size_sentence(found), className="absent"),
    )


def _weights(kinds: tuple[Kind, ...], *, rewards: bool) -> Any:
    names = ["how many", "tokens", *(["advantage"] if rewards else []), "a token", "one of them", "all of them"]
    top = max((kind.share for kind in kinds), default=0.0) or 1.0
    bodies = [
        html.Tbody(
            [
                html.Tr(html.Th(prompt, scope="rowgroup", colSpan=len(names) + 2), className="of"),
                *(_kind(kind, top, rewards=rewards) for kind in group),
            ]
        )
        for prompt, group in groupby(kinds, key=lambda kind: kind.prompt)
    ]
    head = heads("answer" if rewards else "example", *names, "", numbers=names)
    key = [
        html.P(
            [html.I(className="swatch up"), "pushed up ", html.I(className="swatch down"), "pushed down"],
            className="key",
        )
    ]
    return html.Div([html.Table([head, *bodies], className="figures weighs"), *(key if rewards else [])])


def _kind(kind: Kind, top: float, *, rewards: bool) -> Any:
    weighs = abs(kind.advantage) > 5e-3
    advantage = [number("advantage", f"{kind.advantage:+.2f}".replace("-", "−") if weighs else "0")] if rewards else []
    direction = ("up" if kind.advantage > 0 else "down") if rewards else ""
    return html.Tr(
        [
            html.Th(kind.answer, scope="row"),
            number("how many", str(kind.count)),
            number("tokens", f"{kind.tokens:,}"),
            *advantage,
            number("a token", f"×{kind.token:.2f}"),
            number("one of them", f"{100 * kind.one:.1f} %"),
            number("all of them", f"{100 * kind.share:.1f} %"),
            cell("", bar(kind.share / top, direction), "bars"),
        ]
    )


def divisions(found: Audit) -> Any:
    """Every place where something is divided or averaged, in the order in which a token's weight is made."""
    return section(
        "places", "Where it divides", html.Ol([html.Li(list(_place(p))) for p in found.places], className="places")
    )


def _place(place: Place) -> Iterator[Any]:
    yield html.Div([html.H3(place.name), html.Span(place.maths, className="maths")], className="place-head")
    yield html.P(place.sentence)
    yield html.Pre(html.Code(place.code))
    moved = {name: value for name, value in place.effect.items() if abs(value - 1) > 5e-3}
    chips = [html.Li([name, html.B(f"×{value:.2f}")]) for name, value in moved.items()]
    if chips:
        yield html.Ul([html.Li("a token here:", className="lead"), *chips], className="effects")
    yield html.P(["set by ", html.Code(f"{place.setting} = {place.value}")], className="set-by")
    if place.against:
        yield html.P(f"Argued against by {', '.join(place.against)}", className="against")


def untold(why: str) -> Any:
    """Where the configuration does not tell the loss: why, and how it would."""
    return section(
        "untold",
        "What its loss divides by: not known",
        html.P(["This run's configuration does not tell its loss. ", html.Code(why)]),
        html.P("A training by TRL's GRPOTrainer tells it by itself. A loop of its own says what its loss is like:"),
        html.Pre(html.Code(OWN_LOOP)),
        html.P(["A configuration file is audited by ", html.Code("rlwatch audit FILE"), "."]),
    )
