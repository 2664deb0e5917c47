"""An experiment's document as files: an HTML page that holds all it needs, a Markdown text, and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from rlwatch.lab.findings import Section, Table
from rlwatch.lab.findings_charts import Chart, Curve
from rlwatch.lab.outcome import Outcome
from rlwatch.report.html import page
from rlwatch.report.html_charts import envelope, to_script

FOLDER = "_reports"
"""Under the folder of runs; what begins with a line is no run."""

COLOURS = ("#d1495b", "#e39b3b", "#3b7dd8", "#2a9d8f", "#8a63d2", "#7c8798", "#b5651d", "#4c956c")


def write(root: Path, found: Outcome, sections: list[Section]) -> list[Path]:
    """Write the three files, each by replace; where they are, the page first.

    Raises:
        OSError: The folder cannot be written to.
        ImportError: plotly is not installed, which the page carries.
    """
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    name = found.experiment.name
    texts = {
        f"{name}.html": as_html(found, sections),
        f"{name}.md": as_markdown(found, sections),
        f"{name}.json": json.dumps(as_numbers(found), indent=1) + "\n",
    }
    paths = []
    for file, text in texts.items():
        unfinished = folder / f".{file}"
        unfinished.write_text(text, encoding="utf-8")
        paths.append(unfinished.replace(folder / file))
    return paths


def as_html(found: Outcome, sections: list[Section]) -> str:
    """The page."""
    parts = [f"<h1>{escape(found.experiment.title)}</h1>"]
    for section in sections:
        body = "".join(f"<p>{escape(sentence)}</p>" for sentence in section.said)
        body += _table(section.table) if section.table is not None else ""
        charts = "".join(_chart(chart) for chart in section.charts)
        body += f'<div class="charts">{charts}</div>' if charts else ""
        parts.append(f"<section><h2>{escape(section.title)}</h2>{body}</section>")
    return page(found.experiment.title, parts)


def as_markdown(found: Outcome, sections: list[Section]) -> str:
    """The text: everything but the charts."""
    lines = [f"# {found.experiment.title}", ""]
    for section in sections:
        if section.table is None and (section.charts or not section.said):
            continue
        lines += [f"## {section.title}", ""]
        for sentence in section.said:
            lines += [sentence.replace("\n", " "), ""]
        if section.table is not None:
            lines += [_row(section.table.head), _row(["---"] * len(section.table.head))]
            lines += [*(_row(row) for row in section.table.rows), ""]
    return "\n".join(lines)


def as_numbers(found: Outcome) -> dict[str, Any]:
    """All numbers, for other programs."""
    return {
        "schema": 1,
        "experiment": found.experiment.name,
        "seeds": list(found.seeds),
        "steps": found.steps,
        "runs": [{**asdict(run), "numbers": dict(run.numbers)} for run in found.measured],
        "claims": [
            {
                "says": one.claim.says,
                "verdict": one.verdict.value,
                "numbers": one.numbers,
                "difference": None if one.difference is None else asdict(one.difference),
                "effect": one.effect if one.effect is None or math.isfinite(one.effect) else str(one.effect),
                "pairs": one.pairs,
                "agree": one.agree,
                "needed": one.needed,
                "p": one.p,
            }
            for one in found.judged
        ],
        "alerts": [{**asdict(told), "lead": told.lead} for told in found.told],
        "versions": found.marks[0]["versions"],
    }


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in table.head)
    rows = ""
    for first, *cells in table.rows:
        rest = "".join(
            f'<td data-label="{escape(title)}" style="white-space:normal;overflow-wrap:anywhere">{escape(cell)}</td>'
            for title, cell in zip(table.head[1:], cells, strict=True)
        )
        rows += f'<tr><th scope="row" style="white-space:normal">{escape(first)}</th>{rest}</tr>'
    return f'<table class="runs"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _chart(chart: Chart) -> str:
    traces, items = [], ""
    for curve in chart.curves:
        colour = COLOURS[curve.place % len(COLOURS)]
        traces += _traces(curve, colour, points=bool(chart.rows and curve.label))
        if curve.label:
            last = "" if chart.rows else f" <b>{curve.y[-1]:.3g}</b>"
            items += f'<li><i class="swatch" style="background:{colour}"></i>{escape(curve.label)}{last}</li>'
    spec = to_script({"traces": traces, "share": chart.share, "free": True, "over": chart.over, "rows": chart.rows})
    words = _words(chart)
    return (
        f'<article class="card"><header><h3>{escape(chart.title)}</h3><ul class="readouts">{items}</ul></header>'
        f'<div class="plot" role="img" aria-label="{escape(words)}"></div>'
        f'<script type="application/json">{spec}</script></article>'
    )


def _words(chart: Chart) -> str:
    """What somebody hears who does not see it."""
    if chart.rows:
        return f"Chart: {chart.title}, as in the table. The rows: {', '.join(chart.rows)}."
    return f"Chart: {chart.title} over {chart.over}s. " + " ".join(
        f"{curve.label}: from {curve.y[0]:.3g} to {curve.y[-1]:.3g}." for curve in chart.curves if curve.y
    )


def _traces(curve: Curve, colour: str, points: bool = False) -> list[dict[str, Any]]:
    whole: dict[str, Any] = {"points": 1} if points else {}
    lines: list[tuple[str, list[float], str, dict[str, Any]]] = [(curve.label, curve.y, colour, whole)]
    if curve.low:
        lines += [
            (f"{curve.label}, {end}", ys, colour + "66", {"thin": 1})
            for end, ys in (("lowest", curve.low), ("highest", curve.high))
        ]
    found = []
    for label, ys, shade, more in lines:
        x, y = envelope(curve.x, ys, 600) if len(curve.x) > 600 else (curve.x, list(ys))
        found.append({"label": escape(label), "colour": shade, "x": x, "y": y, **more})
    return found
