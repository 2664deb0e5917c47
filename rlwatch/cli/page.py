"""`rlwatch dashboard` and `rlwatch runs`: what is in a folder of runs."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rlwatch.cli.common import RUNS, console, missing, wrong


def runs(
    root: Annotated[Path, typer.Argument(metavar="[RUNS]", help="The folder that holds run directories.")] = RUNS,
) -> None:
    """What is there: each run, how it is, and what was skipped."""
    from rlwatch.report.table import runs_table
    from rlwatch.runs.reader import list_runs

    found, skipped = list_runs(root)
    if not found:
        print(f"No runs in {root}. Add RLWatchCallback() to a trainer's callbacks, or try: rlwatch lab failure-room")
    console().print(runs_table(found, skipped))


def dashboard(
    roots: Annotated[
        list[Path], typer.Argument(metavar="[RUNS]", help="The folders that hold run directories; one or several.")
    ] = [RUNS],  # noqa: B006
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)] = 8050,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="RLWATCH_DASHBOARD_TOKEN",
            show_envvar=False,
            help="What a visitor has to have, in ?token=; better as RLWATCH_DASHBOARD_TOKEN in the environment. "
            "With a --host that others can reach, one is made where none is given.",
        ),
    ] = None,
    base_path: Annotated[
        str, typer.Option(metavar="PATH", help="What a proxy serves the page under, as /rlwatch.")
    ] = "",
) -> None:
    """The live page of all runs in a folder, or in several."""
    try:
        from rlwatch_dashboard import serve
    except ImportError as error:
        raise missing("dashboard", error) from None
    for root in roots:
        if not root.is_dir():
            print(f"rlwatch: there is no folder {root} yet; runs appear once one is written there", file=sys.stderr)
    names = ", ".join(map(str, roots))
    try:
        serve(
            roots,
            host=host,
            port=port,
            token=token or None,
            base_path=base_path,
            on_ready=lambda url: print(f"rlwatch: {names} on {url}", flush=True),
        )
    except (OSError, ValueError) as error:
        raise wrong(str(error)) from None


@contextlib.contextmanager
def page_beside(root: Path, console: Console) -> Iterator[None]:
    """The dashboard in a process of its own, so that it takes nothing from the training but a core.

    It ends with it, also where the training is told to end (SIGTERM) and not only where it is interrupted.
    """
    if importlib.util.find_spec("dash") is None:
        raise missing("dashboard", ImportError("no module named dash"))
    port = _free_port(preferred=8050)
    root.mkdir(parents=True, exist_ok=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "rlwatch", "dashboard", str(root), "--port", str(port)], stdout=subprocess.DEVNULL
    )
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        console.print(f"The live page: [bold]http://127.0.0.1:{port}[/]", highlight=False)
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        server.terminate()
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()


def _free_port(preferred: int) -> int:
    for port in (preferred, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            return int(listener.getsockname()[1])
    raise OSError("no port is free on 127.0.0.1")
