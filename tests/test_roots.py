"""Folders of runs: what a run is called, and that each name leads to one run and each run to its name."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from rlwatch_dashboard import roots
from rlwatch_dashboard.roots import Roots
from test_dashboard import new_run


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(roots).failed == 0


def test_two_runs_of_the_same_name_are_two_runs(tmp_path: Path) -> None:
    runs = [new_run(tmp_path / folder, "run").path for folder in ("first", "second", "third")]
    given = Roots.of([tmp_path / folder for folder in ("first", "second", "third")])
    assert [given.key_of(run) for run in runs] == ["run", "run@2", "run@3"]
    assert [given.find(key) for key in ("run", "run@2", "run@3")] == runs
    assert given.find("run@4") is None
    assert given.find("run@0") is None


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_run_is_found_by_what_it_is_called(tmp_path: Path, count: int) -> None:
    names = ["a", "a@1", "a@2", "a@3", "a@2@1", "a@", "@2", "a@2@2", "a@02", "a@9999", "ü b%c@2"]
    folders = [tmp_path / str(number) for number in range(count)]
    runs = [folder / name for folder in folders for name in names]
    for run in runs:
        run.mkdir(parents=True)
    given = Roots.of(folders)
    keys = [given.key_of(run) for run in runs]
    assert len(set(keys)) == len(runs)
    assert [given.find(key) for key in keys] == runs


def test_an_address_of_one_folder_is_right_with_a_second_one(tmp_path: Path) -> None:
    run = new_run(tmp_path / "first", "odd@2").path
    alone, both = Roots.of(tmp_path / "first"), Roots.of([tmp_path / "first", tmp_path / "second"])
    assert alone.key_of(run) == "odd@2"
    assert both.find("odd@2") == run


def test_the_same_folder_by_another_way_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "link").symlink_to("runs")
    monkeypatch.chdir(tmp_path)
    ways = ["runs", tmp_path / "runs", "./runs", tmp_path / "link", "link/../runs"]
    assert Roots.of(ways).folders == (Path("runs"),)
    assert Roots.of([*ways, "other"]).folders == (Path("runs"), Path("other"))
    assert Roots.of(["not/there", tmp_path / "not" / "there"]).folders == (Path("not/there"),)


def test_links_in_a_circle_are_a_folder_like_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert Roots.of(tmp_path / "a").find("run") is None


def test_a_run_that_is_a_link_is_found(tmp_path: Path) -> None:
    elsewhere = new_run(tmp_path / "elsewhere", "run").path
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "linked").symlink_to(elsewhere)
    assert Roots.of(tmp_path / "runs").find("linked") == tmp_path / "runs" / "linked"


def test_no_folder_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="rlwatch dashboard runs"):
        Roots.of([])


@pytest.mark.parametrize(
    "key", ["", ".", "..", "../secret", "a/../../secret", "/etc", "..\\x", "a\0b", ".hidden", "../x@2"]
)
def test_nothing_outside_of_the_folders_is_found(tmp_path: Path, key: str) -> None:
    for name in ("one", "two", "secret", "one/.hidden"):
        (tmp_path / name).mkdir()
    assert Roots.of([tmp_path / "one", tmp_path / "two"]).find(key) is None


def test_the_command_takes_several_folders_and_opens_both_runs_of_one_name(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        new_run(tmp_path / folder, "run", steps=3, correct=f"as {folder} says")
    command = [sys.executable, "-m", "rlwatch", "dashboard", "first", "second", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("rlwatch: first, second on http://127.0.0.1:")
            url = line.split(" on ")[1].split()[0]
            for key, words in (("run", "as first says"), ("run@2", "as second says")):
                assert words in _page(url, f"/run/{key}")
        finally:
            process.terminate()


def _page(url: str, pathname: str) -> str:
    """What the browser asks for when it comes to an address."""
    props = {"pathname": pathname, "search": ""}
    body = {
        "output": "..page.children...title.data..",
        "outputs": [{"id": "page", "property": "children"}, {"id": "title", "property": "data"}],
        "inputs": [
            *({"id": "url", "property": name, "value": value} for name, value in props.items()),
            {"id": "reload", "property": "data", "value": None},
        ],
        "changedPropIds": ["url.pathname"],
    }
    request = urllib.request.Request(
        f"{url}_dash-update-component", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return str(response.read().decode())
