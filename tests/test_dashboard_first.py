"""What a page shows before its scripts run: the same numbers in the same places, escaped, and never in the way."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from dash import dcc, html

from rlwatch_dashboard import app as site
from rlwatch_dashboard import create_app, figures, first_charts, first_rows, loading
from rlwatch_dashboard.access import Access
from rlwatch_dashboard.plain_html import as_html
from test_dashboard_browser import alert, new_run

TOKEN = "a-token-that-nobody-guesses"


class Read(HTMLParser):
    """A page as a browser reads it: its elements, and the text of each kind of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.data: dict[str, str] = {}
        self._within: dict[str, str | None] = {}
        self._tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag, self._within = tag, dict(attrs)
        self.elements.append((tag, self._within))

    def handle_data(self, data: str) -> None:
        self.texts.append((self._tag, data))
        if self._tag == "script" and "data-first" in self._within:
            name = str(self._within["data-first"])
            self.data[name] = self.data.get(name, "") + data


def page_of(root: Path, path: str = "/", **options: Any) -> str:
    answer = create_app(root, **options).server.test_client().get(path)
    assert answer.status_code == 200
    return str(answer.get_data(as_text=True))


def first_of(page: str) -> str:
    """The first content of a page; empty where it has none."""
    begin = page.find('<div id="first">')
    return "" if begin < 0 else page[begin : page.index('<script type="application/json"', begin)]


# Components as HTML


def test_texts_and_values_are_escaped_and_what_scripts_need_is_left_out() -> None:
    evil = '"><script>alert(1)</script>&'
    made = as_html(
        html.Div(
            [evil, html.A(evil, href=evil, id="x", title=evil, **{"data-save": evil, "data-tip": evil})],
            className=evil,
            style={"backgroundColor": "red", "--of-x": evil},
        )
    )
    read = Read(made)
    assert [tag for tag, _ in read.elements] == ["div", "a"]
    (_, div), (_, link) = read.elements
    assert div == {"class": evil, "style": f"background-color:red;--of-x:{evil}"}
    assert link == {"href": evil, "id": "first-x", "title": evil, "data-tip": evil}
    assert "".join(text for _, text in read.texts) == evil + evil


def test_stores_are_nothing_and_what_could_be_pressed_is_held_still() -> None:
    made = as_html([dcc.Store(id="s"), html.Button("b"), dcc.Input(id="i", type="search"), html.Br(), None, 0])
    assert made == '<button disabled>b</button><input type="search" id="first-i" disabled><br>0'


def test_a_component_that_is_not_known_is_refused_and_one_with_a_drawer_is_drawn() -> None:
    graph = dcc.Graph(figure={"data": []})
    with pytest.raises(ValueError, match="Graph"):
        as_html(html.Div(graph))
    assert (
        as_html(html.Div(graph), {dcc.Graph: lambda one: f"<b>{len(one.figure['data'])}</b>"}) == "<div><b>0</b></div>"
    )


# Charts


def drawn_paths(figure: dict[str, Any]) -> list[str]:
    return [str(one["d"]) for tag, one in Read(first_charts.drawing(figure)).elements if tag == "path"]


def places(path: str) -> list[list[tuple[int, int]]]:
    """The points of a path, by its unbroken pieces."""
    pieces = [piece.replace("h0", "").rstrip("z") for piece in path.split("M") if piece]
    return [[tuple(map(int, point.split())) for point in piece.split("L")] for piece in pieces]  # type: ignore[misc]


def figure_of(key: str, series: dict[str, list[float | None]], first: int = 1) -> dict[str, Any]:
    chart = next(one for one in (*figures.SIGNALS, *figures.BASICS) if one.key == key)
    points: Any = {name: {"x": list(range(first, first + len(y))), "y": y} for name, y in series.items()}
    return figures.figure(chart, points)


