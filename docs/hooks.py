"""Fills the pages' `{{ name }}` with tables made from the code, so that docs and code cannot say different things."""

from __future__ import annotations

import inspect
from typing import Any

from rlwatch.detect.rules import RULES
from rlwatch.detect.setting import settings_of
from rlwatch.runs.metrics import METRICS


def metrics_table() -> str:
    """Every canonical metric: name, unit, meaning, formula."""
    rows = [f"| `{m.name}` | {m.unit} | {m.meaning} | {m.formula} |" for m in METRICS.values()]
    return "\n".join(["| metric | unit | what it says | how it is computed |", "|---|---|---|---|", *rows])


def rules_sections() -> str:
    """Every rule: its name, what its class says, how long it must hold, its numbers and where they come from."""
    sections = []
    for rule in RULES:
        text = inspect.cleandoc(rule.__doc__ or "")
        told = f"Told once it has held for {rule.hold.steps} step(s) and {rule.hold.records} record(s)"
        over = f"over once it has been gone for {rule.release.steps} step(s) and {rule.release.records} record(s)"
        causes = [f"`{name}`" for name in rule.symptom_of]
        after = f" Nothing new is told while {' or '.join(causes)} tells of something critical." if causes else ""
        numbers = "\n".join(
            f"| `{name}` | {s.default:g} {s.unit} | {s.source} |" for name, s in settings_of(rule).items()
        )
        table = f"\n\n| setting | default | where it comes from |\n|---|---|---|\n{numbers}" if numbers else ""
        sections.append(f"### {rule.name}\n\n{text}\n\n*{told}; {over}.{after}*{table}")
    return "\n\n".join(sections)


FILLERS = {"metrics": metrics_table, "rules": rules_sections}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """mkdocs calls this with each page's text."""
    for name, fill in FILLERS.items():
        if f"{{{{ {name} }}}}" in markdown:
            markdown = markdown.replace(f"{{{{ {name} }}}}", fill())
    return markdown
