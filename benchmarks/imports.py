"""What an import costs in processor time: `python benchmarks/imports.py [ROUNDS]`.

Each is measured in fresh processes, one after the other in every round, and the best of all rounds counts; what Python
itself needs to start is taken off. Reference: `import numpy` and `import torch` on the same machine.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

STATEMENTS = {
    "nothing": "pass",
    "import rlwatch": "import rlwatch",
    "the command line": "import rlwatch.cli",
    "Monitor": "from rlwatch import Monitor",
    "reading and judging": "from rlwatch import analyze",
    "import numpy": "import numpy",
    "import polars": "import polars",
    "the callback": "from rlwatch import RLWatchCallback",
    "import torch, transformers": "import torch; from transformers import TrainerCallback",
}
LIMIT = 0.3
"""Seconds that `import rlwatch` and its command may take; a Monitor needs numpy, and takes as long again."""


def seconds(code: str) -> float:
    """Processor time of a process that does nothing else."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a table; exit with 1 if the core takes longer than it may."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    best = dict.fromkeys(STATEMENTS, float("inf"))
    for _ in range(rounds):
        for name, code in STATEMENTS.items():
            best[name] = min(best[name], seconds(code))
    bare = best["nothing"]
    for name, time in best.items():
        print(f"{name:28} {time - bare:6.3f} s" if name != "nothing" else f"Python itself {time:20.3f} s")
    core = max(best[name] - bare for name in ("import rlwatch", "the command line"))
    sys.exit(0 if core < LIMIT else f"the core takes {core:.2f} s, and may take {LIMIT} s")


if __name__ == "__main__":
    main()
