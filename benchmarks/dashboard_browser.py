"""The browser's part of dashboard.py: when a page is seen, when it works, and what it costs while it is open."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from machine import spread

from rlwatch_dashboard import followed, run_in_background
from rlwatch_dashboard.pages import runs_look

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

Append = Callable[[int], None]
"""Adds a step to the run that is looked at."""


@contextlib.contextmanager
def appending(append: Append, first: int) -> Iterator[None]:
    """A step a second."""
    done = threading.Event()

    def write() -> None:
        step = first
        while not done.wait(1.0):
            append(step)
            step += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


VISIBLE = (
    "element => element && element.checkVisibility({visibilityProperty: true}) && element.getClientRects().length > 0"
)
OURS = "#first .large .first-lines path"
PLOTLYS = ".large .js-plotly-plot .scatterlayer path.js-line"
RUN_SEEN = f"""() => {{
  const isVisible = {VISIBLE};
  const curves = [...document.querySelectorAll('{OURS}, {PLOTLYS}')].filter(isVisible);
  return [...document.querySelectorAll('.headline')].some(isVisible) && curves.length >= 8;
}}"""
RUN_WORKS = f"() => !document.querySelector('#first') && document.querySelectorAll('{PLOTLYS}').length >= 8"
ROWS_SEEN = f"""() => {{
  const isVisible = {VISIBLE};
  const links = [...document.querySelectorAll("a[href*='/run/run-']")].filter(isVisible);
  return links.length >= 10 && [...document.querySelectorAll('.sparkline path')].filter(isVisible).length >= 20;
}}"""
ROWS_WORK = (
    "() => !document.querySelector('#first') && document.querySelectorAll('.ag-row .sparkline path').length >= 20"
)


def watching(seen: str, works: str) -> str:
    """A script that looks at the page in each frame, and notes when a frame was drawn in which something holds."""
    return f"""(() => {{
  const wanted = [{seen}, {works}];
  const times = (window.rlwatchTimes = []);
  const again = () => {{ if (times.length < wanted.length) requestAnimationFrame(look); }};
  const note = () => {{ times.push(performance.now()); again(); }};
  const look = () => (document.body && wanted[times.length]() ? setTimeout(note) : again());
  again();
}})()"""


def view(page: Any, url: str) -> tuple[float, float]:
    """Seconds until a page is seen, and until all of it works; it has been given a script that looks for that."""
    page.goto(url, wait_until="commit")
    page.wait_for_function("() => window.rlwatchTimes.length === 2", polling=100, timeout=120_000)
    seen, works = page.evaluate("window.rlwatchTimes")
    return seen / 1e3, works / 1e3


def new_page(context: Any, seen: str, works: str) -> Any:
    page = context.new_page()
    page.add_init_script(watching(seen, works))
    return page


def two(found: dict[str, Any], name: str, views: Sequence[tuple[float, float]]) -> None:
    """Notes when pages were seen, and when they worked."""
    for kind, values in zip(("seen", "works"), zip(*views, strict=True), strict=True):
        found[f"{name}: {kind}"] = spread(values, "s")


def browser(root: Path, many: Path, run: str, append: Append, seconds: float) -> dict[str, Any]:
    """The page of a run under a root, with steps that come, and the list of many runs."""
    from playwright.sync_api import sync_playwright

    found: dict[str, Any] = {}
    options: dict[str, Any] = {"bypass_csp": True, "viewport": {"width": 1440, "height": 1000}}
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        cold = []
        for _ in range(3):
            followed._CACHE = followed.Cache()
            with run_in_background(root) as url, contextlib.closing(chromium.new_context(**options)) as context:
                cold.append(view(new_page(context, RUN_SEEN, RUN_WORKS), f"{url}run/{run}"))
        two(found, "first view, all caches empty", cold)
        with run_in_background(root) as url:
            page = new_page(chromium.new_context(**options), RUN_SEEN, RUN_WORKS)
            views = [view(page, f"{url}run/{run}") for _ in range(4)]
            two(found, "first view, again", views[1:])
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")

            def busy() -> tuple[float, float]:
                metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
                return metrics["TaskDuration"], metrics["JSHeapUsedSize"] / 1e6

            with appending(append, 10**6):
                page.wait_for_timeout(4000)  # what the first view has left to do
                shares = []
                for _ in range(3):
                    (before, _), began = busy(), time.perf_counter()
                    page.wait_for_timeout(1e3 * seconds / 3)
                    shares.append(1e3 * (busy()[0] - before) / (time.perf_counter() - began))
            found["main thread while a step a second comes"] = spread(shares, "ms/s")
            found["JavaScript heap"] = spread([busy()[1]], "MB")
        views = []
        for _ in range(3):
            runs_look.looks_of.cache_clear()
            with run_in_background(many) as url, contextlib.closing(chromium.new_context(**options)) as context:
                views.append(view(new_page(context, ROWS_SEEN, ROWS_WORK), url))
        two(found, "page of many runs, all caches empty", views)
        chromium.close()
    return found
