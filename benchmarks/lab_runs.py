"""Runs of the lab as labelled data: trained with TRL, and labelled by what each experiment itself asks.

    rlwatch lab failure-room --seeds 5 --out DIR
    python benchmarks/detectors.py --lab DIR

A run failed at the step that its experiment calls the event; it is good if its arm is to be quiet and there was no such
event. What is neither counts neither way. The rules that are right for an arm were written down with it; rlwatch's own
alerts have no part in a label.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlwatch.lab.campaign import MARK
from rlwatch.lab.experiments import find
from rlwatch.readers import load
from rlwatch.runs.records import Run


@dataclass(frozen=True)
class Labelled:
    """A run of the lab.

    Args:
        run: It.
        kind: Its experiment and arm.
        event: The step at which it failed; None for a good one.
        rules: Those that are right for it.
    """

    run: Run
    kind: str
    event: int | None
    rules: tuple[str, ...]


def labelled(folder: Path) -> Iterator[Labelled]:
    """Each whole run of an experiment that has an event; those that are neither good nor failed are passed over."""
    for mark in sorted(folder.glob(f"*/{MARK}")):
        job = json.loads(mark.read_text(encoding="utf-8"))["job"]
        experiment = find(job["experiment"])
        if not experiment.event:
            continue
        arm = experiment.arm(job["arm"])
        (run,) = load(mark.parent)
        event = experiment.measure(experiment.event).of(run.records)
        kind = f"{experiment.name}: {arm.name}"
        if event is not None and arm.fires:
            yield Labelled(run, kind, int(event), arm.fires)
        elif event is None and arm.quiet:
            yield Labelled(run, kind, None, ())
