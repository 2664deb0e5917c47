"""Alerts to Slack, through an incoming webhook: what somebody needs who is woken and has nothing but a phone.

The webhook's URL lets anybody who has it post, so it is a secret: it is read from the environment, kept in memory, and
in no text that this module makes. The standard library sends it, for the retries are the outbox's: a client that tries
again by itself could send twice what the outbox believes sent once.
"""

from __future__ import annotations

import email.utils
import encodings.idna  # noqa: F401  # now: at the end of the process it cannot be imported any more
import http.client
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

from rlwatch.alerts.channel import Message, Refused, TryLater
from rlwatch.alerts.words import lines, page_of, title, worst_first
from rlwatch.runs.records import Severity

TIMEOUT = 10.0
"""Seconds that a server may keep silent."""

_LIMIT = 2900  # Slack: 3000 characters a section


class Slack:
    """An incoming webhook of Slack, or anything that takes the same.

    Args:
        url: The webhook's URL.
        page: The address of the live page, to link to; empty for none.
        least: Alerts that are less severe are not sent: what is only worth knowing wakes nobody.
        timeout: Seconds that the server may keep silent.
    """

    name = "slack"
    together = True
    active = True

    def __init__(
        self, url: str, *, page: str = "", least: Severity = Severity.WARNING, timeout: float = TIMEOUT
    ) -> None:
        self.least = least
        self._url = url.strip()
        self._page = page
        self._timeout = timeout
        # A redirect would turn the POST into a GET, whose answer says nothing about the message.
        self._opener = urllib.request.build_opener(_NoRedirect)

    def __repr__(self) -> str:
        return "Slack(a webhook)"

    def send(self, messages: Sequence[Message]) -> None:
        """Post messages; see [`Channel.send`][rlwatch.alerts.channel.Channel.send]."""
        data = json.dumps(payload(messages, page=self._page)).encode()
        problem = self._post(data)
        # Raised here, not where it was caught: the exceptions of urllib hold the URL.
        if problem is not None:
            raise problem

    def _post(self, data: bytes) -> TryLater | Refused | None:
        try:
            parts = urllib.parse.urlsplit(self._url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                return Refused("the webhook is not an http(s) URL", keep=True)
            headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "rlwatch"}
            request = urllib.request.Request(self._url, data=data, headers=headers, method="POST")
            with self._opener.open(request, timeout=self._timeout) as answer:
                answer.read(1000)
            return None
        except urllib.error.HTTPError as error:
            return _judge(error)
        except (http.client.InvalidURL, ValueError):
            return Refused("the webhook is not an http(s) URL", keep=True)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            kind = type(reason if isinstance(reason, Exception) else error).__name__
            return TryLater(f"the server cannot be reached ({kind})")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _judge(error: urllib.error.HTTPError) -> TryLater | Refused:
    with error:
        code = error.code
        after = _seconds(error.headers.get("Retry-After") if error.headers else None)
        try:
            said = error.read(100).decode("ascii", "replace").strip()
        except (OSError, http.client.HTTPException):
            said = ""
    # Slack says what is wrong in one word, such as no_service; anything else may repeat the URL.
    word = f", {said}" if re.fullmatch(r"[a-z_]{1,40}", said) else ""
    why = f"the server answered {code}{word}"
    if code in (408, 425, 429) or code >= 500:
        return TryLater(why, after)
    return Refused(why, keep=code not in (400, 413))


def _seconds(header: str | None) -> float | None:
    """What Retry-After asks for, as seconds or as a date."""
    if header is None:
        return None
    header = header.strip()
    if header.isdecimal():
        return float(header[:9])
    try:
        date = email.utils.parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    return max(0.0, date.timestamp() - time.time())


def payload(messages: Sequence[Message], *, page: str = "", now: float | None = None) -> dict[str, Any]:
    """Messages about one run as Slack takes them: blocks, and the same as text for notifications and old clients.

    Args:
        messages: At least one.
        page: The address of the live page; empty for none.
        now: Unix seconds; by default the present.
    """
    now = time.time() if now is None else now
    ordered = worst_first(messages)
    blocks: list[dict[str, Any]] = []
    texts = []
    for message in ordered:
        head, body = title(message.alert), lines(message, now)
        texts.append("\n".join([head, *body]))
        blocks.append(_section("\n".join([f"*{_escape(head)}*", *map(_marked, body)])))
    link = page_of(page, ordered[0].alert)
    if link:
        texts.append(f"Page: {link}")
        blocks.append(_section(f"<{_escape(link)}|Open the alert's page>"))
    if len(blocks) > 50:  # Slack's limit
        blocks = [*blocks[:49], _section("... and more: see the run's alerts.jsonl")]
    return {"text": _escape("\n\n".join(texts))[:39_000], "blocks": blocks}


def _marked(line: str) -> str:
    name, colon, rest = line.partition(":")
    return f"*{_escape(name)}*{colon}{_escape(rest)}"


def _section(text: str) -> dict[str, Any]:
    short = text if len(text) <= _LIMIT else text[: _LIMIT - 4] + " ..."
    return {"type": "section", "text": {"type": "mrkdwn", "text": short}}


def _escape(text: str) -> str:
    """As Slack asks for it; so no run's name can call a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
