"""One run in the HTML report: the verdict, when it went wrong, the curves, the alerts, what was lost and not seen."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from rlwatch.report.analysis import Analysis
from rlwatch.report.html_alerts import alert_cards, episodes, timeline
from rlwatch.report.html_charts import MAIN, Series, chart_card, further, series_of, to_script
from rlwatch.report.numbers import of_metric, plain
from rlwatch.report.remarks import in_lines, remarks
from rlwatch.report.replay import in_a_word, what_was_set
from rlwatch.report.sentences import TONES, counted, span, verdict_sentence, waste_sentence


def run_html(analysis: Analysis, *, level: int, gpu_hour_price: float | None = None, gpus: int = 1) -> str:
    """All that is said of one run, without its name.

    Args:
        analysis: What was found.
        level: Of its headings: 2 for h2.
        gpu_hour_price: To say what was lost in money.
        gpus: How many GPUs the run had.
    """
    run = analysis.run
    found = episodes(analysis)
    series = series_of(run.records)
    ends = {"first": run.records[0].step, "last": run.records[-1].step} if run.records else {}
    marks = to_script({"spans": [episode.span for episode in found], **ends})
    cards = alert_cards(analysis, found, level)
    vitals = [run.path, run.format, run.framework, span(analysis)]
    return (
        f'<div class="stack" data-run><script type="application/json" class="marks">{marks}</script>'
        f'<p class="headline tone-{TONES[analysis.verdict]}">{escape(verdict_sentence(analysis))}</p>'
        f'<div class="vitals">{"".join(f"<span>{escape(str(v))}</span>" for v in vitals if v)}</div>'
        f"{timeline(analysis, found)}"
        f'<div class="run-body{" split" if cards else ""}">'
        f'<div class="stack">{_charts(series, level)}</div>{cards}</div>'
        f'<div class="run-rest">{_rest(analysis, level, gpu_hour_price, gpus)}'
        f"{_numbers(series)}{_settings(run.info)}</div></div>"
    )


def _charts(series: Mapping[str, Series], level: int) -> str:
    cards = {chart.title: chart_card(chart, series, level=level) for chart in MAIN}
    missing = [title.lower() for title, card in cards.items() if not card]
    others = [card for chart in further(series) if (card := chart_card(chart, series, level=level + 1))]
    absent = f'<p class="absent">Not in this log: {escape(", ".join(missing))}.</p>' if missing else ""
    more = (
        f"<details><summary>{counted(len(others), 'more curve')}</summary>"
        f'<div class="charts small">{"".join(others)}</div></details>'
        if others
        else ""
    )
    return f'<div class="charts">{"".join(cards.values())}</div>{absent}{more}'


def _rest(analysis: Analysis, level: int, price: float | None, gpus: int) -> str:
    parts = []
    wasted = waste_sentence(analysis.waste, price, gpus)
    if wasted:
        parts.append(_section("What taught nothing", f"<p>{escape(wasted)}</p>", level))
    if analysis.settings.source or analysis.by_default is not None:
        parts.append(_section(f"Set by {escape(analysis.settings.source or 'rules in Python')}", _set(analysis), level))
    about = in_lines(remarks(analysis.run, analysis.settings.silenced_lints), analysis.run.path)
    if about:
        items = (f"<li><code>{escape(name)}</code>: {escape(said)}</li>" for name, said in about)
        parts.append(_section("About its configuration", f"<ul>{''.join(items)}</ul>", level))
    if analysis.unchecked:
        items = (f"<li><code>{escape(rule)}</code>: {escape(why)}</li>" for rule, why in analysis.unchecked.items())
        parts.append(_section("What this log cannot show", f"<ul>{''.join(items)}</ul>", level))
    if analysis.run.notes:
        items = (f"<li>{escape(note)}</li>" for note in analysis.run.notes)
        parts.append(_section("How it was read", f"<ul>{''.join(items)}</ul>", level))
    return "".join(parts)


def _set(analysis: Analysis) -> str:
    """What was set, and the alerts that are not the same by the defaults."""
    pairs = list(what_was_set(analysis.settings))
    if not pairs:
        return "<p>Nothing about the rules.</p>"
    items = "".join(f"<li><code>{escape(what)}</code>{': ' * bool(how)}{escape(how)}</li>" for what, how in pairs)
    if not analysis.changed:
        return f"<ul>{items}</ul><p>The alerts are the same as by the defaults.</p>"
    head = "".join(f'<th scope="col">{t}</th>' for t in ("told otherwise", "by these settings", "by the defaults"))
    rows = "".join(
        f'<tr><th scope="row">{escape(each.rule)}</th><td>{escape(in_a_word(each.now))}</td>'
        f"<td>{escape(in_a_word(each.by_default))}</td></tr>"
        for each in analysis.changed
    )
    table = f'<table class="numbers"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    where = 'class="scroll" role="region" aria-label="Alerts that other settings change" tabindex="0"'
    return f"<ul>{items}</ul><div {where}>{table}</div>"


def _section(title: str, body: str, level: int) -> str:
    return f"<section><h{level}>{title}</h{level}>{body}</section>"


def _numbers(series: Mapping[str, Series]) -> str:
    """Each metric's first, last, lowest and highest value: the curves for those who do not see them."""
    if not series:
        return ""
    head = "".join(f'<th scope="col">{t}</th>' for t in ("metric", "first", "last", "lowest", "highest", "no number"))
    rows = "".join(_row(one) for one in series.values())
    return (
        f"<details><summary>{counted(len(series), 'metric')} in numbers</summary>"
        f'<div class="scroll" role="region" aria-label="All metrics in numbers" tabindex="0"><table class="numbers">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _row(series: Series) -> str:
    numbers = series.numbers
    cells = ["–"] * 4
    if numbers:
        low, high = min(numbers, key=lambda p: p[1]), max(numbers, key=lambda p: p[1])
        cells = [escape(of_metric(series.name, value)) for _, value in (numbers[0], numbers[-1])]
        cells += [f"{escape(of_metric(series.name, v))} <small>at {step:,}</small>" for step, v in (low, high)]
    odd = len(series.y) - len(numbers)
    cells.append(counted(odd, "row") if odd else "")
    return f'<tr><th scope="row">{escape(series.name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _settings(info: Mapping[str, Any]) -> str:
    """What the file says about the run, its configuration included, as it says it."""
    config = info.get("config")
    facts = {name: value for name, value in info.items() if name != "config" and value not in (None, "", {}, [])}
    facts |= dict(sorted(config.items())) if isinstance(config, Mapping) else {}
    if not facts:
        return ""
    pairs = (f"<div><dt>{escape(str(k))}</dt><dd>{escape(_show(v))}</dd></div>" for k, v in facts.items())
    return (
        f'<details><summary>{counted(len(facts), "setting")}</summary><dl class="facts">{"".join(pairs)}</dl></details>'
    )


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_show(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_show, value))
    return plain(value) if isinstance(value, float) else str(value)
