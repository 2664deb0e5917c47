"""grad-spike: gradients many times their usual size, again and again."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import CLIP_GRADIENT, LOWER_LEARNING_RATE
from rlwatch.detect.config import number_of
from rlwatch.detect.glance import Glance, among
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite, present
from rlwatch.detect.setting import Setting
from rlwatch.runs.records import Cause, Severity, StepRecord

MAD = 1.4826
"""Times the median absolute deviation is the deviation, where noise is normal."""


class GradSpike(Rule):
    """Several of the last rows have a gradient norm far beyond the usual one.

    A row spikes where the logarithm of its norm before clipping is above the median of the last 50 by a factor of 5 and
    by more than their noise (their median absolute deviation as a standard deviation). Healthy runs have such rows by
    themselves, so one is nothing. At least four in the last 20 rows are a warning, or three of twice that factor in the
    last 8, for the optimizer's moments then rest on them. Clipping, which is told, bounds what each of them does and
    not where it leads.

    Rows, and not steps, are counted: a row that stands for several steps tells the norm of the last of them. A norm of
    exactly 0 is a dead step's: it is no spike and sets no level. Says nothing before 20 norms, nor about a record
    without one.
    """

    name = "grad-spike"
    needs = ("grad/norm",)
    hold = Hold()
    release = Hold(steps=20, records=10)
    symptom_of = ("non-finite", "dead-groups", "entropy-collapse")  # of a gradient that is gone, any is a multiple

    factor = Setting(
        5.0, "times the usual norm", "calibration: healthy runs have isolated rows of 5 to 30 times", least=1.0
    )
    noise = Setting(
        4.0, "deviations of the logarithm", "calibration: as for every level that is looked at at each record"
    )
    cluster = Setting(
        4,
        "rows",
        "theory: where one row in 100 spikes by itself, four of 20 do by chance in one window of 23 000, and three in "
        "one of 1000",
        least=1.0,
    )
    burst = Setting(
        3,
        "rows",
        "theory: where one row in 160 is that large by itself, three of 8 are by chance in one window of 80 000",
        least=1.0,
    )
    burst_window = Setting(8, "rows", "theory: see burst", least=1.0, most=1000.0)
    burst_factor = Setting(
        2.0, "times factor", "calibration: of isolated rows of 5 to 30 times, three in five", least=1.0
    )
    window = Setting(20, "rows", "theory: see cluster", least=1.0, most=1000.0)
    usual = Setting(
        50,
        "rows",
        "theory: a deviation from so many is known to a sixth, and a median holds until half are others",
        least=5.0,
        most=1000.0,
    )
    enough = Setting(20, "rows", "theory: with fewer the deviation is not known to a quarter", least=3.0)

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._logs: list[float] = []  # of the last norms, as they came and by size
        self._ordered: list[float] = []
        self._log_factor = math.log(self.factor)
        self._rows = 0
        self._spikes: list[int] = []  # the numbers of the rows
        self._sizes: list[float] = []  # how many times the usual norm they were
        self._left: list[float] = []  # and how many times it after clipping
        limit = number_of(self.config, "max_grad_norm")
        self._limit = limit if limit is not None and limit > 0 else None
        self._steps: list[int] = []

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        norm = finite(record, "grad/norm")
        if norm is None or norm < 0:
            return NO_DATA
        self._rows += 1
        logs = self._logs
        if norm > 0:
            now = math.log(norm)
            if len(logs) >= self.enough:
                self._judge(now, record)
            logs.append(now)
            insort(self._ordered, now)
            if len(logs) > self.usual:
                del self._ordered[bisect_left(self._ordered, logs.pop(0))]
        elif len(logs) < self.enough:
            return NO_DATA
        spikes = self._spikes
        if not spikes:
            return CLEAR
        while spikes and spikes[0] <= self._rows - self.window:
            del spikes[0], self._steps[0], self._sizes[0], self._left[0]
        if len(spikes) < self.cluster and not self._bursts():
            return CLEAR
        return Untold(Severity.WARNING, lambda: self._finding(record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        import numpy as np

        norms = log.values("grad/norm")
        norms = norms[norms > 0]
        if not len(norms):
            return False
        low = np.quantile(norms, 0.1, method="lower")
        below, rows = among(norms < low, int(self.usual)), np.minimum(np.arange(1, len(norms) + 1), int(self.usual))
        if (2 * below >= rows)[int(self.enough) - 1 :].any():
            return True  # else no median of the last rows is below it
        return bool(
            among(norms > (1 - 1e-9) * self.factor * low, int(max(self.window, self.burst_window)) + 1).max()
            >= min(self.cluster, self.burst)
        )

    def _bursts(self) -> bool:
        near, large = self._rows - self.burst_window, self.burst_factor * self.factor
        return sum(n > near and x >= large for n, x in zip(self._spikes, self._sizes, strict=True)) >= self.burst

    def _judge(self, now: float, record: StepRecord) -> None:
        usual = _middle(self._ordered)
        above = now - usual
        if above <= self._log_factor:
            return
        if above <= self.noise * MAD * _middle(sorted(abs(x - usual) for x in self._logs)):
            return
        coefficient = finite(record, "grad/clip_coef")
        if coefficient is None and self._limit is not None:
            coefficient = min(1.0, self._limit / math.exp(now))
        self._spikes.append(self._rows)
        self._steps.append(record.step)
        self._sizes.append(math.exp(above))
        self._left.append(math.exp(above) * (1.0 if coefficient is None else coefficient))

    def _finding(self, record: StepRecord) -> Finding:
        usual = math.exp(_middle(self._ordered))
        clipped = sum(left < size for left, size in zip(self._left, self._sizes, strict=True))
        steps = ", ".join(str(step) for step in self._steps)
        bound = f"; {clipped} of them were clipped, to {max(self._left):.3g} times at most" if clipped else ""
        causes = [Cause(f"spikes at the steps {steps}{bound}", {"largest after clipping": usual * max(self._left)})]
        if self._limit is not None and self._limit > self.factor * usual:
            text = f"max_grad_norm={self._limit:g} lets {self._limit / usual:.3g} times the usual norm through"
            causes.append(Cause(text, {"usual norm": usual}))
        return Finding(
            severity=Severity.WARNING,
            value=max(self._sizes),
            reference=self.factor,
            message=(
                f"{len(self._spikes)} of the last {self.window:g} gradients are beyond {self.factor:g} times the usual "
                f"norm of {usual:.3g}, up to {max(self._sizes):.3g} times"
            ),
            evidence=present(record, "grad/norm", "grad/clip_coef", "kl/ref", "lr", "reward/mean", "ratio/max"),
            causes=causes,
            advice=[CLIP_GRADIENT, LOWER_LEARNING_RATE],
        )


def _middle(ordered: list[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
