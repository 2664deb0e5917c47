"""The comparison in a real browser: from the choice to the figures, by the keyboard, and back; on phone and desk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chromium import needs_chromium

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from report_runs import EVIL
from test_dashboard_browser import visit
from test_dashboard_compare import two_groups, write

pytestmark = needs_chromium

DRAWN = "document.querySelectorAll('.compare-plot .main-svg .scatterlayer .trace').length"


def test_from_the_bar_to_a_choice_to_the_figures_and_back(browser: Any, tmp_path: Path) -> None:
    two_groups(tmp_path, seeds=2)
    with visit(browser, tmp_path) as seen:
        seen.open()
        page = seen.page
        page.evaluate("window.sameDocument = true")
        page.get_by_role("link", name="Compare").click()
        page.get_by_role("heading", name="Compare runs").wait_for()
        first = page.get_by_role("checkbox", name="low-seed0")
        first.focus()
        page.keyboard.press("Space")
        for name in ("low-seed1", "high-seed0", "high-seed1"):
            page.get_by_role("checkbox", name=name).check()
        page.get_by_role("button", name="Compare").press("Enter")
        seen.wait(f"{DRAWN} >= 10")
        seen.wait("location.search === '?run=high-seed0&run=high-seed1&run=low-seed0&run=low-seed1'")
        says = page.locator(".part-says li").first.inner_text()
        assert says.startswith("With 2 seeds a side")
        assert page.locator(".at-risk tbody tr").count() == 2
        places = (".part-says", ".compare-cards", "table.compare-table")
        top = [page.locator(place).first.bounding_box()["y"] for place in places]
        assert top == sorted(top)

        page.get_by_role("link", name="name", exact=True).press("Enter")
        seen.wait("location.search.endsWith('&by=name')")
        seen.wait("document.querySelector('.groupings .current')?.textContent.includes('name')")
        page.go_back()
        seen.wait("!location.search.includes('by=')")
        seen.wait("document.querySelector('.groupings .current')?.textContent.includes('all that differ')")
        page.get_by_role("link", name="low-seed1").click()
        page.get_by_role("heading", name="low-seed1").wait_for()
        page.go_back()
        seen.wait(f"{DRAWN} >= 10")
        assert page.evaluate("window.sameDocument") is True
        assert page.title() == "Compare runs · rlwatch"
        page.reload()
        seen.wait(f"{DRAWN} >= 10")
        page.locator("summary", has_text="Choose other runs").press("Enter")
        assert page.get_by_role("checkbox", name="high-seed0").is_checked()
        page.get_by_role("checkbox", name="high-seed0").uncheck()
        page.get_by_role("button", name="Compare").click()
        seen.wait("location.search === '?run=high-seed1&run=low-seed0&run=low-seed1'")
        seen.wait("document.querySelector('.part-says li')?.textContent.startsWith('One run')")
        assert seen.is_clean()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_it_fits_a_phone_and_a_desk_in_light_and_dark(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    long = "a-run-with-a-very-long-name" * 6
    write(tmp_path, f"{long}-seed1", dies=30, seed=1, lr=1)
    write(tmp_path, f"{long}-seed2", dies=30, seed=2, lr=2)
    with visit(browser, tmp_path, color_scheme=scheme, viewport={"width": width, "height": 800}) as seen:
        seen.open(f"compare?run={long}-seed1&run={long}-seed2&run=nope")
        seen.wait(f"{DRAWN} >= 5")
        page = seen.page
        assert "nope: there is no such run here" in page.locator(".note").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("h1").count() == 1
        panel = page.evaluate("getComputedStyle(document.querySelector('.part-says')).backgroundColor")
        assert panel == {"dark": "rgb(22, 26, 33)", "light": "rgb(255, 255, 255)"}[scheme]
        page.locator("summary", has_text="Choose other runs").click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert seen.is_clean()


@pytest.mark.parametrize("bypass_csp", [True, False])
def test_names_and_settings_are_text_whatever_is_in_them(browser: Any, tmp_path: Path, bypass_csp: bool) -> None:
    evil = EVIL.replace("/", "∕")
    write(tmp_path, f"{evil}1", dies=30, seed=1, method=EVIL)
    write(tmp_path, "b", seed=2, method="b")
    with visit(browser, tmp_path, bypass_csp=bypass_csp) as seen:
        seen.open("compare")
        page = seen.page
        page.on("dialog", lambda dialog: seen.errors.append(dialog.message) or dialog.dismiss())
        page.get_by_role("checkbox", name="onerror").check()
        page.get_by_role("checkbox", name="b ended").check()
        page.get_by_role("button", name="Compare").click()
        page.locator(".compare-plot .scatterlayer .trace").nth(5).wait_for(state="attached")
        assert EVIL in page.locator(".compare-legend").inner_text()
        assert page.locator("main img, main script").count() == 0
        box = page.locator(".compare-plot").first.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
        assert seen.is_clean()


def test_the_form_says_how_to_get_a_run_where_there_is_none(browser: Any, tmp_path: Path) -> None:
    with visit(browser, tmp_path) as seen:
        seen.open("compare")
        seen.page.get_by_text("rlwatch lab failure-room").wait_for()
        assert seen.page.locator("h1").all_inner_texts() == ["Compare runs"]
        assert seen.is_clean()
