"""Which channels are configured, in the environment or in a settings file, and a try of each.

What a settings file says comes here as a mapping, all of it optional:

    {
        "slack": {"webhook_env": "MY_WEBHOOK"},        # or {"webhook": "https://..."}
        "command": "python3 page_me.py",
        "apprise": {"urls_env": "MY_URLS"},            # or {"urls": ["ntfy://...", "mailto://..."]}
        "wandb": True,                                 # through the run that is active
        "page_url": "http://gpu-box:8050",
        "repeat": 3600,                                # seconds
        "min_severity": "critical",                    # of every channel, instead of each one's own
    }

The environment wins. What is secret is kept in memory, and is in no text that this module makes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlwatch.alerts.apprise import Apprise, names_of, urls_of
from rlwatch.alerts.channel import Channel, Message
from rlwatch.alerts.command import Command
from rlwatch.alerts.outbox import REPEAT, Outbox
from rlwatch.alerts.slack import Slack
from rlwatch.alerts.wandb import Wandb
from rlwatch.runs.records import Advice, Alert, AlertState, Cause, Severity

WEBHOOKS = ("RLWATCH_SLACK_WEBHOOK", "SLACK_WEBHOOK_URL")
"""Where the webhook's URL is looked for; the first that is set counts."""

COMMAND = "RLWATCH_ALERT_COMMAND"
APPRISE = "RLWATCH_APPRISE_URLS"
PAGE = "RLWATCH_PAGE_URL"
VARIABLES = (*WEBHOOKS, COMMAND, APPRISE, PAGE)
"""Every variable of the environment that is looked at, without those that a settings file names."""

_KEYS = ("slack", "command", "apprise", "wandb", "page_url", "repeat", "min_severity")


@dataclass(frozen=True)
class Delivery:
    """How alerts are brought to people; see [`Delivery.read`][rlwatch.alerts.configured.Delivery.read].

    Args:
        slack: The webhook's URL; empty for none.
        command: A command of the user's own; empty for none.
        apprise: URLs of apprise's.
        wandb: Whether to alert through the active wandb run.
        page: The address of the live page; empty for none.
        repeat: The repeat interval, in seconds.
        least: Less severe alerts are not sent; None leaves that to each channel.
    """

    slack: str = field(default="", repr=False)
    command: str = field(default="", repr=False)
    apprise: tuple[str, ...] = field(default=(), repr=False)
    wandb: bool = True
    page: str = ""
    repeat: float = REPEAT
    least: Severity | None = None

    @classmethod
    def read(cls, settings: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Delivery:
        """What the environment and a settings file say.

        Args:
            settings: What the settings file says of alerts, as above.
            environment: By default that of the process.

        Raises:
            ValueError: The settings hold something else; the message names it, and none of its values.
        """
        settings = settings or {}
        env = os.environ if environment is None else environment
        _check_keys("", settings, _KEYS)
        slack = _table(settings, "slack", ("webhook", "webhook_env"))
        apprise = _table(settings, "apprise", ("urls", "urls_env"))
        urls = apprise.get("urls", [])
        if isinstance(urls, str) or not isinstance(urls, Sequence) or not all(isinstance(url, str) for url in urls):
            raise ValueError("apprise.urls is not a list of texts")
        webhooks = (WEBHOOKS[0], _text(slack, "webhook_env", "slack."), *WEBHOOKS[1:])
        from_env = _first(env, APPRISE, _text(apprise, "urls_env", "apprise."))
        return cls(
            slack=_first(env, *webhooks) or _text(slack, "webhook", "slack."),
            command=_first(env, COMMAND) or _text(settings, "command"),
            apprise=tuple(urls_of(from_env) if from_env else (url.strip() for url in urls if url.strip())),
            wandb=_of_type(settings, "wandb", bool, True, "true or false"),
            page=_first(env, PAGE) or _text(settings, "page_url"),
            repeat=_seconds(settings, "repeat", REPEAT),
            least=_severity(settings, "min_severity"),
        )

    def channels(self) -> list[Channel]:
        """A channel each; that of wandb is there also while no run is active."""
        least: dict[str, Any] = {} if self.least is None else {"least": self.least}
        found: list[Channel] = []
        if self.slack:
            found.append(Slack(self.slack, page=self.page, **least))
        if self.command:
            found.append(Command(self.command, **least))
        for url, name in zip(self.apprise, names_of(self.apprise), strict=True):
            found.append(Apprise(url, name=name, page=self.page, **least))
        if self.wandb:
            found.append(Wandb(**least))
        return found

    def open(self, folder: Path | None, *, others: Path | None, note: Callable[[str, Exception], None]) -> Outbox:
        """An outbox with these channels; see [`Outbox`][rlwatch.alerts.outbox.Outbox]."""
        return Outbox(self.channels(), folder, others=others, note=note, repeat=self.repeat)


def channels(environment: Mapping[str, str] | None = None, settings: Mapping[str, Any] | None = None) -> list[Channel]:
    """The channels that are configured; raises as [`Delivery.read`][rlwatch.alerts.configured.Delivery.read] does."""
    return Delivery.read(settings, environment).channels()


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


def _first(environment: Mapping[str, str], *names: str) -> str:
    return next((value for name in names if name and (value := environment.get(name, "").strip())), "")


def _check_keys(where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"there is no setting {where}{key}; there is {', '.join(where + name for name in known)}")


def _of_type(table: Mapping[str, Any], key: str, kind: type, default: Any, words: str, where: str = "") -> Any:
    value = table.get(key, default)
    if not isinstance(value, kind):
        raise ValueError(f"{where}{key} is not {words}")
    return value


def _table(settings: Mapping[str, Any], key: str, known: Sequence[str]) -> Mapping[str, Any]:
    table: Mapping[str, Any] = _of_type(settings, key, Mapping, {}, "a table")
    _check_keys(f"{key}.", table, known)
    return table


def _text(table: Mapping[str, Any], key: str, where: str = "") -> str:
    return str(_of_type(table, key, str, "", "a text", where)).strip()


def _seconds(settings: Mapping[str, Any], key: str, default: float) -> float:
    value = settings.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ValueError(f"{key} is not a number of seconds")
    return float(value)


def _severity(settings: Mapping[str, Any], key: str) -> Severity | None:
    if key not in settings:
        return None
    try:
        return Severity(settings[key])
    except ValueError:
        raise ValueError(f"{key} is not info, warning or critical") from None
