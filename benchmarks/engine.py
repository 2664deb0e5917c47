"""What judging costs, and that it costs the same at the millionth step: all rules over one endless run.

    python benchmarks/engine.py [--steps 1000000] [--json FILE]

The run has every metric that the rules look at: made-up healthy runs of benchmarks/simulated, one after the other, with
steps that go on. Time is processor time. It prints the microseconds a record of the first and of the last tenth and of
each tenth in between, their ratio, and the process's memory after the first tenth and at the end.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from simulated import simulate

from rlwatch.detect.engine import Engine
from rlwatch.detect.rules import default_rules
from rlwatch.runs.records import StepRecord

HEALTHY = ("sharpening", "large-regulariser", "reasoning-grows", "steady-clip", "part-gives-a-little", "entropy-wave")


def endless() -> Iterator[StepRecord]:
    """Rows of healthy runs, logged in full, each step the next."""
    pool = [
        record
        for kind in HEALTHY
        for seed in range(0, 12, 2)
        for made in (simulate(kind, seed, 1),)
        if made.logger == "full"
        for record in made.records
    ]
    step = 0
    while True:
        for record in pool:
            step += 1
            yield StepRecord(step, 1.7e9 + 30.0 * step, record.metrics)


def memory() -> float:
    """Megabytes that this process has in the main memory now; the most that it ever had where that is not told."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="all numbers")
    chosen = parser.parse_args(arguments)
    engine, rows, tenth = Engine(default_rules(), run="endless"), endless(), max(1, chosen.steps // 10)
    next(rows)
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
        print(f"tenth {part + 1:2d}: {costs[-1]:6.1f} us a record, {sizes[-1]:6.1f} MB, {changes} changes of alerts")
    state = len(json.dumps(engine.state()))
    print(f"last tenth against first: {costs[-1] / costs[0]:.2f}; memory grew by {sizes[-1] - sizes[0]:.1f} MB")
    print(f"what the rules remember: {state / 1e3:.1f} kB as JSON")
    if chosen.json:
        chosen.json.write_text(json.dumps({"us": costs, "mb": sizes, "state_bytes": state}, indent=1))


if __name__ == "__main__":
    main()
