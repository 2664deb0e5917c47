"""The grid of runs in a real browser: order, search and filters in the address, folded seeds, growth, choice, theme."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chromium import needs_chromium

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from rlwatch.runs.records import Cause, Severity, StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import run_in_background
from test_dashboard_browser import Visit, alert, record, visit

pytestmark = needs_chromium

NAMES = """[...document.querySelectorAll('#runs-grid .ag-row')]
  .sort((a, b) => a.getAttribute('row-index') - b.getAttribute('row-index'))
  .map(row => row.querySelector('.run-link, .fold').title)"""


def new_run(root: Path, name: str, steps: int = 3, seed: int | None = None, **changes: float | None) -> RunWriter:
    """A run; those that differ by their seed alone are folded together."""
    (root / name).mkdir(parents=True)
    config = {"loss_type": "dapo", "max_steps": 100, **({} if seed is None else {"seed": seed})}
    writer = RunWriter(root / name, {"config": config, "trainer": "GRPOTrainer"})
    for step in range(1, steps + 1):
        writer.append(record(step, **changes))
    return writer


def names(seen: Any, *wanted: str) -> None:
    """Until the rows are these, from top to bottom."""
    seen.wait(f"JSON.stringify({NAMES}) === JSON.stringify({list(wanted)!r})")


def row(seen: Any, name: str) -> Any:
    return seen.page.locator("#runs-grid .ag-row").filter(has=seen.page.locator(f'[title="{name}"]'))


@contextlib.contextmanager
def seeds(browser: Any, root: Path, **options: Any) -> Iterator[Visit]:
    """Three seeds of one configuration, and a run that stands alone and is the newest."""
    for seed, reward in enumerate((0.5, 0.1, 0.9)):
        new_run(root, f"arm-seed{seed}", steps=3 + seed, seed=seed, **{"reward/mean": reward})
    new_run(root, "lone", steps=9, **{"reward/mean": 0.3})
    with visit(browser, root, **options) as seen:
        yield seen


def test_order_search_and_filter_are_in_the_address_and_the_way_back_undoes_them(browser: Any, tmp_path: Path) -> None:
    for name, reward in (("b10", 0.5), ("b9", None), ("a", 0.125), ("c", math.nan)):
        writer = new_run(tmp_path, name, steps=2)
        metrics = {} if name == "b9" else {"reward/mean": reward}
        writer.append(StepRecord(3, time.time(), metrics))
    writer.alert(alert("dead-groups", since=1, step=2, severity=Severity.WARNING))
    with visit(browser, tmp_path) as seen:
        page = seen.page
        seen.open()
        names(seen, "c", "a", "b9", "b10")  # the newest first
        page.evaluate("window.sameDocument = true")
        head = page.locator(".ag-header-cell")
        head.filter(has_text="Reward").click()
        names(seen, "a", "b10", "c", "b9")
        assert page.url.endswith("/?sort=reward")
        head.filter(has_text="Reward").click()
        names(seen, "b10", "a", "c", "b9")  # what is missing stays last
        assert page.url.endswith("/?sort=-reward")
        assert head.filter(has_text="Reward").get_attribute("aria-sort") == "descending"
        head.filter(has_text="Run").click()
        names(seen, "a", "b9", "b10", "c")  # as a person counts
        page.get_by_label("Search").press_sequentially("B 1", delay=20)
        names(seen, "b10")
        assert page.locator("#runs-count").inner_text() == "1 of 4 runs"
        assert page.url.endswith("/?q=B+1&sort=name")
        page.go_back()  # what was typed is one step
        names(seen, "a", "b9", "b10", "c")
        seen.wait("document.querySelector('#runs-q').value === ''")
        page.get_by_label("Worst alert").select_option("warning")
        names(seen, "c")
        page.reload()
        names(seen, "c")
        seen.wait("document.querySelector('#runs-severity').value === 'warning'")
        page.get_by_role("button", name="Clear").click()
        names(seen, "a", "b9", "b10", "c")
        page.go_back()
        names(seen, "c")
        page.go_forward()
        names(seen, "a", "b9", "b10", "c")
        assert seen.is_clean()


def test_a_link_shows_the_same_view_and_nonsense_in_it_does_no_harm(browser: Any, tmp_path: Path) -> None:
    with seeds(browser, tmp_path) as seen:
        seen.open("?sort=-step&state=live&q=arm")
        names(seen, "arm")
        seen.open("?sort=nonsense&open=%00,<b>&q=&what=1&sort=card")
        names(seen, "lone", "arm")
        seen.open("?state=what")
        seen.page.get_by_text("No run is left. 0 of 4 runs").wait_for()
        assert seen.is_clean()


def test_a_search_that_is_changed_never_loads_the_page_anew(browser: Any, tmp_path: Path) -> None:
    with seeds(browser, tmp_path) as seen:
        seen.open()
        names(seen, "lone", "arm")
        seen.page.evaluate("window.sameDocument = true")
        seen.page.get_by_label("Search").press_sequentially("seed 2 arm-seed", delay=5)
        seen.page.get_by_text("1 of 4 runs").wait_for()
        seen.page.get_by_label("State").select_option("live")
        seen.page.go_back()
        seen.wait("document.querySelector('#runs-state').value === ''")
        assert seen.page.evaluate("window.sameDocument") is True
        assert seen.is_clean()


def test_seeds_are_folded_and_unfold_with_the_keyboard(browser: Any, tmp_path: Path) -> None:
    with seeds(browser, tmp_path) as seen:
        page = seen.page
        seen.open()
        names(seen, "lone", "arm")
        button = page.get_by_role("button", name="arm")
        assert button.get_attribute("aria-expanded") == "false"
        assert "3 runs, 3 seeds" in button.inner_text()
        assert "median 0.5" in row(seen, "arm").locator(".cell-reward .number").get_attribute("title")
        assert row(seen, "arm").locator(".cell-reward svg path").count() == 3
        button.focus()
        button.press("Enter")
        names(seen, "lone", "arm", "arm-seed2", "arm-seed1", "arm-seed0")
        assert page.get_by_role("button", name="arm").get_attribute("aria-expanded") == "true"
        assert "open=seeds-" in page.url
        page.locator(".ag-header-cell").filter(has_text="Reward").click()
        names(seen, "lone", "arm", "arm-seed1", "arm-seed0", "arm-seed2")  # 0.3 < the median, 0.5; inside by their own
        page.reload()
        names(seen, "lone", "arm", "arm-seed1", "arm-seed0", "arm-seed2")
        page.get_by_label("Search").fill("seed2")
        names(seen, "arm", "arm-seed2")  # a group is there for one of its runs
        page.go_back()
        page.get_by_role("button", name="arm").click()
        names(seen, "lone", "arm")
        assert seen.is_clean()


def test_enter_on_a_cell_does_what_the_link_in_it_does(browser: Any, tmp_path: Path) -> None:
    with seeds(browser, tmp_path) as seen:
        page = seen.page
        seen.open()
        names(seen, "lone", "arm")
        page.locator(".ag-header-cell").nth(1).focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        seen.wait("document.activeElement.classList.contains('cell-name')")
        page.keyboard.press("Enter")
        names(seen, "lone", "arm", "arm-seed2", "arm-seed1", "arm-seed0")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Space")
        seen.wait("document.querySelector('#runs-compare').innerText === 'Compare 1'")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="lone").wait_for()
        assert seen.is_clean()


def test_the_page_follows_its_runs_and_keeps_what_a_person_set(browser: Any, tmp_path: Path) -> None:
    writers = [new_run(tmp_path, f"run{i:03}", steps=2, seed=None) for i in range(60)]
    arms = [new_run(tmp_path, f"arm-seed{seed}", steps=2, seed=seed) for seed in range(2)]
    with visit(browser, tmp_path) as seen:
        page = seen.page
        seen.open("?sort=name")
        page.get_by_text("62 runs").wait_for()
        page.get_by_role("button", name="arm").click()
        row(seen, "arm-seed0").get_by_role("checkbox").check()
        assert page.locator("#runs-grid .ag-row").count() < 50, "rows out of view are not drawn"
        page.evaluate("window.sameDocument = true; document.querySelector('.ag-body-viewport').scrollTop = 1500")
        row(seen, "run030").wait_for()
        top = page.evaluate("document.querySelector('.ag-body-viewport').scrollTop")
        writers[30].append(record(3, **{"reward/mean": 0.875}))
        writers[30].alert(alert("dead-groups", since=1, step=3))
        row(seen, "run030").get_by_text("0.875", exact=True).wait_for()
        row(seen, "run030").get_by_text("Not learning since step 1").wait_for()
        new_run(tmp_path, "zzz", steps=1)
        page.get_by_text("63 runs").wait_for()
        assert page.evaluate("document.querySelector('.ag-body-viewport').scrollTop") == top
        page.evaluate("document.querySelector('.ag-body-viewport').scrollTop = 0")
        arms[1].append(record(3, **{"reward/mean": 0.25}))
        row(seen, "arm-seed1").locator(".cell-reward").get_by_text("0.25", exact=True).wait_for()
        assert row(seen, "arm-seed0").get_by_role("checkbox").is_checked()
        assert page.get_by_role("button", name="arm").get_attribute("aria-expanded") == "true"
        writers[0].path.rename(tmp_path / ".gone")
        page.get_by_text("62 runs").wait_for()
        assert row(seen, "run000").count() == 0
        assert page.evaluate("window.sameDocument") is True
        assert seen.is_clean()


def test_two_people_look_at_their_own_view_of_the_same_runs(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, "one", steps=2)
    new_run(tmp_path, "two", steps=2)
    with run_in_background(tmp_path) as url, contextlib.ExitStack() as stack:
        both = []
        for path in ("?q=one", "?sort=name"):
            context = stack.enter_context(contextlib.closing(browser.new_context(bypass_csp=True)))
            both.append(Visit(context.new_page(), url))
            both[-1].open(path)
        names(both[0], "one")
        names(both[1], "one", "two")
        writer.append(record(3, **{"reward/mean": 0.875}))
        for seen in both:
            row(seen, "one").get_by_text("0.875", exact=True).wait_for()
        names(both[0], "one")
        names(both[1], "one", "two")
        assert all(seen.is_clean() for seen in both)


def test_chosen_runs_lead_to_their_comparison(browser: Any, tmp_path: Path) -> None:
    with seeds(browser, tmp_path) as seen:
        page = seen.page
        seen.open()
        names(seen, "lone", "arm")
        compare = page.locator("#runs-compare")
        assert compare.get_attribute("href") is None
        page.get_by_role("checkbox", name="Compare lone").check()
        seen.wait("document.querySelector('#runs-compare').innerText === 'Compare 1'")
        assert compare.get_attribute("href") is None, "one run is compared with nothing"
        page.get_by_role("checkbox", name="Compare arm", exact=True).check()
        seen.wait("document.querySelector('#runs-compare').innerText === 'Compare 4'")
        page.get_by_role("button", name="arm").click()
        page.get_by_role("checkbox", name="Compare arm-seed1").uncheck()
        seen.wait("document.querySelector('[aria-label=\"Compare arm\"]').indeterminate")
        address = compare.get_attribute("href")
        assert address == "/compare?run=lone&run=arm-seed0&run=arm-seed2"
        compare.click()
        page.wait_for_url(f"**{address}")
        page.go_back()
        seen.wait("document.querySelector('#runs-compare')?.innerText === 'Compare 3'")
        page.get_by_role("button", name="Choose none").click()
        seen.wait("document.querySelector('#runs-compare').getAttribute('href') === null")
        assert page.locator("#runs-grid input:checked").count() == 0
        assert seen.is_clean()


def test_runs_of_one_name_in_two_folders_both_open(browser: Any, tmp_path: Path) -> None:
    roots = [tmp_path / "first", tmp_path / "second"]
    for root, reward in zip(roots, (0.25, 0.75), strict=True):
        new_run(root, "run", **{"reward/mean": reward})
    with run_in_background(roots) as url, contextlib.closing(browser.new_context(bypass_csp=True)) as context:
        seen = Visit(context.new_page(), url)
        seen.page.set_viewport_size({"width": 1600, "height": 900})
        for folder, address in (("first", "/run/run"), ("second", "/run/run@2")):
            seen.open()
            line = seen.page.locator("#runs-grid .ag-row").filter(has=seen.page.locator(f'.root:text-is("{folder}")'))
            line.get_by_role("link", name="run").click()
            seen.page.get_by_role("heading", name="run", exact=True).wait_for()
            assert seen.page.url.replace("%40", "@").endswith(address)
        assert seen.is_clean()


def test_a_nan_is_a_gap_in_the_curve_and_said(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, "run", steps=0)
    for step in range(1, 31):
        writer.append(StepRecord(step, time.time(), {"reward/mean": math.nan if step == 15 else step / 30}))
    with visit(browser, tmp_path) as seen:
        seen.open()
        curve = row(seen, "run").locator(".cell-reward svg")
        curve.wait_for()
        assert curve.locator("path").get_attribute("d").count("M") == 2
        words = curve.get_attribute("aria-label")
        assert words == "Reward: from 0.0333 to 1, between 0.0333 and 1, with gaps where it is no number"
        assert row(seen, "run").locator(".cell-entropy").inner_text() == "–"
        assert row(seen, "run").locator(".cell-entropy svg").count() == 0
        assert seen.is_clean()


def test_text_from_a_run_is_text_in_the_grid(browser: Any, tmp_path: Path) -> None:
    evil = "<img src=x onerror='window.hacked=1'>"
    writer = new_run(tmp_path, evil, steps=25)
    writer.alert(alert(evil, since=1, step=1, message=evil, causes=(Cause(evil, {evil: 1.0}),)))
    (tmp_path / f"broken {evil}").mkdir()
    with visit(browser, tmp_path) as seen:
        seen.open()
        seen.page.get_by_role("link", name=evil).wait_for()
        assert evil in seen.page.locator(".cell-how").first.inner_text()
        assert evil in seen.page.locator(".skipped").text_content()
        assert seen.page.locator("img").count() == 0
        assert seen.page.evaluate("window.hacked") is None
        assert seen.is_clean()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_grid_follows_the_pages_colours_while_it_is_open(browser: Any, tmp_path: Path, scheme: str) -> None:
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 26, 33)"}
    other = "dark" if scheme == "light" else "light"
    shown = "getComputedStyle(document.querySelector('#runs-grid .ag-root-wrapper')).backgroundColor"
    with seeds(browser, tmp_path, color_scheme=scheme) as seen:
        seen.open()
        names(seen, "lone", "arm")
        seen.wait(f"{shown} === '{colours[scheme]}'")
        seen.page.get_by_role("button", name="Switch between light and dark").click()
        seen.wait(f"{shown} === '{colours[other]}'")
        assert seen.is_clean()


@pytest.mark.parametrize("width", [390, 800])
def test_a_narrow_page_has_cards_that_say_all_of_it(browser: Any, tmp_path: Path, width: int) -> None:
    with seeds(browser, tmp_path, viewport={"width": width, "height": 844}) as seen:
        page = seen.page
        seen.open()
        names(seen, "lone", "arm")
        card = page.locator(".run-card").first
        text = card.inner_text()
        for words in (
            "live",
            "Too early to say",
            "Reward",
            "0.3",
            "Entropy",
            "Zero-variance",
            "50 %",
            "of 100",
            "none",
        ):
            assert words in text
        for label in ("Step", "Alerts", "Last step", "Started", "Seed"):
            assert label in text
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        fits = "(card => card.scrollHeight <= card.closest('.ag-row').offsetHeight + 1)"
        assert page.evaluate(f"[...document.querySelectorAll('.run-card')].every({fits})"), (
            "nothing of a card is cut off"
        )
        page.get_by_label("Order").select_option("name")
        names(seen, "arm", "lone")
        page.get_by_role("button", name="arm").click()
        names(seen, "arm", "arm-seed0", "arm-seed1", "arm-seed2", "lone")
        page.set_viewport_size({"width": 1440, "height": 900})
        page.locator(".cell-how").first.wait_for()
        assert page.locator(".run-card").count() == 0
        assert seen.is_clean()


def test_the_grid_works_under_the_pages_own_policy(browser: Any, tmp_path: Path) -> None:
    with seeds(browser, tmp_path, bypass_csp=False) as seen:
        page = seen.page
        seen.open()
        page.get_by_role("button", name="arm").click()
        page.get_by_role("link", name="arm-seed1").wait_for()
        page.locator(".ag-header-cell").filter(has_text="Entropy").click()
        page.locator('.ag-header-cell[aria-sort="ascending"]').wait_for()
        page.get_by_label("Search").fill("lone")
        page.get_by_text("1 of 4 runs").wait_for()
        page.locator("svg.sparkline").first.wait_for()
        page.get_by_role("checkbox", name="Compare lone").check()
        page.get_by_text("Compare 1").wait_for()
        assert seen.is_clean()
