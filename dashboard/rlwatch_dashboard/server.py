"""Serves the page with waitress: in the foreground for the command, on a thread for the demo and the tests."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from waitress import wasyncore
from waitress.server import create_server

from rlwatch_dashboard.app import create_app
from rlwatch_dashboard.roots import Roots

THREADS = 8
"""Questions answered at once. A page asks one at a time, and an answer takes milliseconds."""


class PortTakenError(OSError):
    """Something else listens on the port; the message names it and says what to do."""


def serve(
    roots: Path | Sequence[Path] | Roots,
    host: str = "127.0.0.1",
    port: int = 8050,
    *,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the runs under a folder or several until interrupted.

    Args:
        roots: The folder, or several; none need exist yet.
        host: The address to listen on.
        port: The port; 0 takes any free one.
        on_ready: Called with the page's address once it listens there.

    Raises:
        PortTakenError: The port is in use.
        OSError: The address cannot be bound for another reason.
    """
    server = _bind(roots, host, port)
    try:
        if on_ready is not None:
            on_ready(_address(host, server))
        server.run()
    finally:
        server.close()


@contextlib.contextmanager
def run_in_background(roots: Path | Sequence[Path] | Roots, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve the runs under a folder or several on a thread for as long as the block runs; gives the page's address.

    Port 0 takes any free one. On leaving, open connections are closed and the thread has ended. Raises as
    [`serve`][rlwatch_dashboard.server.serve] does.
    """
    server = _bind(roots, host, port)
    thread = threading.Thread(target=server.run, name="rlwatch-dashboard", daemon=True)
    thread.start()
    try:
        yield _address(host, server)
    finally:
        # The sockets belong to the serving thread, so it is asked to close them; its loop ends when none is left.
        server.trigger.pull_trigger(lambda: wasyncore.close_all(server._map))
        thread.join(timeout=10)
        server.task_dispatcher.shutdown()


def _address(host: str, server: Any) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{server.effective_port}/"


def _bind(roots: Path | Sequence[Path] | Roots, host: str, port: int) -> Any:
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a page that loads its files queues: no news
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortTakenError(
            f"port {port} on {host} is taken: stop what listens there, or choose another one with --port"
        ) from None
    return create_server(create_app(roots).server, sockets=[listener], threads=THREADS, ident="rlwatch")
