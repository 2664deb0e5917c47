"""What a run's updates were made of, and what other decisions in the loss would have made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dash import html

from rlwatch.audit import Audit
from rlwatch.readers import UnreadableError
from rlwatch.readers import load as load_runs
from rlwatch.report.audit_measured import FAMILIES, Measured, Otherwise, Weighed, measured
from rlwatch.runs.reader import RunSummary
from rlwatch.runs.records import Run
from rlwatch_dashboard import downloads, figures, numbers, parts, theme
from rlwatch_dashboard.feed import Points
from rlwatch_dashboard.pages.facts import why_absent
from rlwatch_dashboard.pages.panels import bar, cell, heads, number, section

QUARTERS = tuple(f"weight/length_q{quarter}" for quarter in (1, 2, 3, 4))

CHARTS = (
    figures.Chart("made-wrong", "Wrong answers", {"weight/incorrect": "of the update"}, {}),
    figures.Chart("made-hard", "Hard and easy prompts", {"weight/hard": "hard", "weight/easy": "easy"}, {}),
    figures.Chart(
        "made-length", "Quarters by length", {}, dict(zip(QUARTERS, ("shortest", "2nd", "3rd", "longest"), strict=True))
    ),
    figures.Chart("made-few", "How few carry it", {"weight/half": "carry half", "signal/ess": "effective size"}, {}),
)
"""What the steps' weights are drawn as."""

COLOURS = {
    "weight/incorrect": theme.FAILED, "weight/hard": theme.VIOLET, "weight/easy": theme.SOLVED,
    "weight/half": theme.TEAL, "signal/ess": theme.VIOLET,
    **{name: theme.TEAL + shade for name, shade in zip(QUARTERS, ("59", "85", "b8", "ee"), strict=True)},
}  # fmt: skip
"""A metric's colour in these charts: the longer the completions of a quarter, the stronger."""

TONES = {
    "no update at all": ("turned", "would have made no update at all"),
    "another direction": ("turned", "would have gone another way"),
    "the same direction, another size": ("scaled", "would have gone the same way at another size"),
    "nearly the same": ("same", "would have made nearly the same"),
}
"""A verdict → how it looks, and how it is counted."""

MEASURE = """trainer = GRPOTrainer(..., callbacks=[RLWatchCallback(counterfactual_every=20)])"""


def recorded(summary: RunSummary) -> tuple[Run, Measured]:
    """A run's records, and what they say of its updates; nothing where they cannot be read."""
    try:
        run = load_runs(summary.path)[0]
    except (UnreadableError, IndexError):
        run = Run(summary.name, str(summary.path), "", None, ())
    return run, measured(run)


def made_of(run: Run, seen: Measured, info: Mapping[str, Any]) -> Any:
    """The update's weight by kind of completion, over all steps and step by step."""
    series = _series(run)
    charts = [_chart(chart, series) for chart in _charts(series, seen)]
    bars = [_weighed(weighed) for weighed in seen.weighed]
    if not bars:
        bars = [_unweighed(run, info, partly=bool(charts))]
    return section(
        "made",
        "What the updates were made of",
        html.Div([html.Div(bars, className="made-bars"), html.Div(charts, className="made-charts")], className="made"),
    )


def _weighed(weighed: Weighed) -> Any:
    rows = [_kind(words, share, of) for words, (share, of) in weighed.shares.items()]
    plural = "" if weighed.steps == 1 else "s"
    columns = [
        html.Th([html.I(className=f"swatch {kind}"), words], scope="col", className="n")
        for kind, words in (("share", "a share of"), ("update", "of the update"))
    ]
    return html.Div(
        [
            html.P(weighed.sentence, className="sentence") if weighed.sentence else None,
            html.P(f"{FAMILIES[weighed.family]}, over {weighed.steps:,} step{plural}", className="absent"),
            html.Table(
                [
                    html.Thead(html.Tr([html.Th("of the completions", scope="col"), *columns, html.Td()])),
                    html.Tbody(rows),
                ],
                className="figures kinds",
            ),
        ]
    )


def _kind(words: str, share: float, of: float | None) -> Any:
    bars = [*([bar(of, "share")] if of is not None else []), bar(share, "update")]
    known = numbers.NOT_RECORDED if of is None else None
    return html.Tr(
        [
            html.Th(words, scope="row"),
            html.Td(html.Span("–", className="absent", title=known) if of is None else f"{of:.0%}", className="n"),
            html.Td(f"{share:.0%}", className="n strong"),
            html.Td(bars, className="bars"),
        ]
    )


def _unweighed(run: Run, info: Mapping[str, Any], *, partly: bool) -> Any:
    """Where no step says it: why, and what would."""
    why = why_absent(info, "weight/length_q4")
    says = "No step yet."
    if run.records:
        what = "splits its update by length and difficulty" if partly else "says which completions its update came from"
        says = f"No step of this run {what}."
    return html.Div(
        [
            html.P(says, className="sentence"),
            html.P(why) if why else None,
            html.P(
                [
                    html.Code("RLWatchCallback()"),
                    " records it in trainings by TRL's GRPOTrainer, at every step that rewards had a part in. Of "
                    "completions that were dumped, ",
                    html.Code("rlwatch audit FILE"),
                    " says what usual losses would have made of them.",
                ]
            ),
        ]
    )


