"""`rlwatch lab`: one look at an experiment, or a measurement with many seeds and a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from rlwatch.lab.campaign import ASIDE, Failed, Job, jobs_of, train_all
from rlwatch.lab.experiment import Experiment
from rlwatch.lab.findings import command_line, document
from rlwatch.lab.findings_files import write
from rlwatch.lab.outcome import Outcome, outcome
from rlwatch.runs.reader import read_summary


def look(experiment: Experiment, arms: Sequence[str], root: Path, *, seed: int, steps: int, console: Console) -> None:
    """Train each arm once, its alerts printed as they fire, and print what came of it.

    Args:
        experiment: Which one.
        arms: Names of its arms; none are those that are run where nobody says which.
        root: The folder of runs.
        seed: Of the first weights and of the sampling.
        steps: Optimizer steps a run; 0 for the experiment's own number.
        console: Where to print.

    Raises:
        ValueError: There is no such arm.
        ImportError: torch or TRL is not installed.
    """
    from rlwatch.lab.single import arms_table, run_once

    chosen = [experiment.arm(name) for name in arms or experiment.short]
    results = run_once(
        experiment, chosen, root, seed=seed, steps=steps or experiment.steps, console=console, cache=root / ASIDE
    )
    console.print()
    console.print(arms_table(experiment, results))


def measure(
    experiment: Experiment,
    arms: Sequence[str],
    root: Path,
    *,
    seeds: Sequence[int],
    steps: int,
    workers: int,
    console: Console,
) -> list[Failed]:
    """Train every arm with every seed, as far as that is not done yet, judge the claims, and write the report.

    Arguments as in [`look`][rlwatch.lab.command.look]; `workers` is how many trainings run at once, and 0 one for each
    core.

    Returns:
        Trainings that failed; with one of them there is no report.
    """
    jobs = jobs_of(experiment, arms or [arm.name for arm in experiment.arms], seeds, steps or experiment.steps)
    workers = workers or os.cpu_count() or 1
    with _Bars(root, console, len(jobs)) as bars:
        failed = train_all(root, jobs, workers=workers, on_tick=bars.show)
    if failed:
        return failed
    found = outcome(experiment, root, jobs)
    command = command_line(experiment.name, seeds=len(seeds), steps=found.steps, first_seed=seeds[0], arms=found.arms())
    paths = write(root, found, document(found, command))
    console.print(claims_table(found))
    console.print(f"\nThe report: {paths[0]}, and as text {paths[1].name} and numbers {paths[2].name} beside it.")
    return []


def claims_table(found: Outcome) -> Table:
    """Each claim with its verdict and numbers."""
    table = Table(box=None, padding=(0, 2, 1, 0), header_style="dim")
    table.add_column("claim", ratio=3)
    table.add_column("verdict")
    table.add_column("numbers", ratio=4)
    colours = {"shown": "green", "not shown": "yellow", "reversed": "red"}
    for one in found.judged:
        word = one.verdict.value
        table.add_row(one.claim.says, f"[{colours[word]}]{word}[/]", one.numbers)
    return table


class _Bars:
    """A bar for all trainings and one for each that is under way, read from the run directories as they grow."""

    def __init__(self, root: Path, console: Console, total: int) -> None:
        self._root, self._console, self._total, self._said = root, console, total, -1
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[what]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._all = self._progress.add_task("all", total=total, what="runs")

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, under_way: Sequence[Job], done: int) -> None:
        """What is under way, and how many are done; a line now and then where there is no terminal."""
        self._progress.update(self._all, completed=done)
        for name in self._bars.keys() - {job.name for job in under_way}:
            self._progress.remove_task(self._bars.pop(name))
        for job in under_way:
            if job.name not in self._bars:
                self._bars[job.name] = self._progress.add_task(job.name, total=job.steps, what="steps")
            self._progress.update(self._bars[job.name], completed=self._steps(job))
        if self._progress.disable and done != self._said:
            self._said = done
            self._console.print(f"{done} of {self._total} runs are done", highlight=False)

    def _steps(self, job: Job) -> int:
        try:
            last = read_summary(self._root / job.name).last
        except ValueError:  # it is not there yet
            return 0
        return last.step if last is not None else 0
