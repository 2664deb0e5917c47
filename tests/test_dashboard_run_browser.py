"""A run's page in a real browser: long runs, zoom, folds, choices in the address, a page that stays open all day."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest

from chromium import needs_chromium

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from rlwatch.runs.writer import RunWriter
from test_dashboard_browser import PLOTS, TRACE, new_run, record, visit

pytestmark = needs_chromium

RANGES = f"{PLOTS}.filter(p => p.closest('.large')).map(p => p._fullLayout.xaxis.range.map(Math.round).join())"


def write_steps(writer: RunWriter, first: int, last: int, **changes: Any) -> None:
    """Many steps at once: a call a step would take longer than what is tested."""
    lines = []
    for step in range(first, last + 1):
        value = {"entropy/mean": 1.5, "loss": 0.01 * math.sin(step), "kl/ref": 0.1, **changes.get(str(step), {})}
        lines.append(json.dumps({"step": step, "time": time.time(), "metrics": value}))
    with (writer.path / "metrics.rank0.jsonl").open("a") as file:
        file.write("\n".join(lines) + "\n")


def test_a_spike_and_a_nan_of_a_long_run_are_in_the_chart_and_zoom_brings_every_step(
    browser: Any, tmp_path: Path
) -> None:
    writer = new_run(tmp_path)
    write_steps(writer, 1, 100_000, **{"70000": {"entropy/mean": 750.0}, "40000": {"entropy/mean": "NaN"}})
    with visit(browser, tmp_path) as seen:
        seen.open("run/run")
        seen.wait(f"({TRACE}('entropy/mean')?.x ?? []).length > 100")
        held = seen.page.evaluate(f"(t => ({{x: t.x, y: t.y}}))({TRACE}('entropy/mean'))")
        assert len(held["x"]) <= 1200
        assert held["y"][held["x"].index(70_000)] == 750
        assert held["y"][held["x"].index(40_000)] is None
        seen.wait(f"{PLOTS}[0].querySelectorAll('.scatterlayer .point').length > 0")
        assert seen.page.evaluate(f"{TRACE}('gaps:entropy').text") == ["entropy/mean NaN at step 40,000"]

        seen.page.evaluate(f"Plotly.relayout({PLOTS}[0], {{'xaxis.range': [69950, 70050]}})")
        seen.wait(f"{TRACE}('entropy/mean').x.filter(x => x >= 69950 && x <= 70050).length === 101")
        seen.wait(f"{RANGES}.every(range => range === '69950,70050')")  # of every chart
        seen.wait(f"{TRACE}('loss').x.filter(x => x >= 69950 && x <= 70050).length === 101")
        seen.page.evaluate(f"Plotly.relayout({PLOTS}[0], {{'xaxis.autorange': true}})")
        seen.wait(f"{PLOTS}[1]._fullLayout.xaxis.autorange === true")
        seen.wait(f"{TRACE}('entropy/mean').x.filter(x => x < 60000).length > 150")
        assert seen.is_clean()


def test_the_stretch_that_is_zoomed_into_is_in_the_address(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path, steps=100)
    with visit(browser, tmp_path) as seen:
        seen.open("run/run#20..40")
        seen.wait_for_points("entropy/mean", 100)
        seen.wait(f"{RANGES}.length > 3 && {RANGES}.every(range => range === '20,40')")
        seen.page.evaluate(f"Plotly.relayout({PLOTS}[1], {{'xaxis.range': [50, 60]}})")
        seen.wait("location.hash === '#50..60'")
        seen.wait(f"{RANGES}.every(range => range === '50,60')")
        seen.page.get_by_role("link", name="0.9", exact=True).click()
        seen.wait("location.search === '?smooth=0.9' && location.hash === '#50..60'")
        seen.page.reload()
        seen.wait_for_points("entropy/mean", 100)
        seen.wait(f"{RANGES}.length > 3 && {RANGES}.every(range => range === '50,60')")
        seen.page.evaluate(f"Plotly.relayout({PLOTS}[0], {{'xaxis.autorange': true}})")
        seen.wait("location.hash === ''")
        seen.open("run/run#what..ever")
        seen.wait_for_points("entropy/mean", 100)
        seen.wait(f"{PLOTS}[0]._fullLayout.xaxis.autorange === true")
        assert seen.is_clean()


def test_a_page_that_stays_open_holds_a_bounded_number_of_points(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write_steps(writer, 1, 100)
    most = f"Math.max(...{PLOTS}.flatMap(p => p.data.map(t => t.x.length)))"
    with visit(browser, tmp_path) as seen:
        seen.open("run/run")
        seen.wait_for_points("entropy/mean", 100)
        seen.page.evaluate("dash_clientside.set_props('run-timer', {interval: 100})")
        held = []
        for last in range(500, 10_501, 400):
            write_steps(writer, last - 399 if last > 500 else 101, last)
            seen.wait(f"{TRACE}('entropy/mean').x.at(-1) === {last}")
            held.append(seen.page.evaluate(most))
        assert max(held) <= 1200 + 1000 + 500
        curve = seen.page.evaluate(f"{TRACE}('entropy/mean').x")
        assert curve == sorted(set(curve)), "nothing twice, nothing out of order"
        assert curve[0] == 1
        assert seen.is_clean()


def test_a_run_beside_this_one_grows_also_when_this_one_has_ended(browser: Any, tmp_path: Path) -> None:
    mine, other = new_run(tmp_path, "mine"), new_run(tmp_path, "other")
    write_steps(mine, 1, 30)
    write_steps(other, 1, 20)
    mine.close()
    beside = f"({TRACE}('with:other:entropy/mean')?.x ?? []).length"
    with visit(browser, tmp_path) as seen:
        seen.open("run/mine?with=other")
        seen.wait(f"{beside} === 20")
        write_steps(other, 21, 25)
        seen.wait(f"{beside} === 25")
        seen.wait_for_points("entropy/mean", 30)
        assert seen.is_clean()


def test_a_fold_brings_its_charts_and_takes_them_away_and_is_remembered(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write_steps(writer, 1, 50)
    with visit(browser, tmp_path) as seen:
        seen.open("run/run")
        seen.wait_for_points("entropy/mean", 50)
        assert seen.page.evaluate(f"{TRACE}('kl/ref')") is None
        summary = seen.page.locator("details[data-family=kl] > summary")
        summary.focus()
        seen.page.keyboard.press("Enter")
        seen.wait_for_points("kl/ref", 50)
        fold = seen.page.locator("details[data-family=kl]")
        below = fold.locator(".card").first.bounding_box()["y"] - fold.locator("summary").bounding_box()["y"]
        assert below > 20, "its charts stand below it"
        seen.page.wait_for_function("() => document.querySelectorAll('.chart-fold .card').length === 1", polling=100)
        write_steps(writer, 51, 55)
        seen.wait_for_points("kl/ref", 55)
        seen.page.reload()
        seen.wait_for_points("kl/ref", 55)
        seen.page.locator("details[data-family=kl] > summary").click()
        seen.wait(f"!{TRACE}('kl/ref')")
        write_steps(writer, 56, 57)
        seen.wait_for_points("entropy/mean", 57)
        assert seen.is_clean()


def test_choices_are_in_the_address_and_back_takes_them_back(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write_steps(writer, 1, 80)
    with visit(browser, tmp_path) as seen:
        seen.open("run/run")
        seen.wait_for_points("entropy/mean", 80)
        link = seen.page.get_by_role("link", name="0.9", exact=True)
        link.focus()
        seen.page.keyboard.press("Enter")
        seen.wait_for_points("smooth:entropy/mean", 80)
        assert seen.page.url.endswith("/run/run?smooth=0.9")
        write_steps(writer, 81, 83)
        seen.wait_for_points("smooth:entropy/mean", 83)
        seen.page.get_by_role("link", name="log").first.click()
        seen.wait(f"{PLOTS}[0]._fullLayout.yaxis.type === 'log'")
        assert "log=entropy" in seen.page.url
        seen.page.get_by_role("link", name="Time", exact=True).click()
        seen.wait(f"{PLOTS}[0]._fullLayout.xaxis.type === 'date'")
        seen.page.go_back()
        seen.wait(f"{PLOTS}[0]._fullLayout.xaxis.type === 'linear'")
        assert seen.page.evaluate(f"{PLOTS}[0]._fullLayout.yaxis.type") == "log"
        assert seen.is_clean()


def test_time_is_on_the_viewers_clock(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    write_steps(writer, 1, 3)
    with visit(browser, tmp_path, timezone_id="Asia/Kolkata") as seen:
        seen.open("run/run?x=time")
        seen.wait_for_points("entropy/mean", 3)
        x = seen.page.evaluate(f"{TRACE}('entropy/mean').x[0]")
        here = seen.page.evaluate("Date.now() - new Date().getTimezoneOffset() * 60000")
        assert abs(x - here) < 600_000, "the steps were written a moment ago"
        write_steps(writer, 4, 5)
        seen.wait_for_points("entropy/mean", 5)
        assert seen.is_clean()


def test_hovering_over_one_chart_tells_the_values_in_each(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    for step in range(1, 51):
        writer.append(record(step))
    with visit(browser, tmp_path) as seen:
        seen.open("run/run")
        seen.wait_for_points("entropy/mean", 50)
        newest = seen.page.locator("[data-latest='length/mean']").inner_text()
        drag = f"{PLOTS}[0].querySelector('.nsewdrag').getBoundingClientRect()"
        x, y = seen.page.evaluate(f"[{drag}.left + {PLOTS}[0]._fullLayout.xaxis.l2p(10), {drag}.top + 60]")
        seen.page.mouse.move(x - 5, y)
        seen.page.mouse.move(x, y)
        length = record(10).metrics["length/mean"]
        assert length is not None
        seen.wait(f"document.querySelector(\"[data-latest='length/mean']\").textContent === '{length:.4g}'")
        assert seen.page.locator(".large .hover-line:visible").count() == 4
        seen.page.mouse.move(5, 5)
        seen.wait(f"document.querySelector(\"[data-latest='length/mean']\").textContent === '{newest}'")
        assert seen.page.locator(".hover-line:visible").count() == 0
        assert seen.is_clean()
