"""The first content of a page in a real browser: seen without scripts, then taken over by the page itself."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from chromium import needs_chromium

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from axe import violations
from rlwatch_dashboard import run_in_background
from test_dashboard_browser import alert, new_run, record, visit

pytestmark = needs_chromium


def held_scripts(page: Any) -> list[Any]:
    """From now on the scripts wait; what is in the list is let go by `continue_`."""
    held: list[Any] = []
    page.route("**/*dash_renderer*", lambda route: held.append(route))
    return held


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
@pytest.mark.parametrize("path", ["run/run", ""])
def test_it_is_sound_by_itself(browser: Any, tmp_path: Path, path: str, scheme: str, width: int) -> None:
    new_run(tmp_path, steps=80).alert(alert("entropy-collapse", since=2, step=3))
    with visit(browser, tmp_path, color_scheme=scheme, viewport={"width": width, "height": 900}) as seen:
        held = held_scripts(seen.page)
        seen.page.goto(seen.url + path, wait_until="commit")
        seen.page.locator("#first time:not(:empty)").first.wait_for()
        assert not (wrong := violations(seen.page)), "\n".join(wrong)
        assert seen.page.locator("#page").count() == 0
        widths = seen.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1]
        for route in held:
            route.continue_()
        seen.page.locator("#first").wait_for(state="detached")
        assert seen.page.locator("h1:visible").count() == 1


def test_a_page_without_scripts_shows_the_sentence_and_the_curves(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path, steps=80)
    options = {"java_script_enabled": False, "viewport": {"width": 1440, "height": 1000}}
    with run_in_background(tmp_path) as url, contextlib.closing(browser.new_context(**options)) as context:
        page = context.new_page()
        page.goto(f"{url}run/run")
        assert page.locator(".headline:visible").inner_text() == "No rule has fired in 80 steps."
        boxes = [curve.bounding_box() for curve in page.locator(".large .first-lines path").all()]
        assert len(boxes) == 11
        for box in boxes:
            assert box is not None
            assert box["width"] > 300


def test_a_curve_stays_where_it_was_when_plotly_takes_over(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path, steps=300)
    box = "(path => { const b = path.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]; })"
    with visit(browser, tmp_path) as seen:
        held = held_scripts(seen.page)
        seen.page.goto(f"{seen.url}run/run", wait_until="commit")
        seen.page.locator("#first time:not(:empty)").first.wait_for()
        before = seen.page.evaluate(f"{box}(document.querySelector('.large .first-lines path'))")
        for route in held:
            route.continue_()
        seen.page.locator("#first").wait_for(state="detached")
        after = seen.page.evaluate(f"{box}(document.querySelector('.large .js-line'))")
        assert before == pytest.approx(after, abs=4)  # pixels


def test_who_is_at_a_link_stays_there_and_the_scripts_ask_for_nothing_again(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=5)
    with visit(browser, tmp_path) as seen:
        asked: list[str] = []
        seen.page.on("request", lambda request: asked.append(request.url) if "_dash-" in request.url else None)
        held = held_scripts(seen.page)
        seen.page.goto(f"{seen.url}run/run", wait_until="commit")
        link = seen.page.locator("#first").get_by_role("link", name="Completions")
        link.focus()
        seen.page.locator("#first time:not(:empty)").first.wait_for()
        for route in held:
            route.continue_()
        seen.page.locator("#first").wait_for(state="detached")
        assert seen.page.evaluate("document.activeElement.textContent") == "Completions"
        assert not [url for url in asked if "_dash-layout" in url or "_dash-dependencies" in url]
        seen.wait_for_points("entropy/mean", 5)
        writer.append(record(6))
        seen.wait_for_points("entropy/mean", 6)
        assert seen.is_clean()


def test_parts_come_when_another_page_is_gone_to(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path, "one", steps=5)
    new_run(tmp_path, "two", steps=5)
    parts = "['dash_ag_grid', 'dash_mantine_components', 'Plotly'].map(name => Boolean(window[name]))"
    with visit(browser, tmp_path) as seen:
        seen.open()
        assert seen.page.evaluate(parts) == [True, False, False]
        seen.page.evaluate("window.isSame = true")
        seen.page.get_by_role("link", name="two", exact=True).click()
        seen.wait_for_points("entropy/mean", 5)
        assert seen.page.evaluate(parts) == [True, False, True]
        seen.page.get_by_role("link", name="Compare", exact=True).click()
        seen.page.get_by_role("checkbox").nth(1).wait_for()
        assert seen.page.evaluate(parts) == [True, True, True]
        seen.page.get_by_role("link", name="rlwatch", exact=True).click()
        seen.page.get_by_role("link", name="one", exact=True).wait_for()
        assert seen.page.evaluate("window.isSame") is True, "no page was loaded anew"
        seen.open("compare")
        seen.page.get_by_role("checkbox").nth(1).wait_for()
        assert seen.page.evaluate("Boolean(window.dash_ag_grid)") is False
        seen.page.get_by_role("link", name="rlwatch", exact=True).click()
        seen.page.get_by_role("link", name="one", exact=True).wait_for()
        assert seen.is_clean()
