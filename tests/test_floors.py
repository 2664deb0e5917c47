"""Imports run downward only, and the core needs no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import rlwatch

PACKAGE = Path(rlwatch.__file__).parent
DASHBOARD = PACKAGE.parent / "dashboard" / "rlwatch_dashboard"
FLOORS = {
    "signals": 1,
    "runs": 2,
    "detect": 3,
    "rules": 3,
    "settings": 3,
    "audit": 3,
    "readers": 4,
    "capture": 4,
    "alerts": 4,
    "streams": 4,
    "report": 5,
    "lab": 5,
    "cli": 6,
    "notebook": 6,
    "__main__": 6,
    "rlwatch_dashboard": 6,
    "_version": 0,
    "__init__": 6,
}


def imports(path: Path) -> set[str]:
    """The rooms that a file imports from, those under `if TYPE_CHECKING` and inside functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module] if node.module != "rlwatch" else [f"rlwatch.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "rlwatch" and len(parts) > 1:
                found.add(parts[1])
            elif parts[0] == "rlwatch_dashboard":
                found.add("rlwatch_dashboard")
    return found


def test_a_file_imports_only_from_its_own_floor_or_below() -> None:
    files = [*PACKAGE.rglob("*.py"), *DASHBOARD.rglob("*.py")]
    assert len(files) > 30
    wrong = []
    for path in files:
        inside = path.relative_to(PACKAGE).parts if path.is_relative_to(PACKAGE) else ("rlwatch_dashboard",)
        room = inside[0].removesuffix(".py")
        wrong += [f"{path}: {room} imports {other}" for other in imports(path) if FLOORS[other] > FLOORS[room]]
    assert not wrong, "\n".join(wrong)


def test_every_room_has_a_floor() -> None:
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert rooms - {"__pycache__", "py.typed"} <= set(FLOORS)


def test_the_core_imports_neither_torch_nor_the_extras() -> None:
    code = (
        "import sys, rlwatch, rlwatch.cli, rlwatch.runs.reader, rlwatch.runs.writer, rlwatch.detect.rules, "
        "rlwatch.detect.engine, rlwatch.report.table, rlwatch.alerts.stdout\n"
        "heavy = {'torch', 'transformers', 'trl', 'dash', 'plotly', 'wandb', 'polars'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
