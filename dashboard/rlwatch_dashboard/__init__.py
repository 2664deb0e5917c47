"""The live page: reads run directories and shows how the runs are. It never touches a trainer."""

from __future__ import annotations

from rlwatch_dashboard.app import create_app
from rlwatch_dashboard.server import PortTakenError, run_in_background, serve

__all__ = ["PortTakenError", "create_app", "run_in_background", "serve"]
