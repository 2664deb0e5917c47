"""Alerts through the active wandb run, which mails them or posts them to Slack as its owner has set it up.

An alert has arrived when the run has taken it; bringing it to the server is wandb's own work.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from rlwatch.alerts.channel import Message, TryLater
from rlwatch.alerts.words import lines
from rlwatch.runs.records import AlertState, Severity
from rlwatch.streams.wandb import active_run

_LEVELS = {Severity.INFO: "INFO", Severity.WARNING: "WARN", Severity.CRITICAL: "ERROR"}
_TITLE_LIMIT = 63  # wandb: "must be less than 64 characters long"
_NO_WAIT = 0.001  # wandb takes 0 for "not given", and then drops what has the same title for a minute


class Wandb:
    """The wandb run that is active in this process; none is ever started.

    Args:
        least: Alerts that are less severe are not sent.
    """

    name = "wandb"
    together = False

    def __init__(self, *, least: Severity = Severity.INFO) -> None:
        self.least = least

    @property
    def active(self) -> bool:
        """Whether a run is active."""
        return active_run() is not None

    def send(self, messages: Sequence[Message]) -> None:
        """Alert through the run; see [`Channel.send`][rlwatch.alerts.channel.Channel.send]."""
        for message in messages:
            run = active_run()
            if run is None:
                raise TryLater("no wandb run is active any more")
            over = message.alert.state is AlertState.RESOLVED
            word = "resolved" if over else message.alert.severity.value
            run.alert(
                title=f"{word}: {message.alert.rule} in {message.alert.run}"[:_TITLE_LIMIT],
                text="\n".join(lines(message, time.time())),
                level="INFO" if over else _LEVELS[message.alert.severity],
                wait_duration=_NO_WAIT,
            )


@contextlib.contextmanager
def try_run(project: str) -> Iterator[bool]:
    """Have a wandb run of our own for a try, and end it; gives whether it is offline.

    Args:
        project: Where it is started.

    Raises:
        ImportError: wandb is not installed.
    """
    import wandb

    with wandb.init(project=project, name="rlwatch-alerts-test", settings={"console": "off", "silent": True}) as run:
        yield bool(run.offline)
