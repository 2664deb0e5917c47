"""Sends alerts through the active wandb run, which mails them or posts them to Slack as its owner has set it up."""

from __future__ import annotations

from rlwatch.runs.records import Alert, AlertState, Severity
from rlwatch.streams.wandb import active_run

_LEVELS = {Severity.INFO: "INFO", Severity.WARNING: "WARN", Severity.CRITICAL: "ERROR"}
_TITLE_LIMIT = 63  # wandb: "must be less than 64 characters long"


def send(alert: Alert) -> bool:
    """Send an alert that fires; True if there was a run to send it through."""
    run = active_run()
    if run is None or alert.state is not AlertState.FIRING:
        return False
    lines = [
        f"{alert.message} (since step {alert.since})",
        *(f"Why: {cause.text}" for cause in alert.causes),
        *(f"Try: {advice.text} [{advice.source}]" for advice in alert.advice),
    ]
    title = f"{alert.severity.value}: {alert.rule} in {alert.run}"
    run.alert(title=title[:_TITLE_LIMIT], text="\n".join(lines), level=_LEVELS[alert.severity], wait_duration=0)
    return True
