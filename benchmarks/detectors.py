"""How far the rules can be trusted: on made-up runs whose story is known and, where given, on labelled real ones.

    python benchmarks/detectors.py [--seeds 20] [--half test] [--kinds KIND ...] [--runs DIR] [--lab DIR] [--json FILE]

Runs of even seeds are for tuning, those of odd seeds for testing. `--runs` names a folder with a `labels.tsv` (path,
label, failure, event_step, every); its surviving runs also lend the made-up ones their noise. `--lab` names a folder
of runs of `rlwatch lab NAME --seeds N --out DIR`, labelled by what each experiment asks. A failure is found
by an alert of the right rule, not before anything was wrong, and at least of its class's severity: critical where the
run is being destroyed, a warning where a measurable share is lost. It is told in time by a warning or worse up to the
step at which its class is due: the event and one row more where something shows before it, 20 rows from the event where
the run is dead or misconfigured from there on. On other runs every critical alert is a false one, and warnings are
counted beside them. Intervals are 95 %, from a bootstrap over runs.
Beside the rules stand three naive detectors, of which any alarm counts as one of the right rule.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))
import lab_runs
from simulated import FAILURES, KINDS, TWENTY_ROWS, Noise, Simulated, residual, simulate

from rlwatch.detect.rule import finite
from rlwatch.readers import load
from rlwatch.report.analysis import analyze_run
from rlwatch.runs.records import AlertState, Run, Severity, StepRecord

RESAMPLES = 1000


@dataclass(frozen=True)
class Alarm:
    """An alert as it is told.

    Args:
        rule: Its rule, or None for a detector that names none.
        step: Where it is told.
        critical: Else it is a warning.
        cause: The first cause that it names, or None.
    """

    rule: str | None
    step: int
    critical: bool = True
    cause: str | None = None


@dataclass(frozen=True)
class Case:
    """A run, and what is to be said of it.

    Args:
        kind: Its class.
        name: Its own.
        rules: Those that are right; none where the run is fine.
        steps: How many it has.
        first: Its first step.
        onset: An alarm before it is not about the failure.
        event: Where the failure is a fact.
        due: The last step at which an alarm is in time.
        cause: What the first cause must match.
        logger: As what it is logged.
        severity: The least with which an alarm finds it: "critical" or "warning".
    """

    kind: str
    name: str
    rules: tuple[str, ...]
    steps: int
    first: int = 1
    onset: int | None = None
    event: int | None = None
    due: int | None = None
    cause: str | None = None
    logger: str = ""
    severity: str = "critical"


@dataclass(frozen=True)
class Score:
    """What a detector made of one run.

    Args:
        case: The run.
        told: At least a warning of the right rule by the step at which it was due.
        found: Found at all, at the severity that the class asks for.
        severe: So found by the step at which it was due.
        lead: Steps from the first alarm of the right rule to the event; None where there is none.
        named: Whether the first cause of a right alarm is the right one; None where none is asked for or named.
        false: Critical alarms on a good run, or before anything was wrong.
        false_rules: Whose they are.
        warnings: Warnings there.
    """

    case: Case
    told: bool
    found: bool
    severe: bool
    lead: int | None
    named: bool | None
    false: int
    false_rules: tuple[str, ...] = field(default=())
    warnings: int = 0


def score(case: Case, alarms: Iterable[Alarm]) -> Score:
    """Judge the alarms of one run."""
    alarms = sorted(alarms, key=lambda alarm: alarm.step)
    critical = [alarm for alarm in alarms if alarm.critical]
    if not case.rules:
        rules = tuple(alarm.rule or "" for alarm in critical)
        return Score(case, False, False, False, None, None, len(critical), rules, len(alarms) - len(critical))
    onset = case.first if case.onset is None else case.onset
    due = math.inf if case.due is None else case.due
    early = [alarm for alarm in critical if alarm.step < onset]
    about = [a for a in alarms if a.step >= onset and (a.rule is None or a.rule in case.rules)]
    right = [alarm for alarm in about if alarm.critical or case.severity == "warning"]
    causes = [alarm.cause for alarm in right if alarm.cause is not None]
    return Score(
        case=case,
        told=bool(about) and about[0].step <= due,
        found=bool(right),
        severe=bool(right) and right[0].step <= due,
        lead=case.event - about[0].step if about and case.event is not None else None,
        named=any(re.search(case.cause, cause) for cause in causes) if case.cause and causes else None,
        false=len(early),
        false_rules=tuple(alarm.rule or "" for alarm in early),
        warnings=sum(alarm.step < onset and not alarm.critical for alarm in alarms),
    )


# --- detectors -------------------------------------------------------------------------------------------------------


def rlwatch_rules(run: Run) -> list[Alarm]:
    """What `rlwatch analyze` tells of a run."""
    return [
        Alarm(
            rule=change.rule,
            step=change.step,
            critical=change.severity is Severity.CRITICAL,
            cause=change.causes[0].text if change.causes else None,
        )
        for change in analyze_run(run).changes
        if change.state is AlertState.FIRING and change.severity is not Severity.INFO
    ]


def low_entropy(run: Run, below: float = 0.1) -> list[Alarm]:
    """Entropy under a fixed value."""
    return _edges(run.records, lambda r: (e := finite(r, "entropy/mean")) is not None and e < below)


def zero_std_share(run: Run, above: float = 0.4) -> list[Alarm]:
    """A zero-variance share over a fixed value."""
    return _edges(run.records, lambda r: (z := finite(r, "groups/zero_std")) is not None and z > above)


def reward_z(run: Run, above: float = 3.0, least: int = 10) -> list[Alarm]:
    """A reward more than three deviations from its own running mean, which rests on at least ten rows."""
    count, mean, squares = 0, 0.0, 0.0

    def far(record: StepRecord) -> bool:
        nonlocal count, mean, squares
        reward = finite(record, "reward/mean")
        if reward is None:
            return False
        spread = math.sqrt(squares / (count - 1)) if count >= least else math.inf
        is_far = abs(reward - mean) > above * spread if spread > 0 else reward != mean
        count += 1
        delta = reward - mean
        mean += delta / count
        squares += delta * (reward - mean)
        return is_far

    return _edges(run.records, far)


def _edges(records: Iterable[StepRecord], holds: Callable[[StepRecord], bool]) -> list[Alarm]:
    """One alarm each time that the condition begins to hold."""
    alarms, before = [], False
    for record in records:
        now = holds(record)
        if now and not before:
            alarms.append(Alarm(None, record.step))
        before = now
    return alarms


DETECTORS: Mapping[str, Callable[[Run], list[Alarm]]] = {
    "rlwatch": rlwatch_rules,
    "entropy < 0.1": low_entropy,
    "zero-std > 0.4": zero_std_share,
    "reward |z| > 3": reward_z,
}


# --- runs ------------------------------------------------------------------------------------------------------------


def case_of(run: Simulated) -> Case:
    """A made-up run's."""
    steps = run.records[-1].step - run.records[0].step + run.every
    return Case(
        kind=run.kind, name=run.name, rules=run.rules, steps=steps, first=run.records[0].step, onset=run.onset,
        event=run.event, due=run.due, cause=run.cause, logger=run.logger,
        severity=run.severity,
    )  # fmt: skip


