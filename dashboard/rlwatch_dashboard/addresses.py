"""Where the pages are. Every link of the site is made here, so that it may be served under another path than "/"."""

from __future__ import annotations

from urllib.parse import quote

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
