"""The dashboard in a real browser: curves, alerts, growth while the page is open, and what must never happen."""

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


from rlwatch.runs.records import Advice, Alert, AlertState, Cause, Severity, StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import numbers, run_in_background

PATIENCE = 30_000  # milliseconds; a slow machine may need them, a fast one never waits for them

pytestmark = needs_chromium

PLOTS = "[...document.querySelectorAll('.js-plotly-plot')].filter(p => p.data)"
TRACE = f"(name => {PLOTS}.flatMap(p => p.data).find(t => t.meta === name))"


class Visit:
    """A page of a served folder, and all that went wrong on it."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._watch)

    def _watch(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.foreign.append(request.url)

    def open(self, path: str = "") -> None:
        self.page.goto(self.url + path)
        self.page.locator("#first").wait_for(state="detached")  # what the HTML held: the page itself stands now

    def wait(self, condition: str) -> None:
        # What the condition looks into may not be there yet. Polled and not by frames: a still page draws none.
        otherwise = "catch (error) { if (error instanceof TypeError) return false; throw error }"
        self.page.wait_for_function(f"() => {{ try {{ return {condition} }} {otherwise} }}", polling=100)

    def wait_for_points(self, metric: str, count: int) -> None:
        """Until the curve in the page has so many points: what Plotly holds, not what the server sent."""
        self.wait(f"({TRACE}('{metric}')?.x ?? []).length === {count}")

    def is_clean(self) -> bool:
        assert self.errors == []
        assert self.foreign == []
        return True


@contextlib.contextmanager
def visit(browser: Any, root: Path, **options: Any) -> Iterator[Visit]:
    # The page's own policy would stop a foreign request before it is seen, and forbids the eval that Playwright's
    # wait_for_function needs: it is off here, and has a test of its own.
    options = {"bypass_csp": True, "viewport": {"width": 1440, "height": 1000}, **options}
    with run_in_background(root) as url, contextlib.closing(browser.new_context(**options)) as context:
        yield Visit(context.new_page(), url)


def record(step: int, **changes: float | None) -> StepRecord:
    wave = math.sin(step / 5)
    metrics = {
        "entropy/mean": 1.5 + 0.1 * wave,
        "groups/zero_std": 0.5,
        "groups/solved": 0.3,
        "groups/failed": 0.15,
        "groups/stuck": 0.05,
        "length/mean": 200 + wave,
        "length/correct": 180 + wave,
        "length/incorrect": 230 + wave,
        "grad/norm": 0.3 + 0.1 * wave,
        "grad/applied_norm": 0.3 + 0.1 * wave,
        "grad/effective_norm": 0.3 + 0.1 * wave,
        "reward/mean": 0.5,
        "reward/accuracy": 0.5,
        "loss": 0.01 * wave,
        "step_seconds": 3.0,
    }
    return StepRecord(step, time.time(), {**metrics, **changes})


def alert(rule: str, since: int, step: int, **more: Any) -> Alert:
    values: dict[str, Any] = {
        "state": AlertState.FIRING,
        "severity": Severity.CRITICAL,
        "message": f"{rule} says 0.2.",
        "evidence": {"entropy/mean": 0.2},
        "causes": (Cause("a peaked prior", {"groups/zero_std": 0.75}),),
        "advice": (Advice("raise epsilon_high", "DAPO"),),
        **more,
    }
    return Alert(rule=rule, since=since, step=step, time=time.time(), value=0.2, reference=1.5, **values)


def new_run(root: Path, name: str = "run", steps: int = 0) -> RunWriter:
    (root / name).mkdir(parents=True)
    writer = RunWriter(root / name, {"config": {"loss_type": "dapo"}, "framework": {"trl": "1.16.0"}})
    for step in range(1, steps + 1):
        writer.append(record(step))
    return writer


def test_curves_and_alerts_arrive_while_the_page_is_open(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=79)
    writer.append(record(80, **{"entropy/mean": math.nan}))
    writer.alert(alert("entropy-collapse", since=40, step=50))
    with visit(browser, tmp_path) as seen:
        seen.open("run/run")
        page = seen.page
        seen.wait_for_points("entropy/mean", 80)
        seen.wait_for_points("groups/stuck", 80)
        assert page.evaluate(f"{TRACE}('entropy/mean').y[79]") is None
        # Visible: a path with an extent on the screen for each line, and the stacked areas.
        seen.wait("document.querySelectorAll('.large .scatterlayer path.js-line').length >= 8")
        box = page.locator(".large .card").first.locator("path.js-line").first.bounding_box()
        assert box["width"] > 100
        assert box["height"] > 1
        assert page.locator(".large path.js-fill").count() == 3

        assert "Not learning since step 40" in page.locator("#headline").inner_text()
        assert "a peaked prior" in page.locator(".alert").inner_text()
        assert "raise epsilon_high" in page.locator(".alert").inner_text()
        seen.wait(f"{PLOTS}[0]._fullLayout.shapes.length === 2")
        assert page.locator(".large .annotation-text", has_text="entropy-collapse").count() == 4
        assert page.title() == "⚠ run · rlwatch"

        page.evaluate("window.sameDocument = true")
        for step in range(81, 86):
            writer.append(record(step))
        writer.alert(alert("dead-groups", since=81, step=84, severity=Severity.WARNING))
        seen.wait_for_points("entropy/mean", 85)
        seen.wait_for_points("groups/stuck", 85)
        seen.wait("document.querySelectorAll('.alert').length === 2")
        seen.wait(f"{PLOTS}[0]._fullLayout.shapes.length === 3")  # the worst alert gives the tint, each one its line
        seen.wait("document.querySelector('#vitals').innerText.includes('step 85')")
        loss = numbers.of_metric("loss", record(85).metrics["loss"])
        seen.wait(f"document.querySelector('[data-latest=loss]').innerText === '{loss}'")
        assert page.evaluate("window.sameDocument") is True

        writer.alert(alert("entropy-collapse", 40, 86, state=AlertState.RESOLVED, resolved_step=86))
        seen.wait("document.querySelectorAll('.alert.over').length === 1")
        assert seen.is_clean()


def test_zoom_and_appended_points_survive_marks_and_growth(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=100)
    with visit(browser, tmp_path) as seen:
        seen.open("run/run")
        seen.wait_for_points("entropy/mean", 100)
        seen.page.evaluate(f"Plotly.relayout({PLOTS}[0], {{'xaxis.range': [20, 40]}})")
        writer.append(record(101))
        seen.wait_for_points("entropy/mean", 101)
        writer.alert(alert("entropy-collapse", since=30, step=35))
        seen.wait(f"{PLOTS}[0]._fullLayout.shapes.length === 2")
        writer.append(record(102))
        seen.wait_for_points("entropy/mean", 102)
        assert seen.page.evaluate(f"{PLOTS}[0]._fullLayout.xaxis.range") == [20, 40]
        assert seen.page.evaluate(f"{TRACE}('entropy/mean').x") == list(range(1, 103))
        assert seen.is_clean()


def test_charts_out_of_view_catch_up_when_they_come_into_view(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=100)
    with visit(browser, tmp_path, viewport={"width": 390, "height": 700}) as seen:
        seen.open("run/run")
        seen.wait_for_points("loss", 100)
        writer.append(record(101))
        seen.wait("document.querySelector('#vitals').innerText.includes('step 101')")
        assert seen.page.evaluate(f"{TRACE}('loss').x.length") == 100
        seen.page.locator(".card:has([data-latest=loss])").scroll_into_view_if_needed()
        seen.wait_for_points("loss", 101)
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert seen.is_clean()


def test_a_run_that_begins_under_an_open_page_fills_its_charts(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path)
    with visit(browser, tmp_path) as seen:
        seen.open("run/run")
        seen.wait("document.querySelectorAll('.card.empty').length === 7")
        writer.append(record(1))
        seen.wait_for_points("entropy/mean", 1)
        writer.append(record(2, **{"eval/new": 1.0}))
        seen.page.get_by_text("Evaluation").click()
        seen.wait_for_points("eval/new", 1)
        seen.wait_for_points("entropy/mean", 2)
        assert seen.is_clean()


def test_the_list_of_runs_fills_by_itself_and_leads_to_a_run_and_back(browser: Any, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    with visit(browser, root) as seen:
        seen.open()
        page = seen.page
        page.get_by_text("rlwatch lab failure-room").wait_for()
        new_run(root, "a b%c", steps=30)
        (root / "notes.txt").write_text("not a run")
        page.get_by_role("link", name="a b%c").wait_for()
        assert "notes.txt" in page.locator(".skipped").text_content()
        page.get_by_role("link", name="a b%c").click()
        seen.wait_for_points("entropy/mean", 30)
        assert page.locator("h1").all_inner_texts() == ["a b%c"]
        page.go_back()
        page.get_by_role("heading", name="Runs").wait_for()
        assert page.evaluate("document.documentElement.lang") == "en"
        assert seen.is_clean()


@pytest.mark.parametrize("path", ["run/nope", "run/..%2f..", "somewhere"])
def test_an_address_that_leads_nowhere_says_so(browser: Any, tmp_path: Path, path: str) -> None:
    with visit(browser, tmp_path) as seen:
        seen.open(path)
        seen.page.get_by_role("heading", name="Not found").wait_for()
        seen.page.get_by_role("link", name="All runs").click()
        seen.page.get_by_role("heading", name="Runs", exact=True).wait_for()
        assert seen.is_clean()


def test_text_from_a_run_is_text(browser: Any, tmp_path: Path) -> None:
    evil = "<img src=x onerror='window.hacked=1'>"
    writer = new_run(tmp_path, evil.replace("/", ""), steps=0)
    writer.append(record(1, **{f"reward/{evil}": 1.0}))
    writer.alert(alert(evil, since=1, step=1, message=evil, causes=(Cause(evil, {evil: 1.0}),)))
    writer.update_info(correct=evil, config={evil: evil}, faults=[{"where": evil, "error": evil, "count": 1}])
    with visit(browser, tmp_path) as seen:
        seen.open()
        seen.page.locator("main").get_by_role("link", name="<img").first.click()
        seen.wait_for_points("entropy/mean", 1)
        seen.wait(f"{PLOTS}[0]._fullLayout.annotations.length === 1")
        assert evil in seen.page.locator(".alert .message").inner_text()
        assert seen.page.locator("img").count() == 0
        assert seen.page.evaluate("window.hacked") is None
        assert seen.is_clean()


def test_light_and_dark_follow_the_system_until_toggled_and_stay(browser: Any, tmp_path: Path) -> None:
    scheme = "document.documentElement.dataset.mantineColorScheme"
    with visit(browser, tmp_path, color_scheme="dark") as seen:
        seen.open()
        seen.wait(f"{scheme} === 'dark'")
        seen.page.get_by_role("button", name="Switch between light and dark").press("Enter")
        seen.wait(f"{scheme} === 'light'")
        seen.page.reload()
        seen.wait(f"{scheme} === 'light'")
        assert seen.is_clean()


def test_a_metric_explains_itself_to_the_keyboard(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path, steps=1)
    with visit(browser, tmp_path) as seen:
        seen.open("run/run")
        label = seen.page.locator(".metric-label", has_text="Entropy").first
        label.focus()
        tip = seen.page.get_by_role("tooltip")
        assert "nats per token" in tip.inner_text()
        seen.page.keyboard.press("Escape")
        tip.wait_for(state="hidden")


def test_a_page_outlives_its_server(browser: Any, tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=5)
    with contextlib.closing(browser.new_context(bypass_csp=True)) as context:
        with run_in_background(tmp_path) as url:
            seen = Visit(context.new_page(), url)
            seen.open("run/run")
            seen.wait_for_points("entropy/mean", 5)
        seen.wait("document.querySelector('#connection').innerText.includes('No answer')")
        writer.append(record(6))
        with run_in_background(tmp_path, port=int(url.rstrip("/").rsplit(":", 1)[1])):
            seen.wait_for_points("entropy/mean", 6)
            seen.wait("document.querySelector('#connection').innerText === ''")


def test_the_page_works_under_its_own_policy(browser: Any, tmp_path: Path) -> None:
    new_run(tmp_path, steps=5).alert(alert("entropy-collapse", since=2, step=3))
    with visit(browser, tmp_path, bypass_csp=False) as seen:
        seen.open("run/run")
        seen.page.locator(".annotation-text").first.wait_for()
        assert seen.is_clean()
