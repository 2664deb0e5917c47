"""rlwatch: know within a few steps that an RL fine-tuning run has stopped learning, why, and what to change.

from rlwatch import RLWatchCallback
trainer = GRPOTrainer(..., callbacks=[RLWatchCallback()])
trainer.train()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlwatch._version import __version__

if TYPE_CHECKING:
    from rlwatch.audit.result import audit
    from rlwatch.capture.callback import RLWatchCallback, watch
    from rlwatch.capture.monitor import Monitor
    from rlwatch.notebook import show
    from rlwatch.report.analysis import analyze
    from rlwatch.report.analysis import load_run as load

__all__ = ["Monitor", "RLWatchCallback", "__version__", "analyze", "audit", "load", "show", "watch"]

_NEEDS_TRL = {"RLWatchCallback", "watch"}


def __getattr__(name: str) -> Any:
    """What needs torch and transformers is imported when it is asked for: the rest of rlwatch needs neither."""
    if name == "Monitor":
        from rlwatch.capture.monitor import Monitor

        return Monitor
    if name == "audit":
        import rlwatch.audit

        return rlwatch.audit
    if name in ("analyze", "load"):
        from rlwatch.report import analysis

        return analysis.analyze if name == "analyze" else analysis.load_run
    if name == "show":
        from rlwatch.notebook import show

        return show
    if name not in _NEEDS_TRL:
        raise AttributeError(f"module 'rlwatch' has no attribute {name!r}")
    try:
        from rlwatch.capture import callback
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("torch", "transformers"):
            raise  # a fault of another kind: it is to be seen as it is
        raise ImportError(f"rlwatch.{name} needs torch and transformers: pip install 'rlwatch-monitor[trl]'") from error
    return getattr(callback, name)
