"""The page of a run's denominators in a real browser: the way there and back, on a phone, in the dark, text as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chromium import needs_chromium

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from test_dashboard_browser import PLOTS, visit
from test_dashboard_denominators import CONFIG, OTHERWISE, WEIGHTS, new_run

pytestmark = needs_chromium

EVIL = "<img src=x onerror='window.hacked=1'>"


def test_there_and_back_on_a_phone_in_the_dark(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path, {**WEIGHTS, **OTHERWISE}, steps=20)
    with visit(browser, tmp_path, viewport={"width": 390, "height": 800}, color_scheme="dark") as seen:
        page = seen.page
        seen.open("run/run")
        page.get_by_role("link", name="1 remark on the configuration").wait_for()
        page.get_by_role("link", name="Denominators", exact=True).click()
        page.get_by_role("heading", name="Where it divides").wait_for()
        assert page.locator("h1").all_inner_texts() == ["run · denominators"]
        seen.wait("document.title === 'Denominators of run · rlwatch'")
        seen.wait("document.querySelectorAll('.made-plot path.js-line, .made-plot path.js-fill').length >= 8")
        seen.wait("document.documentElement.dataset.mantineColorScheme === 'dark'")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.go_back()
        page.get_by_role("heading", name="Reward", exact=True).wait_for()
        assert page.locator("h1").all_inner_texts() == ["run"]
        seen.wait(f"{PLOTS}.length >= 7")
        page.get_by_role("link", name="1 remark on the configuration").press("Enter")
        page.get_by_role("heading", name="Who weighs what").wait_for()
        assert seen.is_clean()


def test_text_from_a_config_is_text_under_the_pages_own_policy(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path / EVIL.replace("/", ""), WEIGHTS, config={**CONFIG, "loss_type": EVIL})
    with visit(browser, tmp_path / EVIL.replace("/", ""), bypass_csp=False) as seen:
        seen.open("run/run/denominators")
        seen.page.get_by_role("heading", name="What its loss divides by: not known").wait_for()
        seen.page.locator(".made-plot path.js-line").first.wait_for(state="attached")
        assert EVIL in seen.page.locator(".part-untold").inner_text()
        assert seen.page.locator("img").count() == 0
        assert seen.page.evaluate("window.hacked") is None
        assert seen.is_clean()
