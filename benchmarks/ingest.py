"""What reading costs: a dump of completions, and a log of metrics read and judged, each on one core.

    python benchmarks/ingest.py [--megabytes 200] [--rows 100000] [--repeat 3]

Each measurement is a process of its own, so that its peak memory is its own, and works on one core. Times are processor
times, the best of so many: on a machine that others share, wall times tell more about them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["POLARS_MAX_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"


def write_dump(path: Path, megabytes: float) -> None:
    """JSON lines as a verl training dumps them: 32 prompts a step, 8 completions each, about 2 KB a row."""
    generator = random.Random(0)
    words = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=generator.randint(2, 9))) for _ in range(5000)]

    def text(characters: int) -> str:
        chosen = generator.choices(words, k=characters // 7)
        chosen[:: max(1, len(chosen) // 8)] = ['\n"so" \\frac{1}{2} ≈ ½'] * len(chosen[:: max(1, len(chosen) // 8)])
        return " ".join(chosen)

    size = step = 0
    with path.open("w") as file:
        while size < megabytes * 1e6:
            step += 1
            for prompt in range(32):
                asked = text(400)
                for _ in range(8):
                    row = {
                        "input": asked,
                        "output": text(generator.randint(800, 2400)),
                        "gts": "42",
                        "score": float(generator.random() < 0.5),
                        "step": step,
                        "uid": f"{step}-{prompt}",
                    }
                    size += file.write(json.dumps(row, ensure_ascii=prompt % 2 == 0) + "\n")


def write_parquet(path: Path, dump: Path) -> None:
    """The same as one row group, which is how a data frame saves it."""
    import polars as pl

    pl.read_ndjson(dump).write_parquet(path, row_group_size=1 << 30)


def write_log(path: Path, rows: int) -> None:
    """JSON lines as a trainer logs them: a row a step, 40 metrics, of which rlwatch's rules read a dozen.

    The run gets better all the time, but so slowly that one rule says that its reward has stalled.
    """
    generator = random.Random(0)
    others = [f"other/{index}" for index in range(29)]
    with path.open("w") as file:
        for step in range(1, rows + 1):
            left = 1 - step / rows
            metrics = {
                "loss": generator.gauss(0, 0.01),
                "grad_norm": abs(generator.gauss(0.3, 0.1)),
                "learning_rate": 1e-6 * left,
                "entropy": 0.2 + 0.8 * left + generator.gauss(0, 0.02),
                "reward": 0.9 - 0.6 * left + generator.gauss(0, 0.05),
                "reward_std": 0.3,
                "frac_reward_zero_std": 0.5 - 0.3 * left,
                "kl": 0.01,
                "completions/mean_length": 300 + generator.gauss(0, 20),
                "completions/clipped_ratio": 0.05,
                "clip_ratio/high_mean": 0.001,
            }
            metrics |= {name: generator.random() for name in others}
            file.write(json.dumps({"step": step, **metrics}) + "\n")


def read_dump(path: Path) -> str:
    """Read the dump, and say what it was."""
    from rlwatch.readers import load

    [run] = load(path)
    return f"{len(run.records)} steps"


def read_log(path: Path) -> str:
    """Read the log, and say what it was."""
    from rlwatch.readers import load

    [run] = load(path)
    return f"{len(run.records):,} records, {len(run.names)} metrics"


def read_and_judge(path: Path) -> str:
    """Read the log and judge it as `rlwatch analyze` does."""
    from rlwatch.readers import load
    from rlwatch.report.analysis import analyze_run

    [run] = load(path)
    return f"{len(run.records):,} records, {len(analyze_run(run).changes)} changes of alerts"


def judge(rows: int) -> str:
    """The rules alone, all of them led through each record as live, of a run that lives through everything."""
    from rlwatch.detect.engine import Engine
    from rlwatch.detect.rules import default_rules

    records = eventful(rows)
    engine = Engine(default_rules(), run="run")
    begin = time.process_time()
    changes = sum(len(engine.feed(record)) for record in records)
    return f"{time.process_time() - begin:.2f} s of it in the rules, {changes} changes of alerts"


def write_eventful(path: Path, rows: int) -> None:
    """The records of `eventful` as a log."""
    with path.open("w") as file:
        for record in eventful(rows):
            file.write(json.dumps({"step": record.step, **record.metrics}) + "\n")


def eventful(rows: int) -> list[Any]:
    """Records with every metric that the rules read, and 30 more, of a run that collapses and recovers, many times."""
    from rlwatch.runs.records import StepRecord

    generator = random.Random(0)
    records = []
    for step in range(1, rows + 1):
        phase = step % 2000 / 2000
        bad = phase > 0.5
        stuck = 0.8 if bad else 0.1
        metrics: dict[str, float | None] = {
            "loss": generator.gauss(0, 0.01) if generator.random() > 1e-4 else float("nan"),
            "entropy/mean": (0.1 if bad else 1.0) + generator.gauss(0, 0.02),
            "reward/mean": (0.2 if bad else 0.2 + phase) + generator.gauss(0, 0.03),
            "reward/std": 0.3,
            "groups/solved": 0.05,
            "groups/failed": 0.1,
            "groups/stuck": stuck,
            "groups/zero_std": stuck + 0.15,
            "grad/norm": abs(generator.gauss(0.3, 0.1)) if generator.random() > 1e-3 else float("inf"),
            "length/mean": 300 + generator.gauss(0, 20),
        }
        metrics |= {f"raw/{index}": generator.random() for index in range(30)}
        records.append(StepRecord(step, float(step), metrics))
    return records


def measured(work: Callable[[Any], str], argument: Any, answers: Any) -> None:
    """Run it in this process, and send what it said, its processor time and the peak of the memory."""
    import numpy  # noqa: F401  # what imports cost is no cost of reading
    import polars as pl

    pl.DataFrame({"x": [1]}).lazy().select(pl.len()).collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin, wall = time.process_time(), time.perf_counter()
    said = work(argument)
    seconds = time.process_time() - begin
    answers.put((said, seconds, time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, before))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        names = ("dump.jsonl", "dump.parquet", "log.jsonl", "eventful.jsonl")
        dump, table, log, bad = (Path(folder) / name for name in names)
        write_dump(dump, options.megabytes)
        write_log(log, options.rows)
        for write, arguments in ((write_parquet, (table, dump)), (write_eventful, (bad, options.rows))):
            writer = context.Process(target=write, args=arguments)  # whose memory is not this one's, nor its children's
            writer.start()
            writer.join()
        work: list[tuple[str, Callable[[Any], str], Any, float]] = [
            ("a dump of completions, JSON lines", read_dump, dump, dump.stat().st_size / 1e6),
            ("the same, parquet", read_dump, table, dump.stat().st_size / 1e6),
            (f"a log of {options.rows:,} rows × 40, read", read_log, log, log.stat().st_size / 1e6),
            ("the same, read and judged", read_and_judge, log, log.stat().st_size / 1e6),
            ("an eventful one, read and judged", read_and_judge, bad, bad.stat().st_size / 1e6),
            (f"{options.rows:,} eventful records, judged live", judge, options.rows, 0.0),
        ]
        for title, function, argument, megabytes in work:
            best: tuple[str, float, float, int, int] | None = None
            for _ in range(options.repeat):
                answers = context.Queue()
                process = context.Process(target=measured, args=(function, argument, answers))
                process.start()
                found = answers.get()
                process.join()
                best = found if best is None or found[1] < best[1] else best
            assert best is not None
            said, seconds, wall, peak, before = best
            speed = f"{megabytes / seconds:6.0f} MB/s of {megabytes:.0f} MB" if megabytes else ""
            memory = f"peak {peak / 1024:.0f} MiB, {before / 1024:.0f} of them before"
            print(f"{title:42} {seconds:6.2f} s (wall {wall:.2f})  {speed:24} {memory}; {said}")


if __name__ == "__main__":
    main()
