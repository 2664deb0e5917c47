"""The tests of the capture under another release of TRL: `python tests/compat.py`, or `make compat`.

Each release is laid over the environment that is there, in a folder of its own that goes first on the path, with the
transformers that a release needs. What a release does not have, an argument or a loss type, is skipped and named; what
it has must be exact.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
FOLDER = TESTS.parent / "build" / "compat"

RELEASES: dict[str, list[str]] = {
    "oldest": ["trl==0.29.1", "transformers==5.6.0", "huggingface-hub==1.33.0", "tokenizers==0.22.2"],
    "newest": [],
}
"""What is laid over the environment; nothing for the release that is installed, which is the newest."""

CAPTURE = ("test_capture_exact.py", "test_capture_configs.py", "test_capture_trainers.py", "test_capture_releases.py")
"""The tests that compare what is captured with brute force, and those of the releases themselves."""

_LACKS = re.compile(
    r"\w+Config\.__init__\(\) got an unexpected keyword argument '(?P<argument>\w+)'|Unknown loss type: (?P<loss>\w+)"
)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Skip a test that asks for what this release does not have: this file is a plugin of the runs that it starts."""
    try:
        return (yield)
    except (TypeError, ValueError) as error:
        if found := _LACKS.search(str(error)):
            pytest.skip(f"this TRL has no {found['argument'] or found['loss']}")
        raise


def overlay(name: str, packages: list[str]) -> Path | None:
    """The folder that a release is installed in, once; None for the one that is there already."""
    if not packages:
        return None
    folder = FOLDER / name
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text() != "\n".join(packages):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(folder)]
        subprocess.run([*command, *packages], check=True)
        ready.write_text("\n".join(packages))
    return folder


def run(name: str, packages: list[str], arguments: list[str]) -> int:
    """The exit status of the tests under a release."""
    folder = overlay(name, packages)
    path = os.pathsep.join(str(part) for part in (folder, TESTS) if part is not None)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    version = (
        "import importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in ('trl', 'transformers', 'torch')))"
    )
    subprocess.run([sys.executable, "-c", version], env=environment, check=True)
    files = [] if any(not argument.startswith("-") for argument in arguments) else [str(TESTS / f) for f in CAPTURE]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "compat", "-p", "no:cacheprovider", *files, *arguments]
    return subprocess.run(command, env=environment, cwd=TESTS.parent).returncode


def main() -> None:
    """Run the tests under each release; arguments beyond `oldest` and `newest` go to pytest."""
    names = [argument for argument in sys.argv[1:] if argument in RELEASES] or list(RELEASES)
    arguments = [argument for argument in sys.argv[1:] if argument not in RELEASES]
    failed = [name for name in names if run(name, RELEASES[name], arguments)]
    sys.exit(f"failed under: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
