"""A run that was read, judged after the fact: by the same rules that judge a live one, fed one record at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rlwatch.detect.config import config_of
from rlwatch.detect.engine import Engine
from rlwatch.detect.glance import in_question, walk
from rlwatch.detect.rules import RULES
from rlwatch.readers import Options, UnreadableError, load, load_all
from rlwatch.report.missing import why_unchecked
from rlwatch.report.replay import Difference, differences
from rlwatch.report.waste import Waste, waste_of
from rlwatch.report.words import TOO_EARLY
from rlwatch.runs.reader import latest_alerts
from rlwatch.runs.records import Alert, AlertState, Run, Severity
from rlwatch.settings import NONE, Chooser, RuleArgument, Settings, SettingsArgument

logger = logging.getLogger("rlwatch")

VERDICTS = ("failed", "degraded", "at-risk", "healthy", "insufficient")
"""Worst first; `insufficient` says that too little is there to say anything."""

ESSENTIAL = {"reward-collapse", "entropy-collapse", "dead-groups"}
"""Where none of these could be checked, the others say little."""


@dataclass(frozen=True)
class Analysis:
    """What was found in one run.

    Args:
        run: The run.
        changes: Every change of an alert's state, as it would have been told live.
        verdict: One of [`VERDICTS`][rlwatch.report.analysis.VERDICTS].
        unchecked: Rule → why this log cannot show it, and which setting would log it.
        waste: What went into groups that taught nothing; None where the log cannot tell.
        settings: What a user has set.
        by_default: The changes as they would have been told by the defaults; None where nothing was set about rules.
        rules: How many rules there are, those that are silenced among them.
    """

    run: Run
    changes: Sequence[Alert]
    verdict: str
    unchecked: dict[str, str] = field(default_factory=dict)
    waste: Waste | None = None
    settings: Settings = NONE
    by_default: Sequence[Alert] | None = None
    rules: int = len(RULES)

    @property
    def alerts(self) -> list[Alert]:
        """Each alert once, open ones first, the worst first, and then the earliest.

        Its `step` is that at which it would have been told live, at its highest severity, also where it is over:
        `resolved_step` says since when.
        """
        return alerts_of(self.changes)

    @property
    def changed(self) -> list[Difference]:
        """The alerts that are not the same by the defaults; none where nothing was set about rules."""
        return [] if self.by_default is None else differences(self.alerts, alerts_of(self.by_default))

    @property
    def worst(self) -> Severity | None:
        """The highest severity of all alerts, also of those that are over; None where nothing was told."""
        return max((alert.severity for alert in self.alerts), key=lambda severity: severity.rank, default=None)


def analyze_run(run: Run, *, since_step: int = 0, settings: Settings = NONE) -> Analysis:
    """Lead the rules through a run.

    Args:
        run: The run.
        since_step: Tell nothing of earlier steps. The rules still see them: they need the run's beginning to know what
            is usual in it.
        settings: What a user has set. Where that changes how the run may be judged, it is judged by the defaults too.
    """
    changes, unchecked = _judge(run, since_step, settings)
    by_default = _judge(run, since_step, NONE)[0] if settings.changes_rules else None
    verdict = _verdict(run, changes, unchecked)
    rules = len(settings.parsed.chosen) + len(settings.silenced) + len(settings.python)
    return Analysis(run, changes, verdict, unchecked, waste_of(run), settings, by_default, rules)


def _judge(run: Run, since_step: int, settings: Settings) -> tuple[list[Alert], dict[str, str]]:
    """The changes of alerts, and why which rules could not judge."""
    unchecked: dict[str, str] = {}
    step = 0

    def leave_out(rule: str, error: Exception) -> None:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        unchecked[rule] = f"it failed at step {step} and was left out from there on ({said:.200})"
        logger.error("rlwatch: the rule %s failed at step %d; the others go on.", rule, step, exc_info=error)

    rules = settings.rules(config_of(run.info), leave_out)
    asked = in_question(rules, run.records)
    engine = Engine(asked, run=run.name, on_fault=leave_out)
    changes = []
    for record in walk(asked, run.records):
        step = record.step
        changes += engine.feed(record)
    changes += _of_a_short_log(run, engine)
    if since_step:
        began = {(c.rule, c.since) for c in changes if c.step >= since_step}
        changes = [c for c in changes if (c.rule, c.since) in began]
    names = set(run.names).intersection(name for rule in rules for name in rule.needs)
    names = {name for name in names if any(record.metrics.get(name) is not None for record in run.records)}
    spoke = {change.rule for change in changes}
    for rule in rules:
        if rule.name not in spoke and (why := why_unchecked(rule, names, run)) is not None:
            unchecked.setdefault(rule.name, why)
    unchecked |= dict.fromkeys(settings.silenced, "it is silenced by the settings (enabled = false)")
    judged = {rule.name for rule in rules} | unchecked.keys()
    for name in settings.were_in_python(run.info):
        if name not in judged:
            unchecked[name] = "a rule in Python that judged the run: rlwatch.analyze(path, rules=[...]) asks it again"
    return changes, unchecked


def analyze(
    path: str | Path,
    *,
    since_step: int = 0,
    every: int | None = None,
    correct: str | None = None,
    settings: SettingsArgument = None,
    rules: Sequence[RuleArgument] = (),
) -> list[Analysis]:
    """Read any log and judge what is in it.

    Args:
        path: A file, a run directory, or a folder or pattern of them; `-` is standard input.
        since_step: Tell nothing of earlier steps.
        every: Steps from one row to the next, for logs whose rows carry no step.
        correct: Which completions of a rollout dump are correct: `column`, `column>0.5` or `column>=1`.
        settings: The path of a `rlwatch.toml`, or the same as a mapping; None to look for the file.
        rules: Rules of your own: classes made from [`Rule`][rlwatch.rules.Rule], or such rules.

    Returns:
        One a run. In a folder, what cannot be read is left out; [`load_all`][rlwatch.readers.load_all] tells of it.

    Raises:
        UnreadableError: The path is a file that cannot be read, or nothing in the folder can be.
        ValueError: The settings or the rules make no sense.
    """
    options = Options(every=every, correct=correct)
    chooser = Chooser(settings, rules=rules)
    found: list[Analysis] = []
    why: UnreadableError | None = None
    for file, result in load_all([str(path)], options):
        if isinstance(result, UnreadableError):
            why = result
        else:
            found += [analyze_run(run, since_step=since_step, settings=chooser.of(file, run.info)) for run in result]
    if not found:
        raise why or UnreadableError("there is nothing in it")
    return found


def load_run(path: str | Path) -> Run:
    """The one run in a file or directory: `rlwatch.load(path).metrics` is a polars DataFrame.

    Raises:
        UnreadableError: It cannot be read, or holds several runs: [`rlwatch.readers.load`][rlwatch.readers.load] gives
            all of them.
    """
    runs = load(path)
    if len(runs) > 1:
        names = ", ".join(run.name for run in runs)
        raise UnreadableError(
            f"there are {len(runs)} runs in it ({names}): rlwatch.readers.load(path) gives all of them"
        )
    return runs[0]


def alerts_of(changes: Iterable[Alert]) -> list[Alert]:
    """Each alert once, as in [`Analysis.alerts`][rlwatch.report.analysis.Analysis.alerts]."""
    told: dict[tuple[str, int], Alert] = {}
    for change in changes:
        known = told.get((change.rule, change.since))
        if change.state is AlertState.RESOLVED and known is not None:
            change = replace(known, state=change.state, resolved_step=change.resolved_step)
        told[change.rule, change.since] = change
    return sorted(told.values(), key=lambda a: (a.state is not AlertState.FIRING, -a.severity.rank, a.step))


def _of_a_short_log(run: Run, engine: Engine) -> list[Alert]:
    """What a log shows that ends before anything can have held: a warning, which says on how little it rests."""
    rows = len(run.records)
    if not rows or run.records[-1].step - run.records[0].step + 1 >= TOO_EARLY:
        return []
    evidence = f" (low evidence: {rows} row{'s' * (rows > 1)})"
    return [
        replace(alert, severity=Severity.WARNING, state=AlertState.FIRING, message=alert.message + evidence)
        for alert in engine.held_back()
        if alert.severity is not Severity.INFO
    ]


def _verdict(run: Run, changes: Sequence[Alert], unchecked: dict[str, str]) -> str:
    """Failed: it had stopped learning at its end. Degraded: it had, and recovered. At risk: it was on its way there."""
    alerts = latest_alerts(list(changes))
    still = [alert.severity for alert in alerts if alert.state is AlertState.FIRING]
    if Severity.CRITICAL in still:
        return "failed"
    if any(alert.severity is Severity.CRITICAL for alert in alerts):
        return "degraded"
    if Severity.WARNING in still:
        return "at-risk"
    span = run.records[-1].step - run.records[0].step + 1 if run.records else 0
    if span < TOO_EARLY or unchecked.keys() >= ESSENTIAL:
        return "insufficient"
    return "healthy"
