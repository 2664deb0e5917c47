"""Trains every arm of an experiment with every seed, some at a time, and goes on where an earlier call was stopped.

    OUT/failure-room-tight-seed0/     a run directory like any other, which the page shows while it grows
    OUT/failure-room-tight-seed0/lab.json     written last: what was run, with which versions, and how long it took
    OUT/.lab/                         first policies, by experiment and seed; and what was left unfinished

A run with a `lab.json` that says the same is not trained again. One without is moved to `.lab/unfinished`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlwatch._version import __version__
from rlwatch.alerts.configured import VARIABLES
from rlwatch.lab.experiment import Experiment, run_name
from rlwatch.lab.experiments import find
from rlwatch.lab.own_loop import name_run, run_dir_of

MARK = "lab.json"
ASIDE = ".lab"


@dataclass(frozen=True)
class Job:
    """One training.

    Args:
        experiment: The name of the experiment.
        arm: The name of the arm.
        seed: Of the first weights and of the sampling.
        steps: Optimizer steps.
    """

    experiment: str
    arm: str
    seed: int
    steps: int

    @property
    def name(self) -> str:
        """The run's."""
        return run_name(self.experiment, self.arm, self.seed)


@dataclass(frozen=True)
class Failed:
    """A training that raised, and what."""

    job: Job
    why: str


def jobs_of(experiment: Experiment, arms: Sequence[str], seeds: Sequence[int], steps: int) -> list[Job]:
    """All of them, seed by seed, so that what is there after a while has every arm.

    Raises:
        ValueError: There is no such arm.
    """
    named = [experiment.arm(arm) for arm in arms]
    return [Job(experiment.name, arm.name, seed, min(steps, arm.steps or steps)) for seed in seeds for arm in named]


def is_done(root: Path, job: Job) -> bool:
    """Whether a whole run of it is there."""
    try:
        found = json.loads((root / job.name / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("job") == _as_said(job)


def train_all(
    root: Path, jobs: Sequence[Job], *, workers: int, on_tick: Callable[[Sequence[Job], int], None] | None = None
) -> list[Failed]:
    """Train what is not there yet; what failed.

    Each training is a process with one thread: the tensors are too small for more.

    Args:
        root: The folder of runs.
        jobs: What there is to be.
        workers: Trainings at once.
        on_tick: Called twice a second with the jobs that are under way and how many are done.
    """
    root.mkdir(parents=True, exist_ok=True)
    left = [job for job in jobs if not is_done(root, job)]
    for job in left:
        _set_aside(root, job)
    done, failed = len(jobs) - len(left), []
    if not left:
        return []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        min(workers, len(left)), mp_context=context, initializer=_begin, initargs=(os.getpid(),)
    ) as pool:
        waiting: dict[Future[None], Job] = {pool.submit(train_one, str(root), job): job for job in left}
        try:
            while waiting:
                over, _ = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in over:
                    job, raised = waiting.pop(future), future.exception()
                    done += 1
                    if raised is not None:
                        failed.append(Failed(job, f"{type(raised).__name__}: {raised}"))
                if on_tick is not None:
                    on_tick([job for future, job in waiting.items() if future.running()], done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def train_one(root: str, job: Job) -> None:
    """Train one of them in this process, and mark it as whole.

    Raises:
        OSError: No run directory could be made.
        RuntimeError: The watched training did not record every step.
    """
    import torch

    from rlwatch.capture.callback import RLWatchCallback
    from rlwatch.runs.reader import read_summary

    torch.set_num_threads(1)
    folder, experiment = Path(root), find(job.experiment)
    module, arm = importlib.import_module(experiment.module), experiment.arm(job.arm)
    began = time.time()
    start = module.prepare(job.seed, folder / ASIDE)
    watcher = RLWatchCallback(folder, name=job.name, settings={}, **experiment.watch)
    with tempfile.TemporaryDirectory() as scratch:
        built = module.build(arm, start, seed=job.seed, steps=job.steps, output_dir=Path(scratch), callbacks=[watcher])
        name_run(built, folder, job.name)
        built.train()
    run_dir = run_dir_of(built, watcher)
    if run_dir is None:
        raise OSError(f"{job.name}: no run directory could be made in {folder}")
    last = read_summary(run_dir).last
    if last is None or last.step < job.steps:
        raise RuntimeError(f"{job.name}: {last.step if last else 0} of {job.steps} steps were recorded")
    told = {"job": _as_said(job), "seconds": round(time.time() - began, 1), "versions": versions()}
    unfinished = run_dir / f".{MARK}"
    unfinished.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(run_dir / MARK)
    del built, watcher
    gc.collect()  # a trainer and its callbacks hold each other, and the next training is in this process, too


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    found = {"python": platform.python_version(), "rlwatch": __version__}
    for package in ("torch", "transformers", "trl", "accelerate"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _as_said(job: Job) -> dict[str, Any]:
    """The job and what its arm sets: another value is another run."""
    arm = find(job.experiment).arm(job.arm)
    settings = {name: repr(value) for name, value in {**arm.settings, **arm.task}.items()}
    return {**asdict(job), "settings": settings}


def _set_aside(root: Path, job: Job) -> None:
    """Make room for a run; nothing is thrown away."""
    path = root / job.name
    if not path.exists():
        return
    aside = root / ASIDE / "unfinished"
    aside.mkdir(parents=True, exist_ok=True)
    path.rename(next(place for place in _numbered(aside / job.name) if not place.exists()))


def _numbered(path: Path) -> Iterator[Path]:
    yield path
    number = 2
    while True:
        yield path.with_name(f"{path.name}-{number}")
        number += 1


def tell_nobody() -> None:
    """Forget, in this process, where alerts are sent to: these trainings fail on purpose."""
    for name in VARIABLES:
        os.environ.pop(name, None)


def _begin(parent: int) -> None:
    """In a training's process: nothing is printed, for several would print at once, and nobody is told.

    It ends with the process that began it: another call might train the same run.
    """
    tell_nobody()
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for as long as the process lives
    threading.Thread(target=_end_with, args=(parent,), name="rlwatch-lab", daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
