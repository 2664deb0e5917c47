"""What run.json says about a run, in small: versions, the settings that decide, faults. Anything may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from dash import html

from rlwatch_dashboard import numbers

DECISIVE = (
    "loss_type",
    "scale_rewards",
    "epsilon",
    "epsilon_high",
    "beta",
    "num_generations",
    "num_iterations",
    "steps_per_generation",
    "max_completion_length",
    "mask_truncated_completions",
    "temperature",
    "learning_rate",
    "max_grad_norm",
)
"""The settings that the four signals hang on, in the order in which they are shown."""


def facts(info: Mapping[str, Any]) -> list[Any]:
    """The header's small print."""
    config = _mapping(info.get("config"))
    chips = [_chip(name, info[name]) for name in ("trainer", "world_size", "host") if info.get(name)]
    chips += [_chip(name, version) for name, version in _versions(info.get("framework")).items()]
    chips += [_chip(name, config[name]) for name in DECISIVE if name in config]
    correct = info.get("correct")
    parts: list[Any] = [_faults(info.get("faults"))]
    if isinstance(correct, str) and correct:
        parts.append(html.P([html.B("Correct: "), correct], className="correct"))
    if chips:
        parts.append(html.Ul(chips, className="chips"))
    rest = {name: value for name, value in config.items() if name not in DECISIVE}
    if rest:
        rows = [html.Div([html.Dt(name), html.Dd(_show(rest[name]))]) for name in sorted(rest)]
        parts.append(html.Details([html.Summary(f"{len(rest)} more settings"), html.Dl(rows)], className="settings"))
    return parts


def why_absent(info: Mapping[str, Any], metric: str) -> str:
    """Why a metric is not recorded, where the capture said so; else nothing."""
    absent = _mapping(info.get("absent"))
    return next((str(why) for pattern, why in absent.items() if fnmatchcase(metric, str(pattern))), "")


def planned_steps(info: Mapping[str, Any]) -> int | None:
    """How many steps the training is to have, where its config says so."""
    value = _mapping(info.get("config")).get("max_steps")
    return value if isinstance(value, int) and value > 0 else None


def _versions(framework: Any) -> dict[str, Any]:
    if isinstance(framework, str):
        return {"framework": framework}
    return dict(_mapping(framework))


def _faults(faults: Any) -> Any:
    """Faults of rlwatch itself: the training went on, but something of it was not watched."""
    if not isinstance(faults, list) or not faults:
        return None
    items = []
    for fault in faults:
        fault = _mapping(fault)
        times = fault.get("count", 1)
        often = f" ({times} times)" if times != 1 else ""
        items.append(html.Li([html.B(_show(fault.get("where", "?"))), f": {_show(fault.get('error', '?'))}{often}"]))
    text = "rlwatch had faults of its own in this run. The training went on, but what they hit was not watched:"
    return html.Div([html.P(text), html.Ul(items)], className="faults", role="alert")


def _chip(name: str, value: Any) -> Any:
    return html.Li([html.Span(name, className="key"), html.Span(_show(value), className="value")])


def _show(value: Any) -> str:
    if isinstance(value, float):
        return numbers.plain(value)
    return str(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
