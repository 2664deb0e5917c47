"""Groups of completions as cards: the prompt, the rewards, and its different completions. All text is text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from dash import dcc, html

from rlwatch_dashboard import addresses, numbers, plain_text
from rlwatch_dashboard.rollouts import FOLD, Group, Row, Text
from rlwatch_dashboard.view import View, address

KIND_WORDS = {
    "mixed": "Rewards differ: there is something to learn from.",
    "stuck": "All completions earned the same, neither the worst nor the best reward seen in the run.",
    "failed": "All completions earned the worst reward seen in the run.",
    "solved": "All completions earned the best reward seen in the run.",
    "unscored": "No completion has a reward.",
}

TIPS = {
    "Reward": "The weighted total.",
    "Length": "Tokens that the policy wrote.",
    "Truncated": "Whether it ran into the length limit.",
    "Weight": "Its share of the generation's Σ|w|; of identical completions, of all together.",
    "Entropy": "Nats per token, over its tokens; of identical completions, the mean.",
}

BEGINNING = 600
"""Characters of a folded text that are seen."""

MOST_FUNCTIONS = 6
_CELLS = 64


def kind_pill(kind: str) -> Any:
    """A group's kind, as a word with a dot."""
    return html.Span([html.I(className="dot"), kind], className=f"pill kind-{kind}", title=KIND_WORDS[kind])


def group_card(group: Group, run: str, step: int, view: View, functions: list[str]) -> Any:
    """One group.

    Args:
        group: It.
        run: The run's name.
        step: The step of the shard that it is in.
        view: What the page shows, this group beside others.
        functions: The columns of the single reward functions.
    """
    alone = view.group == group.number
    link = dcc.Link("only this group", href=address(run, view.but(group=group.number))) if not alone else None
    head = [
        html.H3(f"Group {group.number}"),
        kind_pill(group.kind),
        _rewards(group.rewards),
        html.Span(link, className="only"),
    ]
    source = {"run": run, "step": step, "group": group.number}
    body: list[Any] = [html.Header(head)]
    if group.prompt is not None:
        label = html.Span("Prompt", className="label")
        first = group.rows[0].copies[0].get("index") if group.rows else None
        place = {**source, "index": first, "part": "prompt"}
        body.append(html.Div([label, *_text(group.prompt, view.q, place)], className="prompt"))
    if not group.has_text:
        body.append(html.P('Text not kept: sample_completions="all" keeps that of every group.', className="absent"))
    body.append(_table(group, view.q, source, functions))
    if group.left_out:
        more = f"{group.left_out:,} more different completions"
        body.append(html.P([more, " are not shown" if alone else " are shown with ", link], className="absent"))
    return html.Article(body, className="group", **{"aria-label": f"Group {group.number}, {group.kind}"})


def _rewards(rewards: list[float | None]) -> Any:
    """The rewards of a group in one line: a cell for each, and which there are how often."""
    known = [reward for reward in rewards if reward is not None]
    often = Counter(numbers.plain(reward) for reward in sorted(known))
    if not known:
        words = "no reward"
    elif len(often) <= 5:
        words = ", ".join(f"{reward} ×{count}" for reward, count in often.items())
    else:
        words = f"{len(often)} different, {numbers.plain(min(known))} to {numbers.plain(max(known))}"
    if len(known) < len(rewards) and known:
        words += f", none ×{len(rewards) - len(known)}"
    return html.Span([_cells(rewards), html.Span("Rewards ", className="visually-hidden"), words], className="rewards")


def _cells(rewards: list[float | None]) -> Any:
    """A stripe of the rewards in their order, the worst of the group pale and the best strong."""
    shown = rewards[:_CELLS]
    known = [reward for reward in shown if reward is not None and math.isfinite(reward)]
    low, high = min(known, default=0.0), max(known, default=0.0)

    def colour(reward: float | None) -> str:
        if reward is None or not math.isfinite(reward):
            return "transparent"
        share = 1.0 if high == low else 0.15 + 0.85 * (reward - low) / (high - low)
        return f"color-mix(in srgb, var(--cell) {100 * share:.0f}%, transparent)"

    width = 100 / max(1, len(shown))
    stops = ", ".join(
        f"{colour(r)} {i * width:.2f}% calc({(i + 1) * width:.2f}% - 1px), transparent 0 {(i + 1) * width:.2f}%"
        for i, r in enumerate(shown)
    )
    style = {"background": f"linear-gradient(to right, {stops})", "width": f"{min(6 * len(shown), 160)}px"}
    return html.Span(className="cells", style=style, **{"aria-hidden": "true"})


