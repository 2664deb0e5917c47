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
from datetime import datetime, timezone
from typing import Any

from rlwatch.alerts.channel import Message, Refused, TryLater
from rlwatch.runs.records import Alert, AlertState, Severity

TIMEOUT = 10.0
"""Seconds that a server may keep silent."""

_LIMIT = 2900  # Slack: 3000 characters a section
_TOLD_LATE = 600.0  # seconds after which a message says how old it is
_DOTS = {Severity.INFO: "🔵", Severity.WARNING: "🟡", Severity.CRITICAL: "🔴"}


class Slack:
    """An incoming webhook of Slack, or anything that takes the same.

    Args:
        url: The webhook's URL.
        page: The address of the live page, to link to; empty for none.
        timeout: Seconds that the server may keep silent.
    """

    name = "slack"
    least = Severity.WARNING  # what is only worth knowing wakes nobody
    together = True

    def __init__(self, url: str, *, page: str = "", timeout: float = TIMEOUT) -> None:
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
    worst_first = sorted(messages, key=lambda m: (m.alert.state is AlertState.RESOLVED, -m.alert.severity.rank))
    run = worst_first[0].alert.run
    blocks: list[dict[str, Any]] = []
    texts = []
    for message in worst_first:
        lines = [_title(message.alert), *_lines(message, now)]
        texts.append("\n".join(lines))
        blocks.append(_section("\n".join([f"*{_escape(lines[0])}*", *map(_marked, lines[1:])])))
    link = _page_of(page, run)
    if link:
        texts.append(f"Page: {link}")
        blocks.append(_section(f"<{_escape(link)}|Open the run's page>"))
    if len(blocks) > 50:  # Slack's limit
        blocks = [*blocks[:49], _section("... and more: see the run's alerts.jsonl")]
    return {"text": _escape("\n\n".join(texts))[:39_000], "blocks": blocks}


def _title(alert: Alert) -> str:
    over = alert.state is AlertState.RESOLVED
    dot, word = ("🟢", "RESOLVED") if over else (_DOTS[alert.severity], alert.severity.value.upper())
    return f"{dot} {word} · {alert.rule} · {alert.run or 'a run'}"


def _lines(message: Message, now: float) -> list[str]:
    alert = message.alert
    lines = [f"What: {alert.message}"]
    if alert.state is AlertState.RESOLVED:
        lines.append(f"When: from step {alert.since} to step {alert.resolved_step}")
    else:
        lines.append(f"Since: step {alert.since} (seen at step {alert.step})")
        if alert.value is not None and alert.reference is not None:
            lines.append(f"Number: {alert.value:.3g} against {alert.reference:.3g}")
        elif alert.value is not None:
            lines.append(f"Number: {alert.value:.3g}")
        lines += [f"Likely cause: {cause.text}" for cause in alert.causes[:2]]
        lines += [f"Try: {advice.text} [{advice.source}]" for advice in alert.advice[:3]]
    if len(message.changes) > 1:
        fired = sum(change.state is AlertState.FIRING for change in message.changes)
        ended = len(message.changes) - fired
        span = f"steps {message.changes[0].step} to {alert.step}"
        lines.append(f"Changes: {len(message.changes)} in {span} (fired or grew worse {fired}, over {ended})")
    if now - alert.time > _TOLD_LATE:
        at = datetime.fromtimestamp(alert.time, timezone.utc)
        lines.append(f"Told late: this is of {at:%Y-%m-%d %H:%M} UTC")
    return lines


def _marked(line: str) -> str:
    name, colon, rest = line.partition(":")
    return f"*{_escape(name)}*{colon}{_escape(rest)}"


def _section(text: str) -> dict[str, Any]:
    short = text if len(text) <= _LIMIT else text[: _LIMIT - 4] + " ..."
    return {"type": "section", "text": {"type": "mrkdwn", "text": short}}


def _escape(text: str) -> str:
    """As Slack asks for it; so no run's name can call a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _page_of(page: str, run: str) -> str:
    if not page.startswith(("http://", "https://")):
        return ""
    return f"{page.rstrip('/')}/run/{urllib.parse.quote(run, safe='')}" if run else page
