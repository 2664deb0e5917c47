"""non-finite: a number that must be a number is NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlwatch.detect.advice import CHECK_NUMERICS, GO_BACK, LOWER_LEARNING_RATE
from rlwatch.detect.glance import Glance
from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, are_finite
from rlwatch.detect.setting import Setting
from rlwatch.runs.records import Cause, Severity, StepRecord

FATAL = ("loss", "entropy/mean")
"""What comes out of the forward pass: once it is not finite, the weights are broken, or will be after this step."""


class NonFinite(Rule):
    """Any metric is NaN or infinite.

    Critical at once for the loss and the entropy; a warning for anything else, and critical once the same metric has
    been so for three records in a row. A metric printed as None has no value, which is not the same.
    """

    name = "non-finite"
    release = Hold(records=3)
    symptom_of = ()
    certain = True

    patience = Setting(
        3,
        "records in a row",
        "theory: a loss scaler feels for its range under fp16 with a single infinite gradient norm, and skips that "
        "step; what lasts is no such thing",
        least=1.0,
    )

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(config, settings)
        self._in_a_row: dict[str, int] = {}

    def update(self, record: StepRecord) -> Finding | Quiet:
        """See the class."""
        metrics = record.metrics
        if are_finite(metrics):
            if self._in_a_row:
                self._in_a_row = {}
            return CLEAR if metrics else NO_DATA
        broken = {name: value for name, value in metrics.items() if value is not None and not math.isfinite(value)}
        self._in_a_row = {name: self._in_a_row.get(name, 0) + 1 for name in broken}
        if not broken:
            return CLEAR
        fatal = [name for name in FATAL if name in broken]
        lasting = [name for name, count in self._in_a_row.items() if count >= self.patience]
        first = (fatal or lasting or list(broken))[0]
        others = len(broken) - 1
        return Finding(
            severity=Severity.CRITICAL if fatal or lasting else Severity.WARNING,
            value=broken[first],
            reference=None,
            message=f"{first} is {broken[first]}{_more(others)}",
            evidence=broken,
            causes=[Cause(_CAUSE_FATAL if fatal else _CAUSE_OTHER, broken)],
            advice=[GO_BACK, LOWER_LEARNING_RATE, CHECK_NUMERICS] if fatal or lasting else [CHECK_NUMERICS],
        )

    def may_find(self, log: Glance) -> bool:
        """See the base class."""
        return not log.is_finite


_CAUSE_FATAL = "the forward pass itself gives no numbers any more: the weights are broken, or are after this step"
_CAUSE_OTHER = "the forward pass is sound so far; under fp16 a single overflow of the gradient is normal and skipped"


def _more(others: int) -> str:
    if not others:
        return ""
    return f", and {others} more metrics are not finite" if others > 1 else ", and one more metric is not finite"
