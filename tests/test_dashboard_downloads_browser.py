"""Taking things away in a real browser: a chart as a picture, a run's data by its links, a page on paper."""

from __future__ import annotations

import csv
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from chromium import needs_chromium

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from test_dashboard_browser import alert, new_run, record, visit

pytestmark = needs_chromium

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("bypass_csp", [True, False])
def test_a_chart_is_saved_as_it_is_shown(browser: Any, tmp_path: Path, bypass_csp: bool) -> None:
    new_run(tmp_path, "a b<c>", steps=40).alert(alert("dead-groups", since=20, step=25))
    with visit(browser, tmp_path, bypass_csp=bypass_csp, color_scheme="dark") as seen:
        seen.open("run/a%20b%3Cc%3E")
        page = seen.page
        page.locator(".large .annotation-text", has_text="dead-groups").first.wait_for()
        with page.expect_download() as download:
            page.get_by_role("button", name="Save Zero-variance groups as SVG").press("Enter")
        assert download.value.suggested_filename == "a-b-c--groups.svg"
        root = ElementTree.parse(download.value.path()).getroot()
        assert root.tag == f"{SVG}svg"
        words = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
        assert {"Zero-variance groups", "solved", "failed", "stuck", "all", "dead-groups"} <= set(words)
        assert sum("js-fill" in path.get("class", "") for path in root.iter(f"{SVG}path")) == 6  # 3 in the legend
        assert "rgb(22, 26, 33)" in Path(download.value.path()).read_text()  # the dark panel

        with page.expect_download() as download:
            page.get_by_role("button", name="Save Entropy as PNG").click()
        assert download.value.suggested_filename == "a-b-c--entropy.png"
        data = Path(download.value.path()).read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", data[16:24])
        box = page.locator(".large .plot").first.bounding_box()
        assert width == pytest.approx(2 * box["width"], abs=4)
        assert height > 2 * box["height"]
        assert len(data) > 10_000
        assert seen.is_clean()


def test_a_runs_data_is_behind_the_links_on_its_page(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path, "a b", steps=30)
    with visit(browser, tmp_path, bypass_csp=False) as seen:
        seen.open("run/a%20b")
        links = seen.page.get_by_role("navigation", name="Download this run's data")
        with seen.page.expect_download() as download:
            links.get_by_role("link", name="CSV").click()
        assert download.value.suggested_filename == "a b.csv"
        with Path(download.value.path()).open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [float(row["entropy/mean"]) for row in rows] == [record(i).metrics["entropy/mean"] for i in range(1, 31)]
        with seen.page.expect_download() as download:
            links.get_by_role("link", name="Parquet").click()
        assert Path(download.value.path()).read_bytes()[:4] == b"PAR1"
        assert seen.is_clean()


def test_on_paper_it_is_light_and_no_chart_is_cut(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path, steps=60).alert(alert("dead-groups", since=20, step=25))
    with visit(browser, tmp_path, color_scheme="dark") as seen:
        seen.open("run/run")
        page = seen.page
        page.locator(".large .annotation-text", has_text="dead-groups").first.wait_for()
        page.set_viewport_size({"width": 720, "height": 1000})
        page.emulate_media(media="print")
        seen.wait("getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")
        seen.wait("document.querySelectorAll('.main-svg[viewBox]').length > 10")
        assert not page.locator(".bar, .downloads, .chart-menu").filter(visible=True).count()
        cut = """[...document.querySelectorAll('.card:not(.empty)')].filter((card) => {
          const boxes = [card, ...card.querySelectorAll('.main-svg')].map((one) => one.getBoundingClientRect());
          const [outer, ...inner] = boxes;
          return inner.some((box) => box.right > outer.right + 1 || box.bottom > outer.bottom + 1 || box.width < 50);
        }).length"""
        assert page.evaluate(cut) == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.emulate_media(media="screen")
        seen.wait("document.querySelectorAll('.main-svg[viewBox]').length === 0")
        assert page.pdf(print_background=True)[:5] == b"%PDF-"
        assert seen.is_clean()
