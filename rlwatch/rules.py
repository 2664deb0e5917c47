"""What a rule of your own in Python is written with: `from rlwatch.rules import CLEAR, NO_DATA, Finding, Rule, ...`."""

from rlwatch.detect.rule import CLEAR, NO_DATA, Finding, Hold, Quiet, Rule, Untold, finite
from rlwatch.detect.setting import Setting
from rlwatch.detect.streaming import Baseline, Ewma
from rlwatch.runs.records import Advice, Cause, Severity, StepRecord

__all__ = [
    "CLEAR",
    "NO_DATA",
    "Advice",
    "Baseline",
    "Cause",
    "Ewma",
    "Finding",
    "Hold",
    "Quiet",
    "Rule",
    "Setting",
    "Severity",
    "StepRecord",
    "Untold",
    "finite",
]
