"""What a rule is: it looks at one record at a time and says whether its condition holds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rlwatch.detect.setting import apply_settings
from rlwatch.runs.records import Advice, Cause, Forecast, Metrics, Severity, StepRecord

if TYPE_CHECKING:
    from rlwatch.detect.glance import Glance


@dataclass(frozen=True)
class Finding:
    """A rule's condition holds at a record.

    Args:
        severity: As bad as it is now.
        value: The number that was judged.
        reference: What it was judged against, or None.
        message: One line with the number in it, without a full stop.
        evidence: Other numbers that a reader needs.
        causes: Likely reasons, the likeliest first.
        advice: What to try, the cheapest first.
        forecast: When it is going to be worse, at this rate; None where that cannot be known.
    """

    severity: Severity
    value: float
    reference: float | None
    message: str
    evidence: Metrics = field(default_factory=dict)
    causes: Sequence[Cause] = ()
    advice: Sequence[Advice] = ()
    forecast: Forecast | None = None


@dataclass(frozen=True)
class Hold:
    """How long a condition must hold before it is told, and be gone before it is over.

    Both counts must be reached: steps so that rows every 10th step do not slow a rule down tenfold, records so that one
    row never decides alone where it should not.
    """

    steps: int = 1
    records: int = 1


SOON = Hold(steps=5, records=2)
"""For what is large beside its noise in each row: two rows, and five where they are of one step each."""


class Untold(NamedTuple):
    """A finding that is put into words only when it is told: one that holds for long is found again at every record.

    Args:
        severity: The finding's.
        tell: Makes the finding; it is called before the rule gets the next record, or never.
        since: A step since which it has held for as many records as it has to, by the rule's own account; None where
            the engine counts.
        hold: How long it has to hold, where that is not as long as the rule's findings have to.
    """

    severity: Severity
    tell: Callable[[], Finding]
    since: int | None = None
    hold: Hold | None = None


class Quiet(Enum):
    """A rule found nothing: because all is well, or because the record could not tell."""

    CLEAR = "clear"
    NO_DATA = "no data"


CLEAR, NO_DATA = Quiet.CLEAR, Quiet.NO_DATA
"""The two by themselves: before Python 3.12, an attribute of an enumeration is costly to look up."""


class Rule(ABC):
    """One thing that can go wrong with a run. O(1) work and memory a record; it never looks ahead.

    Every number that it judges by is a [`Setting`][rlwatch.detect.setting.Setting] of its class.

    Args:
        config: The trainer's configuration where it is known, for naming causes; empty for most foreign logs.
        settings: Setting → what it is instead of its default.

    Attributes:
        name: What people and `rlwatch.toml` call it.
        needs: The metrics without which it says nothing.
        hold: How long its condition must hold before it is told.
        release: How long it must be gone before it is over.
        certain: One record is enough to know: no number of rows makes it surer.
        symptom_of: Rules of which this one shows a symptom: while one of them tells of something critical, nothing new
            is told by this one.

    Raises:
        ValueError: There is no such setting, or its value makes no sense.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    hold: ClassVar[Hold] = Hold()
    release: ClassVar[Hold] = Hold()
    symptom_of: ClassVar[tuple[str, ...]] = ("non-finite",)
    certain: ClassVar[bool] = False

    def __init__(self, config: Mapping[str, Any] | None = None, settings: Mapping[str, object] | None = None) -> None:
        # With a dict of its own from the start: CPython looks attributes up in it three times as fast as in one that it
        # made for all rules of a class, once that has been asked for by name, as settings and saving do.
        self.__dict__ = {"config": config or {}}
        self.config: Mapping[str, Any]
        apply_settings(self, settings or {})

    @abstractmethod
    def update(self, record: StepRecord) -> Finding | Untold | Quiet:
        """Take in the next record and say what is found. Steps never go back."""

    def tick(self, now: float) -> Finding | Untold | Quiet:
        """Say what is found while no record comes; `now` is in Unix seconds. Most rules have nothing to say then."""
        return NO_DATA

    def may_find(self, log: Glance) -> bool:
        """Whether a fresh rule that is led through a whole log may find anything anywhere in it.

        False only where that is sure from the columns: the rule is then left out, and what it would have cost is saved.
        It stands for its own class alone (see [`in_question`][rlwatch.detect.glance.in_question]).
        """
        return True


def finite(record: StepRecord, name: str) -> float | None:
    """A metric's value where it is there and a number that one can calculate with, else None.

    Beyond 1e100 a number is no measurement, and its square would be infinite.
    """
    value = record.metrics.get(name)
    return value if value is not None and -1e100 < value < 1e100 else None  # NaN is not below anything


def are_finite(metrics: Metrics) -> bool:
    """Whether each value that is there is a finite number."""
    try:
        if math.isfinite(sum(metrics.values())):  # type: ignore[arg-type]  # None is caught
            return True
    except (TypeError, OverflowError):
        pass
    return all(value is None or math.isfinite(value) for value in metrics.values())


def present(record: StepRecord, *names: str) -> dict[str, float | None]:
    """Those of the metrics that are there and numbers, for the evidence of a finding."""
    return {name: value for name in names if (value := finite(record, name)) is not None}
