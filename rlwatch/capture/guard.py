"""The one guard around every entry from a trainer: a fault of rlwatch stays with rlwatch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

logger = logging.getLogger("rlwatch")

T = TypeVar("T")


@dataclass
class Fault:
    """Something in rlwatch that went wrong: where, what it said the first time, and how often."""

    where: str
    error: str
    count: int = 1


class Guard:
    """Runs rlwatch's own code so that no exception of it reaches the training.

    A fault is logged with its traceback the first time it happens at a place, and counted after that.

    Args:
        on_new_fault: Called when a place fails for the first time; what it raises is logged and goes no further.
    """

    def __init__(self, on_new_fault: Callable[[], None] | None = None) -> None:
        self._faults: dict[str, Fault] = {}
        self._lock = threading.Lock()
        self.on_new_fault = on_new_fault

    @property
    def faults(self) -> list[dict[str, Any]]:
        """What went wrong so far, as run.json holds it."""
        with self._lock:
            return [vars(fault).copy() for fault in self._faults.values()]

    def run(self, where: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
        """The function's result, or None if it raised."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self.note(where, error)
            return None

    def note(self, where: str, error: Exception) -> None:
        """Count a fault that was caught elsewhere; may be called from any thread."""
        with self._lock:
            known = self._faults.get(where)
            if known is not None:
                known.count += 1
                return
            self._faults[where] = Fault(where, f"{type(error).__name__}: {error}")
        logger.error("rlwatch: %s failed; the training goes on without it.", where, exc_info=error)
        if self.on_new_fault is not None:
            try:
                self.on_new_fault()
            except Exception:
                logger.debug("rlwatch: the fault could not be noted in the run", exc_info=True)
