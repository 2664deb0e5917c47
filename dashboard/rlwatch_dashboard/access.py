"""Who may see the site: whoever has its token, or, without one, whoever opens it by a name of this machine.

Without a token only loopback is served, and the page that a browser shows must have been asked for by a name that is
loopback's: a foreign site whose name is made to point here (DNS rebinding) is refused. With a token nothing is answered
without it. It comes in a link once (`?token=`), and is then a cookie that no script reads and no other site sends.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from flask import Flask, redirect, request

from rlwatch_dashboard.access_pages import no_token, other_host, other_site

LOOPBACK = ("localhost", "127.0.0.1", "::1")

SHORTEST_TOKEN = 16
"""Letters of a token: shorter ones can be guessed."""

MOST_BYTES = 1 << 20
"""Of what a browser may send: it asks, and has nothing to upload."""

COOKIE_SECONDS = 30 * 24 * 3600

_SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Access:
    """Who may see the site.

    Args:
        token: What a visitor has to have; empty for nothing.
        hosts: Without a token, the names by which the site may be asked for.
    """

    token: str = field(default="", repr=False)
    hosts: frozenset[str] = frozenset(LOOPBACK)

    @classmethod
    def of(cls, host: str, token: str | None) -> Access:
        """What an address to listen on asks for: beyond loopback a token, which is made where none is given.

        Raises:
            ValueError: The token can be guessed.
        """
        if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
            raise ValueError(
                f"a token has {SHORTEST_TOKEN} or more printable ASCII characters; leave it out to get one"
            )
        if token is None and not is_loopback(host):
            token = secrets.token_urlsafe()
        return cls(token or "", frozenset((*LOOPBACK, host.lower())))

    def allows(self, given: str) -> bool:
        """Whether a token is the right one, in a time that says nothing of it."""
        return hmac.compare_digest(given.encode(errors="replace"), self.token.encode())

    @property
    def cookie(self) -> str:
        """What the cookie holds: not the token, for a cookie goes to every port of a host."""
        return hashlib.sha256(b"rlwatch dashboard\0" + self.token.encode()).hexdigest()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.5", "::1", "0.0.0.0", "10.0.0.1", "gpu-box")]
    [True, True, True, False, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def guard(server: Flask, access: Access) -> None:
    """Have every request looked at before anything else is done with it: pages, assets, downloads and callbacks."""
    server.config["MAX_CONTENT_LENGTH"] = MOST_BYTES

    @server.before_request
    def look() -> Any:
        if not access.token and _split(request.host)[0] not in access.hosts:
            return other_host(request.host)
        if access.token and (answer := _without_token(access)) is not None:
            return answer
        if request.method not in _SAFE and is_same_origin() is False:
            return other_site()
        return None


def is_same_origin() -> bool | None:
    """Whether a page of this site asks, as far as the browser says so; None where it says nothing.

    A proxy may change the name in the request, and says then which one it was asked by. No foreign page can say that
    in its place: a header of its own makes the browser ask first, and nobody answers.
    """
    fetch = request.headers.get("Sec-Fetch-Site")
    if fetch is not None:
        return fetch == "same-origin"
    origin = request.headers.get("Origin")
    if origin is None:
        return None
    ours = {request.host, request.headers.get("X-Forwarded-Host", request.host)}
    return urlsplit(origin).netloc.lower() in {host.lower() for host in ours}


def _without_token(access: Access) -> Any:
    """The answer to a request that does not have the token in its cookie; None to one that has."""
    name = cookie_name()
    given = request.args.getlist("token")
    if any(access.allows(token) for token in given) and request.method in _SAFE:
        return _let_in(access, name)
    if hmac.compare_digest(request.cookies.get(name, "").encode(errors="replace"), access.cookie.encode()):
        return None
    wrong = bool(given) or name in request.cookies
    return no_token(wrong=wrong, again=request.method == "GET" and not wrong)


def cookie_name() -> str:
    """The cookie's name, with the port: sites on other ports of the host have one of their own."""
    return f"rlwatch-token-{port}" if (port := _split(request.host)[1]) else "rlwatch-token"


def _let_in(access: Access, name: str) -> Any:
    """The way to the same address without the token, and the cookie."""
    rest = [(key, value) for key, value in parse_qsl(request.query_string.decode(errors="replace")) if key != "token"]
    answer: Any = redirect(path_as_asked() + (f"?{urlencode(rest)}" if rest else ""), 303)
    answer.set_cookie(
        name,
        access.cookie,
        max_age=COOKIE_SECONDS,
        path=f"{request.script_root}/",
        httponly=True,
        samesite="Strict",
        secure=request.is_secure or request.headers.get("X-Forwarded-Proto") == "https",
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer


def path_as_asked() -> str:
    """The path that was asked for as it was written (a run's name may hold a quoted slash), with what is before it.

    It begins with one slash, and has no backslash: with two of either it would be the address of another site.
    """
    raw = str(request.environ.get("REQUEST_URI") or quote(request.path)).partition("?")[0].replace("\\", "%5C")
    root = request.script_root.rstrip("/")
    inside = raw[len(root) :] if root and f"{raw}/".startswith(f"{root}/") else raw
    return f"{root}/{inside.lstrip('/')}"


def _split(host: str) -> tuple[str, int | None]:
    """A host's name as it is compared, and its port."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "", None