def _table(group: Group, q: str, source: dict[str, Any], functions: list[str]) -> Any:
    shown = functions[:MOST_FUNCTIONS] if len(functions) > 1 else []
    heads = ["Completion", "Reward", *(name.removeprefix("reward/") for name in shown)]
    heads += ["Correct", "Length", "Truncated", "Advantage", "Weight", "Entropy"]
    if not group.has_text:
        heads[0] = "Completions"
    cells = [html.Th(plain_text.visible(head), scope="col", title=TIPS.get(head)) for head in heads]
    rows = [_row(row, q, source, heads, shown) for row in group.rows]
    table = html.Table([html.Thead(html.Tr(cells)), html.Tbody(rows)], className="completions")
    label = f"Completions of group {group.number}, step {source['step']}"
    return html.Div(table, className="scrolls", tabIndex=0, role="region", **{"aria-label": label})


def _row(row: Row, q: str, source: dict[str, Any], heads: list[str], functions: list[str]) -> Any:
    weights = [value for value in row.values("weight") if value is not None]
    values = [
        _span(row.values("reward")),
        *(_span(row.values(name)) for name in functions),
        _verdict(row.values("correct")),
        _span(row.values("length")),
        _verdict(row.values("truncated")),
        _span(row.values("advantage")),
        f"{100 * sum(weights):.1f} %" if weights else _absent(),
        _mean(row.values("entropy")),
    ]
    cells = [
        html.Td(value, className="number", **{"data-label": plain_text.visible(head)})
        for head, value in zip(heads[1:], values, strict=True)
    ]
    return html.Tr([html.Th(_said(row, q, source), scope="row"), *cells])


def _said(row: Row, q: str, source: dict[str, Any]) -> list[Any]:
    count = len(row.copies)
    if row.text is None:
        one = f"completion {numbers.plain(row.copies[0].get('index'))}"
        return [html.Span(f"{count} alike in every number" if count > 1 else one, className="absent")]
    why = f"{count} identical completions"
    many = [html.Span(f"×{count}", className="copies", title=why)] if count > 1 else []
    place = {**source, "index": row.copies[0].get("index"), "part": "completion"}
    return [*many, *_text(row.text, q, place, found=row.found)]


def _text(text: Text, q: str, source: dict[str, Any], found: bool = False) -> list[Any]:
    """A text, folded where it is long, with a link to all of it where it is longer than a page takes."""
    if not text.length:
        return [html.Span("(empty)", className="absent text")]
    if text.length <= FOLD:
        return [html.Div(_pieces(text.shown, q), className="text", dir="auto")]
    start, rest = text.shown[:BEGINNING], text.shown[BEGINNING:]
    is_whole = text.length == len(text.shown)
    how_much = f"all {text.length:,}" if is_whole else f"{len(text.shown):,} of {text.length:,}"
    in_rest = bool(q) and q.lower() in rest.lower() and q.lower() not in start.lower()
    body: list[Any] = [
        html.Div([*_pieces(start, q, end=False), "…"], className="text", dir="auto"),
        html.Details(
            [
                html.Summary(f"Show {how_much} characters"),
                html.Div(_pieces(rest, q, start=False, end=is_whole), className="text", dir="auto"),
            ],
            open=in_rest,
        ),
    ]
    if not is_whole:
        left = f"{text.length - len(text.shown):,} characters are left out here. "
        if found and q.lower() not in text.shown.lower():
            left += "What you search for is in them. "
        link = html.A("Download all of it", href=_download(source)) if source["index"] is not None else None
        body.append(html.P([left, link], className="absent"))
    return body


def _download(source: dict[str, Any]) -> str:
    place = {name: source[name] for name in ("step", "group", "index", "part")}
    return addresses.run(source["run"], "text", f"?{urlencode(place)}")


def _pieces(text: str, q: str, start: bool = True, end: bool = True) -> list[Any]:
    """What is seen of a text, with what was searched for marked, and white space where the text starts and ends."""
    before, body, after = plain_text.edges(text)
    body = ("" if start else text[: len(before)]) + body + ("" if end else text[len(text) - len(after) :])
    before, after = before if start else "", after if end else ""
    pieces: list[Any] = [
        html.Mark(plain_text.visible(piece)) if hit else plain_text.visible(piece)
        for piece, hit in plain_text.split(body, q)
    ]
    signs = [html.Span(sign, className="absent") if sign else "" for sign in (before, after)]
    return [signs[0], *pieces, signs[1]]


def _span(values: Iterable[Any]) -> Any:
    """A number, or from which to which where the copies differ."""
    known = sorted({value for value in values if value is not None})
    if not known:
        return _absent()
    ends = list(dict.fromkeys(numbers.plain(value) for value in (known[0], known[-1])))
    return " to ".join(ends)


def _mean(values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    return numbers.plain(float(f"{sum(known) / len(known):.3g}")) if known else _absent()


def _verdict(values: list[Any]) -> Any:
    known = {value for value in values if value is not None}
    return "/".join(word for word, value in (("yes", True), ("no", False)) if value in known) or _absent()


def _absent() -> Any:
    return html.Span("–", className="absent", title=numbers.NOT_RECORDED)