def _series(run: Run) -> dict[str, Points]:
    """The drawn metrics, as charts get them."""
    wanted = {name for chart in CHARTS for name in chart.labels} | {"length/share_correct"}
    series: dict[str, Points] = {}
    for record in run.records:
        for name in wanted & record.metrics.keys():
            points = series.setdefault(name, {"x": [], "y": []})
            points["x"].append(record.step)
            points["y"].append(numbers.for_chart(record.metrics[name]))
    return series


def _charts(series: Mapping[str, Points], seen: Measured) -> list[figures.Chart]:
    """Those with points; quarters only where they say something, as in the table."""
    quarters = any("the longest quarter" in weighed.shares for weighed in seen.weighed)
    return [
        chart
        for chart in CHARTS
        if any(name in series for name in chart.labels) and (quarters or chart.key != "made-length")
    ]


def _chart(chart: figures.Chart, series: Mapping[str, Points]) -> Any:
    figure = figures.figure(chart, series)
    for trace in figure["data"]:
        colour = COLOURS[trace["meta"]]
        trace["line"]["color"] = colour
        if "fillcolor" in trace:
            trace["fillcolor"] = colour
        else:
            trace["marker"]["color"] = colour
    legend = [_legend(name, label, series) for name, label in chart.labels.items()]
    if chart.key == "made-wrong" and "length/share_correct" in series:
        figure["data"].insert(0, _share_wrong(figure["data"][0], series["length/share_correct"]))
        legend.insert(0, html.Li([html.I(className="swatch share"), "of the completions"]))
    figure["layout"] |= {"dragmode": False, "xaxis": {**figure["layout"]["xaxis"], "fixedrange": True}}
    graph = parts.graph(figure, id={"type": "made-of", "key": chart.key})
    label = f"Chart: {chart.title}, shares over the steps"
    menu = downloads.chart_menu(chart.key, chart.title)
    return html.Article(
        [
            html.Header([html.H3(chart.title), html.Ul(legend, className="legend"), menu]),
            html.Div(graph, className="made-plot", role="img", **{"aria-label": label}),
        ],
        className="made-chart",
    )


def _share_wrong(trace: dict[str, Any], correct: Points) -> dict[str, Any]:
    """The share of wrong answers among the completions, behind their share of the update."""
    wrong = [None if value is None else numbers.for_chart(1 - value) for value in correct["y"]]
    return {
        **trace,
        "meta": "",
        "name": "of the completions",
        "x": correct["x"],
        "y": wrong,
        "line": {"color": theme.NEUTRAL, "width": 1.2},
        "marker": {**trace["marker"], "color": theme.NEUTRAL},
    }


def _legend(name: str, label: str, series: Mapping[str, Points]) -> Any:
    swatch = html.I(className="swatch", style={"background": COLOURS[name]})
    if name in series:
        return html.Li([swatch, parts.metric_label(name, label)])
    return html.Li([swatch, parts.metric_label(name, label), html.Span(numbers.NOT_RECORDED, className="absent")])


def otherwise(seen: Measured, info: Mapping[str, Any], found: Audit | str) -> Any:
    """What another denominator, scaling or clip would have made of the same batches."""
    heading = "What another decision would have made of the same batches"
    if not seen.otherwise:
        why = why_absent(info, "counterfactual/denominator-grpo/norm_ratio")
        return section(
            "otherwise",
            heading,
            html.P(f"Not measured in this run{f': {why}' if why else '.'}"),
            html.P("Every twentieth step, by one more backward pass for each alternative:"),
            html.Pre(html.Code(MEASURE)),
        )
    names = ("cosine", "size", "steps")
    return section(
        "otherwise",
        heading,
        html.P(_summary(seen), className="sentence"),
        html.P(f"{seen.part or 'gradients'}; the cosine is to the update that was", className="absent"),
        html.Table(
            [heads("instead", *names, "so", numbers=names), html.Tbody([_otherwise(o, found) for o in seen.otherwise])],
            className="figures instead",
        ),
    )


def _summary(seen: Measured) -> str:
    """How many alternatives would have changed what."""
    counts = Counter(other.verdict for other in seen.otherwise)
    said = "; ".join(f"{counts[verdict]} {words}" for verdict, (_, words) in TONES.items() if counts[verdict])
    return f"Of {len(seen.otherwise)} decisions, {said}."


def _otherwise(other: Otherwise, found: Audit | str) -> Any:
    is_own = not isinstance(found, str) and other.name in (
        f"denominator-{found.config.loss_type}",
        f"scaling-{found.config.scale_rewards}",
    )
    own = html.Span("as it is", className="pill own", title="What this run's configuration does") if is_own else None
    verdict = html.Span(other.verdict, className=f"verdict verdict-{TONES[other.verdict][0]}")
    return html.Tr(
        [
            html.Th([other.words, own], scope="row"),
            number("cosine", "none" if other.cosine is None else f"{other.cosine:.3f}".replace("-", "−")),
            number("size", f"×{other.ratio:.3g}"),
            number("steps", str(other.steps)),
            cell("so", verdict, "so"),
        ]
    )
