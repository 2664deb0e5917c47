"""Which channels the environment configures, and a try of each."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from rlwatch.alerts.channel import Channel, Message
from rlwatch.alerts.command import Command
from rlwatch.alerts.slack import Slack
from rlwatch.runs.records import Advice, Alert, AlertState, Cause, Severity

WEBHOOKS = ("RLWATCH_SLACK_WEBHOOK", "SLACK_WEBHOOK_URL")
"""Where the webhook's URL is looked for; the first that is set counts."""

COMMAND = "RLWATCH_ALERT_COMMAND"
PAGE = "RLWATCH_PAGE_URL"


def channels(environment: Mapping[str, str] = os.environ) -> list[Channel]:
    """The channels that are configured."""
    found: list[Channel] = []
    webhook = next((environment[name] for name in WEBHOOKS if environment.get(name, "").strip()), None)
    if webhook is not None:
        found.append(Slack(webhook, page=environment.get(PAGE, "").strip()))
    command = environment.get(COMMAND, "").strip()
    if command:
        found.append(Command(command))
    return found


def try_all(configured: Sequence[Channel]) -> list[tuple[str, str | None]]:
    """Send a test alert through each channel, once; each one's name, and why it did not arrive, or None."""
    return [(channel.name, _try(channel)) for channel in configured]


def _try(channel: Channel) -> str | None:
    try:
        channel.send([Message((_test_alert(),))])
    except Exception as error:
        ours = type(error).__module__.startswith("rlwatch.")
        return str(error) if ours else f"an unexpected {type(error).__name__}"
    return None


def _test_alert() -> Alert:
    return Alert(
        rule="test",
        severity=Severity.INFO,
        state=AlertState.FIRING,
        since=0,
        step=0,
        time=time.time(),
        value=None,
        reference=None,
        message="this is a test: alerts of rlwatch arrive here",
        causes=(Cause("somebody ran `rlwatch alerts test`"),),
        advice=(Advice("nothing", "all is well"),),
        run="test",
    )
