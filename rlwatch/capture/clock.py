"""Looks at a run every few seconds, also while no step ends: only so can it be seen that none does."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Clock:
    """Calls a function at regular intervals, from a thread of its own.

    Args:
        call: What is called; it catches what it raises.
        seconds: From one call to the next.
    """

    def __init__(self, call: Callable[[], None], seconds: float = 5.0) -> None:
        self._call = call
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if it has not begun."""
        if self._thread is None and not self._stopped.is_set():
            self._thread = threading.Thread(target=self._run, name="rlwatch-clock", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End; a call that has begun is waited for, unless it is what stops the clock."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._call()