def test_a_curve_is_where_plotly_draws_it_and_is_broken_at_a_gap() -> None:
    y = [1.0, 2.0, None, 0.5, 4.0]
    (path,) = drawn_paths(figure_of("entropy", {"entropy/mean": y}))
    top = 4.0 / 0.95  # the curve is 5 % of the axis under its end
    expected = [[(0, 1.0), (250, 2.0)], [(750, 0.5), (1000, 4.0)]]
    assert places(path) == [[(x, round(1000 * (top - value) / top)) for x, value in piece] for piece in expected]


def test_shares_are_stacked_between_nothing_and_all() -> None:
    shares: dict[str, list[float | None]] = {
        "groups/solved": [0.25] * 100,
        "groups/failed": [0.5, None] * 50,
        "groups/stuck": [0.125] * 100,
    }
    paths = drawn_paths(figure_of("groups", shares))
    tops = np.cumsum([[0.25] * 100, [0.5, 0] * 50, [0.125] * 100], axis=0)
    assert len(paths) == 3
    for path, top, bottom in zip(paths, tops, [np.zeros(100), *tops[:2]], strict=True):
        (outline,) = places(path)
        edge = [value for _, value in outline]
        assert edge == [round(1000 * (1.001 - value) / 1.001) for value in [*top, *bottom[::-1]]]


def test_few_shares_are_blocks_around_their_steps() -> None:
    first, *_ = drawn_paths(figure_of("groups", {"groups/solved": [0.2, 0.4, 0.2]}))
    (outline,) = places(first)
    assert [x for x, _ in outline[:6]] == [0, 250, 250, 750, 750, 1000]


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show() -> None:
    figure = figure_of("loss", {"loss": [1.0, 0.0, 100.0, 10.0]})
    figure["layout"]["yaxis"] = {**figure["layout"]["yaxis"], "type": "log"}
    (path,) = drawn_paths(figure)
    low, high = 0 - 2 / 18, 2 + 2 / 18  # 5 % of the axis under and over the curve
    heights = [round(1000 * (high - power) / (high - low)) for power in (0, 2, 1)]
    assert [[y for _, y in piece] for piece in places(path)] == [heights[:1], heights[1:]]


@pytest.mark.parametrize("y", [[], [None, None], [0.0], [2.0, 2.0], [-1.0, -3.0]])
@pytest.mark.parametrize("name", ["entropy/mean", "loss"])
def test_a_curve_of_little_is_no_fault(name: str, y: list[float | None]) -> None:
    made = first_charts.drawing(figure_of(name.partition("/")[0], {name: y}))
    assert ("<svg" in made) == bool(y)
    assert "nan" not in made.lower()


@settings(max_examples=200, deadline=None)
@given(st.floats(-1000, 1000), st.floats(1e-6, 1e9), st.integers(2, 9))
def test_numbers_at_an_axis_are_round_and_apart(begin: float, width: float, most: int) -> None:
    low = begin * width
    found = first_charts.ticks(low, low + width, most)
    gaps = np.diff(found)
    assert len(found) <= most + 1
    assert all(low - 1e-6 * width <= place <= low + width * (1 + 1e-6) for place in found)
    if len(found) > 1:
        apart = float(np.median(gaps))
        assert gaps == pytest.approx(apart, rel=1e-3)
        assert apart >= width / most * 0.999
        assert round(apart / 10 ** math.floor(math.log10(apart * 1.0001)), 2) in (1, 2, 5)


# Rows


def test_a_line_of_a_table_is_on_one_scale_with_gaps_and_without_points_that_are_not_there() -> None:
    lines = [{"x": 0, "dx": 2, "y": [1.0, False, 3.0, None, 2.0]}, {"x": 2, "dx": 2, "y": [5.0]}]
    paths = re.findall(r'd="([^"]*)"', first_rows.sparkline("reward", lines))
    across = lambda step: 2 + step / 8 * 96  # noqa: E731
    up = lambda y: 24 - 2 - (y - 1) / 4 * 20  # noqa: E731
    assert paths == [
        f"M{across(0):.1f} {up(1):.1f}h0L{across(4):.1f} {up(3):.1f}M{across(8):.1f} {up(2):.1f}h0",
        f"M{across(2):.1f} {up(5):.1f}h0",
    ]
    assert "no number" in first_rows.sparkline("reward", [{"x": 0, "dx": 1, "y": [None]}])
    assert first_rows.sparkline("reward", []) == ""


