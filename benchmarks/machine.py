"""What the benchmarks share: how fast the machine is just now, how much memory the process has, spreads of numbers."""

from __future__ import annotations

import contextlib
import resource
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def plain() -> float:
    """Milliseconds that a million additions of Python take just now."""
    began, total = time.process_time(), 0.0
    for _ in range(1_000_000):
        total += 1.0
    return 1e3 * (time.process_time() - began)


def memory() -> float:
    """Megabytes that this process has in the main memory now; the most that it ever had where that is not told."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def spread(values: Sequence[float], unit: str) -> dict[str, Any]:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return {"median": round(middle, 3), "quartiles": [round(low, 3), round(high, 3)], "unit": unit, "n": len(values)}
