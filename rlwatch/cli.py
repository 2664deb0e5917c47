"""The command `rlwatch`."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rlwatch._version import __version__

app = typer.Typer(
    help="Know within a few steps that an RL fine-tuning run has stopped learning, why, and what to change.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

RUNS = Path("runs")
RunsArgument = Annotated[Path, typer.Argument(metavar="[RUNS]", help="The folder that holds run directories.")]


def main() -> None:
    """Run the command line."""
    app()


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(f"rlwatch {__version__}")
        raise typer.Exit


@app.command()
def runs(root: RunsArgument = RUNS) -> None:
    """What is there: each run, how it is, and what was skipped."""
    from rlwatch.report.table import runs_table
    from rlwatch.runs.reader import list_runs

    found, skipped = list_runs(root)
    if not found:
        print(f"No runs in {root}. Add RLWatchCallback() to a trainer's callbacks, or try: rlwatch lab failure-room")
    _console().print(runs_table(found, skipped))


@app.command()
def dashboard(
    root: RunsArgument = RUNS,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 8050,
) -> None:
    """The live page of all runs in a folder."""
    try:
        from rlwatch_dashboard import serve
    except ImportError as error:
        raise _missing("dashboard", error) from None
    try:
        serve(root, host=host, port=port, on_ready=lambda url: print(f"rlwatch: {root} on {url}", flush=True))
    except OSError as error:
        print(f"rlwatch: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


@app.command()
def lab(
    experiment: Annotated[str, typer.Argument(help="The experiment; there is one so far.")] = "failure-room",
    seed: Annotated[int, typer.Option(help="Of the warm start and of the sampling.")] = 0,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps an arm.", min=16)] = None,
    out: Annotated[Path, typer.Option(help="The folder of runs to write to.")] = RUNS,
    page: Annotated[bool, typer.Option("--dashboard", help="Have the live page open meanwhile.")] = False,
    keep_open: Annotated[bool, typer.Option("--keep-open", help="With the page: leave it open at the end.")] = False,
) -> None:
    """A failure, on purpose, on this CPU, watched by rlwatch."""
    if experiment != "failure-room":
        print(f"rlwatch: there is no experiment {experiment!r}; there is: failure-room", file=sys.stderr)
        raise typer.Exit(2)
    console = _console()
    with _page(out, console) if page or keep_open else contextlib.nullcontext():
        console.print("Loading torch and TRL ...")
        try:
            from rlwatch.lab.failure_room import STEPS
            from rlwatch.lab.runner import run_failure_room, summary_table
        except ImportError as error:
            raise _missing("trl", error) from None
        results = run_failure_room(out, seed=seed, steps=steps or STEPS, console=console)
        console.print()
        console.print(summary_table(results))
        if keep_open:
            console.print("\nThe page stays open; end it with Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()


@contextlib.contextmanager
def _page(root: Path, console: Console) -> Iterator[None]:
    """The dashboard in a process of its own, so that it takes nothing from the training but a core."""
    if importlib.util.find_spec("dash") is None:
        raise _missing("dashboard", ImportError("no module named dash"))
    port = _free_port(preferred=8050)
    root.mkdir(parents=True, exist_ok=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "rlwatch", "dashboard", str(root), "--port", str(port)], stdout=subprocess.DEVNULL
    )
    try:
        console.print(f"The live page: [bold]http://127.0.0.1:{port}[/]", highlight=False)
        yield
    finally:
        server.terminate()
        server.wait(timeout=10)


def _console() -> Console:
    """As wide as the terminal; where there is none, wide enough for a table."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def _free_port(preferred: int) -> int:
    for port in (preferred, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            return int(listener.getsockname()[1])
    raise OSError("no port is free on 127.0.0.1")


def _missing(extra: str, error: ImportError) -> typer.Exit:
    print(f"rlwatch: this needs an extra: pip install 'rlwatch-monitor[{extra}]' ({error})", file=sys.stderr)
    return typer.Exit(2)
