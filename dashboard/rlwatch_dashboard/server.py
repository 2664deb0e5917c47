"""Serves the page with waitress: in the foreground for the command, on a thread for the demo and the tests."""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from waitress import wasyncore
from waitress.server import create_server

from rlwatch_dashboard.access import MOST_BYTES, Access
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
    token: str | None = None,
    base_path: str = "",
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the runs under a folder or several until interrupted.

    Args:
        roots: The folder, or several; none need exist yet.
        host: The address to listen on.
        port: The port; 0 takes any free one.
        token: What a visitor has to have. Beyond loopback one is made where none is given.
        base_path: What a proxy serves the site under, as "/rlwatch"; whether it passes that on or takes it away.
        on_ready: Called with the page's address once it listens there; with a token that was made in it.

    Raises:
        PortTakenError: The port is in use.
        OSError: The address cannot be bound for another reason.
        ValueError: The token can be guessed, or the path is none.
    """
    access, before = Access.of(host, token), checked_base(base_path)
    server = _bind(roots, host, port, access, before)
    try:
        if on_ready is not None:
            made = f"?token={access.token}" if token is None and access.token else ""
            on_ready(f"{_address(host, server, before)}{made}")
        server.run()
    finally:
        server.close()


@contextlib.contextmanager
def run_in_background(
    roots: Path | Sequence[Path] | Roots,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    token: str | None = None,
    base_path: str = "",
) -> Iterator[str]:
    """Serve the runs under a folder or several on a thread for as long as the block runs; gives the page's address.

    Port 0 takes any free one. On leaving, open connections are closed and the thread has ended. Raises as
    [`serve`][rlwatch_dashboard.server.serve] does.
    """
    before = checked_base(base_path)
    server = _bind(roots, host, port, Access.of(host, token), before)
    thread = threading.Thread(target=server.run, name="rlwatch-dashboard", daemon=True)
    thread.start()
    try:
        yield _address(host, server, before)
    finally:
        server.task_dispatcher.shutdown()
        # The sockets belong to the serving thread, so it is asked to close them; its loop ends when none is left. The
        # lock is held for both: woken by another, the thread would close the pipe before it is written to.
        with server.trigger.lock:
            server.trigger.thunks.append(lambda: wasyncore.close_all(server._map))
            server.pull_trigger()
        thread.join(timeout=10)


def checked_base(path: str) -> str:
    """A path that the site is served under, without a slash at its end; nothing for none.

    >>> checked_base("/rlwatch/"), checked_base("rlwatch"), checked_base("/")
    ('/rlwatch', '/rlwatch', '')

    Raises:
        ValueError: It could not be told from a path of the site, or is no path.
    """
    parts = [part for part in path.split("/") if part]
    if any(not re.fullmatch(r"[\w.~-]+", part, re.ASCII) or set(part) == {"."} for part in parts):
        raise ValueError(f"--base-path {path} is no path: it is of letters, digits and -._~, as in /rlwatch")
    if parts and (parts[0] in ("run", "compare", "assets") or parts[0].startswith("_")):
        raise ValueError(f"--base-path {path} is an address of the site itself: take another one, as /rlwatch")
    return "".join(f"/{part}" for part in parts)


def _address(host: str, server: Any, before: str) -> str:
    # What listens everywhere is reached by this machine's name.
    name = socket.gethostname() if host in ("", "0.0.0.0", "::") else host
    return f"http://{f'[{name}]' if ':' in name else name}:{server.effective_port}{before}/"


def _bind(roots: Path | Sequence[Path] | Roots, host: str, port: int, access: Access, before: str) -> Any:
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
    return create_server(
        create_app(roots, access=access, base_path=before).server,
        sockets=[listener],
        threads=THREADS,
        ident="rlwatch",
        url_prefix=before,
        max_request_body_size=MOST_BYTES,
        asyncore_use_poll=True,  # select() knows no file beyond the 1,024th that a process has open
        clear_untrusted_proxy_headers=False,  # `access` reads two of them, and trusts them in nothing that matters
    )
