"""Every page of the site, in light and dark, on a phone and on a desk: axe-core finds nothing wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chromium import needs_chromium

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

import rlwatch
from axe import violations
from rlwatch.runs.records import AlertState, Severity
from test_dashboard_browser import alert, new_run, visit
from test_dashboard_compare import two_groups
from test_dashboard_completions_browser import write as write_completions

pytestmark = needs_chromium

CHARTS = "document.querySelectorAll('.main-svg .scatterlayer .trace').length >= {}"

PAGES: dict[str, tuple[str, str]] = {
    "the list of runs": ("", "document.body.innerText.includes('ailing') && document.querySelector('main a')"),
    "a run with alerts": ("run/ailing", CHARTS.format(8)),
    "a run without a step": ("run/empty", "document.querySelector('.not-recorded')"),
    "completions": ("run/ailing/completions", "document.querySelector('.group')"),
    "completions of two steps": ("run/ailing/completions?step=9&beside=1&q=no", "document.querySelector('mark')"),
    "no completions": ("run/empty/completions", "document.querySelector('.empty-state')"),
    "denominators": ("run/ailing/denominators", "document.querySelector('main table')"),
    "an alert": ("run/ailing/alert/entropy-collapse/40", "document.querySelector('main h1')"),
    "a comparison": (
        "compare?run=low-seed0&run=low-seed1&run=high-seed0&run=high-seed1&run=nope",
        CHARTS.format(10),
    ),
    "the choice of a comparison": ("compare", "document.querySelector('main input[type=checkbox]')"),
    "an address that leads nowhere": ("somewhere", "document.querySelector('main h1')"),
    "no such run": ("run/nope", "document.querySelector('main h1')"),
}
"""Where each is, and when it is there."""

NOTHING_YET = {
    "no runs": ("", "document.querySelector('.empty-state')"),
    "nothing to compare": ("compare", "document.querySelector('.empty-state')"),
}

SEEN_AS = [("light", 1440), ("dark", 390)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with all that the pages show."""
    root = tmp_path_factory.mktemp("axe") / "runs"
    writer = new_run(root, "ailing", steps=60)
    for step in (1, 9, 17):
        write_completions(writer, step, {"yes": 1.0, "no": 0.0}, {"same": 0.5, "other": 0.5})
    writer.alert(alert("entropy-collapse", since=40, step=50))
    writer.alert(alert("dead-groups", since=30, step=33, severity=Severity.WARNING))
    writer.alert(alert("truncation", since=10, step=12, severity=Severity.INFO))
    writer.alert(alert("truncation", 10, 20, state=AlertState.RESOLVED, resolved_step=20, severity=Severity.INFO))
    new_run(root, "empty")
    two_groups(root, seeds=2)
    (root / "notes.txt").write_text("not a run")
    return root


def wrong_in(seen: Any, pages: dict[str, tuple[str, str]]) -> list[str]:
    """What is wrong, page by page, also with all that can be unfolded unfolded."""
    found = []
    for name, (path, there) in pages.items():
        seen.open(path)
        seen.wait(there)
        seen.page.wait_for_load_state("networkidle")
        found += [f"{name}: {one}" for one in violations(seen.page)]
        folded = seen.page.locator("main details:not([open])").count()
        if folded:
            seen.page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
            seen.page.wait_for_load_state("networkidle")
            found += [f"{name}, unfolded: {one}" for one in violations(seen.page)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("scheme", "width"), SEEN_AS)
def test_nothing_is_wrong_with_any_page(browser: Any, runs: Path, scheme: str, width: int) -> None:
    with visit(browser, runs, color_scheme=scheme, viewport={"width": width, "height": 900}) as seen:
        assert not (wrong := wrong_in(seen, PAGES)), "\n".join(wrong)
        assert seen.page.evaluate("document.documentElement.dataset.mantineColorScheme") == scheme


@pytest.mark.parametrize(("scheme", "width"), SEEN_AS)
def test_nothing_is_wrong_where_there_is_nothing_yet(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    with visit(browser, tmp_path / "runs", color_scheme=scheme, viewport={"width": width, "height": 900}) as seen:
        assert not (wrong := wrong_in(seen, NOTHING_YET)), "\n".join(wrong)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wrong_with_what_a_notebook_shows(browser: Any, runs: Path, tmp_path: Path, scheme: str) -> None:
    (tmp_path / "shown.html").write_text(rlwatch.show(runs / "ailing", theme=scheme).document, encoding="utf-8")
    page = browser.new_page(bypass_csp=True, color_scheme=scheme)
    try:
        page.goto((tmp_path / "shown.html").as_uri())
        page.locator("html[data-drawn=true]").wait_for(state="attached")
        page.evaluate(f"document.body.style.background = {'#111' if scheme == 'dark' else '#fff'!r}")  # the notebook's
        assert not (wrong := violations(page)), "\n".join(wrong)
    finally:
        page.close()


def test_a_page_that_has_something_wrong_is_found_out(browser: Any) -> None:
    page = browser.new_page()
    try:
        page.set_content("<html lang=en><title>t</title><main><h1>x</h1><img src=x><button></button></main>")
        rules = {one.split(" ")[0] for one in violations(page)}
        assert {"image-alt", "button-name"} <= rules
    finally:
        page.close()
