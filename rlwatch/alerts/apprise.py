"""Alerts through apprise, which knows mail, Discord, Telegram, Teams, ntfy and over a hundred more by one URL each.

Its URLs hold tokens and passwords, and it and the libraries below it log them. So each sending is a process of its own
whose logs go nowhere, and which is handed the URL on its standard input, for a command line can be read by others. It
ends when this process does: what it had sent after that, nobody could note, and it would be sent again.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence

from rlwatch.alerts import apprise_process as child
from rlwatch.alerts.channel import Message, Refused, TryLater
from rlwatch.alerts.process import run
from rlwatch.alerts.words import lines, page_of, title, worst_first
from rlwatch.runs.records import AlertState, Severity

TIMEOUT = 60.0
"""Seconds that a sending may take, starting Python included."""

_KINDS = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}
_BETWEEN = re.compile(r"[\s,]+(?=[A-Za-z][A-Za-z0-9]*://)")  # a comma within a URL is its own


class Apprise:
    """One URL of apprise's. Several are as many channels, for each is tried again by itself.

    Args:
        url: The URL.
        name: What files and log lines call it.
        page: The address of the live page, to link to; empty for none.
        least: Alerts that are less severe are not sent.
        timeout: Seconds that a sending may take before it is killed.
    """

    together = True
    active = True

    def __init__(
        self,
        url: str,
        *,
        name: str = "apprise",
        page: str = "",
        least: Severity = Severity.WARNING,
        timeout: float = TIMEOUT,
    ) -> None:
        self.name = name
        self.least = least
        self._url = url
        self._page = page
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"Apprise({self.name})"

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages; see [`Channel.send`][rlwatch.alerts.channel.Channel.send]."""
        ordered = worst_first(messages)
        now = time.time()
        several = len(ordered) > 1
        texts = ["\n".join([*([title(message.alert)] if several else []), *lines(message, now)]) for message in ordered]
        worst = ordered[0].alert
        page = page_of(self._page, worst)
        order = {
            "url": self._url,
            "title": title(worst) + (f" and {len(ordered) - 1} more" if several else ""),
            "body": "\n\n".join([*texts, *([f"Page: {page}"] if page else [])]),
            "kind": "success" if worst.state is AlertState.RESOLVED else _KINDS[worst.severity],
        }
        problem = self._run(json.dumps(order).encode() + b"\n")
        if problem is not None:
            raise problem

    def _run(self, order: bytes) -> TryLater | Refused | None:
        arguments = [sys.executable or "python3", "-m", child.__name__]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            code = run(arguments, order, timeout=self._timeout, environment=environment, end_input=False)
        except TimeoutError:
            return TryLater(f"apprise took more than {self._timeout:g} s")
        except (OSError, ValueError) as error:
            return Refused(f"Python cannot be started for apprise ({type(error).__name__})", keep=True)
        if code == child.SENT:
            return None
        if code == child.NOT_SENT:
            return TryLater("apprise could not send it")
        if code == child.MISSING:
            return Refused("apprise is not installed: pip install 'rlwatch-monitor[apprise]'", keep=True)
        if code == child.UNKNOWN:
            return Refused("apprise does not know this kind of URL", keep=True)
        return Refused(f"apprise ended with exit code {code}", keep=True)


def urls_of(text: str) -> list[str]:
    """The URLs in a text that has commas or blanks between them.

    >>> urls_of("mailto://me:pw@gmail.com?to=a@b.c,d@e.f, json://localhost")
    ['mailto://me:pw@gmail.com?to=a@b.c,d@e.f', 'json://localhost']
    """
    return [url for part in _BETWEEN.split(text) if (url := part.strip(" \t\r\n,"))]


def names_of(urls: Sequence[str]) -> list[str]:
    """A name for each URL, from its kind alone, so that one keeps its own when another kind comes or goes.

    >>> names_of(["json://a", "tgram://b", "json://c", "no-url"])
    ['apprise-json', 'apprise-tgram', 'apprise-json-2', 'apprise']
    """
    seen: Counter[str] = Counter()
    names = []
    for url in urls:
        kind = re.match(r"([a-z0-9]{1,16})://", url.lower())
        name = f"apprise-{kind[1]}" if kind else "apprise"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names
