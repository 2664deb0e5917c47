"""Sends one notification by apprise: `python -m rlwatch.alerts.apprise_process`, told by a line of JSON what and where.

It says nothing, for what apprise says may hold the URL; its exit code tells how it went. Where its standard input ends
before it has sent, whoever wanted it is no more, and it ends too.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading

SENT, NOT_SENT, MISSING, UNKNOWN = 0, 75, 3, 4
"""Exit codes."""


def main() -> int:
    """Send; the exit code."""
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    logging.disable(logging.CRITICAL)
    try:
        import apprise
    except ImportError:
        return MISSING
    # No second sending of apprise's own, and nothing on the disk.
    asset = apprise.AppriseAsset(async_mode=False, storage_mode="memory")
    service = apprise.Apprise(asset=asset)
    if not service.add(order["url"]):
        return UNKNOWN
    sent = service.notify(
        body=order["body"], title=order["title"], notify_type=order["kind"], body_format=apprise.NotifyFormat.TEXT
    )
    return SENT if sent else NOT_SENT


def _end_with_input() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(NOT_SENT)


if __name__ == "__main__":
    try:
        code = main()
    except Exception:
        code = NOT_SENT
    os._exit(code)  # at once: the thread that waits for the end of the input cannot be joined
