"""`rlwatch lab`: failures on purpose."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from rlwatch.cli.common import RUNS, missing, wrong
from rlwatch.cli.common import console as console_of
from rlwatch.cli.page import page_beside


def lab(
    experiment: Annotated[str, typer.Argument(help="failure-room, length-bias, ...")] = "failure-room",
    seed: Annotated[int, typer.Option(help="Of the warm start and of the sampling; with --seeds the first.")] = 0,
    seeds: Annotated[int | None, typer.Option(help="Measure: run so many seeds and write a report.", min=1)] = None,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps a run.", min=16)] = None,
    arms: Annotated[str | None, typer.Option(help="The arms to run, as in tight,wide.")] = None,
    jobs: Annotated[int, typer.Option(help="With --seeds: trainings at once; 0 is one a core.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="The folder of runs to write to.")] = RUNS,
    page: Annotated[bool, typer.Option("--dashboard", help="Have the live page open meanwhile.")] = False,
    keep_open: Annotated[bool, typer.Option("--keep-open", help="With the page: leave it open at the end.")] = False,
) -> None:
    """A failure, on purpose, on this CPU, watched by rlwatch."""
    from rlwatch.lab.experiments import find

    chosen = [name.strip() for name in (arms or "").split(",") if name.strip()]
    try:
        found = find(experiment)
        for arm in chosen:
            found.arm(arm)
    except ValueError as error:
        raise wrong(str(error)) from None
    if seeds is not None and importlib.util.find_spec("plotly") is None:  # said before hours of training, not after
        raise missing("dashboard", ImportError("plotly draws the curves of the report"))
    console = console_of()
    failed = []
    with page_beside(out, console) if page or keep_open else contextlib.nullcontext():
        console.print("Loading torch and TRL ...")
        try:
            from rlwatch.lab import command

            if seeds is None:
                command.look(found, chosen, out, seed=seed, steps=steps or 0, console=console)
            else:
                numbers = range(seed, seed + seeds)
                failed = command.measure(
                    found, chosen, out, seeds=numbers, steps=steps or 0, workers=jobs, console=console
                )
        except ImportError as error:
            raise missing("trl", error) from None
        if keep_open:
            console.print("\nThe page stays open; end it with Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()
    if failed:
        for one in failed:
            print(f"rlwatch: {one.job.name} failed: {one.why}", file=sys.stderr)
        raise wrong(f"{len(failed)} of the trainings failed; the same command goes on with them")
