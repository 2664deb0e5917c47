"""What an import brings along: the core is no more than it has to be, and an extra's modules come when they are used.

How long that takes is in benchmarks/imports.py.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = {
    "torch", "transformers", "trl", "accelerate", "datasets", "dash", "plotly", "flask", "waitress", "wandb", "apprise",
    "zstandard",
}  # fmt: skip
"""What only an extra brings."""

SLOW = {"polars", "numpy", "rich", "typer", "orjson"}
"""What the core depends on, and a program that only says `import rlwatch` has no use for yet."""


def loaded(code: str) -> set[str]:
    """The top-level modules that a fresh process has loaded after some code."""
    ask = f"{code}\nimport sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_rlwatch_brings_nothing() -> None:
    assert not loaded("import rlwatch") & (EXTRAS | SLOW)


@pytest.mark.parametrize(
    "code",
    [
        "from rlwatch import Monitor",
        "from rlwatch import analyze, load, show",
        "from rlwatch import audit",
        "import rlwatch.cli",
        "import rlwatch.rules, rlwatch.settings, rlwatch.detect.rules",
        "import rlwatch.readers.loading, rlwatch.report.text, rlwatch.report.html, rlwatch.report.compare_html",
        "import rlwatch.alerts.configured, rlwatch.alerts.apprise, rlwatch.alerts.wandb, rlwatch.streams.wandb",
    ],
)
def test_no_part_of_the_core_brings_an_extra(code: str) -> None:
    brought = loaded(code)
    assert "rlwatch" in brought
    assert not brought & EXTRAS


def test_the_command_line_brings_no_data_frames_before_a_command_needs_them() -> None:
    assert not loaded("import rlwatch.cli") & {"polars", "numpy"}


def test_the_callback_brings_torch_and_no_page() -> None:
    brought = loaded("from rlwatch import RLWatchCallback")
    assert {"torch", "transformers"} <= brought, "else this could not tell"
    assert not brought & {"dash", "plotly", "flask", "wandb", "apprise", "trl"}
