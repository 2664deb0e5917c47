"""What judging costs, and that it costs the same at the millionth step: all rules over one endless run.

    python benchmarks/engine.py [--steps 1000000] [--eventful] [--json FILE]

The run has every metric that the rules look at: a made-up healthy run of benchmarks/simulated that goes on and on; or,
with --eventful, several of them one after the other, so that everything jumps every 400 steps. Time is processor time.
It prints the microseconds a record of each tenth, the ratio of the last to the first, and the process's memory after
the first tenth and at the end. Beside it stands a loop of plain Python, because machines that are shared change their
speed.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from machine import memory, plain
from simulated import simulate

from rlwatch.detect.engine import Engine
from rlwatch.detect.rules import default_rules
from rlwatch.runs.records import StepRecord

KIND, SEED = "large-regulariser", 0
"""A healthy run that logs everything, KL and a split gradient among it."""

EVENTFUL = ("sharpening", "large-regulariser", "reasoning-grows", "steady-clip", "part-gives-a-little", "entropy-wave")


def rows_of(kind: str, seed: int) -> list[StepRecord]:
    """A made-up run that is logged in full, a row a step."""
    for later in range(seed, seed + 12, 2):
        made = simulate(kind, later, 1)
        if made.logger == "full":
            return list(made.records)
    raise ValueError(f"no run of {kind} is logged in full")


def steady() -> Iterator[StepRecord]:
    """A healthy run, whose second half, where nothing moves any more, goes on and on."""
    begun = rows_of(KIND, SEED)
    return _numbered(itertools.chain(begun, itertools.cycle(begun[len(begun) // 2 :])))


def eventful() -> Iterator[StepRecord]:
    """Healthy runs one after the other: everything jumps every 400 steps, and rules have a lot to look at."""
    return _numbered(itertools.cycle([row for kind in EVENTFUL for row in rows_of(kind, SEED)]))


def _numbered(rows: Iterable[StepRecord]) -> Iterator[StepRecord]:
    for step, record in enumerate(rows, 1):
        yield StepRecord(step, 1.7e9 + 30.0 * step, record.metrics)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--eventful", action="store_true", help="a run in which everything jumps")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all numbers")
    chosen = parser.parse_args(arguments)
    rows = eventful() if chosen.eventful else steady()
    engine, tenth = Engine(default_rules(), run="endless"), max(1, chosen.steps // 10)
    costs, sizes, changes = [], [], 0
    for part in range(10):
        batch = 1000
        spent = 0.0
        for _ in range(max(1, tenth // batch)):
            records = [next(rows) for _ in range(batch)]
            began = time.process_time()
            for record in records:
                changes += len(engine.feed(record))
            spent += time.process_time() - began
        gc.collect()
        costs.append(1e6 * spent / (max(1, tenth // batch) * batch))
        sizes.append(memory())
        print(
            f"tenth {part + 1:2d}: {costs[-1]:6.1f} us a record, {sizes[-1]:6.1f} MB, {changes} changes of alerts; "
            f"a million additions {plain():.0f} ms"
        )
    state = len(json.dumps(engine.state()))
    print(f"last tenth against first: {costs[-1] / costs[0]:.2f}; memory grew by {sizes[-1] - sizes[0]:.1f} MB")
    print(f"what the rules remember: {state / 1e3:.1f} kB as JSON")
    if chosen.json:
        chosen.json.write_text(json.dumps({"us": costs, "mb": sizes, "state_bytes": state}, indent=1))


if __name__ == "__main__":
    main()
