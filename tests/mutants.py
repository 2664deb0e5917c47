"""Small faults put into the rules and the maths, one at a time: does a test notice? `make mutants`.

A script of our own: mutmut 3 mutates bodies of functions, and most numbers of a rule stand in its class; cosmic-ray
mutates the tree that one works in. Here a copy under a temporary folder is changed, and imported before the real one.
Each mutant is judged, in a fork, by those of the quick tests that run the function it is in.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MODULES = ["level", "trend", "forecast", "deadness", "progress", "peak", "streaming", "track", "engine", "window"]
BESIDES = {  # asked of survivors
    "rules": ["tests/test_rules_edges.py", "tests/test_rules_edges_rows.py", "tests/test_rules.py"],
    "signals": ["tests/test_capture_plain.py"],
}
SLOW = re.compile(
    r"dashboard|browser|docs|capture_(?!plain)|examples|lab|import_cost|floors|compat|monitor|resume|glance"
)
SWAPPED: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
NAMES = {"CRITICAL": "WARNING", "WARNING": "CRITICAL", "INFO": "WARNING", "min": "max", "max": "min",
         "CLEAR": "NO_DATA", "NO_DATA": "CLEAR"}  # fmt: skip


def files() -> list[Path]:
    """The files that are mutated, relative to the root."""
    rules = sorted((ROOT / "rlwatch/detect/rules").glob("[!_]*.py"))
    maths = [ROOT / f"rlwatch/detect/{name}.py" for name in MODULES]
    return [path.relative_to(ROOT) for path in [*rules, *maths, *sorted((ROOT / "rlwatch/signals").glob("[!_]*.py"))]]


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Every node whose change can be seen: no annotations, no words."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.JoinedStr, ast.Import, ast.ImportFrom)):
                yield child
                yield from walk(child)


def sites(tree: ast.AST) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """(line, what is changed, the change) of every fault that can be put in."""
    for node in walk(tree):
        line = getattr(node, "lineno", 0)

        def put(text: str, *changes: tuple[Any, str, Any], line: int = line) -> tuple[int, str, Callable[[], None]]:
            return line, text, lambda: [setattr(*change) for change in changes] and None

        if isinstance(node, ast.Compare):
            for i, op in enumerate(node.ops):
                if type(op) in SWAPPED:
                    new = [*node.ops[:i], SWAPPED[type(op)](), *node.ops[i + 1 :]]
                    yield put(f"{type(op).__name__} → {type(new[i]).__name__}: {ast.unparse(node)}", (node, "ops", new))
        elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in SWAPPED:
            to = SWAPPED[type(node.op)]
            yield put(f"{type(node.op).__name__} → {to.__name__}: {ast.unparse(node)}", (node, "op", to()))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            new_op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            operand = node.operand if isinstance(node.op, ast.USub) else ast.UnaryOp(ast.Not(), node.operand)
            yield put(f"without the sign: {ast.unparse(node)}", (node, "op", new_op), (node, "operand", operand))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            changed = node.value + 1 if type(node.value) is int or not node.value else node.value * 1.5
            yield put(f"{node.value} → {changed}", (node, "value", changed))
        elif isinstance(node, ast.Attribute) and node.attr in NAMES and ast.unparse(node.value) == "Severity":
            yield put(f"{node.attr} → {NAMES[node.attr]}", (node, "attr", NAMES[node.attr]))
        elif isinstance(node, ast.Name) and node.id in NAMES:
            yield put(f"{node.id} → {NAMES[node.id]}", (node, "id", NAMES[node.id]))


def judges(path: Path, copy: Path) -> list[str]:
    """The quick tests that name a module."""
    module = re.compile(re.escape(".".join(path.with_suffix("").parts)) + r"\b")
    names = [t for t in sorted((copy / "tests").glob("test_*.py")) if not SLOW.search(t.name)]
    kind = BESIDES["signals" if "signals" in path.parts else "rules"]
    return [f"tests/{t.name}" for t in names if module.search(t.read_text())] or kind


def passes(copy: Path, tests: list[str], traced: Path | None = None) -> bool:
    """Whether the tests pass on the copy as it is now; in a fork, so that what is slow to import is there already."""
    sys.stdout.flush()
    if (pid := os.fork()) == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.chdir(copy)
        tracer = coverage.Coverage(str(copy / ".traced"), include=[str(traced)], config_file=False) if traced else None
        if tracer:
            tracer.set_option("run:dynamic_context", "test_function")
            tracer.start()
        code = pytest.main(
            ["-x", "-q", "-n0", "-pno:cacheprovider", "-pno:doctest", "-pno:cov", "-oaddopts=", "-otimeout=120", *tests]
        )
        if tracer:
            tracer.stop()
            tracer.save()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code in (4, 5):  # of pytest: there are no such tests
        sys.exit(f"nothing was run of {' '.join(tests)}")
    return code == 0


def reach(copy: Path, path: Path) -> dict[int, set[str]]:
    """The tests that run each line of a file, as pytest calls them; from the run that was traced."""
    data = coverage.CoverageData(str(copy / ".traced"))
    data.read()
    found: dict[int, set[str]] = {}
    for line, contexts in data.contexts_by_lineno(str(copy / path)).items():
        names = (context.rsplit(".", 1) for context in contexts if context.startswith("test_"))
        found[line] = {f"tests/{module}.py::{test}" for module, test in names}
    return found


def nearest(tree: ast.AST, line: int, ran: dict[int, set[str]], tests: list[str]) -> list[str]:
    """The tests that run the function that a line is in; of one outside of functions, all tests."""
    around = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or 0)]
    if not around:
        return tests
    lines = range(around[-1].body[0].lineno, (around[-1].end_lineno or 0) + 1)
    running = set[str]().union(*(ran.get(k, set()) for k in lines))
    return sorted(running, key=lambda test: ("_edges" not in test, test))  # the quickest first


def main() -> None:
    """A table of the files, and the mutants that no test noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="words of the files' paths; all files without any")
    parser.add_argument("--each", type=int, default=5, help="mutants a file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="+", help="files of tests that are to judge alone")
    asked = parser.parse_args()
    chosen = [p for p in files() if not asked.only or any(word in str(p) for word in asked.only)]
    survivors, rows, begun = [], [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rlwatch-mutants-") as folder:
        copy = Path(folder)
        without = shutil.ignore_patterns("__pycache__")
        for name in ("rlwatch", "tests", "dashboard"):
            shutil.copytree(ROOT / name, copy / name, ignore=without)
        shutil.copy(ROOT / "pyproject.toml", copy)
        sys.path[:0] = [str(copy), str(copy / "tests")]
        for path in chosen:
            tests, whole = asked.tests or judges(path, copy), (copy / path).read_text()
            besides = [] if asked.tests else BESIDES["signals" if "signals" in path.parts else "rules"]
            if not passes(copy, tests, traced=copy / path):
                sys.exit(f"{path}: its tests fail without any mutant: {' '.join(tests)}")
            ran = reach(copy, path)
            found = range(len(list(sites(ast.parse(whole)))))
            killed = sample = 0
            for i in sorted(random.Random(f"{asked.seed}:{path}").sample(found, min(asked.each, len(found)))):
                tree = ast.parse(whole)
                line, text, change = list(sites(tree))[i]
                change()
                (copy / path).write_text(ast.unparse(tree))
                sample += 1
                chosen_tests = nearest(ast.parse(whole), line, ran, tests)
                if all(passes(copy, names) for names in (chosen_tests, besides) if names):
                    survivors.append(f"{path}:{line}  {text}")
                    print("survived", survivors[-1], flush=True)
                else:
                    killed += 1
            (copy / path).write_text(whole)
            rows.append((str(path), len(found), sample, killed))
            print(f"{path}  {killed}/{sample}  {time.monotonic() - begun:.0f} s", flush=True)
    print(f"\n{'file':46}{'sites':>7}{'mutants':>9}{'killed':>8}{'survived':>10}")
    for name, sites_, sample, killed in [*rows, ("all", *(sum(r[k] for r in rows) for k in (1, 2, 3)))]:
        print(f"{name:46}{sites_:7}{sample:9}{killed:8}{sample - killed:10}")
    print("\nsurvivors:", *survivors or ["none"], sep="\n  ")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import coverage
    import hypothesis  # noqa: F401  # imported once, for all forks
    import numpy  # noqa: F401  # imported once, for all forks
    import polars  # noqa: F401  # imported once, for all forks
    import pytest
    import torch  # noqa: F401  # imported once, for all forks

    main()
