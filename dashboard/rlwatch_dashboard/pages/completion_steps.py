"""The picker of steps: the ones before and after, a strip of the whole run, and the fields that make a view."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dash import dcc, html

from rlwatch.signals.groups import RewardRange
from rlwatch_dashboard.shards import Scoring, Shard, UnreadableShardError, kinds, spread
from rlwatch_dashboard.view import View, address

IN_STRIP = 60
"""Steps in the strip; a run with more of them is shown by so many, evenly."""

_STACK = ("solved", "failed", "stuck")


def strip_of(shards: Sequence[Shard], shown: Sequence[Shard]) -> list[Shard]:
    """The shards in the strip: evenly over the run, and what is shown."""
    return spread(shards, IN_STRIP, shown)


def fingerprint(shards: Sequence[Shard]) -> str:
    """What changes when a shard comes or goes."""
    return f"{zlib.crc32(','.join(str(shard.step) for shard in shards).encode()):08x}"


def fields(view: View, step: int, newest: int) -> Any:
    """The fields of a view; Enter in one of them, or the button, shows it."""
    return html.Div(
        [
            _field("completions-step", "Step", str(step), inputMode="numeric", size="6"),
            _field("completions-beside", "Beside step", _or_nothing(view.beside), inputMode="numeric", size="6"),
            _field("completions-q", "Search", view.q, placeholder="in prompts and completions", size="26"),
            html.Button("Show", id="completions-go", type="button"),
            html.Span(f"the newest is step {newest:,}", className="absent"),
        ],
        className="fields",
        role="search",
    )


def steps(
    run: str,
    view: View,
    shards: Sequence[Shard],
    shown: Shard | None,
    beside: Shard | None,
    seen: dict[Shard, RewardRange],
    scoring: Scoring,
) -> list[Any]:
    """The ways to other steps, with what their groups were like."""
    place = shards.index(shown) if shown in shards else -1
    before = shards[place - 1] if place > 0 else None
    after = shards[place + 1] if shown is not None and place + 1 < len(shards) else None
    here = [shard for shard in (shown, beside) if shard is not None]
    strip = strip_of(shards, here)
    bars = [_bar(run, view, shard, shard in here, seen.get(shard), scoring) for shard in strip]
    few = f" {len(strip)} of {len(shards):,} are in the strip." if len(strip) < len(shards) else ""
    legend = [html.Span([html.I(className=f"swatch {kind}"), kind]) for kind in _STACK]
    return [
        html.Div(
            [
                _way(run, view, before, "‹", "before"),
                _way(run, view, after, "›", "after"),
                _way(run, view, shards[-1] if shown != shards[-1] else None, "»", "newest"),
                html.Div(legend, className="legend"),
                html.Span(
                    f"{len(shards):,} step{'s' * (len(shards) != 1)} brought completions.{few}", className="absent"
                ),
            ],
            className="ways",
        ),
        html.Div(bars, className="strip"),
    ]


def _way(run: str, view: View, shard: Shard | None, sign: str, which: str) -> Any:
    if shard is None:
        return html.Span(f"{sign} none {which}" if which != "newest" else "at the newest", className="way absent")
    words = f"{sign} step {shard.step:,}" if which != "newest" else f"{sign} newest, step {shard.step:,}"
    return dcc.Link(words, href=address(run, view.but(step=shard.step, group=None)), className="way", title=which)


def _bar(run: str, view: View, shard: Shard, is_shown: bool, seen: RewardRange | None, scoring: Scoring) -> Any:
    """A step as a bar: of its groups, the shares that were stuck, failed and solved."""
    name = "bar current" if is_shown else "bar"
    try:
        counts = Counter(kinds(shard, seen or RewardRange(), scoring).values())
    except UnreadableShardError:
        words, style, name = f"step {shard.step:,}: cannot be read", {}, f"{name} unreadable"
    else:
        total = max(1, sum(counts.values()))
        shares = [f"{kind} {counts[kind] / total:.0%}" for kind in _STACK]
        words = f"step {shard.step:,}: {', '.join(shares)}"
        stops, at = [], 0.0
        for kind in _STACK:
            end = at + 100 * counts[kind] / total
            stops.append(f"var(--{kind}) {at:.1f}% {end:.1f}%")
            at = end
        style = {"backgroundImage": f"linear-gradient(to top, {', '.join(stops)}, transparent {at:.1f}%)"}
    label = html.Span(words, className="visually-hidden")
    return dcc.Link(
        label, href=address(run, view.but(step=shard.step, group=None)), className=name, style=style, title=words
    )


def _field(name: str, label: str, value: str, **more: Any) -> Any:
    box = dcc.Input(id=name, type="text", value=value, autoComplete="off", **more)
    return html.Div([html.Label(label, htmlFor=name), box], className="field")


def _or_nothing(value: int | None) -> str:
    return "" if value is None else str(value)
