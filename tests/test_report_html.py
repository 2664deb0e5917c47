"""The HTML report: one file that asks nobody for anything, and shows what is hostile as text."""

from __future__ import annotations

import builtins
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest

pytest.importorskip("plotly", reason="the extra `dashboard` is not installed")

from report_runs import EVIL, made, made_run
from rlwatch.report import html_charts
from rlwatch.report.analysis import analyze_run
from rlwatch.report.html import html_report, page
from rlwatch.report.html_charts import POINTS, Series, envelope, figure, series_of
from rlwatch.runs.records import Run, StepRecord


class Page(HTMLParser):
    """What a browser would see: the elements, and the text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def figures(self) -> list[Any]:
        kinds = self.all("script")
        return [json.loads(text) for kind, text in zip(kinds, self.scripts, strict=True) if kind]


def test_one_run_says_all_that_was_found() -> None:
    text = html_report([made(dies=100)], {}, gpu_hour_price=2.0, gpus=8)
    seen = Page(text)
    assert len(seen.all("h1")) == 1
    assert len(seen.all("main")) == 1
    assert seen.all("html")[0]["lang"] == "en"
    for said in (
        "Failed: not learning since step 1",
        "reward-collapse",
        "Likely causes",
        "What to try",
        "What taught nothing",
        "per GPU hour on 8 GPUs",
        "How it was read",
        "The steps were inferred.",
        "logs/grpo.jsonl",
        "trl-console",
        "steps 1 to 200",
        "learning_rate",
        "raw/perf/mfu",
    ):
        assert said in seen.text, said
    titles = re.findall(r"<h2>([^<]+)", text)
    assert titles[:6] == ["Entropy", "Zero-variance groups", "Reward", "Length by correctness", "Gradient", "Loss"]


def test_it_says_what_could_not_be_checked_and_not_in_this_log() -> None:
    run = Run("few", "x.csv", "csv", None, [StepRecord(s, s, {"reward/mean": 0.5, "loss": 0.1}) for s in range(1, 50)])
    seen = Page(html_report([analyze_run(run)], {}))
    assert "What this log cannot show" in seen.text
    assert "log the mean entropy of the generated tokens" in seen.text
    assert "Not in this log: entropy, zero-variance groups, length by correctness, gradient." in seen.text
    assert len(seen.all("article")) == 2


def test_a_run_without_a_step_has_a_page() -> None:
    seen = Page(html_report([analyze_run(Run("none", "none.csv", "csv", None, []))], {}))
    assert "Too little to say: there is no step in it." in seen.text


def test_many_runs_are_a_table_with_the_worst_on_top_and_each_is_folded() -> None:
    runs = [made("fine"), made("dead", dies=60), made("short", 5)]
    seen = Page(html_report(runs, {"broken.log": "no format fits"}))
    assert "3 runs: 1 failed, 1 healthy, 1 too little to say" in seen.text
    assert "1 path could not be read" in seen.text
    assert "broken.log: no format fits" in seen.text
    links = [attrs["href"] for attrs in seen.all("a") if "run-" in (attrs["href"] or "")]
    assert links == ["#run-0", "#run-1", "#run-2"]
    folded = [attrs for attrs in seen.all("details") if attrs.get("class") == "run"]
    assert [attrs["id"] for attrs in folded] == ["run-0", "run-1", "run-2"]
    assert not any("open" in attrs for attrs in folded)
    assert seen.text.index("dead") < seen.text.index("fine") < seen.text.index("short")


def test_nothing_read_is_said() -> None:
    assert "Nothing could be read" in Page(html_report([], {"a.log": "it is empty"})).text


def test_nothing_is_asked_of_anybody() -> None:
    text = html_report([made(dies=100), made("b")], {})
    seen = Page(text)
    for tag, attrs in seen.tags:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attrs.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, attrs)
    policy = next(attrs["content"] for attrs in seen.all("meta") if attrs.get("http-equiv"))
    assert policy == "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    assert "@import" not in text[: text.index("</style>")]
    assert text.count("plotly.js v") <= 2


def test_what_is_hostile_is_shown_as_text_everywhere() -> None:
    run = made_run(EVIL, 60, **{EVIL: EVIL})
    records = [StepRecord(r.step, r.time, {**r.metrics, f"reward/{EVIL}": 0.1, EVIL: 0.2}) for r in run.records]
    evil = Run(EVIL, f"logs/{EVIL}", EVIL, EVIL, records, run.info, [EVIL])
    harmless = Page(html_report([made("a", 60), made("b", 60)], {"x": "y"}))
    seen = Page(html_report([analyze_run(evil), analyze_run(evil)], {EVIL: EVIL}))
    assert not seen.all("img")
    executable = [attrs for attrs in seen.all("script") if attrs.get("type") != "application/json"]
    assert len(executable) == len([a for a in harmless.all("script") if a.get("type") != "application/json"]) == 2
    assert not any(name.startswith("on") for _, attrs in seen.tags for name in attrs)
    assert seen.text.count("<script>alert(1)</script>") > 10
    labels = [trace["label"] for spec in seen.figures for trace in spec.get("traces", ())]
    assert any("alert(1)" in label for label in labels)
    assert not any("<" in label for label in labels)  # Plotly takes some markup for markup


def test_json_in_a_script_cannot_end_it() -> None:
    text = html_charts.to_script({"a": "</script><!--", "b": "&"})
    assert "<" not in text
    assert "&" not in text
    assert json.loads(text) == {"a": "</script><!--", "b": "&"}


def test_half_a_character_in_a_name_can_be_written() -> None:
    html_report([made("caf\udce9", 30)], {"\udcff": "x"}).encode("utf-8")


def test_an_envelope_keeps_every_spike_and_every_gap() -> None:
    x = list(range(100_000))
    y: list[float | None] = [math.sin(i / 500) for i in x]
    y[33_333], y[77_777], y[50_001], y[60_001] = 99.0, -99.0, math.nan, None
    short_x, _ = envelope(x, y)
    assert len(short_x) <= POINTS
    assert {33_333, 77_777, 50_001, 60_001} <= set(short_x)
    assert short_x == sorted(short_x)
    assert (short_x[0], short_x[-1]) >= (0, 99_000)


def test_what_is_no_number_is_a_gap_with_a_mark() -> None:
    series = {"loss": Series("loss", [1, 2, 3, 4], [0.5, math.nan, None, math.inf])}
    (trace,) = figure(html_charts.MAIN[-1], series)["traces"]
    assert trace["y"] == [0.5, None, None, None]
    assert trace["odd"] == {1: "nan", 3: "inf"}
    assert (trace["from"], trace["by"]) == (1, 1)


def test_a_metric_of_every_tenth_step_has_a_point_every_tenth_step() -> None:
    records = [StepRecord(s, s, {"loss": 0.1, **({"kl/ref": 0.2} if s % 10 == 0 else {})}) for s in range(1, 41)]
    found = series_of(records)
    assert found["kl/ref"].x == [10, 20, 30, 40]
    assert html_charts.in_words(found["kl/ref"]).startswith("kl/ref: 0.2 at step 10, 0.2 at step 40, lowest 0.2")


def test_the_colours_are_those_of_the_live_page() -> None:
    theme = pytest.importorskip("rlwatch_dashboard.theme")
    text = page("x", [])
    for name, colour in {**theme.SEVERITIES, "solved": theme.SOLVED, "failed": theme.FAILED}.items():
        assert f"--{name}: {colour};" in text
    for name, colour in theme.SEVERITY_FILLS.items():
        assert f"--{name}-fill: {colour};" in text


def test_fifty_runs_are_not_large() -> None:
    found = [made(f"run {i}", 500, dies=300 if i % 3 == 0 else None, seed=i) for i in range(50)]
    text = html_report(found, {})
    assert len(text) < 5_000_000 + 50 * 150_000


def test_without_plotly_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("plotly"):
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'rlwatch-monitor\[dashboard\]'"):
        page("x", [])
