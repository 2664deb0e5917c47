"""stalled: the next step does not come."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import LOOK_AT_PROCESS
from rlwatch.detect.config import number_of
from rlwatch.detect.glance import Glance
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Quiet, Rule, Untold, finite
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline
from rlwatch.runs.records import Cause, Severity, StepRecord

PROCESS = time.time_ns()
"""This process, as a number that a later one on the same machine does not have."""


class Stalled(Rule):
    """No record for much longer than the slowest usual one took.

    Late is what takes longer than the limit: the largest of two minutes, three times the slowest gap between two
    records so far (which fades, by half in 500 records), and 30 times the usual gap, or 10 times once 200 gaps have
    shown what evaluations and checkpoints take. A gap that is late raises the slowest no further than the limit, so
    that one hang does not hide the next, while an evaluation that long is late once. Where steps are left out of a log,
    the gap may be as many times as long.

    While no record comes (`tick`): a warning from the limit on, critical from four times the limit on: a run that does
    not run has stopped learning. A run that has done all its `max_steps` is not waited for.

    Once the record has come: a warning, for the run goes on and only time was lost; where its `step_seconds` is under
    half of the gap, it was lost between two steps, by an evaluation or a restart. The next usual record ends it.

    Without times, with times that go back, before three gaps are known, and from the last record before this process
    was started to the first one after, it says nothing.
    """

    name = "stalled"

    least = Setting(
        120.0, "seconds", "theory: a checkpoint over a network takes so long, and nobody could do anything sooner"
    )
    slower = Setting(3.0, "times the slowest gap", "convention: evaluations of one run take about as long", least=1.0)
    slow_first = Setting(
        30.0,
        "times the usual gap",
        "measured: evaluations and checkpoints take 3 to 20 steps' time; half more",
        least=1.0,
    )
    slow_later = Setting(
        10.0, "times the usual gap", "convention: where evaluations are known, only the unusual is left", least=1.0
    )
    learnt = Setting(200.0, "records", "theory: two rounds of what happens every 50 to 100 steps")
    half_life = Setting(500.0, "records", "theory: five rounds of what happens every 100 steps", least=1.0)
    pace = Setting(0.05, "share", "convention: the usual gap follows by so much a record, e-fold in 20", most=1.0)
    usual_rows = Setting(3.0, "gaps", "theory: the median of three leaves one wild gap out", least=1.0)
    critical = Setting(4.0, "times the limit", "convention: at least 120 usual gaps, or 12 of the slowest", least=1.0)
    between = Setting(0.5, "share of the gap", "theory: most of it was not in the step", most=1.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._first = Baseline(round(self.usual_rows))
        self._usual: float | None = None
        self._slowest = 0.0
        self._gaps = 0
        self._fading, self._up = 0.5 ** (1 / self.half_life), math.exp(self.pace)
        self._step: int | None = None
        self._time = math.nan
        self._spacing: int | None = None
        self._process = PROCESS

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        step, at = record.step, record.time
        if not math.isfinite(at):
            return NO_DATA
        known, gap, last = self._process == PROCESS or not self._restarted(), at - self._time, self._step
        self._step, self._time = step, at
        if last is None or not known or not gap >= 0:  # the first one, or a clock that was set back
            return NO_DATA
        passed, spacing = step - last if step > last else 1, self._spacing
        self._spacing = passed
        times = passed / spacing if spacing and passed > spacing else 1.0
        usual, slowest, paced = self._usual, self._slowest, gap / times
        if usual is not None and paced <= self.least:  # no limit is lower
            self._learn(paced)
            return CLEAR
        limit = self.limit
        self._learn(min(paced, limit))
        if limit == math.inf:
            return NO_DATA
        if gap <= limit * times:
            return CLEAR
        seconds = finite(record, "step_seconds")
        inside = None if seconds is None else seconds * passed >= self.between * gap
        severity = Severity.WARNING
        causes = []
        if inside is not None:
            where = "within the step: it sampled, scored or synchronised" if inside else "between two steps: an "
            where += "" if inside else "evaluation, a checkpoint, or a restart"
            causes = [Cause(f"the time went {where}", {"step_seconds": seconds})]
        message = f"step {step} came after {_duration(gap)}{_usually(usual, slowest)}"
        return Untold(severity, lambda: self._finding(severity, gap, message, limit, causes))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        times = log.times[abs(log.times) < math.inf]
        return bool((times[1:] - times[:-1] > self.least).any())  # no limit is lower

    def tick(self, now: float) -> Untold | Quiet:
        """See the class."""
        if self._step is None or self._restarted():
            return NO_DATA
        since, limit, steps = now - self._time, self.limit, number_of(self.config, "max_steps")
        if not since > limit or (steps and 0 < steps <= self._step):  # NaN is not more than anything
            return NO_DATA
        severity = Severity.CRITICAL if since > self.critical * limit else Severity.WARNING
        message = f"no step for {_duration(since)} after step {self._step}{_usually(self._usual, self._slowest)}"
        return Untold(severity, lambda: self._finding(severity, since, message, limit, []))

    @property
    def limit(self) -> float:
        """Seconds after which a record is late; inf while that is not known."""
        if self._usual is None:
            return math.inf
        times = self.slow_first if self._gaps < self.learnt else self.slow_later
        return max(self.least, self.slower * self._slowest, times * self._usual)

    def _restarted(self) -> bool:
        """Whether what is remembered is another process's: the time since then is no step's."""
        if self._process == PROCESS:
            return False
        self._process, self._time = PROCESS, math.nan
        return True

    def _learn(self, gap: float) -> None:
        self._gaps += 1
        slowest, usual = self._slowest * self._fading, self._usual
        self._slowest = gap if gap > slowest else slowest
        if usual is None:
            self._usual = self._first.update(gap)
        else:  # towards the median, whatever the size of the gap
            usual *= self._up if gap > usual else 1 / self._up
            self._usual = usual if usual > 1e-3 else 1e-3

    def _finding(self, severity: Severity, since: float, message: str, limit: float, causes: list[Cause]) -> Finding:
        if self.config.get("use_vllm") is True and self.config.get("vllm_mode") == "server":
            host = self.config.get("vllm_server_base_url") or self.config.get("vllm_server_host")
            causes = [*causes, Cause(f"completions come from a vLLM server{f' ({host})' if host else ''}")]
        return Finding(
            severity=severity,
            value=since,
            reference=limit,
            message=message,
            evidence={
                "last step": float(self._step or 0),
                "seconds without a step": since,
                "usual seconds": self._usual,
                "slowest seconds": self._slowest,
            },
            causes=causes,
            advice=[LOOK_AT_PROCESS],
        )


def _usually(usual: float | None, slowest: float) -> str:
    return f": usually it takes {_duration(usual or 0.0)}, and {_duration(slowest)} where it was slow"


def _duration(seconds: float) -> str:
    """As people say it: 0.42 s, 75 s, 12 min, 3.4 h."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.2g} h"
