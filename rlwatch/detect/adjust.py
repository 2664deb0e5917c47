"""A rule with a lid: told as ever, but never as worse than a user wants to hear of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from rlwatch.detect.rule import Finding, Quiet, Rule, Untold
from rlwatch.runs.records import Severity, StepRecord

if TYPE_CHECKING:
    _Base = Rule
else:
    _Base = object


def with_lid(rule: type[Rule], most: Severity) -> type[Rule]:
    """The same rule, that never says that something is worse than this."""
    bases = (_TickWithLid, _WithLid, rule) if rule.tick is not Rule.tick else (_WithLid, rule)
    own: dict[str, Any] = {"most": most, "__doc__": rule.__doc__, "__module__": rule.__module__}
    if "may_find" in vars(rule):  # which is not inherited, and a lid changes nothing about it
        own["may_find"] = rule.may_find
    return type(rule.__name__, bases, own)


class _WithLid(_Base):
    most: ClassVar[Severity]

    def update(self, record: StepRecord) -> Finding | Untold | Quiet:
        return _lower(super().update(record), self.most)  # type: ignore[safe-super]  # a rule stands behind it


class _TickWithLid(_Base):  # apart, for the engine calls only the ticks that a rule has of its own
    most: ClassVar[Severity]

    def tick(self, now: float) -> Finding | Untold | Quiet:
        return _lower(super().tick(now), self.most)


def _lower(found: Finding | Untold | Quiet, most: Severity) -> Finding | Untold | Quiet:
    if isinstance(found, Quiet) or found.severity.rank <= most.rank:
        return found
    if isinstance(found, Finding):
        return replace(found, severity=most)
    tell = found.tell
    return found._replace(severity=most, tell=lambda: replace(tell(), severity=most))
