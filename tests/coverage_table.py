"""How much of each package the tests have run, from what `coverage` wrote, a line a package; for `make coverage`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def by_package(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, list[int]]:
    """Package → statements and how many were run, branches and how many were taken, of coverage's `files`.

    >>> summary = {"num_statements": 4, "covered_lines": 3, "num_branches": 2, "covered_branches": 1}
    >>> by_package({"rlwatch/audit/lints/clip.py": {"summary": summary}, "rlwatch/audit/trl.py": {"summary": summary}})
    {'rlwatch/audit': [8, 6, 4, 2]}
    """
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for name, file in sorted(files.items()):
        parts = Path(name).parts
        package = "/".join(parts[: 3 if parts[1:3] == ("detect", "rules") else 2])
        found[package] = [a + file["summary"][count] for a, count in zip(found[package], COUNTS, strict=True)]
    return dict(found)


def main() -> None:
    """Print the table; the files' own are told by `coverage report -m`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", str(path)], check=True)
        found = by_package(json.loads(path.read_text())["files"])
    print(f"{'package':24}{'statements':>11}{'run':>8}{'branches':>10}{'taken':>8}")
    found["all"] = [sum(column) for column in zip(*found.values(), strict=True)]
    for name, (lines, run, branches, taken) in found.items():
        print(f"{name:24}{lines:11}{run / max(1, lines):8.1%}{branches:10}{taken / max(1, branches):8.1%}")
    print("\nline by line: python -m coverage report --data-file=.venv/coverage -m --skip-covered")


if __name__ == "__main__":
    main()
