"""How often somebody is told of one rule: rarely, but never late of what is critical.

A warning, a critical alert and an end are each told at once, and again only after the repeat interval, all that has
happened meanwhile in one message. A critical alert never waits, unless the last that was told of its rule is that it is
critical.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from rlwatch.runs.records import Alert, AlertState, Severity


@dataclass
class Told:
    """What one channel has been told of one rule.

    Args:
        last: The last alert that it was told.
        times: When it was last told of each kind: of an info, a warning, a critical alert, an end.
    """

    last: Alert | None = None
    times: dict[str, float] = field(default_factory=dict)

    def note(self, alert: Alert, now: float) -> None:
        """Remember that it has been told of an alert."""
        self.last = alert
        self.times[_kind(alert)] = now

    def when(self, waiting: Iterable[tuple[Alert, float]], repeat: float) -> float:
        """When it is to be told what waits, all together.

        Args:
            waiting: The changes of one rule, the oldest first, and when each could be told at the earliest: -inf for
                what should have been told long ago, which does not wait any longer.
            repeat: The repeat interval, in seconds.
        """
        soonest = math.inf
        last = before = _kind(self.last) if self.last is not None else None
        for alert, earliest in waiting:
            kind, when = _kind(alert), earliest
            escalates = kind == Severity.CRITICAL.value and (before in ("info", "warning") or last != kind)
            if kind in self.times and not escalates and earliest > -math.inf:
                when = max(when, self.times[kind] + repeat)
            soonest = min(soonest, when)
            before = kind
        return soonest


def _kind(alert: Alert) -> str:
    return "end" if alert.state is AlertState.RESOLVED else alert.severity.value
