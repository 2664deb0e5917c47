"""Fills the pages' `{{ name }}` from the code, so that docs and code cannot say different things; see `made/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from made import commands, lints, metrics, python_api, report_json, rules

from rlwatch.settings.template import template

FILLERS: dict[str, Callable[[], str]] = {
    "metrics": metrics.page,
    "rules": rules.page,
    "lints": lints.page,
    "commands": commands.page,
    "python_api": python_api.page,
    "report_json": report_json.page,
    "settings_file": lambda: f"```toml\n{template()}```",
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """mkdocs calls this with each page's text."""
    for name, fill in FILLERS.items():
        if f"{{{{ {name} }}}}" in markdown:
            markdown = markdown.replace(f"{{{{ {name} }}}}", fill())
    return markdown
