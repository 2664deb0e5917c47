"""A step's side of the page of completions: its heading, its groups, and what has to be said about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import dcc, html

from rlwatch.report.numbers import plain
from rlwatch.runs.reader import RunSummary
from rlwatch.runs.records import AlertState
from rlwatch.signals.groups import RewardRange
from rlwatch_dashboard import parts
from rlwatch_dashboard.pages.completion_groups import group_card
from rlwatch_dashboard.rollouts import GROUPS_A_PAGE, Step, read_step
from rlwatch_dashboard.shards import MOST_RANGED, MOST_ROWS, Scoring, Shard, UnreadableShardError
from rlwatch_dashboard.view import View, address

KEEP_ALL = 'RLWatchCallback(sample_completions="all")'


def side(
    summary: RunSummary,
    key: str,
    view: View,
    step: int,
    shard: Shard | None,
    shards: Sequence[Shard],
    seen: dict[Shard, RewardRange],
    scoring: Scoring,
    prompts: set[str] | None = None,
    is_second: bool = False,
) -> tuple[Any, Step | None]:
    """A step's heading and groups, or why there are none; and what was read."""
    head: list[Any] = [html.H2(f"Step {step:,}"), *_alerts(summary, step)]
    if is_second:
        head.append(dcc.Link("close", href=address(key, replace(view, beside=None)), className="only"))
    label = {"aria-label": f"Completions of step {step}" + (", beside" if is_second else "")}
    body: list[Any] = [html.Div(head, className="side-head")]
    read = None
    if shard is None:
        href = address(key, view.but(step=shards[0].step, group=None))
        first = dcc.Link(f"step {shards[0].step:,}", href=href)
        body.append(
            _note(["No completions are there of this step or one before it. The first are those of ", first, "."])
        )
        return html.Section(body, className="side", **label), None
    try:
        read = read_step(shard, view, seen[shard], scoring, prompts)
    except UnreadableShardError as error:
        body.append(
            _note(["The file ", html.Code(f"rollouts/{shard.path.name}"), f" says nothing: {error}."], "warning")
        )
        return html.Section(body, className="side", **label), None
    last = summary.last.step if summary.last is not None else None
    body += _notes(view, step, shard, read, seen[shard], shards, last, is_same_prompt=prompts is not None)
    own = replace(view, step=step, beside=None, group=None) if is_second else view
    body += [group_card(group, key, shard.step, own, read.functions) for group in read.groups]
    if not is_second or prompts is None:
        body += _pages(key, view, read, step)
    return html.Section(body, className="side", **label), read


def _notes(
    view: View,
    step: int,
    shard: Shard,
    read: Step,
    seen: RewardRange,
    shards: Sequence[Shard],
    last: int | None,
    *,
    is_same_prompt: bool,
) -> list[Any]:
    """What has to be said about what is shown."""
    found: list[Any] = []
    if shard.step != step:
        newest = f"Those of step {shard.step:,} are shown, the newest at or before it"
        if last is not None and step > last:
            found.append(_note([f"The run has not come to step {step:,} yet. {newest}."]))
        else:
            trained = f"{newest}: what it trained on, unless a file was lost."
            found.append(_note([f"Step {step:,} has no completions of its own. {trained}"]))
    if read.rows >= MOST_ROWS:
        found.append(_note([f"Only the first {MOST_ROWS:,} completions of it are looked at."], "warning"))
    if not read.texts:
        found.append(_note(["No text of this step was kept. ", html.Code(KEEP_ALL), " keeps that of every group."]))
    elif read.texts < read.rows and view.q:
        where = f"Searched where the text was kept: {read.texts:,} of {read.rows:,} completions. "
        found.append(_note([where, html.Code(KEEP_ALL), " keeps all."]))
    if not read.groups:
        if is_same_prompt:
            words = "The prompt of that group is not among those of this step."
        elif view.group is not None:
            words = f"There is no group {view.group} in this step."
        elif not read.total:
            words = "The file has no completion in it."
        else:
            words = f"None of its {read.total:,} groups is left by the filters."
        found.append(_note([words]))
    if _is_known(seen):
        ranged = len([one for one in shards if one.step <= shard.step])
        few = f", in {MOST_RANGED:,} of its {ranged:,} steps" if ranged > MOST_RANGED else ""
        words = f"Rewards seen in the run up to here{few}: {plain(seen.worst)} to {plain(seen.best)}."
        if read.groups:
            found.append(html.P(words, className="absent range"))
    return found


def _is_known(seen: RewardRange) -> bool:
    """Whether any reward was seen."""
    return seen.worst <= seen.best


def _note(words: list[Any], tone: str = "info") -> Any:
    return html.P(words, className=f"note tone-{tone}")


def _alerts(summary: RunSummary, step: int) -> list[Any]:
    """The alerts that held at a step."""
    held = [
        alert
        for alert in summary.alerts
        if alert.state is not AlertState.PENDING
        and alert.since <= step
        and (alert.state is AlertState.FIRING or (alert.resolved_step or 0) >= step)
    ]
    return [
        html.Span([parts.severity_pill(alert.severity.value), html.Code(str(alert.rule))], className="held")
        for alert in held[:4]
    ]


def _pages(run: str, view: View, read: Step, step: int) -> list[Any]:
    if read.pages < 2:
        return []
    first = (read.page - 1) * GROUPS_A_PAGE + 1
    words = f"{first:,} to {first + len(read.groups) - 1:,} of {read.matching:,} groups"
    ways = []
    for page, name in ((read.page - 1, "‹ groups before"), (read.page + 1, "next groups ›")):
        if 1 <= page <= read.pages:
            ways.append(dcc.Link(name, href=address(run, replace(view, page=page)), className="way"))
    return [
        html.Nav(
            [*ways, html.Span(words, className="absent")],
            className="ways",
            **{"aria-label": f"More groups of step {step}"},
        )
    ]
