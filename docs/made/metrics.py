"""The metrics, a table a family: what each says, its formula, and the trap that it avoids."""

from __future__ import annotations

from itertools import groupby

from made.traps import TRAPS
from rlwatch.runs.metrics import METRICS, Metric

FAMILIES = {
    "counterfactual": "Other decisions, on the same batch",
    "weight_grpo": "Weights, from completions alone, as grpo",
    "weight_dapo": "Weights, from completions alone, as dapo",
}
"""Headings that are not the family's name."""

SINGLE = "Others"


def page() -> str:
    """Every canonical metric."""
    parts = []
    single = [metric for metric in METRICS.values() if "/" not in metric.name]
    slashed = sorted((m for m in METRICS.values() if "/" in m.name), key=lambda m: list(_families()).index(m.family))
    for family, metrics in groupby(slashed, key=lambda m: m.family):
        parts.append(f"### {FAMILIES.get(family, family)}\n\n{_table(list(metrics))}")
    return "\n\n".join([*parts, f"### {SINGLE}\n\n{_table(single)}"])


def _families() -> dict[str, None]:
    return dict.fromkeys(metric.family for metric in METRICS.values())


def _table(metrics: list[Metric]) -> str:
    rows = [
        f"| `{m.name}`<br>{m.unit} | {cell(m.meaning)} | {cell(m.formula)} | {cell(TRAPS.get(m.name, ''))} |"
        for m in metrics
    ]
    head = "| metric, unit | what it says | how it is computed | the trap |"
    return "\n".join([head, "|---|---|---|---|", *rows])


def cell(text: str) -> str:
    """A text as a table's cell: a bar would end it.

    >>> cell("Σ|w|")
    'Σ\\\\|w\\\\|'
    """
    return " ".join(text.split()).replace("|", "\\|")
