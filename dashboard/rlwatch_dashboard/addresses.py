"""Where the pages are. Every link of the site is made here, so that it may be served under another path than "/"."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from flask import has_request_context, request


def base() -> str:
    """What stands before every address: nothing, or the path that a proxy serves the site under, as "/rlwatch"."""
    return request.script_root.rstrip("/") if has_request_context() else ""


def runs(search: str = "") -> str:
    """All runs."""
    return f"{base()}/{search}"


def run(key: str, part: str = "", search: str = "") -> str:
    """A run's page, or one of its parts.

    >>> run("a b", "completions", "?step=3")
    '/run/a%20b/completions?step=3'
    """
    return f"{base()}/run/{quote(key, safe='')}{'/' if part else ''}{part}{search}"


def compare(keys: Sequence[str] = (), by: Sequence[str] = ()) -> str:
    """Runs side by side, grouped by settings; without runs, the way to choose some.

    >>> compare(["a b", "c"], by=["epsilon_high"]), compare()
    ('/compare?run=a+b&run=c&by=epsilon_high', '/compare')
    """
    search = urlencode([*(("run", key) for key in keys), *(("by", name) for name in by)], errors="replace")
    return f"{base()}/compare{'?' if search else ''}{search}"


def alert(key: str, rule: str, since: int) -> str:
    """An alert of a run: it is known by its rule and the step at which it began.

    >>> alert("a b", "dead-groups", 188)
    '/run/a%20b/alert/dead-groups/188'
    """
    return run(key, f"alert/{quote(rule.encode(errors='replace'), safe='')}/{since}")


def answer(key: str) -> str:
    """Where answers to a run's alerts are sent."""
    return run(key, "answer")


def parts_of(pathname: str | None) -> list[str]:
    """The parts of an address as the browser gives it, still quoted, without what stands before every address.

    >>> parts_of("/run/a%20b/completions"), parts_of("/")
    (['run', 'a%20b', 'completions'], [])
    """
    path = pathname or "/"
    before = base()
    if before and (path == before or path.startswith(f"{before}/")):
        path = path[len(before) :]
    return [part for part in path.split("/") if part]
