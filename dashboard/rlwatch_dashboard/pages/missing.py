"""What a page says where there is nothing to show: how to get a run, or the way back."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from rlwatch_dashboard import addresses
from rlwatch_dashboard.roots import Roots

THREE_LINES = """from rlwatch import RLWatchCallback
trainer = GRPOTrainer(..., callbacks=[RLWatchCallback()])
trainer.train()"""


def no_runs(roots: Roots) -> Any:
    """The empty state: what to do to see a run here. The folders are looked at again all the time."""
    there = [folder for folder in roots.folders if folder.is_dir()]
    where = "There is no run in" if there else "There is no folder"
    named: list[Any] = []
    for folder in there or roots.folders:
        named += [" or ", html.Code(str(folder.absolute()))] if named else [html.Code(str(folder.absolute()))]
    return html.Section(
        [
            html.H2("No runs yet"),
            html.P([f"{where} ", *named, ". This page shows one as soon as it begins."]),
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
            html.P(dcc.Link("All runs", href=addresses.runs())),
        ],
        className="empty-state",
    )
