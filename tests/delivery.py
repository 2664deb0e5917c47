"""What the tests of delivery share: alerts, a server and a channel that do as they are told, a process to kill."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rlwatch.alerts.channel import Channel, Message
from rlwatch.alerts.outbox import Outbox
from rlwatch.runs.records import Advice, Alert, AlertState, Cause, Severity

SECRET = "s3cr3t-t0ken"
PATIENCE = 20.0  # seconds; nothing here takes a tenth of it unless it is broken
WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL

ALERT = Alert(
    rule="dead-groups",
    severity=CRITICAL,
    state=AlertState.FIRING,
    since=188,
    step=212,
    time=1_764_500_000.0,
    value=0.92,
    reference=0.21,
    message="92% of the groups are dead and not solved",
    causes=(Cause("siblings are alike: 1.2 distinct completions a group"),),
    advice=(Advice("raise the temperature", "arXiv 2503.14476"),),
    run="night-run",
)


def fires(rule: str = "dead-groups", severity: Severity = CRITICAL, since: int = 188) -> Alert:
    return replace(ALERT, rule=rule, severity=severity, since=since, step=since + 2)


def ends(rule: str = "dead-groups", severity: Severity = CRITICAL, since: int = 188) -> Alert:
    return replace(fires(rule, severity, since), state=AlertState.RESOLVED, step=since + 9, resolved_step=since + 5)


class Hook:
    """A server that does to each request what it was told, and then is well again."""

    def __init__(self, port: int = 0) -> None:
        self.doings: deque[str | Callable[[], str]] = deque()
        self.arrived: list[dict[str, Any]] = []
        self.times: list[float] = []  # of all requests
        self.changed = threading.Condition()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.answer(self, body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def process_request(self, request: Any, client_address: Any) -> None:
                hook.count(1)
                super().process_request(request, client_address)

            def shutdown_request(self, request: Any) -> None:
                super().shutdown_request(request)
                hook.count(-1)

        self.connections = self.open = 0  # ever, and now
        self.server = Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/services/{SECRET}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        with self.changed:
            self.times.append(time.monotonic())
            doing = self.doings.popleft() if self.doings else "ok"
            self.changed.notify_all()
        if callable(doing):
            doing = doing()
        if doing == "drop":
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        code, _, after = doing.partition(" after ")
        if code == "ok":
            with self.changed:
                self.arrived.append(body)
                self.changed.notify_all()
        with_path = request.path.encode()  # a server may say the URL in what it answers
        request.send_response(200 if code == "ok" else int(code))
        if after:
            request.send_header("Retry-After", after)
        if code == "302":
            request.send_header("Location", "/elsewhere")
        request.send_header("Content-Length", str(len(with_path)))
        request.end_headers()
        request.wfile.write(with_path)
        request.wfile.flush()

    def count(self, more: int) -> None:
        with self.changed:
            self.connections += max(more, 0)
            self.open += more
            self.changed.notify_all()

    def settle(self) -> None:
        """Wait until it is done with every connection that was made before."""
        with self.changed:
            before = self.connections
        socket.create_connection(self.server.server_address[:2]).close()  # accepted after all of them
        self.wait(lambda: self.connections > before and self.open == 0)

    def wait(self, what: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(what, PATIENCE), (self.arrived, self.times)

    def texts(self) -> list[str]:
        with self.changed:
            return [body["text"] for body in self.arrived]

    def told(self) -> Counter[str]:
        """How often each rule's title has arrived."""
        return Counter(line for text in self.texts() for line in text.splitlines() if " · " in line)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Notes(list[str]):
    def __call__(self, where: str, error: Exception) -> None:
        self.append(f"{where}: {error}")


class Recorder:
    """A channel that does what it was told and remembers what it was sent."""

    name = "recorder"
    least = WARNING
    active = True

    def __init__(self, *doings: Exception, together: bool = True) -> None:
        self.together = together
        self.doings = deque(doings)
        self.sent: list[list[Message]] = []
        self.changed = threading.Condition()

    def send(self, messages: Any) -> None:
        with self.changed:
            problem = self.doings.popleft() if self.doings else None
            if problem is None:
                self.sent.append(list(messages))
            self.changed.notify_all()
        if problem is not None:
            raise problem

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.sent) >= count, PATIENCE), self.sent


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_764_500_000.0

    def __call__(self) -> float:
        return self.now

    def passes(self, box: Outbox, seconds: float) -> None:
        with box._changed:
            self.now += seconds
            box._changed.notify_all()


def open_box(
    channel: Channel, run: Path | None, *, notes: Notes | None = None, others: Path | None = None, **more: Any
) -> Outbox:
    if run is not None:
        run.mkdir(exist_ok=True, parents=True)
    folder = run / "outbox" if run is not None else None
    settings: dict[str, Any] = {"together": 0.0, "first_wait": 0.02, "longest_wait": 0.1, **more}
    return Outbox([channel], folder, others=others, note=Notes() if notes is None else notes, **settings)


def waiting(run: Path) -> list[str]:
    return [path.name for path in (run / "outbox").glob("*.json")]


def everything(folder: Path) -> str:
    return "\n".join(
        f"{path}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in folder.rglob("*") if path.is_file()
    )


SCRIPT = """
import os, signal, sys
from pathlib import Path
from rlwatch.alerts import box as boxes
from rlwatch.alerts.outbox import Outbox
from rlwatch.alerts.slack import Slack
from rlwatch.runs.records import Alert, AlertState, Severity

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def alert(rule):
    return Alert(rule, Severity.CRITICAL, AlertState.FIRING, 1, 2, 0.0, 0.1, 0.9, "it fell to 0.1", run="night-run")

def told(rule):
    print(rule, flush=True)

def fault(where, error):
    print(where, error, file=sys.stderr)

run = Path(sys.argv[1])
run.mkdir(exist_ok=True)
box = Outbox([Slack(os.environ["HOOK"])], run / "outbox", others=run.parent, note=fault, together=0.0, first_wait=0.01)
"""


def start(hook: Hook, run: Path, body: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT + body, str(run)],
        env={**os.environ, "HOOK": hook.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def put_all(rules: str) -> str:
    return f"\nfor rule in {list(rules)}:\n    box.put(alert(rule)); told(rule)\n"
