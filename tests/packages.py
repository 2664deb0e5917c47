"""What is shipped, and what each part of it must do with nothing else installed: `python tests/packages.py`.

`test_packages.py` holds each part against an environment of links to just the distributions that the wheel's metadata
names. Run as a script, or by `make package`, this builds the wheel and installs it with pip, from the package index,
into fresh environments: the core under every Python that is there, with its own tests, and each extra under the newest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PARTS = TESTS / "package_parts.py"
"""Run inside of an environment, it fails where a part does not do what it is for."""

EXTRAS = ("dashboard", "wandb", "apprise", "zstd", "trl")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
TOOLS = ("pytest", "pytest-timeout", "hypothesis")
CORE_TESTS = (
    "test_readers_*.py", "test_rules*.py", "test_engine*.py", "test_run_directory.py", "test_settings.py",
    "test_own_rules.py", "test_analyze.py", "test_compare.py", "test_report_sentences.py", "test_audit.py",
    "test_monitor*.py", "test_acks.py", "test_trend.py", "test_level.py", "test_groups.py", "test_shares.py",
)  # fmt: skip
"""The tests of what needs no extra; of these, a test that does need one is skipped and named."""

OF_EXTRAS = {
    "accelerate", "apprise", "dash", "datasets", "peft", "playwright", "plotly", "rlwatch_dashboard", "tensorboard",
    "tokenizers", "torch", "trackio", "transformers", "trl", "wandb", "zstandard",
}  # fmt: skip

ALONE = {
    "PATH": os.environ.get("PATH", ""),
    "HOME": os.environ.get("HOME", ""),
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "NO_PROXY": "127.0.0.1",
    "PYTHONIOENCODING": "utf-8",
}
"""The variables of a part's process: none that lets it see more than its environment."""


def build(folder: Path, source: Path = ROOT, kind: str | None = None) -> list[Path]:
    """Wheel and sdist of a source tree, or one of them; the source distribution first."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run([*command, *(["-t", kind] if kind else [])], cwd=source, check=True, stdout=subprocess.DEVNULL)
    return [*folder.glob("*.tar.gz"), *folder.glob("*.whl")]


def run_part(part: str, python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a part's script with an environment's Python, in an empty folder, seeing nothing but that environment."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-I", str(PARTS), part, *arguments]
    return subprocess.run(command, cwd=folder, env=ALONE, capture_output=True, text=True, timeout=280)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """Skip a file that imports what only an extra brings: this file is a plugin of the tests that it starts."""
    report: pytest.CollectReport = yield
    lacks = re.search(r"No module named '(\w+)", str(report.longrepr)) if report.failed else None
    if lacks and lacks[1] in OF_EXTRAS:
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"needs {lacks[1]}")
    return report


def _skip_without_extra(work: Generator[None, Any, Any]) -> Generator[None, Any, Any]:
    try:
        return (yield from work)
    except ImportError as error:
        lacks = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        if str(lacks.name).partition(".")[0] in OF_EXTRAS:
            pytest.skip(f"needs {lacks.name}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    """Skip a test whose fixture needs an extra."""
    return (yield from _skip_without_extra(_through()))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, Any, Any]:
    """Skip a test that does itself."""
    return (yield from _skip_without_extra(_through()))


def _through() -> Generator[None, Any, Any]:
    return (yield)


def python(version: str) -> str | None:
    """The interpreter of a version, from the path or from pyenv."""
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return shutil.which(f"python{version}") if not pyenv else str(pyenv[-1])


def environment(interpreter: str, folder: Path, *packages: str) -> Path:
    """A fresh virtual environment with these installed, from the package index; its Python."""
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    inside = folder / "bin" / "python"
    subprocess.run([str(inside), "-m", "pip", "install", "--quiet", *packages], check=True)
    return inside


def check_core(version: str, wheel: Path, folder: Path) -> list[str]:
    """What went wrong with the core, and its own tests, under one Python."""
    interpreter = python(version)
    if interpreter is None:
        return [f"Python {version} is not there"]
    inside = environment(interpreter, folder / "venv", str(wheel))
    done = run_part("core", inside, folder / "work")
    problems = [f"the core under {version}: {done.stderr}"] if done.returncode else []
    subprocess.run([str(inside), "-m", "pip", "install", "--quiet", *TOOLS], check=True)
    for name in ("tests", "examples", "benchmarks", "docs", "pyproject.toml", "README.md"):  # and not the packages
        source, target = ROOT / name, folder / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    files = [str(path.relative_to(folder)) for name in CORE_TESTS for path in sorted((folder / "tests").glob(name))]
    command = [str(inside), "-m", "pytest", "-q", "-p", "packages", "-p", "no:cacheprovider", *files]
    tests = subprocess.run(command, cwd=folder, env={**ALONE, "PYTHONPATH": str(folder / "tests")})
    return [*problems, *([f"tests of the core under {version}"] if tests.returncode else [])]


def check_extra(extra: str, wheel: Path, folder: Path) -> list[str]:
    """What went wrong with an extra, installed alone."""
    from delivery import Hook

    inside = environment(sys.executable, folder / "venv", f"{wheel}[{extra}]")
    hook = Hook()
    try:
        arguments = [hook.url.replace("http://", "json://")] if extra == "apprise" else []
        done = run_part(extra, inside, folder / "work", *arguments)
        arrived = extra != "apprise" or bool(hook.arrived)
    finally:
        hook.close()
    return [] if done.returncode == 0 and arrived else [f"the extra {extra}: {done.stdout}{done.stderr}"]


def main() -> None:
    """Check what is named, versions of Python or extras; by default all."""
    wanted = sys.argv[1:] or [*PYTHONS, *EXTRAS]
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder / "dist")[-1]
        for what in wanted:
            place = folder / what
            found = check_core(what, wheel, place) if what in PYTHONS else check_extra(what, wheel, place)
            print(f"{what}: {'; '.join(found) if found else 'all is well'}", flush=True)
            problems += found
            shutil.rmtree(place, ignore_errors=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
