"""What was found, as one HTML file that opens anywhere and asks nobody for anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from rlwatch._version import __version__
from rlwatch.report.analysis import VERDICTS, Analysis
from rlwatch.report.html_run import run_html
from rlwatch.report.sentences import TONES, VERDICT_WORDS, counted, first_critical, span, verdict_sentence
from rlwatch.report.text import reward_from_to

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
"""The browser's orders: nothing from anywhere, and nothing to anywhere."""


def html_report(
    analyses: Sequence[Analysis],
    unreadable: Mapping[str, str],
    *,
    gpu_hour_price: float | None = None,
    gpus: int = 1,
) -> str:
    """The report of one run or of many: of many a table first, the worst on top, and each run folded under it.

    Args:
        analyses: One a run.
        unreadable: Path → why it could not be read.
        gpu_hour_price: To say what was lost in money, in any currency.
        gpus: How many GPUs a run had.

    Raises:
        ImportError: plotly is not installed.
    """
    failed = [_unreadable(unreadable)] if unreadable else []
    if len(analyses) == 1:
        (only,) = analyses
        body = run_html(only, level=2, gpu_hour_price=gpu_hour_price, gpus=gpus)
        return page(only.run.name, [f"<h1>{escape(only.run.name)}</h1>", *failed, body])
    if not analyses:
        return page("Nothing could be read", ["<h1>Nothing could be read</h1>", *failed])
    ranked = sorted(analyses, key=lambda a: (VERDICTS.index(a.verdict), a.run.name))
    counts = [f"{n} {VERDICT_WORDS[v].lower()}" for v in VERDICTS if (n := sum(a.verdict == v for a in ranked))]
    title = counted(len(ranked), "run")
    parts = [f"<h1>{title}: {', '.join(counts)}</h1>", *failed, _table(ranked)]
    for place, analysis in enumerate(ranked):
        body = run_html(analysis, level=3, gpu_hour_price=gpu_hour_price, gpus=gpus)
        parts.append(
            f'<details class="run" id="run-{place}"><summary><h2>{escape(analysis.run.name)}</h2> '
            f"{_pill(analysis)}</summary>{body}</details>"
        )
    return page(title, parts)


def page(title: str, parts: Sequence[str]) -> str:
    """A whole page around its parts, with all that it needs inside: the styles, plotly.js, and what draws the charts.

    A chart is a `<div class="plot">` with a `<script type="application/json">` after it, as
    [`chart_card`][rlwatch.report.html_charts.chart_card] makes them; it is drawn when it comes into view.

    Args:
        title: What the browser's tab says; escaped here.
        parts: HTML, one after the other; what comes from a log must be escaped already. The first holds the only h1.

    Raises:
        ImportError: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        message = "an HTML report draws its curves with plotly: pip install 'rlwatch-monitor[dashboard]'"
        raise ImportError(message) from None
    here = files("rlwatch.report")
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="rlwatch {__version__}">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)} · rlwatch</title>\n<style>\n{(here / 'page.css').read_text('utf-8')}</style>\n"
        '</head><body>\n<a class="skip" href="#main">Skip to the report</a>\n'
        '<header class="bar"><b>rlwatch</b></header>\n<main id="main">\n'
        "<noscript>The curves need JavaScript; everything else on this page does not.</noscript>\n"
        + "\n".join(parts)
        + f"\n</main>\n<footer>rlwatch {__version__}. This file holds all that it shows; it asks nobody for anything."
        f"</footer>\n<script>{get_plotlyjs()}</script>\n<script>\n{(here / 'page.js').read_text('utf-8')}</script>\n"
        "</body></html>\n"
    )
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # a name on disk may hold half a character


def _table(ranked: Sequence[Analysis]) -> str:
    columns = ("Run", "Verdict", "First critical", "Steps", "Reward, first and last tenth", "What")
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    rows = "".join(_row(place, analysis) for place, analysis in enumerate(ranked))
    return f'<table class="runs"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _row(place: int, analysis: Analysis) -> str:
    critical = first_critical(analysis)
    cells = (
        ("First critical", "–" if critical is None else f"step {critical:,}"),
        ("Steps", span(analysis).removeprefix("steps ")),
        ("Reward", reward_from_to(analysis.run)),
    )
    middle = "".join(f'<td data-label="{label}">{escape(text)}</td>' for label, text in cells)
    said = verdict_sentence(analysis).partition(": ")[2]
    return (
        f'<tr><th scope="row"><a href="#run-{place}">{escape(analysis.run.name)}</a></th>'
        f'<td class="verdict">{_pill(analysis)}</td>{middle}'
        f'<td class="how">{escape(said[:1].upper() + said[1:])}</td></tr>'
    )


def _pill(analysis: Analysis) -> str:
    return f'<span class="pill {TONES[analysis.verdict]}">{VERDICT_WORDS[analysis.verdict]}</span>'


def _unreadable(unreadable: Mapping[str, str]) -> str:
    items = "".join(f"<li><code>{escape(path)}</code>: {escape(why)}</li>" for path, why in unreadable.items())
    return f"<section><h2>{counted(len(unreadable), 'path')} could not be read</h2><ul>{items}</ul></section>"
