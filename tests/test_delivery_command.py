"""The command of the user's own."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from delivery import ALERT, SECRET, Notes, fires, open_box, waiting
from rlwatch.alerts.command import Command

pytest_plugins = ["delivery_fixtures"]
pytestmark = pytest.mark.usefixtures("clean")


def test_a_command_gets_each_alert_as_json_and_no_shell(tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
    target = tmp_path / "a $(touch x) ; b"
    box = open_box(Command(f"{sys.executable} -c \"{code}\" '{target}'"), tmp_path / "run")
    box.put(replace(ALERT, value=float("nan")))
    box.put(fires("other"))
    assert box.close() == 0
    got = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(data["rule"], data["changes"], data["value"]) for data in got] == [
        ("dead-groups", 1, "NaN"),
        ("other", 1, 0.92),
    ]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"{sys.executable} -c 'import sys; sys.exit(3)' {SECRET}", "ended with exit code 3"),
        (f"{sys.executable} -c 'import time; time.sleep(60)' {SECRET}", "took more than 0.5 s and was killed"),
        (f"/nowhere/at-all {SECRET}", "at-all cannot be run (FileNotFoundError)"),
        (f"mail '{SECRET}", "the command's quotes do not match"),
    ],
)
def test_a_command_that_fails_is_noted_and_not_run_again(tmp_path: Path, line: str, problem: str) -> None:
    notes = Notes()
    box = open_box(Command(line, timeout=0.5), tmp_path, notes=notes)
    box.put(ALERT)
    assert box.close() == 0
    (note,) = notes
    assert note.startswith("sending an alert through command: ")
    assert note.endswith(problem)
    assert SECRET not in note


def test_a_command_may_ask_to_be_called_again(tmp_path: Path) -> None:
    code = (
        f"import os, sys; p = {str(tmp_path / 'once')!r}; e = os.path.exists(p); open(p, 'w'); sys.exit(0 if e else 75)"
    )
    box = open_box(Command(f'{sys.executable} -c "{code}"'), tmp_path / "run")
    box.put(ALERT)
    assert box.close() == 0
    assert waiting(tmp_path / "run") == []
