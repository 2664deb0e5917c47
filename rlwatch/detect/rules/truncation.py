"""truncation: the length limit cuts off everything, and nothing that is cut off earns a reward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import LONGER_LIMIT, MASK_TRUNCATED, SHORTER_ANSWERS
from rlwatch.detect.glance import Glance
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import Severity, StepRecord


class Truncation(Rule):
    """Nearly every completion runs into the length limit.

    Critical where the reward has also been one and the same since the first row: an answer that is cut off cannot be
    right, and a run in which nothing is ever right has nothing to learn from. Otherwise info.

    A record without `length/truncated`, or with NaN, cannot tell; without any reward it is info.
    """

    name = "truncation"
    needs = ("length/truncated",)
    hold = Hold(steps=20, records=3)
    release = Hold(steps=20, records=3)

    half_life = Setting(20.0, "optimizer steps", "convention: of the smoothing, as in the rules on groups", least=0.1)
    nearly_all = Setting(
        0.95,
        "share of completions",
        "calibration: good runs begin there or live there (real GRPO runs on mathematics did both), so that alone is "
        "only worth knowing",
        most=1.0,
    )

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._truncated = Ewma(self.half_life)
        self._worst, self._best = math.inf, -math.inf

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        reward = finite(record, "reward/mean")
        if reward is not None:
            if reward < self._worst:
                self._worst = reward
            if reward > self._best:
                self._best = reward
        truncated = finite(record, "length/truncated")
        if truncated is None:
            return NO_DATA
        share = self._truncated.update(record.step, truncated)
        if share < self.nearly_all:
            return CLEAR
        alike = 0 <= self._best - self._worst <= 1e-9 and self._best <= 0
        severity = Severity.CRITICAL if alike else Severity.INFO
        return Untold(severity, lambda: self._finding(severity, share, record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        return log.reaches(log.values("length/truncated"), self.nearly_all, self.half_life)

    def _finding(self, severity: Severity, share: float, record: StepRecord) -> Finding:
        names = ("length/truncated", "length/mean", "reward/mean", "grad/norm")
        nothing = severity is Severity.CRITICAL
        earned = f", and no reward was ever other than {self._best:g}" if nothing else ""
        return Finding(
            severity=severity,
            value=share,
            reference=self.nearly_all,
            message=f"{share:.0%} of the completions are cut off by the length limit{earned}",
            evidence={name: value for name in names if (value := finite(record, name)) is not None},
            advice=[LONGER_LIMIT, SHORTER_ANSWERS] if nothing else [MASK_TRUNCATED, LONGER_LIMIT],
        )
