"""A comparison as one HTML file that opens anywhere and asks nobody for anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from rlwatch.report.compare import Comparison
from rlwatch.report.compare_rows import Rows, group_rows, legend, pair_rows, run_rows
from rlwatch.report.compare_sentences import AT_ONCE, sentences
from rlwatch.report.html import page
from rlwatch.report.sentences import TONES, VERDICT_WORDS, counted

_FOLDED = "white-space:normal;overflow-wrap:anywhere"


def comparison_html(comparison: Comparison, unreadable: Mapping[str, str]) -> str:
    """The whole comparison as a page: the groups, what can be said of them, every run, and what to know first.

    Args:
        comparison: What was found.
        unreadable: Path → why it could not be read.

    Raises:
        ImportError: plotly is not installed, which every page carries.
    """
    runs = sum(len(group.outcomes) for group in comparison.groups)
    title = f"{counted(runs, 'run')} in {counted(len(comparison.groups), 'group')}"
    parts = [f"<h1>{title}</h1>", _table(group_rows(comparison))]
    pairs = _table(pair_rows(comparison)) if len(comparison.pairs) > AT_ONCE else ""
    parts.append(_section("What these seeds can show", _list(sentences(comparison)) + pairs))
    if runs > len(comparison.groups):
        for group in comparison.groups:
            parts.append(_section(group.name, _table(run_rows(group.outcomes))))
    parts.append(_section("How to read it", _list(legend(comparison))))
    if unreadable:
        said = [f"{path}: {why}" for path, why in unreadable.items()]
        parts.append(_section(f"{counted(len(unreadable), 'path')} could not be read", _list(said)))
    return page(title, parts)


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _list(said: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in said)}</ul>"


def _table(table: Rows) -> str:
    titles = [title[:1].upper() + title[1:] for title in table.titles]
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    rows = ""
    for first, *cells in table.rows:
        rest = "".join(
            f'<td data-label="{escape(title)}" style="{_FOLDED}">{_cell(title, cell)}</td>'
            for title, cell in zip(titles[1:], cells, strict=True)
        )
        rows += f'<tr><th scope="row">{escape(first)}</th>{rest}</tr>'
    return f'<table class="runs"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _cell(title: str, text: str) -> str:
    if title == "Verdict":
        return f'<span class="pill {TONES[text]}">{VERDICT_WORDS[text]}</span>'
    return escape(text)
