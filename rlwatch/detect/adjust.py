"""What `rlwatch.toml` and a rule of the user's own need around a rule: a lid on its severity, and a guard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from rlwatch.detect.rule import NO_DATA, Finding, Quiet, Rule, Untold
from rlwatch.runs.records import Severity, StepRecord

OnFault = Callable[[str, Exception], None]
"""Called with the name of a rule that raised, and what it raised."""

_Base = Rule if TYPE_CHECKING else object


def with_lid(rule: type[Rule], most: Severity) -> type[Rule]:
    """The same rule, that never says that something is worse than this."""
    own = {"most": most, "__doc__": rule.__doc__, "__module__": rule.__module__}
    return type(rule.__name__, (_WithLid, rule), own)


def guard(rule: Rule, on_fault: OnFault) -> None:
    """From now on a rule that raises, or says nothing that a rule can say, is told of once and is silent after that.

    An alert of it that is open stays open: nobody can say that it is over.
    """
    kind = type(rule)
    own = {"_on_fault": staticmethod(on_fault), "__doc__": kind.__doc__, "__module__": kind.__module__}
    rule.__class__ = type(kind.__name__, (_Guarded, kind), own)
    vars(rule)["_switched_off"] = False


class _WithLid(_Base):
    most: ClassVar[Severity]

    def update(self, record: StepRecord) -> Finding | Untold | Quiet:
        return _lower(super().update(record), self.most)

    def tick(self, now: float) -> Finding | Untold | Quiet:
        return _lower(super().tick(now), self.most)


def _lower(found: Finding | Untold | Quiet, most: Severity) -> Finding | Untold | Quiet:
    if isinstance(found, Quiet) or found.severity.rank <= most.rank:
        return found
    if isinstance(found, Finding):
        return replace(found, severity=most)
    tell = found.tell
    return found._replace(severity=most, tell=lambda: replace(tell(), severity=most))


class _Guarded(_Base):
    _on_fault: ClassVar[OnFault]
    _switched_off: bool

    def update(self, record: StepRecord) -> Finding | Untold | Quiet:
        return NO_DATA if self._switched_off else self._try(super().update, record)

    def tick(self, now: float) -> Finding | Untold | Quiet:
        return NO_DATA if self._switched_off else self._try(super().tick, now)

    def _try(self, look: Callable[[Any], Finding | Untold | Quiet], at: Any) -> Finding | Untold | Quiet:
        try:
            found = look(at)
            if isinstance(found, Quiet):
                return found
            if isinstance(found, Untold):
                found = found._replace(tell=_once_more(self.name, found.tell, self._fault))
            elif not isinstance(found, Finding):
                raise TypeError(f"a rule has to return a Finding, CLEAR or NO_DATA, and not {found!r:.100}")
            if not isinstance(found.severity, Severity):
                raise TypeError(f"a finding's severity has to be a Severity, and not {found.severity!r:.100}")
        except Exception as error:
            self._fault(error)
            return NO_DATA
        return found

    def _fault(self, error: Exception) -> None:
        vars(self)["_switched_off"] = True
        self._on_fault(self.name, error)


def _once_more(name: str, tell: Callable[[], Finding], on_fault: Callable[[Exception], None]) -> Callable[[], Finding]:
    def safely() -> Finding:
        try:
            found = tell()
            if not isinstance(found, Finding):
                raise TypeError(f"tell has to return a Finding, and not {found!r:.100}")
        except Exception as error:
            on_fault(error)
            why = f"{name} has found something, and failed when it was to say what: {type(error).__name__}"
            return Finding(Severity.WARNING, float("nan"), None, why)
        return found

    return safely
