"""`rlwatch.show`: what it takes, what it shows, and that a real notebook shows it without a word to anybody."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import math
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("plotly", reason="the extra `dashboard` is not installed")
pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

import rlwatch
from chromium import needs_chromium
from report_runs import EVIL, made_run
from rlwatch.readers import UnreadableError
from rlwatch.runs.records import Alert, AlertState, Run, Severity, StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import figures, notebook


def write(root: Path, name: str = "run", steps: int = 60, *, alert: bool = True) -> Path:
    (root / name).mkdir(parents=True)
    writer = RunWriter(root / name, {"config": {"loss_type": "dapo"}})
    for record in made_run(name, steps, dies=30).records:
        writer.append(record)
    if alert:
        writer.alert(
            Alert("dead-groups", Severity.CRITICAL, AlertState.FIRING, 40, 44, 1.7e9, 0.9, 0.2, "90% are dead")
        )
    return root / name


def data_of(shown: Any) -> dict[str, Any]:
    """What the document draws, unpacked."""
    packed = re.search(r"id='data'>([^<]*)<", shown.document)
    assert packed is not None
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))  # type: ignore[no-any-return]


def traces_of(shown: Any) -> dict[str, Any]:
    return {trace["meta"]: trace for figure in data_of(shown)["figures"].values() for trace in figure["data"]}


def test_it_takes_a_path_a_name_a_run_and_whoever_watches_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "runs", "my run")
    monkeypatch.chdir(tmp_path)

    class Callback:
        run_dir: Path | None = path

    for given in (path, str(path), "my run", Path("my run"), rlwatch.load(path), Callback()):
        shown = rlwatch.show(given)
        assert "<h1>my run</h1>" in shown.document
        assert len(traces_of(shown)["entropy/mean"]["x"]) == 60
    Callback.run_dir = None
    with pytest.raises(ValueError, match="this Callback has no run yet"):
        rlwatch.show(Callback())
    with pytest.raises(UnreadableError, match=r"there is no 'nope'.*my run"):
        rlwatch.show("nope")
    with pytest.raises(TypeError, match="not int"):
        rlwatch.show(3)
    with pytest.raises(ValueError, match="not 'neon'"):
        rlwatch.show(path, theme="neon")


def test_it_takes_a_monitor(tmp_path: Path) -> None:
    with rlwatch.Monitor(tmp_path, name="mine") as monitor:
        for step in range(1, 4):
            monitor.step(step, loss=0.1 * step)
        assert traces_of(rlwatch.show(monitor))["loss"]["x"] == [1, 2, 3]


def test_the_charts_are_those_of_the_page_the_four_signals_first_with_the_alerts(tmp_path: Path) -> None:
    run = rlwatch.load(write(tmp_path))
    data = data_of(rlwatch.show(run))
    charts = figures.charts_for(run.names)
    assert list(data["figures"]) == [chart.key for chart in charts]
    assert [chart.key for chart in charts[:4]] == ["entropy", "groups", "length", "gradient"]
    one = figures.figure(charts[0], {"entropy/mean": {"x": [], "y": []}})
    assert data["figures"]["entropy"]["layout"] == one["layout"]
    (span,) = data["spans"]
    assert (span["rule"], span["fired"], span["bands"][0]["from"]) == ("dead-groups", 44, 40)
    for record in run.records:
        place = record.step - 1
        assert data["figures"]["reward"]["data"][0]["y"][place] == pytest.approx(
            record.metrics["reward/mean"], rel=1e-5
        )


def test_a_log_that_nobody_watched_is_judged_by_the_rules() -> None:
    data = data_of(rlwatch.show(made_run("old", 200, dies=100)))
    assert {span["rule"] for span in data["spans"]} & {"reward-collapse", "entropy-collapse", "dead-groups"}


def test_what_is_missing_is_not_recorded_and_what_is_no_number_is_a_gap() -> None:
    records = [StepRecord(step, 1.7e9, {"loss": 0.5}) for step in range(1, 31)]
    records[9].metrics["loss"] = math.nan  # type: ignore[index]
    del records[19].metrics["loss"]  # type: ignore[attr-defined]
    shown = rlwatch.show(Run("gaps", "gaps", "rlwatch", None, records))
    loss = traces_of(shown)["loss"]
    assert loss["x"] == [step for step in range(1, 31) if step != 20]
    assert [x for x, y in zip(loss["x"], loss["y"], strict=True) if y is None] == [10]
    assert shown.document.count("not recorded") > 4
    nothing = rlwatch.show(Run("none", "none", "rlwatch", None, []))
    assert traces_of(nothing)["loss"]["x"] == []


def test_a_run_of_100_000_steps_is_no_bigger_and_keeps_its_spikes_and_gaps() -> None:
    names = ["entropy/mean", "groups/zero_std", "groups/solved", "groups/failed", "groups/stuck", "reward/mean"]
    records = [
        StepRecord(step, 1.7e9, {name: abs(math.sin(step * (i + 1) / 97)) for i, name in enumerate(names)})
        for step in range(1, 100_001)
    ]
    records[54_321].metrics["entropy/mean"] = 77.0  # type: ignore[index]
    records[12_345].metrics["entropy/mean"] = math.nan  # type: ignore[index]
    records[70_001].metrics["groups/stuck"] = 1.5  # type: ignore[index]
    shown = rlwatch.show(Run("long", "long", "rlwatch", None, records))
    traces = traces_of(shown)
    entropy = dict(zip(traces["entropy/mean"]["x"], traces["entropy/mean"]["y"], strict=True))
    assert entropy[54_322] == 77.0
    assert entropy[12_346] is None
    assert len(entropy) <= 1600
    areas = [traces[f"groups/{kind}"] for kind in ("solved", "failed", "stuck")]
    assert areas[0]["x"] == areas[1]["x"] == areas[2]["x"]  # else what is stacked would have holes
    assert areas[2]["y"][areas[2]["x"].index(70_002)] == 1.5
    short = rlwatch.show(Run("short", "short", "rlwatch", None, records[:2000]))
    assert len(shown.document) < len(short.document) + 300_000
    assert len(shown.document) < 2_600_000


def test_what_is_hostile_does_nothing() -> None:
    run = made_run(EVIL, 40)
    for record in run.records:
        record.metrics[EVIL] = 1.0  # type: ignore[index]
    alert = Alert(EVIL, Severity.WARNING, AlertState.FIRING, 3, 5, 1.7e9, 1.0, 1.0, EVIL)
    shown = rlwatch.show(Run(EVIL, "x", "rlwatch", None, run.records, {}, (), (alert,)))
    assert "<img" not in shown.document.replace(notebook._script(), "")
    assert "<script>alert" not in shown.document
    frame = shown._repr_html_()
    assert unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == shown.document  # type: ignore[index]
    assert frame.count("<") == 2
    assert set(shown._repr_mimebundle_()) == {"text/html", "text/plain"}


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['dash'] = sys.modules['plotly'] = None\n"
        "import rlwatch\n"
        f"rlwatch.show({str(write(tmp_path))!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: rlwatch.show needs the extra")
    assert 'pip install "rlwatch-monitor[dashboard]"' in done.stderr


def test_whichever_is_imported_first_it_can_be_called() -> None:
    code = "import rlwatch.notebook, rlwatch; rlwatch.show; from rlwatch import show; assert callable(show)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_real_notebook_shows_it_offline(browser: Any, tmp_path: Path, theme: str) -> None:
    for needed in ("nbclient", "nbconvert", "ipykernel"):
        pytest.importorskip(needed)
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    write(tmp_path / "runs", "my-run")
    cells = ["import rlwatch", "rlwatch.show('my-run')"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    NotebookClient(book, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (output,) = book.cells[1].outputs
    assert "srcdoc" in output["data"]["text/html"]
    page_text, _ = HTMLExporter(theme=theme).from_notebook_node(book)
    (tmp_path / "book.html").write_text(page_text, encoding="utf-8")
    asked: list[str] = []
    errors: list[str] = []
    with contextlib.closing(browser.new_context(viewport={"width": 1100, "height": 900}, bypass_csp=True)) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        # The page around it is nbconvert's own, which asks for MathJax and the like: only what the frame asks counts.
        page.route(re.compile("^https?:"), lambda route: route.abort())
        page.on("request", lambda request: asked.append(request.url) if request.frame.parent_frame else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((tmp_path / "book.html").as_uri())
        (frame,) = [one for one in page.frames if one.parent_frame]
        frame.locator("html[data-drawn=true]").wait_for(state="attached")
        frame.locator(".large .annotation-text", has_text="dead-groups").first.wait_for()
        assert frame.locator(".large .card").count() == 4
        assert frame.locator(".large path.js-line").count() >= 7
        assert frame.evaluate("document.documentElement.dataset.mantineColorScheme") == theme
        assert "dead-groups open, told at step 44: 90% are dead" in frame.locator(".told").inner_text()
        fits = "Math.abs(frameElement.clientHeight - document.querySelector('main').offsetHeight) < 4"
        frame.wait_for_function(f"() => innerHeight > 500 && {fits}", polling=100)
        frame.locator("details.others summary").click()
        frame.locator("details.others .js-plotly-plot .scatterlayer path").first.wait_for(state="attached")
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert [url for url in asked if not url.startswith(("about:", "data:", "blob:"))] == []
        assert errors == []
        page.locator("iframe").screenshot(path=tmp_path / f"{theme}.png")
