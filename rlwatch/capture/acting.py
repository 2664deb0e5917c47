"""What an alert does besides being told: it can stop the training, and call a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlwatch.capture.guard import Guard
from rlwatch.detect.setting import nearest
from rlwatch.runs.records import Alert, AlertState, Severity

StopOn = str | Sequence[str] | None
"""`"critical"`, `"warning"`, or names of rules."""

OnAlert = Callable[[Alert], object] | None
"""A function of an alert."""


class Acting:
    """Decides whether a run is to stop. Both are off unless they were asked for.

    Args:
        stop_on: A severity: an alert of it or a higher one stops the run; or rules: an alert of one of them does, if it
            is a warning or critical. What is only worth knowing stops nothing.
        on_alert: Called with every change of an alert's state; what it raises is noted and goes no further.
        rules: The names that there are.
        guard: Catches what `on_alert` raises.

    Attributes:
        stopped_by: The alert that stops the run, or None.

    Raises:
        TypeError: `on_alert` cannot be called.
        ValueError: `stop_on` names nothing that there is.
    """

    def __init__(
        self,
        stop_on: StopOn = None,
        on_alert: OnAlert = None,
        *,
        rules: Sequence[str] = (),
        guard: Guard | None = None,
    ) -> None:
        if on_alert is not None and not callable(on_alert):
            raise TypeError(f"on_alert= takes a function of an alert, not {type(on_alert).__name__}")
        self.stopped_by: Alert | None = None
        self._on_alert = on_alert
        self._guard = guard or Guard()
        self._least, self._rules = Severity.WARNING, None if stop_on is None else _rules(stop_on, rules)
        if isinstance(stop_on, str):
            self._least = Severity(stop_on)
        self.may_stop = stop_on is not None

    def heard(self, alert: Alert) -> None:
        """An alert has changed."""
        if self._on_alert is not None:
            self._guard.run("calling on_alert", self._on_alert, alert)
        if not self.may_stop or self.stopped_by is not None or alert.state is not AlertState.FIRING:
            return
        meant = not self._rules or alert.rule in self._rules
        if meant and alert.severity.rank >= self._least.rank:
            self.stopped_by = alert


def _rules(stop_on: str | Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The rules that are named; none for a severity."""
    if isinstance(stop_on, str):
        if stop_on not in ("critical", "warning"):
            hint = f"; for the rule of that name, stop_on=[{stop_on!r}]" if stop_on in known else ""
            raise ValueError(f'stop_on= takes "critical", "warning" or a list of rules, not {stop_on!r}{hint}')
        return ()
    names = tuple(stop_on)
    if not names:
        raise ValueError("stop_on=[] names no rule, and so would never stop; leave it out instead")
    for name in names:
        if name not in known:
            raise ValueError(f"stop_on= names a rule {name!r} that there is none of{nearest(str(name), list(known))}")
    return names
