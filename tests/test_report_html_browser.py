"""The HTML report in a real browser, opened from the disk: drawn, and without a word to anybody."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chromium import needs_chromium

pytest.importorskip("plotly", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


from report_runs import EVIL, made, not_finite
from rlwatch.report.html import html_report

pytestmark = needs_chromium

DRAWN = "[...document.querySelectorAll('.plot')].filter(p => p.querySelector('.scatterlayer path')).length"


class Opened:
    """A report that is open, and what went wrong in it."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.errors: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(path.as_uri())

    def drawn(self, count: int) -> bool:
        """Whether that many charts get drawn. The page's policy forbids the eval of Playwright's own waiting."""
        for _ in range(100):
            if self.page.evaluate(DRAWN) >= count:
                return True
            self.page.wait_for_timeout(100)
        return False

    def is_clean(self) -> bool:
        assert self.errors == []
        assert [url for url in self.asked if not url.startswith(("file://", "data:"))] == []
        return True


@contextlib.contextmanager
def opened(browser: Any, tmp_path: Path, text: str, **options: Any) -> Iterator[Opened]:
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    options = {"viewport": {"width": 1400, "height": 1600}, **options}
    with contextlib.closing(browser.new_context(**options)) as context:
        context.set_offline(True)
        yield Opened(context.new_page(), path)


def test_one_run_is_drawn_with_its_alerts(browser: Any, tmp_path: Path) -> None:
    with opened(browser, tmp_path, html_report([made(dies=100)], {})) as seen:
        assert seen.drawn(6)
        assert "reward-collapse" in seen.page.locator(".plot .annotation-text").all_text_contents()
        assert seen.page.locator(".plot .shapelayer path").count() > 6
        seen.page.get_by_text("more curves").click()
        assert seen.drawn(9)
        assert seen.is_clean()


def test_of_many_runs_only_what_is_unfolded_is_drawn(browser: Any, tmp_path: Path) -> None:
    runs = [made(f"run {i}", 60, seed=i) for i in range(60)]
    with opened(browser, tmp_path, html_report(runs, {})) as seen:
        seen.page.wait_for_timeout(500)
        assert seen.page.evaluate(DRAWN) == 0
        seen.page.locator("a[href='#run-7']").click()
        assert seen.drawn(4)
        assert seen.page.evaluate(DRAWN) < 20
        assert seen.page.locator("details.run[open]").count() == 1
        assert seen.is_clean()


def test_what_is_no_number_has_a_cross(browser: Any, tmp_path: Path) -> None:
    with opened(browser, tmp_path, html_report([not_finite()], {})) as seen:
        assert seen.drawn(6)
        crosses = (
            "[...document.querySelectorAll('.plot')].flatMap(p => p.data || [])"
            ".filter(t => t.name === 'no number').map(t => t.x.length)"
        )
        assert seen.page.evaluate(crosses) == [10, 10]
        assert seen.is_clean()


def test_what_is_hostile_does_nothing(browser: Any, tmp_path: Path) -> None:
    run = made(EVIL, 40, **{EVIL: EVIL})
    with opened(browser, tmp_path, html_report([run], {EVIL: EVIL})) as seen:
        seen.page.on("dialog", lambda dialog: seen.errors.append(dialog.message) or dialog.dismiss())
        assert seen.drawn(5)
        assert seen.page.locator("h1").inner_text() == EVIL
        assert seen.page.locator("img").count() == 0
        assert seen.is_clean()


@pytest.mark.parametrize("many", [False, True])
def test_on_a_phone_nothing_is_wider_than_it(browser: Any, tmp_path: Path, many: bool) -> None:
    runs = [made("a-run-with-a-very-long-name" * 4, dies=100), *([made("b"), made("c", 5)] if many else [])]
    with opened(browser, tmp_path, html_report(runs, {}), viewport={"width": 390, "height": 800}) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        seen.page.locator(".plot").first.scroll_into_view_if_needed()
        assert seen.drawn(1)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert seen.is_clean()


def test_print_shows_every_chart(browser: Any, tmp_path: Path) -> None:
    with opened(browser, tmp_path, html_report([made(dies=100)], {}), viewport={"width": 1400, "height": 300}) as seen:
        seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert seen.page.evaluate(DRAWN) == 6
        assert seen.is_clean()
