"""sampler-mismatch: what samples the completions is not the policy that is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import SAME_SAMPLER, TOKEN_WEIGHTS
from rlwatch.detect.glance import Glance
from rlwatch.detect.rule import CLEAR, NO_DATA, SOON, Finding, Hold, Quiet, Rule, Untold, finite
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Ewma
from rlwatch.runs.records import Severity, StepRecord


class SamplerMismatch(Rule):
    """The importance weight p/p_sampler is far from 1 on average.

    Drawn from the sampler its expectation is exactly 1, whatever the two are, as long as the sampler can produce what
    the policy can: a mean of half or twice that is a warning, of a fifth or five times critical, for every update is
    scaled by it.

    A record without it, or with NaN, cannot tell.
    """

    name = "sampler-mismatch"
    needs = ("sampler/ratio_mean",)
    hold = SOON
    release = Hold(steps=20, records=3)

    half_life = Setting(10.0, "optimizer steps", "convention: of the smoothing of the logarithm", least=0.1)
    of_means = Setting(
        5.0,
        "optimizer steps",
        "calibration (made-up runs of even seeds): the same of rows of several steps, which are means already; with "
        "10, told a row or two later",
        least=0.1,
    )
    warning = Setting(
        2.0,
        "times too large or too small",
        "theory: under the sampler the mean of p / p_sampler is 1; half of the update or as much again is not meant",
        least=1.0,
    )
    critical = Setting(
        5.0,
        "times too large or too small",
        "theory: the same; updates five times too small or too large are another learning rate",
        least=1.0,
    )

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._log_ratio = Ewma(self.half_life, of_means=self.of_means)
        self._marks = math.log(self.warning), math.log(self.critical)

    def update(self, record: StepRecord) -> Untold | Quiet:
        """See the class."""
        ratio = finite(record, "sampler/ratio_mean")
        if ratio is None or ratio < 0:
            return NO_DATA
        level = self._log_ratio.update(record.step, math.log(max(ratio, 1e-9)))
        warning, critical = self._marks
        if abs(level) < warning:
            return CLEAR
        severity = Severity.CRITICAL if abs(level) >= critical else Severity.WARNING
        return Untold(severity, lambda: self._finding(severity, math.exp(level), record))

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        ratio, far = log.values("sampler/ratio_mean"), self.warning * (1 - 1e-9)
        return bool(((ratio >= far) | ((ratio >= 0) & (ratio * far <= 1))).any())

    def _finding(self, severity: Severity, ratio: float, record: StepRecord) -> Finding:
        names = ("sampler/ratio_mean", "sampler/logp_gap_mean", "sampler/logp_gap_max", "ratio/mean", "grad/norm")
        scaled = f"{1 / ratio:.3g} times smaller" if ratio < 1 else f"{ratio:.3g} times larger"
        return Finding(
            severity=severity,
            value=ratio,
            reference=1.0,
            message=f"the weight that corrects for the sampler is {ratio:.3g} on average, and should be 1: updates are "
            f"{scaled}",
            evidence={name: value for name in names if (value := finite(record, name)) is not None},
            advice=[TOKEN_WEIGHTS, SAME_SAMPLER],
        )
