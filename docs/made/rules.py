"""The rules: what each sees, how long it must hold, its numbers and where they come from."""

from __future__ import annotations

import inspect
import math

from made.metrics import cell
from made.python_api import prose
from rlwatch.detect.rule import Rule
from rlwatch.detect.rules import RULES
from rlwatch.detect.setting import Setting, settings_of


def page() -> str:
    """Every rule that comes with rlwatch, in the order in which they are asked."""
    return "\n\n".join(_section(rule) for rule in RULES)


def _section(rule: type[Rule]) -> str:
    needs = ", ".join(f"`{name}`" for name in rule.needs)
    causes = " or ".join(f"`{name}`" for name in rule.symptom_of)
    lines = [
        f"### {rule.name}",
        "",
        prose(inspect.cleandoc(rule.__doc__ or "")),
        "",
        f"- Needs {needs}." if needs else "- Needs no metric.",
        f"- Told once it has held for {rule.hold.steps} step(s) and {rule.hold.records} record(s).",
        f"- Over once it has been gone for {rule.release.steps} step(s) and {rule.release.records} record(s).",
    ]
    if causes:
        lines.append(f"- Nothing new is told while {causes} tells of something critical.")
    rows = [_row(name, setting) for name, setting in settings_of(rule).items()]
    if rows:
        lines += ["", "| setting | default | unit | may be | where it comes from |", "|---|---|---|---|---|", *rows]
    return "\n".join(lines)


def _row(name: str, setting: Setting) -> str:
    upper = "" if setting.most == math.inf else f" to {setting.most:g}"
    limits = f"from {setting.least:g}{upper}"
    return f"| `{name}` | {setting.default:g} | {cell(setting.unit)} | {limits} | {cell(setting.source)} |"
