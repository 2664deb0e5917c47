"""The page of completions in a real browser: from an alert to what was written, and back; text that stays text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chromium import needs_chromium

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

import polars as pl

from rlwatch.runs.records import Severity
from rlwatch.runs.writer import RunWriter
from test_dashboard_browser import alert, new_run, visit

pytestmark = needs_chromium

STRIP = "document.querySelectorAll('.strip .bar').length"
EVIL = "<img src=x onerror='window.hacked=1'> **bold** [link](javascript:alert(1)) \x1b[31mred \u202egnp.exe"


def write(writer: RunWriter, step: int, *of_groups: dict[str, float]) -> None:
    """Groups of completions, each by its texts and what they earned."""
    rows = [
        {
            "step": step, "group": group, "index": index, "prompt_id": f"{group:016x}", "reward": reward,
            "reward/accuracy": reward, "reward/format": 0.0, "correct": reward >= 1, "length": len(text) // 4,
            "truncated": False, "advantage": 0.0, "weight": 0.1, "entropy": 0.5, "logprob_sum": -3.0,
            "prompt": f"Prompt {group} of step {step}", "completion": text,
        }
        for group, texts in enumerate(of_groups)
        for index, (text, reward) in enumerate(texts.items())
    ]  # fmt: skip
    writer.rollouts(step, lambda: pl.DataFrame(rows))
    writer.finish_rollouts()


def shown(seen: Any) -> list[str]:
    return [heading.split("\n")[0] for heading in seen.page.locator(".group header h3").all_inner_texts()]


def test_from_the_runs_to_an_alert_to_its_completions_and_back(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, "a b%c", steps=30)
    for step in (1, 9, 17):
        write(writer, step, {"yes": 1.0, "no": 0.0}, {"same": 0.5, "other": 0.5})
    writer.alert(
        alert("dead-groups", since=8, step=12, severity=Severity.WARNING, evidence={"groups/stuck": 0.75}, causes=())
    )
    with visit(browser, tmp_path) as seen:
        seen.open()
        page = seen.page
        page.get_by_role("link", name="a b%c").click()
        seen.wait_for_points("entropy/mean", 30)
        page.locator(".alert").get_by_role("link", name="step 12").click()
        page.get_by_role("heading", name="Step 12").wait_for()
        assert page.url.endswith("/run/a%20b%25c/completions?step=12&kind=stuck")
        assert "Those of step 9 are shown" in page.locator(".note").inner_text()
        assert shown(seen) == ["Group 1"]
        assert page.locator(".held").inner_text().split() == ["warning", "dead-groups"]
        assert page.title() == "Completions of a b%c · rlwatch"

        page.get_by_role("link", name="all groups").click()
        seen.wait("document.querySelectorAll('.group').length === 2")
        page.go_back()
        seen.wait("document.querySelectorAll('.group').length === 1")
        page.go_back()
        seen.wait_for_points("entropy/mean", 30)
        page.go_back()
        page.get_by_role("heading", name="Runs").wait_for()
        page.go_forward()
        page.go_forward()
        page.get_by_role("heading", name="Step 12").wait_for()
        assert seen.is_clean()


def test_fields_make_a_view_by_the_keyboard_and_the_address_holds_it(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=20)
    for step in (1, 9, 17):
        write(writer, step, {f"needle {step}": 1.0, "no": 0.0}, {"same": 0.5, "other": 0.5})
    with visit(browser, tmp_path) as seen:
        seen.open("run/run/completions")
        page = seen.page
        page.evaluate("window.sameDocument = true")
        page.get_by_label("Search", exact=True).fill("NEEDLE")
        page.get_by_label("Search", exact=True).press("Enter")
        seen.wait("document.querySelectorAll('.group').length === 1")
        assert page.locator("mark").all_inner_texts() == ["needle"]
        seen.wait("document.activeElement.id === 'completions-q'")
        page.get_by_role("link", name="mixed 1").press("Enter")
        seen.wait("document.activeElement.getAttribute('aria-current') === 'true'")
        page.get_by_role("link", name="all groups").press("Enter")
        page.get_by_role("link", name="mixed 1").wait_for()  # the view has been made anew
        page.get_by_label("Step", exact=True).fill("10")
        page.get_by_label("Beside step").fill("2")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("heading", name="Step 2", exact=True).wait_for()
        seen.wait("location.search === '?step=10&q=NEEDLE&beside=2'")
        assert page.locator("mark").all_inner_texts() == ["needle", "needle"]
        left, right = (page.locator(".side").nth(place).bounding_box() for place in (0, 1))
        assert left["x"] + left["width"] <= right["x"]
        page.get_by_role("link", name="› step 17").click()
        page.get_by_role("heading", name="Step 17", exact=True).wait_for()
        assert page.get_by_label("Step", exact=True).input_value() == "17"
        page.go_back()
        page.get_by_role("heading", name="Step 10", exact=True).wait_for()
        seen.wait("document.querySelector('#completions-step').value === '10'")
        assert page.get_by_label("Search", exact=True).input_value() == "NEEDLE"
        assert page.evaluate("window.sameDocument") is True
        page.reload()
        page.get_by_role("heading", name="Step 2", exact=True).wait_for()
        page.get_by_role("link", name="close").click()
        seen.wait("document.querySelectorAll('.side').length === 1")
        assert seen.is_clean()


def test_what_is_typed_while_the_view_is_made_anew_stays(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=20)
    for step in (1, 9):
        write(writer, step, {f"needle {step}": 1.0, "no": 0.0}, {"same": 0.5, "other": 0.5})
    with visit(browser, tmp_path) as seen:
        page, held = seen.page, []
        seen.open("run/run/completions")
        page.get_by_role("heading", name="Step 9", exact=True).wait_for()
        page.get_by_label("Search", exact=True).fill("left behind")
        page.route("**/_dash-update-component*", lambda route: held.append(route))
        page.get_by_role("link", name="mixed 1").click()
        seen.wait("location.search === '?kind=mixed'")
        page.get_by_label("Step", exact=True).fill("1")
        page.get_by_label("Beside step").fill("9")
        page.unroute_all(behavior="default")  # what is held goes on
        seen.wait("document.querySelectorAll('.group').length === 1")
        assert page.get_by_label("Step", exact=True).input_value() == "1"
        assert page.get_by_label("Beside step").input_value() == "9"
        assert page.get_by_label("Search", exact=True).input_value() == ""
        page.get_by_role("button", name="Show").click()
        seen.wait("location.search === '?step=1&kind=mixed&beside=9'")
        assert seen.is_clean()


@pytest.mark.parametrize("bypass_csp", [True, False])
def test_a_completion_is_text_whatever_is_in_it(browser: Any, tmp_path: Path, bypass_csp: bool) -> None:
    write(new_run(tmp_path), 1, {EVIL: 1.0, "<script>window.hacked=1</script>": 0.0, EVIL + "x" * 3000: 0.0})
    with visit(browser, tmp_path, bypass_csp=bypass_csp) as seen:
        seen.open("run/run/completions?q=<img")
        seen.page.locator(".group mark").first.wait_for()
        text = seen.page.locator(".completions").inner_text()
        seen_as = EVIL.replace("\x1b", "⟨ESC⟩").replace("\u202e", "⟨U+202E⟩")
        assert seen_as in text
        assert "<script>window.hacked=1</script>" in text
        assert seen.page.locator("main img, main script, main .text a, main .text b").count() == 0
        assert seen.page.evaluate("window.hacked") is None
        assert seen.is_clean()


def test_a_megabyte_of_completion_freezes_nothing(browser: Any, tmp_path: Path) -> None:
    huge = "begin " + "lorem ipsum " * 100_000
    writer = new_run(tmp_path)
    long = {f"{i} " + "dolor " * 2_000: float(i % 2) for i in range(30)}
    write(writer, 1, {huge: 1.0, "\x00" * 1_000_000: 0.0}, *[long] * 10)
    with visit(browser, tmp_path) as seen:
        seen.open("run/run/completions?group=0")
        page = seen.page
        page.locator("summary", has_text="of 1,200,006").click()
        page.locator("details[open] .text").first.wait_for()
        assert page.evaluate("document.querySelector('.completions').innerText.length") < 300_000
        with page.expect_download() as download:
            page.get_by_role("link", name="Download all of it").first.click()
        assert Path(download.value.path()).read_text() == huge
        assert download.value.suggested_filename == "step-1-group-0-completion-0.txt"
        page.get_by_role("link", name="all groups").click()
        seen.wait("document.querySelectorAll('.group').length === 8")
        page.get_by_role("link", name="next groups").click()
        seen.wait("document.querySelectorAll('.group').length === 3")
        assert seen.is_clean()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_it_fits_a_phone_and_a_desk_in_light_and_dark(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    writer = new_run(tmp_path, steps=90)
    for step in range(1, 90):
        write(writer, step, {"w" * 1000: 1.0, "مرحبا": 0.0}, {"same": 0.5, "other": 0.5})
    with visit(browser, tmp_path, color_scheme=scheme, viewport={"width": width, "height": 800}) as seen:
        seen.open("run/run/completions?step=45&beside=3")
        page = seen.page
        page.get_by_role("heading", name="Step 45").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert 60 <= page.evaluate(STRIP) <= 62
        assert page.locator("h1").count() == 1
        assert page.locator("input:not([id])").count() == 0
        panel = page.evaluate("getComputedStyle(document.querySelector('.group')).backgroundColor")
        assert panel == {"dark": "rgb(22, 26, 33)", "light": "rgb(255, 255, 255)"}[scheme]
        assert seen.is_clean()


def test_new_steps_come_to_the_picker_and_leave_the_rest_as_it_is(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    with visit(browser, tmp_path) as seen:
        seen.open("run/run/completions")
        page = seen.page
        page.get_by_role("heading", name="No completions").wait_for()
        write(writer, 1, {"y" * 3000: 1.0, "no": 0.0})
        page.locator("summary", has_text="Show all 3,000").click()
        page.get_by_label("Search", exact=True).fill("half a th")
        write(writer, 9, {"same": 0.5, "other": 0.5})
        page.get_by_role("link", name="newest, step 9").wait_for()
        assert page.locator(".bar.current").get_attribute("title").startswith("step 1:")
        assert page.locator("details[open]").count() == 1
        assert page.get_by_label("Search", exact=True).input_value() == "half a th"
        assert page.get_by_role("heading", name="Step 1", exact=True).count() == 1
        assert seen.is_clean()
