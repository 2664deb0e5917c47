"""How a run is, in one sentence: the header of its page and its line in `rlwatch runs`."""

from __future__ import annotations

from dataclasses import dataclass

from rlwatch.runs.reader import RunSummary
from rlwatch.runs.records import AlertState, Severity

TOO_EARLY = 20
"""Steps before which silence means nothing: no rule has a baseline yet."""


@dataclass(frozen=True)
class Headline:
    """A sentence and its tone: `good`, `info`, `warning`, `critical` or `unknown`."""

    tone: str
    text: str


def headline(run: RunSummary) -> Headline:
    """How the run is and since when, from its state and its alerts alone.

    A number that is absent is left out, never said as zero.
    """
    if run.last is None:
        return Headline("unknown", "No step yet.")
    step = run.last.step
    if run.open_alerts:
        worst = run.open_alerts[0]
        opening = {
            Severity.CRITICAL: f"Not learning since step {worst.since}",
            Severity.WARNING: f"At risk since step {worst.since}",
            Severity.INFO: f"Worth knowing since step {worst.since}",
        }[worst.severity]
        others = len(run.open_alerts) - 1
        more = f" {others} more open alert{'s' if others > 1 else ''}." if others else ""
        return Headline(worst.severity.value, f"{opening}: {worst.message}.{more}".replace("..", "."))
    over = [a for a in run.alerts if a.state is AlertState.RESOLVED and a.severity is not Severity.INFO]
    if over:
        last = max(over, key=lambda alert: alert.step)
        return Headline("good", f"No open alert; {last.rule} was over at step {last.resolved_step}.")
    if step < TOO_EARLY:
        return Headline("unknown", f"Too early to say: {step} step{'s' * (step != 1)}.")
    return Headline("good", f"No rule has fired in {step} steps.")