def test_rows_are_the_newest_first_and_a_groups_runs_are_folded() -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "group": None, "started": 5.0},
        {"id": "b", "group": "g", "started": 9.0},
        {"id": "c", "group": None, "started": None},
        {"id": "d", "group": None, "started": 7.0},
        {"id": "g", "started": 6.0},
    ]
    assert [row["id"] for row in first_rows.newest_rows(rows)] == ["d", "g", "a", "c"]


# Pages


def test_a_runs_page_begins_with_its_sentence_and_its_four_signals(tmp_path: Path) -> None:
    writer = new_run(tmp_path, steps=20)
    writer.alert(alert("entropy-collapse", since=2, step=3))
    first = first_of(page_of(tmp_path, "/run/run"))
    read = Read(first)
    headings = [text for tag, text in read.texts if tag == "h2"]
    assert [text for tag, text in read.texts if tag == "h1"] == ["run"]
    assert "entropy-collapse says 0.2" in "".join(text for _, text in read.texts)
    assert len(headings) >= 4
    assert len([1 for tag, _ in read.elements if tag == "path"]) >= 11
    assert [one["href"] for tag, one in read.elements if one.get("class") == "run-tab" and tag == "a"] == [
        "/run/run/completions",
        "/run/run/denominators",
    ]


def test_nothing_of_it_has_an_id_that_the_page_itself_has(tmp_path: Path) -> None:
    new_run(tmp_path, steps=3)
    for path in ("/", "/run/run"):
        ids = [str(one["id"]) for _, one in Read(first_of(page_of(tmp_path, path))).elements if "id" in one]
        assert ids[0] == "first"
        assert all(one.startswith("first-") for one in ids[1:])
        assert len(set(ids)) == len(ids)


def test_the_list_begins_with_its_rows(tmp_path: Path) -> None:
    new_run(tmp_path, "one", steps=3)
    (tmp_path / "broken").mkdir()
    read = Read(first_of(page_of(tmp_path)))
    assert [one["href"] for _, one in read.elements if one.get("class") == "run-link"] == ["/run/one"]
    assert len([1 for _, one in read.elements if str(one.get("class")).startswith("sparkline")]) == 2
    assert "no run.json" in "".join(text for _, text in read.texts)


def test_what_is_sent_along_is_what_the_scripts_would_be_answered(tmp_path: Path) -> None:
    new_run(tmp_path, steps=3)
    client = create_app(tmp_path).server.test_client()
    for path, search in (("/", ""), ("/run/run", "?smooth=0.9")):
        data = Read(client.get(path + search).get_data(as_text=True)).data
        assert json.loads(data["address"]) == [path, search]
        assert json.loads(data["layout"]) == client.get("/_dash-layout").get_json()
        assert json.loads(data["dependencies"]) == client.get("/_dash-dependencies").get_json()
        body = {
            "output": "..page.children...title.data..",
            "outputs": [{"id": "page", "property": "children"}, {"id": "title", "property": "data"}],
            "inputs": [
                {"id": "url", "property": "pathname", "value": path},
                {"id": "url", "property": "search", "value": search},
                {"id": "reload", "property": "data", "value": None},
            ],
            "changedPropIds": ["url.pathname"],
        }
        answer = client.post("/_dash-update-component", json=body).get_json()
        assert json.loads(data["page"])["response"] == answer["response"]


@pytest.mark.parametrize("path", ["/?q=run", "/run/run?x=time", "/run/run/completions", "/compare", "/somewhere"])
def test_where_only_scripts_know_what_is_shown_there_is_none(tmp_path: Path, path: str) -> None:
    new_run(tmp_path, steps=3)
    page = page_of(tmp_path, path)
    assert not first_of(page)
    assert not Read(page).data
    assert "react-entry-point" in page


