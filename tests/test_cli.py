"""The command line, as a person runs it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from rlwatch import __version__
from rlwatch.runs.records import StepRecord
from rlwatch.runs.writer import RunWriter


def rlwatch(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlwatch", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_version() -> None:
    assert rlwatch("--version").stdout == f"rlwatch {__version__}\n"


def test_runs_lists_what_is_there_and_says_what_it_skipped(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "good"
    run.mkdir(parents=True)
    writer = RunWriter(run, {})
    writer.append(StepRecord(42, 0.0, {"reward/mean": 0.5, "entropy/mean": float("nan")}))
    writer.close()
    (tmp_path / "runs" / "notes.txt").write_text("hello")
    with (run / "metrics.rank0.jsonl").open("a") as file:
        file.write('{"step":43,')
    done = rlwatch("runs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("good"))
    assert line.split()[:6] == ["good", "ended", "42", "0.5", "nan", "–"]
    assert "No rule has fired in 42 steps." in line
    assert "skipped runs/notes.txt: it is a file, not a run directory" in done.stdout


@pytest.mark.parametrize("make", [True, False], ids=["empty", "missing"])
def test_runs_of_an_empty_and_a_missing_folder_say_what_to_do(tmp_path: Path, make: bool) -> None:
    if make:
        (tmp_path / "runs").mkdir()
    done = rlwatch("runs", cwd=tmp_path)
    assert done.returncode == 0
    assert "Add RLWatchCallback() to a trainer's callbacks" in done.stdout
    assert ("no such folder" in done.stdout) is not make


def test_the_dashboard_names_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = rlwatch("dashboard", tmp_path, "--port", port)
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_dashboard_answers_where_it_says_it_does(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "rlwatch", "dashboard", str(tmp_path), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert f"http://127.0.0.1:{port}/" in process.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
            assert b"rlwatch" in answer.read()
    finally:
        process.terminate()
        process.wait(timeout=20)


def test_an_experiment_that_there_is_not(tmp_path: Path) -> None:
    done = rlwatch("lab", "no-such-room", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is: failure-room" in done.stderr


def test_the_failure_room_in_its_shortest_form(tmp_path: Path) -> None:
    done = rlwatch("lab", "failure-room", "--steps", "16", "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        ".lab",  # the first policy, for the next time
        "failure-room-tight",
        "failure-room-wide",
    ]
    assert "entropy first → last" in done.stdout
    for name in ("wide", "tight"):
        info = json.loads((tmp_path / "runs" / f"failure-room-{name}" / "run.json").read_text())
        assert "ended" in info
        assert "faults" not in info
        assert info["correct"] == "accuracy_reward ≥ 1, as you said"


def test_a_port_that_there_is_not_is_refused_without_a_traceback() -> None:
    done = rlwatch("dashboard", "--port", "99999")
    assert done.returncode == 2
    assert "65535" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_page_beside_a_training_ends_with_it(tmp_path: Path) -> None:
    """Also where the training is told to end, as by a job's time limit: a page that stays holds the port for ever."""
    script = (
        "import time; from pathlib import Path; from rich.console import Console\n"
        "from rlwatch.cli.page import page_beside\n"
        f"with page_beside(Path({str(tmp_path)!r}), Console()):\n"
        "    time.sleep(100)\n"
    )
    training = subprocess.Popen([sys.executable, "-u", "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert training.stdout is not None
        port = int(training.stdout.readline().rsplit(":", 1)[1])
        wait_for(lambda: listens(port))
        training.terminate()
        assert training.wait(timeout=30) == 128 + signal.SIGTERM
        wait_for(lambda: not listens(port))
    finally:
        training.kill()
        training.wait()


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
