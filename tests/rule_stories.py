"""Runs of a rule's tests, told by curves, and what a rule says of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rlwatch.detect.engine import Engine
from rlwatch.detect.rule import Finding, Rule, Untold
from rlwatch.runs.records import Alert, AlertState, StepRecord

Curve = Callable[[float], "float | None"]
STEPS = 600


def story(
    *, every: int = 1, rows: int = 0, seed: int = 0, noise: float = 0.03, evaluated: int = 0, **curves: Curve
) -> list[StepRecord]:
    """Rows of curves of the share of the run that is over, with noise of a share of the value; evals are sparse."""
    draw = random.Random(seed)
    rows = rows or max(60, STEPS // every)
    records = []
    for i in range(1, rows + 1):
        metrics = {}
        for name, curve in curves.items():
            if name.startswith("eval__") and (i * every) % (evaluated or every):
                continue
            value = curve(i / rows)
            metrics[name.replace("__", "/")] = value if value is None else value * (1 + draw.gauss(0, noise))
        records.append(StepRecord(i * every, float(i), metrics))
    return records


def ramp(start: float, end: float, begin: float = 0.3, over: float = 0.7) -> Curve:
    return lambda t: start + (end - start) * min(1.0, max(0.0, (t - begin) / (over - begin)))


def both(first: Curve, second: Curve, at: float) -> Curve:
    return lambda t: first(t) if t < at else second(t)


def flat(value: float) -> Curve:
    return lambda t: value


def judge(
    rule: type[Rule], records: Iterable[StepRecord], settings: Mapping[str, object] | None = None, **config: Any
) -> list[Alert]:
    engine = Engine([rule(config, settings)], run="run")
    return [change for record in records for change in engine.feed(record)]


def worst(alerts: Iterable[Alert]) -> str | None:
    fired = [a.severity for a in alerts if a.state is AlertState.FIRING]
    return max(fired, key=lambda s: s.rank).value if fired else None


def found(rule: Rule, records: Iterable[StepRecord]) -> list[Finding | None]:
    """What a rule finds at each record, in words."""
    out = []
    for record in records:
        said = rule.update(record)
        out.append(said.tell() if isinstance(said, Untold) else said if isinstance(said, Finding) else None)
    return out