def test_a_name_that_is_markup_ends_no_element(tmp_path: Path) -> None:
    writer = new_run(tmp_path, "<img src=x onerror=alert(1)>", steps=1)
    evil = "</script><img src=x onerror=alert(1)><!--"
    writer.update_info(correct=evil, config={evil: evil}, faults=[{"where": evil, "error": evil, "count": 1}])
    for path in ("/", "/run/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"):
        read = Read(page_of(tmp_path, path))
        assert "img" not in [tag for tag, _ in read.elements]
        assert json.loads(read.data["page"])["response"]["title"]["data"].endswith("rlwatch")


def test_under_a_path_its_links_are_under_that_path(tmp_path: Path) -> None:
    new_run(tmp_path, steps=1)
    client = create_app(tmp_path, base_path="/watch").server.test_client()
    page = client.get("/run/run", environ_overrides={"SCRIPT_NAME": "/watch"}).get_data(as_text=True)
    read = Read(first_of(page))
    links = [str(one["href"]) for tag, one in read.elements if tag == "a"]
    assert links
    assert all(link.startswith("/watch/") for link in links)
    assert all(
        src.startswith("/watch/") for src in re.findall(r'<link rel="prefetch" as="script" href="([^"]+)"', page)
    )


def test_who_has_no_token_sees_nothing_of_it(tmp_path: Path) -> None:
    new_run(tmp_path, "secret-run", steps=1)
    client = create_app(tmp_path, access=Access.of("0.0.0.0", TOKEN)).server.test_client()
    answer = client.get("/")
    assert answer.status_code == 401
    assert "secret-run" not in answer.get_data(as_text=True)


def test_the_head_is_sent_before_a_run_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_run(tmp_path, steps=1)
    read: list[Path] = []
    load = site.load
    monkeypatch.setattr(site, "load", lambda run, name: read.append(run) or load(run, name))
    answer = create_app(tmp_path).server.test_client().get("/run/run", buffered=False)
    pieces = iter(answer.response)
    head = next(pieces).decode()  # type: ignore[union-attr, arg-type]
    assert "</head>" in head
    assert "plotly" in head
    assert not read
    assert '<div id="first">' in next(pieces).decode()  # type: ignore[union-attr, arg-type]
    assert len(read) == 1


def test_a_fault_in_it_leaves_the_page_as_it_is_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    new_run(tmp_path, steps=1)

    def fail(*_: Any) -> str:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("rlwatch_dashboard.first_view.drawing", fail)
    page = page_of(tmp_path, "/run/run")
    assert not first_of(page)
    assert "DashRenderer" in page
    assert "on purpose" in caplog.text


# Scripts


def test_every_script_of_dash_is_there_once_and_the_large_ones_where_they_are_needed(tmp_path: Path) -> None:
    client = create_app(tmp_path).server.test_client()
    fetched = {}
    for path in ("/", "/run/x", "/compare"):
        page = client.get(path).get_data(as_text=True)
        fetched[path] = re.findall(r'<link rel="prefetch" as="script" href="([^"]+)"', page)
        assert len(set(fetched[path])) == len(fetched[path])
        assert '<script src="' not in page
    names = {path: " ".join(sources) for path, sources in fetched.items()}
    large = ("dash_ag_grid", "plotly.", "dash_mantine_components")
    assert [[name in names[path] for name in large] for path in ("/", "/run/x", "/compare")] == [
        [True, False, False],
        [False, True, False],
        [False, True, True],
    ]
    for source in dict.fromkeys(src for sources in fetched.values() for src in sources):
        answer = client.get(source)
        assert answer.status_code == 200
        assert "dash_table" not in source
        assert "max-age=31536000" in answer.headers["Cache-Control"], source


def test_the_loader_cannot_be_ended_by_an_address() -> None:
    scripts = loading.Scripts(("/a</script>b.js",), {"plotly": ["/p.js"]})
    assert loading.loader(scripts, ["plotly"]).count("</script>") == 1