def labelled(folder: Path) -> list[tuple[Case, list[Run]]]:
    """The logs that a folder's labels.tsv names, less those of which an alarm would count neither way.

    What is in one log is judged together.
    """
    found = []
    with (folder / "labels.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["label"] not in ("survived", "collapsed", "dead", "misconfigured"):
                continue
            every = int(row["every"])
            runs = load(folder / row["path"])
            first = min(run.records[0].step for run in runs)
            steps = sum(run.records[-1].step - run.records[0].step + every for run in runs)
            if row["label"] == "survived":
                found.append((Case(row["label"], row["path"], (), steps, first), runs))
                continue
            event = int(row["event_step"]) if row["event_step"] else first
            due = event + every if row["label"] == "collapsed" else first + (TWENTY_ROWS - 1) * every
            case = Case(row["label"], row["path"], (row["failure"],), steps, first, event=event, due=due)
            found.append((case, runs))
    return found


def of_the_lab(folder: Path) -> list[tuple[Run, Case]]:
    """The lab's runs: those that failed, due by the row after the event, and those that are good."""
    found = []
    for one in lab_runs.labelled(folder):
        first, last = one.run.records[0].step, one.run.records[-1].step
        due = None if one.event is None else one.event + 1
        case = Case(one.kind, one.run.name, one.rules, last - first + 1, first, event=one.event, due=due)
        found.append((one.run, case))
    return found


def residuals(logs: Iterable[tuple[Case, Sequence[Run]]]) -> list[np.ndarray]:
    """What the rewards and the logarithms of entropy of surviving runs scatter by around their own trend."""
    series = []
    for run in (run for case, runs in logs if not case.rules for run in runs):
        rewards = [value for r in run.records if (value := finite(r, "reward/mean")) is not None]
        entropies = [math.log(v) for r in run.records if (v := finite(r, "entropy/mean")) is not None and v > 0]
        series += [residual(values) for values in (rewards, entropies) if len(values) >= 2 * Noise.BLOCK]
    return series


def judge(runs: Sequence[Run], case: Case) -> dict[str, Score]:
    """By every detector."""
    return {name: score(case, [a for run in runs for a in detect(run)]) for name, detect in DETECTORS.items()}


def _judge_seed(seed: int, noise: Noise, kinds: Sequence[str]) -> list[dict[str, Score]]:
    judged = []
    for kind in kinds:
        for layout in range(len(KINDS[kind].layouts)):
            made = simulate(kind, seed, layout, noise)
            run = Run(made.name, made.name, "simulated", None, made.records, {"config": dict(made.config)})
            judged.append(judge([run], case_of(made)))
    return judged


# --- numbers ---------------------------------------------------------------------------------------------------------


def interval(values: Sequence[float], weights: Sequence[float] | None = None) -> tuple[float, float, float]:
    """The mean of so many runs' values, or their sum over the sum of weights, with a bootstrap's 95 % interval."""
    if not len(values):
        return math.nan, math.nan, math.nan
    value = np.asarray(values, dtype=float)
    weight = np.ones_like(value) if weights is None else np.asarray(weights, dtype=float)
    drawn = np.random.default_rng(0).integers(len(value), size=(RESAMPLES, len(value)))
    low, high = np.quantile(value[drawn].sum(axis=1) / weight[drawn].sum(axis=1), [0.025, 0.975])
    return float(value.sum() / weight.sum()), float(low), float(high)


def of_failures(scores: Sequence[Score]) -> dict[str, Any]:
    """The numbers of runs that failed."""
    leads = [s.lead for s in scores if s.lead is not None]
    named = [s.named for s in scores if s.named is not None]
    return {
        "runs": len(scores),
        "told": interval([s.told for s in scores]),
        "found": interval([s.found for s in scores]),
        "severe": interval([s.severe for s in scores]),
        "lead": [float(q) for q in np.quantile(leads, [0.1, 0.5, 0.9])] if leads else None,
        "cause": interval(named) if named else None,
        "before_onset": interval([s.false for s in scores]),
    }


def of_good(scores: Sequence[Score]) -> dict[str, Any]:
    """The numbers of runs that are fine."""
    blamed: dict[str, int] = {}
    for one in scores:
        for rule in one.false_rules:
            blamed[rule] = blamed.get(rule, 0) + 1
    return {
        "runs": len(scores),
        "steps": sum(s.case.steps for s in scores),
        "alarms": sum(s.false for s in scores),
        "per_run": interval([s.false for s in scores]),
        "warnings_per_run": interval([s.warnings for s in scores]),
        "per_1000_steps": interval([s.false for s in scores], [s.case.steps / 1000 for s in scores]),
        "runs_with_one": interval([s.false > 0 for s in scores]),
        "rules": blamed,
    }


def by_kind(scores: Sequence[Score]) -> dict[str, list[Score]]:
    """In the order in which they first appear."""
    kinds: dict[str, list[Score]] = {}
    for one in scores:
        kinds.setdefault(one.case.kind, []).append(one)
    return kinds


def summarize(scores: Sequence[Score]) -> dict[str, Any]:
    """All of a detector's numbers."""
    fails, good = [s for s in scores if s.case.rules], [s for s in scores if not s.case.rules]
    loggers = sorted({s.case.logger for s in fails if s.case.logger})
    return {
        "failures": {
            "all": of_failures(fails),
            **{kind: of_failures(some) for kind, some in by_kind(fails).items()},
            **{f"logged as {name}": of_failures([s for s in fails if s.case.logger == name]) for name in loggers},
        },
        "good": {"all": of_good(good), **{kind: of_good(some) for kind, some in by_kind(good).items()}},
    }


# --- print -----------------------------------------------------------------------------------------------------------


def _share(numbers: tuple[float, float, float] | None) -> str:
    if numbers is None or math.isnan(numbers[0]):
        return "–"
    mean, low, high = (f"{100 * number:.0f}" for number in numbers)
    return f"{mean} % [dim]{low}-{high}[/]"


def _rate(numbers: tuple[float, float, float]) -> str:
    mean, low, high = numbers
    return "–" if math.isnan(mean) else f"{mean:.3f} [dim]{low:.2f}-{high:.2f}[/]"


def failure_table(title: str, summary: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title=title, box=None, title_justify="left", header_style="dim", padding=(0, 1))
    table.add_column("failures")
    heads = (
        "runs",
        "told in time",
        "found",
        "so severe in time",
        "lead 10/50/90 %",
        "cause named",
        "before onset, a run",
    )
    for name in heads:
        table.add_column(name, justify="right")
    for kind, n in summary.items():
        lead = "–" if n["lead"] is None else " / ".join(f"{q:.0f}" for q in n["lead"])
        cells = (_share(n["told"]), _share(n["found"]), _share(n["severe"]), lead, _share(n["cause"]))
        table.add_row(kind, str(n["runs"]), *cells, _rate(n["before_onset"]), end_section=kind == "all")
    return table


def good_table(title: str, summary: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title=title, box=None, title_justify="left", header_style="dim", padding=(0, 1))
    table.add_column("good runs")
    for name in ("runs", "critical, a run", "per 1000 steps", "runs with one", "warnings, a run"):
        table.add_column(name, justify="right")
    table.add_column("by")
    for kind, n in summary.items():
        by = ", ".join(f"{rule} {count}" for rule, count in n["rules"].items() if rule)
        cells = (_rate(n["per_run"]), _rate(n["per_1000_steps"]), _share(n["runs_with_one"]))
        warned = _rate(n["warnings_per_run"])
        table.add_row(kind, str(n["runs"]), *cells, warned, by, end_section=kind == "all")
    return table


def beside_table(title: str, summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title=title, box=None, title_justify="left", header_style="dim", padding=(0, 1))
    table.add_column("detector")
    for name in (
        "told in time",
        "found",
        "lead 10/50/90 %",
        "critical a good run",
        "per 1000 steps",
        "good runs with one",
    ):
        table.add_column(name, justify="right")
    for name, summary in summaries.items():
        fails, good = summary["failures"]["all"], summary["good"]["all"]
        lead = "–" if fails["lead"] is None else " / ".join(f"{q:.0f}" for q in fails["lead"])
        cells = (_share(fails["told"]), _share(fails["found"]), lead, _rate(good["per_run"]))
        table.add_row(name, *cells, _rate(good["per_1000_steps"]), _share(good["runs_with_one"]))
    return table


def _print(console: Console, title: str, judged: Sequence[Mapping[str, Score]]) -> dict[str, Any]:
    summaries = {name: summarize([one[name] for one in judged]) for name in DETECTORS}
    ours = summaries["rlwatch"]
    console.rule(f"{title}: {len(judged)} runs", align="left")
    for table in (
        failure_table("", ours["failures"]),
        good_table("", ours["good"]),
        beside_table("", summaries),
    ):
        console.print(table)
        console.print()
    return summaries


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="runs of a class and a layout (there are 3 of these)")
    parser.add_argument(
        "--half", choices=("tune", "test", "both"), default="test", help="even seeds, odd ones, or each"
    )
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=[*KINDS], metavar="KIND", help="only these classes of made-up runs"
    )
    parser.add_argument("--runs", type=Path, metavar="DIR", help="a folder of labelled runs with a labels.tsv")
    parser.add_argument("--lab", type=Path, metavar="DIR", help="a folder of runs of `rlwatch lab NAME --seeds N`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all numbers, and each run's, as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    chosen = parser.parse_args(arguments)
    began = time.perf_counter()
    console = Console(width=140, highlight=False)
    numbers: dict[str, Any] = {}
    real = labelled(chosen.runs) if chosen.runs else []
    noise = Noise(residuals(real))
    whence = f"noise of {len(noise)} real series" if noise.real else "AR(1) noise"
    lists: dict[str, list[dict[str, Score]]] = {}
    for half, word, first in (("tune", "tuning", 0), ("test", "testing", 1)):
        if chosen.half not in (half, "both"):
            continue
        seeds, judge_seed = range(first, chosen.seeds, 2), partial(_judge_seed, noise=noise, kinds=chosen.kinds)
        if chosen.jobs > 1:
            with ProcessPoolExecutor(chosen.jobs) as pool:
                made = list(pool.map(judge_seed, seeds))
        else:
            made = list(map(judge_seed, seeds))
        lists[f"made-up, {word} half, {whence}"] = [one for some in made for one in some]
    if real:
        lists["labelled"] = [judge(runs, case) for case, runs in real]
    if chosen.lab:
        lists["lab"] = [judge([run], case) for run, case in of_the_lab(chosen.lab)]
    else:
        console.print("no folder of labelled runs was given (--runs): only made-up ones are judged")
    for title, judged in lists.items():
        numbers[title] = _print(console, title, judged)
    fails = sum(kind in FAILURES for kind in chosen.kinds)
    fine = len(chosen.kinds) - fails
    console.print(f"{fails} failure and {fine} harmless classes, {time.perf_counter() - began:.0f} s")
    if chosen.json:
        each = [asdict(s) | {"set": t, "detector": n} for t, js in lists.items() for j in js for n, s in j.items()]
        chosen.json.write_text(json.dumps({"summary": numbers, "runs": each}, indent=1, default=float))


if __name__ == "__main__":
    main()
