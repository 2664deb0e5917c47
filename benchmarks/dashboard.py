"""What the dashboard costs: a page of a very long run on the server and in a real browser, and a page of many runs.

    python benchmarks/dashboard.py [--steps 100000] [--runs 500] [--no-browser] [--json FILE]

It makes a run of 40 metrics, and 500 runs of 60 steps, in a folder of its own. Server time is processor time, as median
and quartiles; browser time is wall time in headless Chromium without a GPU, and the main thread's busy time as
Chromium counts it (`TaskDuration`) while a writer appends a step a second. Beside it stands a loop of plain Python,
because machines that are shared change their speed. Without Chromium or Playwright the browser's part is left out.

A first view is timed twice, on the browser's clock, from the moment at which the address is asked for. It is *seen*
when a frame has been drawn that has the run's sentence and the curves of its four signals (or ten rows of the grid with
their curves), whoever drew them: the page's own HTML, or Plotly and the grid. It *works* when Plotly and the grid have
drawn them, and what came in the HTML is gone: zoom, sorting and the rest answer. Where all caches are empty, the server
has not yet read the run either.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dashboard_browser import browser
from machine import memory, plain, spread

from rlwatch.runs.jsonl import encode
from rlwatch.runs.metrics import METRICS
from rlwatch.runs.records import StepRecord
from rlwatch.runs.writer import RunWriter
from rlwatch_dashboard import create_app, feed, followed

OTHERS = ("weight_", "counterfactual", "sampler", "loss", "lr")
NAMES = ["loss", "lr", *[name for name in METRICS if not name.startswith(OTHERS)][:38]]
REFRESHES = 10_000


def line(step: int, values: Sequence[float]) -> bytes:
    metrics = dict(zip(NAMES, values, strict=True))
    return (encode({"step": step, "time": 1.7e9 + 3 * step, "metrics": metrics}) + "\n").encode()


def append(writer: RunWriter, step: int, values: Sequence[float]) -> None:
    writer.append(StepRecord(step, 1.7e9 + 3 * step, dict(zip(NAMES, values, strict=True))))


def make_run(root: Path, name: str, steps: int, seed: int = 0) -> RunWriter:
    """A made-up run: noise."""
    (root / name).mkdir(parents=True)
    writer = RunWriter(root / name, {"config": {"learning_rate": 0.1 + seed, "seed": seed}})
    values = np.random.default_rng(seed).random((steps, len(NAMES))).tolist()
    with (writer.path / "metrics.rank0.jsonl").open("ab") as file:
        file.writelines(line(step, row) for step, row in enumerate(values, 1))
    return writer


def question(app: Any, output: str, trigger: str, **values: Any) -> dict[str, Any]:
    """What the browser sends to the callback whose first output is given."""
    key = next(key for key in app.callback_map if key.startswith((output, f"..{output}.")))
    callback = app.callback_map[key]
    outputs = [part.rsplit(".", 1) for part in key.strip(".").split("...")]
    named = [{"id": name, "property": prop.partition("@")[0]} for name, prop in outputs]
    return {
        "output": key,
        "outputs": named if key.startswith("..") else named[0],
        "inputs": [{**item, "value": values.get(f"{item['id']}.{item['property']}", 1)} for item in callback["inputs"]],
        "changedPropIds": [trigger],
        "state": [{**item, "value": values.get(item["id"])} for item in callback["state"]],
    }


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of processor time, and what came of it."""
    began = time.process_time()
    answer = call()
    return 1e3 * (time.process_time() - began), answer


def server(root: Path, writer: RunWriter, steps: int) -> dict[str, Any]:
    app = create_app(root)
    client = app.server.test_client()
    ask = lambda body: client.post("/_dash-update-component", json=body)  # noqa: E731
    where = {"url.pathname": f"/run/{writer.path.name}", "url.search": "", "reload.data": None}
    page = question(app, "page.children", "url.pathname", **where)
    cold, _ = timed(lambda: ask(page))
    warm = [timed(lambda: ask(page)) for _ in range(5)]
    cursor = feed.load(writer.path).cursor
    state = {"run": writer.path.name, "view": "", "unfolded": []}
    rng = np.random.default_rng(1)

    def refresh(cursor: Any) -> tuple[float, Any]:
        body = question(app, "chunk.data", "run-timer.n_intervals", cursor=cursor, **state)
        return timed(lambda: ask(body))

    def zoom(first: int) -> float:
        asked = {"n": 1, "window": [first, first + 500]}
        body = question(app, "seed.data", "ask.data", **state, **{"ask.data": asked})
        return timed(lambda: ask(body))[0]

    costs, sizes, idle = [], [], []
    for step in range(steps + 1, steps + 101):
        append(writer, step, rng.random(len(NAMES)).tolist())
        cost, answer = refresh(cursor)
        costs.append(cost)
        sizes.append(len(answer.data))
        cursor = answer.get_json()["response"]["chunk"]["data"]["to"]
        cost, answer = refresh(cursor)
        assert answer.data == b""
        idle.append(cost)
    zooms = [zoom(first) for first in range(0, 5000, 500)]
    gc.collect()
    before = memory()
    for step in range(steps + 101, steps + 101 + REFRESHES):
        if step % 10 == 0:
            append(writer, step, [0.5] * len(NAMES))
        update = feed.poll(writer.path, cursor)
        cursor = cursor if update is None else update.cursor
    gc.collect()
    return {
        "first view, cold, server": spread([cold], "ms CPU"),
        "first view, warm, server": spread([cost for cost, _ in warm], "ms CPU"),
        "first view, answer": spread([len(answer.data) / 1e3 for _, answer in warm], "kB"),
        "refresh with a new step, server": spread(costs, "ms CPU"),
        "refresh with a new step, answer": spread([size / 1e3 for size in sizes], "kB"),
        "refresh without news, server": spread(idle, "ms CPU"),
        "zoom, server": spread(zooms, "ms CPU"),
        f"memory grew over {REFRESHES:,} refreshes, server": spread([memory() - before], "MB"),
        "columns in memory": spread([followed._CACHE.nbytes / 1e6], "MB"),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long the main thread is watched")
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all numbers")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        root, many = Path(folder) / "one", Path(folder) / "many"
        writer = make_run(root, "long", chosen.steps)
        for number in range(0 if chosen.no_browser else chosen.runs):
            make_run(many, f"run-{number:03d}", 60, number).close()  # its files too
        found = {"a million additions of Python": spread([plain() for _ in range(3)], "ms CPU")}
        found |= server(root, writer, chosen.steps)
        if not chosen.no_browser:
            same = [0.5] * len(NAMES)
            try:
                found |= browser(root, many, writer.path.name, lambda step: append(writer, step, same), chosen.seconds)
            except Exception as error:  # what was measured so far is worth telling
                print(f"the browser's part is left out: {str(error).partition(chr(10))[0]}", file=sys.stderr)
        found |= {"a million additions of Python, at the end": spread([plain() for _ in range(3)], "ms CPU")}
    print(f"{chosen.steps:,} steps of {len(NAMES)} metrics; {chosen.runs} runs")
    for name, row in found.items():
        low, high = row["quartiles"]
        between = f"({low:g} to {high:g}, n={row['n']})" if row["n"] > 1 else ""
        print(f"{name:48} {row['median']:10.3f} {row['unit']:7} {between}")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
