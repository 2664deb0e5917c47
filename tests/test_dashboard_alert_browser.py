"""The page of an alert in a real browser: the way there and back, answering, staying fresh, tokens, a proxy's path."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chromium import needs_chromium

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from rlwatch.runs import acks
from rlwatch.runs.acks import read_answers, standing_of
from rlwatch.runs.records import AlertState, Severity
from rlwatch_dashboard import run_in_background
from test_dashboard_access import TOKEN, proxy
from test_dashboard_browser import PLOTS, Visit, alert, new_run, record, visit
from test_dashboard_completions_browser import write

pytestmark = needs_chromium

EVIL = "<img src=x onerror='window.hacked=1'>/a"
CURVE = "document.querySelectorAll('.alert-plot .js-line').length"
MARKS = "[...(document.querySelector('.alert-plot')?.querySelectorAll('.annotation-text') ?? [])]"


def story(root: Path, name: str = "run") -> Any:
    writer = new_run(root, name, steps=60)
    for step in (1, 21, 41):
        write(writer, step, {"yes": 1.0, "no": 0.0}, {"same": 0.5, "other": 0.5})
    writer.alert(alert("entropy-collapse", since=20, step=30, severity=Severity.WARNING))
    writer.alert(alert("entropy-collapse", since=20, step=45))
    return writer


@contextlib.contextmanager
def looking_at(browser: Any, url: str, **options: Any) -> Iterator[Visit]:
    """A page of a site that is served already."""
    options = {"bypass_csp": True, "viewport": {"width": 1440, "height": 1000}, **options}
    with contextlib.closing(browser.new_context(**options)) as context:
        yield Visit(context.new_page(), url)


def answered(run: Path) -> Any:
    return standing_of(read_answers(run)[0])


def walk(seen: Visit, before: str = "") -> None:
    """From the runs to a run, its alert, its completions, and all the way back."""
    page = seen.page
    page.get_by_role("link", name="run", exact=True).click()
    page.locator(".alert").get_by_role("link", name="entropy-collapse").click()
    page.get_by_role("heading", name="Around its onset").wait_for()
    assert page.url.endswith(f"{before}/run/run/alert/entropy-collapse/20")
    seen.wait(f"{CURVE} > 0")
    page.get_by_role("link", name="step 45").click()
    page.get_by_role("heading", name="Step 45").wait_for()
    assert f"{before}/run/run/completions?step=45" in page.url
    page.go_back()
    page.get_by_role("heading", name="Around its onset").wait_for()
    page.get_by_role("link", name="run", exact=True).click()
    page.get_by_role("heading", name="Loss", exact=True).wait_for()
    seen.wait(f"{PLOTS}.length >= 7")
    page.get_by_role("link", name="rlwatch", exact=True).click()
    page.get_by_role("heading", name="Runs").wait_for()


def test_from_the_runs_to_an_alert_to_its_completions_and_back(browser: Any, tmp_path: Path) -> None:
    story(tmp_path)
    with visit(browser, tmp_path) as seen:
        seen.open()
        walk(seen)
        assert seen.is_clean()


def test_what_is_around_the_onset_is_drawn_and_marked(browser: Any, tmp_path: Path) -> None:
    story(tmp_path)
    with visit(browser, tmp_path) as seen:
        seen.open("run/run/alert/entropy-collapse/20")
        seen.wait(f"{CURVE} >= 2")
        seen.wait(f"{MARKS}.length === 4")
        words = seen.page.evaluate(f"[...{MARKS}].map(mark => mark.textContent)")
        assert words == ["began 20", "warning 30", "critical 45", "reference 1.5"]
        seen.wait("document.title === 'entropy-collapse in run · rlwatch'")
        assert seen.page.locator("h1").count() == 1
        assert seen.is_clean()


def test_it_is_acknowledged_and_silenced_and_both_are_taken_back(browser: Any, tmp_path: Path) -> None:
    run = story(tmp_path).path
    with visit(browser, tmp_path) as seen:
        page = seen.page
        seen.open("run/run/alert/entropy-collapse/20")
        page.get_by_label("Your name").fill("Ada <b>")
        page.get_by_role("button", name="Acknowledge").click()
        page.locator("#alert-said").get_by_text("acknowledged").wait_for()
        assert "Ada <b>" in page.locator("#alert-said").inner_text()
        assert page.get_by_role("status").filter(has_text="It is acknowledged.").count() == 1
        page.get_by_label("until step").fill("1,400")
        page.get_by_label("until step").press("Enter")  # the keyboard is enough
        page.locator("#alert-said").get_by_text("silenced until step 1,400").wait_for()
        page.locator(".alert-now .alert-head").get_by_text("silenced until step 1,400").wait_for()
        assert page.get_by_label("Your name").input_value() == "Ada <b>"  # what is typed stays
        standing = answered(run)
        assert standing.acknowledged["entropy-collapse", 20].severity is Severity.CRITICAL
        assert standing.silenced["entropy-collapse"].until_step == 1400

        with page.context.expect_page() as opened:
            page.evaluate("open('/run/run')")
        other = opened.value
        other.locator(".alerts .pill.answered").first.wait_for()
        assert other.locator(".alerts .pill.answered").all_inner_texts() == [
            "acknowledged",
            "silenced until step 1,400",
        ]
        for count in (1, 0):
            page.locator("#alert-said").get_by_role("button", name="Undo").first.click()
            seen.wait(f"document.querySelectorAll('#alert-said li').length === {count}")
        assert (dict(answered(run).acknowledged), dict(answered(run).silenced)) == ({}, {})
        seen.wait("document.querySelectorAll('.alert-head .pill.answered').length === 0")
        other.wait_for_function("() => document.querySelectorAll('.pill.answered').length === 0", polling=100)
        assert seen.is_clean()


def test_a_number_that_is_none_is_said_and_what_the_server_refuses_too(browser: Any, tmp_path: Path) -> None:
    run = story(tmp_path).path
    with visit(browser, tmp_path) as seen:
        page = seen.page
        seen.open("run/run/alert/entropy-collapse/20")
        for field, text in (("until step", "soon"), ("until step", "1.5"), ("until step", ""), ("for hours", "∞")):
            page.get_by_label(field).fill(text)
            page.get_by_label(field).press("Enter")
            seen.wait("document.getElementById('alert-result').textContent === 'That is no number.'")
            page.evaluate("document.getElementById('alert-result').textContent = ''")
        page.get_by_label("for hours").fill("-3")
        page.get_by_label("for hours").press("Enter")
        seen.wait("document.getElementById('alert-result').textContent.startsWith('Not written down: a silence of -3')")
        assert not (run / acks.FILE).exists()
        assert [error for error in seen.errors if "400" not in error] == []


def test_the_page_stays_fresh_and_keeps_what_is_typed(browser: Any, tmp_path: Path) -> None:
    writer = story(tmp_path)
    with visit(browser, tmp_path) as seen:
        page = seen.page
        seen.open("run/run/alert/entropy-collapse/20")
        seen.wait(f"{CURVE} > 0")
        page.get_by_label("Your name").fill("half a na")
        for step in range(61, 71):
            writer.append(record(step))
        writer.alert(alert("entropy-collapse", since=20, step=70, state=AlertState.RESOLVED, resolved_step=66))
        page.locator(".history").get_by_text("resolved").wait_for()
        seen.wait(f"[...{MARKS}].some(mark => mark.textContent === 'over 66')")
        assert page.get_by_label("Your name").input_value() == "half a na"
        assert seen.is_clean()


def test_marks_of_a_run_page_are_not_drawn_over_an_alert(browser: Any, tmp_path: Path) -> None:
    writer = story(tmp_path)
    writer.alert(alert("dead-groups", since=50, step=55))
    with visit(browser, tmp_path) as seen:
        page = seen.page
        seen.open("run/run")
        seen.wait("document.querySelectorAll('.annotation-text').length > 0")
        page.locator(".alert").get_by_role("link", name="entropy-collapse").click()
        seen.wait(f"{MARKS}.length === 4")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert "dead-groups" not in page.evaluate(f"[...{MARKS}].map(mark => mark.textContent)")
        page.locator(".beside").get_by_role("link", name="dead-groups").click()
        seen.wait("document.title === 'dead-groups in run · rlwatch'")
        page.get_by_text("1.5").first.wait_for()
        assert seen.is_clean()


def test_text_from_a_run_is_text_under_the_pages_own_policy(browser: Any, tmp_path: Path) -> None:
    writer = story(tmp_path)
    writer.alert(alert(EVIL, since=7, step=9, message=EVIL, evidence={"loss": 0.2, EVIL: 1.0}))
    (writer.path / acks.FILE).write_text(f'{{"rule":"{EVIL}","kind":"silence","time":1.0,"who":"<img src=x>"}}\n')
    with visit(browser, tmp_path, bypass_csp=False) as seen:
        page = seen.page
        seen.open("run/run")
        page.locator(".alert").get_by_role("link", name=EVIL, exact=True).click()
        page.get_by_role("heading", name="What happened").wait_for()
        page.locator(".alert-plot .annotation-text").first.wait_for(state="attached")
        page.locator("#alert-said").get_by_text("<img src=x>").wait_for()
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img").count() == 0
        page.reload()  # its address leads back to it
        page.get_by_role("heading", name="What happened").wait_for()
        page.get_by_role("button", name="Acknowledge").click()
        page.locator("#alert-said").get_by_text("acknowledged").wait_for()
        assert (EVIL, 7) in answered(writer.path).acknowledged
        assert seen.is_clean()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_and_for_axe(browser: Any, tmp_path: Path, scheme: str) -> None:
    run = story(tmp_path).path
    acks.append(run, acks.Answer("entropy-collapse", acks.ACKNOWLEDGE, 1.0, 20, who="Ada", severity=Severity.CRITICAL))
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    with visit(browser, tmp_path, viewport={"width": 390, "height": 800}, color_scheme=scheme) as seen:
        page = seen.page
        seen.open("run/run/alert/entropy-collapse/20")
        seen.wait(f"{CURVE} > 0")
        seen.wait(f"document.documentElement.dataset.mantineColorScheme === '{scheme}'")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        head, box = (page.locator(of).bounding_box() for of in (".alert-now .alert", ".alert-answer"))
        assert head["y"] + head["height"] <= box["y"] < head["y"] + head["height"] + 40  # before the charts
        found = axe.Axe().run(page).response["violations"]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found] == []


# A token


def test_a_link_with_the_token_opens_the_site_and_is_gone_from_it(browser: Any, tmp_path: Path) -> None:
    story(tmp_path)
    serving = run_in_background(tmp_path, token=TOKEN)
    with serving as url, looking_at(browser, url) as seen:
        page = seen.page
        assert page.goto(f"{url}run/run").status == 401
        page.get_by_role("heading", name="A token is needed").wait_for()
        page.goto(f"{url}run/run/alert/entropy-collapse/20?token={TOKEN}")
        page.get_by_role("heading", name="Around its onset").wait_for()
        assert page.url == f"{url}run/run/alert/entropy-collapse/20"
        assert TOKEN not in page.evaluate("document.cookie + JSON.stringify({...localStorage})")
        page.get_by_role("button", name="Acknowledge").click()
        page.locator("#alert-said").get_by_text("acknowledged").wait_for()
        seen.errors.clear()  # the 401 above
        page.goto(url)
        walk(seen)
        assert seen.is_clean()


def test_a_link_on_another_site_opens_the_site_and_a_form_there_writes_nothing(browser: Any, tmp_path: Path) -> None:
    run = story(tmp_path).path
    with run_in_background(tmp_path, token=TOKEN) as url:
        pages = {
            "/": f'<a id="first" href="{url}run/run?token={TOKEN}">in</a> <a id="later" href="{url}run/run">again</a>',
            "/form": f"""<form method="post" enctype="text/plain" action="{url}run/run/answer">
                <input name='{{"rule":"entropy-collapse","since":20,"kind":"silence","x":"' value='"}}'></form>
                <script>document.forms[0].submit()</script>""",
            "/fetch": f"""<script>fetch("{url}run/run/answer", {{method: "POST", credentials: "include",
                mode: "no-cors", body: JSON.stringify({{rule: "entropy-collapse", since: 20, kind: "silence"}})}})
                .then(() => document.title = "done", () => document.title = "done")</script>""",
        }

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = pages.get(self.path, "").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        foreign = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=foreign.serve_forever, args=(0.01,), daemon=True).start()
        other = f"http://localhost:{foreign.server_address[1]}"  # another site than 127.0.0.1
        try:
            with looking_at(browser, url) as seen:
                page = seen.page
                page.goto(f"{other}/")
                page.locator("#first").click()
                page.get_by_role("heading", name="Loss", exact=True).wait_for()
                assert TOKEN not in page.url
                page.goto(f"{other}/")
                page.locator("#later").click()  # the browser keeps the cookie back, and the page asks once more
                page.get_by_role("heading", name="Loss", exact=True).wait_for()
                page.goto(f"{other}/form")
                page.get_by_role("heading", name="A token is needed").wait_for()  # it came without the cookie
                page.goto(f"{other}/fetch")
                seen.wait("document.title === 'done'")
        finally:
            foreign.shutdown()
            foreign.server_close()
    assert not (run / acks.FILE).exists()


def test_without_a_token_a_form_of_another_site_writes_nothing(browser: Any, tmp_path: Path) -> None:
    run = story(tmp_path).path
    form = """<form method="post" enctype="text/plain" action="%srun/run/answer"><input
        name='{"rule":"entropy-collapse","since":20,"kind":"silence","x":"' value='"}'></form>"""
    with run_in_background(tmp_path) as url, looking_at(browser, url) as seen:
        page = seen.page
        page.set_content(form % url)
        page.evaluate("document.forms[0].submit()")
        page.get_by_role("heading", name="Not from another site").wait_for()
    assert not (run / acks.FILE).exists()


# Behind a proxy


@pytest.mark.parametrize("strips", [True, False])
def test_behind_a_proxy_one_walks_all_the_way_and_answers(browser: Any, tmp_path: Path, strips: bool) -> None:
    run = story(tmp_path).path
    with (
        run_in_background(tmp_path, base_path="/rlwatch") as inner,
        proxy(inner, strips=strips) as url,
        looking_at(browser, f"{url}rlwatch/") as seen,
    ):
        page = seen.page
        seen.open()
        walk(seen, "/rlwatch")
        seen.open("run/run/alert/entropy-collapse/20")
        page.get_by_role("button", name="Acknowledge").click()
        page.locator("#alert-said").get_by_text("acknowledged").wait_for()
        assert ("entropy-collapse", 20) in answered(run).acknowledged
        assert seen.is_clean()  # nothing was asked for outside of its path
