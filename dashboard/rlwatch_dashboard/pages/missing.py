"""What a page says where there is nothing to show: how to get a run, or the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dash import dcc, html

THREE_LINES = """from rlwatch import RLWatchCallback
trainer = GRPOTrainer(..., callbacks=[RLWatchCallback()])
trainer.train()"""


def no_runs(root: Path) -> Any:
    """The empty state: what to do to see a run here. The folder is looked at again all the time."""
    where = "There is no run in" if root.is_dir() else "There is no folder"
    return html.Section(
        [
            html.H2("No runs yet"),
            html.P([f"{where} ", html.Code(str(root.absolute())), ". This page shows one as soon as it begins."]),
            html.P("Watch a training of your own: add one callback to TRL's GRPOTrainer."),
            html.Pre(html.Code(THREE_LINES), tabIndex=0),
            html.P("Or see a run fail on purpose, on this machine, in two minutes:"),
            html.Pre(html.Code("rlwatch lab failure-room"), tabIndex=0),
        ],
        className="empty-state",
    )


def not_found(what: str, why: str) -> Any:
    """The page for an address that leads nowhere."""
    return html.Section(
        [
            html.H1("Not found"),
            html.P([html.Code(what), f": {why}"]),
            html.P(dcc.Link("All runs", href="/")),
        ],
        className="empty-state",
    )
