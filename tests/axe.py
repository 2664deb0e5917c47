"""axe-core, which finds what a page lacks for those who do not see it or use no mouse."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


def violations(page: Any, *without: str) -> list[str]:
    """What is wrong with the page as it is now: a line a place, with the rule and a way to find it.

    Args:
        page: Of Playwright; its policy has to be bypassed.
        without: Selectors of parts that are left out.
    """
    page.evaluate(AXE)
    options = {"resultTypes": ["violations"], "rules": {"region": {"enabled": True}}}
    found = page.evaluate(
        "([without, options]) => axe.run({exclude: without.map((one) => [one])}, options)", [list(without), options]
    )
    return [
        f"{violation['id']} ({violation['impact']}) {node['target']}: {node['html'][:160]} {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
