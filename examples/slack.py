"""What Slack would show of a run that fails, with a server on this machine in its place: `python examples/slack.py`.

With a webhook of your own, `export RLWATCH_SLACK_WEBHOOK=https://hooks.slack.com/...` is all; your training needs no
line more, and neither does this one.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import rlwatch


class Receiver(BaseHTTPRequestHandler):
    """Prints what is posted to it."""

    def do_POST(self) -> None:
        """Take a message as Slack does."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(f"--- Slack would show:\n{body['text']}", flush=True)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=120, help="optimizer steps")
parser.add_argument("--dir", default="runs", help="the folder for the run")
options = parser.parse_args()

server = HTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["RLWATCH_SLACK_WEBHOOK"] = f"http://127.0.0.1:{server.server_port}/services/not/a/secret"

with rlwatch.Monitor(options.dir, name="slack-example") as monitor:
    for step in range(1, options.steps + 1):
        reward = 0.4 if step < options.steps // 2 else 0.0  # half way the verifier breaks
        monitor.step(step, loss=0.01, **{"reward/mean": reward})
server.shutdown()
