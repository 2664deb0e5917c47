"""Runs of the failure room as labelled data: trained with TRL, and labelled by what the experiment itself asks.

    python benchmarks/lab_runs.py DIR [--seeds 5]
    python benchmarks/detectors.py --lab DIR

Every arm with every seed that DIR does not hold yet is trained (about 40 s each on one core) and kept as a run
directory. A run collapsed if from some step on, over two rollouts, three quarters of the groups were dead and not
solved; that step is the event. It is good if it learnt the task: a mean reward of 0.85 over its last four rollouts.
What is neither counts neither way. rlwatch's own alerts have no part in that.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlwatch.readers import load
from rlwatch.runs.records import Run, StepRecord

DEAD = 0.75
LEARNT = 0.85
ROLLOUT = 8
"""Optimizer steps on the same completions."""

RULES = ("entropy-collapse", "dead-groups")


def event_of(records: Sequence[StepRecord]) -> int | None:
    """The step from which, over two rollouts, `DEAD` of the groups are dead and not solved; None if that never is."""
    dead = [(r.metrics["groups/stuck"] or 0.0) + (r.metrics["groups/failed"] or 0.0) for r in records]
    span = 2 * ROLLOUT
    for first in range(len(dead) - span + 1):
        if min(dead[first : first + span]) >= DEAD:
            return records[first].step
    return None


def learnt(records: Sequence[StepRecord]) -> bool:
    """Whether it knew the task at its end."""
    last = [r.metrics["reward/mean"] or 0.0 for r in records[-4 * ROLLOUT :]]
    return sum(last) / len(last) >= LEARNT


def labelled(folder: Path) -> Iterator[tuple[Run, int | None, bool]]:
    """Each run with its event, and whether it is good; those that are neither are passed over."""
    for path in sorted(folder.glob("failure-room-*")):
        (run,) = load(path)
        event = event_of(run.records)
        good = event is None and learnt(run.records)
        if event is not None or good:
            yield run, event, good


def train(folder: Path, seeds: int) -> None:
    """Make what is missing."""
    import tempfile

    import torch
    from rich.console import Console

    from rlwatch.capture.callback import RLWatchCallback
    from rlwatch.lab.failure_room import ARMS, build_trainer
    from rlwatch.lab.warm_start import warm_start

    torch.set_num_threads(1)
    console = Console()
    for seed in range(seeds):
        missing = [arm for arm in ARMS.values() if not (folder / f"failure-room-{arm.name}-seed{seed}").is_dir()]
        if not missing:
            continue
        warm = warm_start(seed, console=console)
        for arm in missing:
            name = f"failure-room-{arm.name}-seed{seed}"
            watcher = RLWatchCallback(folder / "unfinished", name=name, correct="accuracy_reward")
            with tempfile.TemporaryDirectory() as scratch:
                build_trainer(arm, seed=seed, output_dir=Path(scratch), warm=warm, callbacks=[watcher]).train()
            assert watcher.run_dir is not None
            watcher.run_dir.rename(folder / name)
            console.print(f"made {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    train(chosen.folder, chosen.seeds)
