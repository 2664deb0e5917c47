"""What is shipped: the wheel holds what it should, and each part of it works with what it asks for and nothing else.

An environment is made of links to the files of just those distributions that the wheel's metadata asks for, and those
that they ask for in turn; nothing is downloaded, and what is not asked for cannot be imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from delivery import Hook
from packages import EXTRAS, ROOT, build, run_part

NAME = "rlwatch-monitor"


@dataclass(frozen=True)
class Built:
    """The distributions, and the files of the source tree as a wheel names them; none without git."""

    source: Path
    wheel: Path
    tree: frozenset[str]


def tracked(package: str) -> frozenset[str]:
    """The files of a package that git would keep; none in a tree that git does not know."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", package]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    return frozenset(name.removeprefix("dashboard/") for name in listed if (ROOT / name).exists())


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Both distributions, and what the source tree held when they were made."""
    tree = tracked("rlwatch") | tracked("dashboard/rlwatch_dashboard")
    source, wheel = build(tmp_path_factory.mktemp("dist"))
    return Built(source, wheel, tree)


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    """The wheel as pip unpacks it."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*command, "--target", str(folder), str(built.wheel)], check=True)
    [found] = distributions(name=NAME, path=[str(folder)])
    return found


def asked_for(found: Distribution, extra: str) -> dict[str, Distribution]:
    """A distribution and all that it asks for with an extra, and what those ask for in turn, by name."""
    closure: dict[str, Distribution] = {canonicalize_name(found.metadata["Name"]): found}
    todo, done = [(found, extra)], set()
    while todo:
        asking, wanted = todo.pop()
        for line in asking.requires or ():
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": wanted}):
                continue
            name = canonicalize_name(requirement.name)
            try:
                closure.setdefault(name, distribution(name))
            except PackageNotFoundError:
                pytest.fail(f"{asking.metadata['Name']} asks for {line}, and that is not installed: make test does it")
            assert requirement.specifier.contains(closure[name].version, prereleases=True), (line, closure[name])
            for further in requirement.extras or {""}:
                if (name, further) not in done:
                    done.add((name, further))
                    todo.append((closure[name], further))
    return closure


def link(found: Distribution, site: Path) -> None:
    """Put a distribution into an environment: a link to each package that is all its own, and to each other file."""
    for file in found.files or ():
        top = file.parts[0]
        whole = top.endswith(".dist-info") or (Path(str(found.locate_file(top))) / "__init__.py").exists()
        place = Path(top) if whole else Path(*file.parts)
        source = Path(str(found.locate_file(place)))
        if ".." not in place.parts and source.exists() and not (site / place).is_symlink():
            (site / place).parent.mkdir(parents=True, exist_ok=True)
            (site / place).symlink_to(source)


@pytest.fixture
def environment(installed: Distribution, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The Python of an environment that holds the wheel with the extra that the test is about."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    [site] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    for found in asked_for(installed, request.param).values():
        link(found, site)
    return python


@pytest.mark.parametrize("environment", [""], indirect=True, ids=["core"])
def test_the_core_works_with_its_own_dependencies_alone(environment: Path, tmp_path: Path) -> None:
    done = run_part("core", environment, tmp_path / "work")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("environment", "extra"), [(e, e) for e in EXTRAS], indirect=["environment"], ids=EXTRAS)
def test_an_extra_is_enough_for_its_part(environment: Path, extra: str, tmp_path: Path) -> None:
    hook = Hook() if extra == "apprise" else None
    try:
        arguments = [hook.url.replace("http://", "json://")] if hook is not None else []
        done = run_part(extra, environment, tmp_path / "work", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert hook is None or hook.arrived, "apprise said that it was sent, and nothing arrived"
    finally:
        if hook is not None:
            hook.close()


def test_every_extra_is_tried(installed: Distribution) -> None:
    """`all` and `dev` are made of the others."""
    own = {str(name) for name in installed.metadata.get_all("Provides-Extra") or ()}
    assert own - {"all", "dev"} == set(EXTRAS)


def test_the_wheel_holds_the_packages_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
        about = {name.partition(".dist-info/")[2] for name in wheel.namelist()} - {""}
    for name in (
        "rlwatch/py.typed", "rlwatch_dashboard/py.typed", "rlwatch_dashboard/assets/base.css", "rlwatch/report/page.js",
    ):  # fmt: skip
        assert name in held
    assert {Path(name).suffix for name in held} == {".py", ".typed", ".css", ".js"}
    assert {name.partition("/")[0] for name in held} == {"rlwatch", "rlwatch_dashboard"}
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert not built.tree or held == built.tree


def test_the_source_distribution_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.source) as archive:
        archive.extractall(tmp_path, **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
    [source] = [entry for entry in tmp_path.iterdir() if entry.is_dir()]
    [again] = build(tmp_path / "dist", source, "wheel")
    with zipfile.ZipFile(built.wheel) as one, zipfile.ZipFile(again) as other:
        assert {n: one.read(n) for n in one.namelist()} == {n: other.read(n) for n in other.namelist()}


def test_the_command_is_installed(installed: Distribution) -> None:
    [command] = installed.entry_points.select(group="console_scripts")
    assert (command.name, command.value) == ("rlwatch", "rlwatch.cli:main")
    folder = Path(str(installed.locate_file("")))
    done = subprocess.run(
        [sys.executable, str(folder / "bin" / "rlwatch"), "--version"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.stdout == f"rlwatch {installed.version}\n", done.stderr
