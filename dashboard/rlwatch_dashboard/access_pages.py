"""What somebody sees who may not see the site: why, and what to do. Pages of their own, for they load nothing."""

from __future__ import annotations

from html import escape

from flask import Response

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · rlwatch</title>
<link rel="icon" href="data:,">
<style>
body {{ max-width: 40em; margin: 12vh auto 0; padding: 0 16px; font: 16px/1.5 system-ui, sans-serif; }}
code {{ font-size: 0.95em; overflow-wrap: anywhere; }}
</style>
{script}
</head>
<body><main><h1>{title}</h1>{body}</main></body>
</html>"""

RETRY = """<meta name="referrer" content="same-origin">
<script>
// A link on another site brings no cookie of this one. Asked for once more, from here, the page has it if there is one.
if (!document.referrer.startsWith(location.origin + "/")) location.replace(location.href);
</script>"""


def no_token(*, wrong: bool, again: bool) -> Response:
    """401: there is no token, or it is not the one; asked for once more by the page itself, if that may help."""
    why = "That is not the token of this dashboard, or not any more." if wrong else "This dashboard has a token."
    body = (
        f"<p>{why} Open it once with the link that <code>rlwatch dashboard</code> printed when it started: it ends in "
        "<code>?token=…</code>, and this browser keeps it for 30 days.</p>"
        "<p>Where the token was given by <code>RLWATCH_DASHBOARD_TOKEN</code> or <code>--token</code>, put that behind "
        "<code>?token=</code> yourself. A dashboard that made its own makes another one whenever it is started.</p>"
    )
    return _page(401, "A token is needed", body, RETRY if again else "")


def other_host(host: str) -> Response:
    """403: asked for by a name that is not one of this machine's."""
    body = (
        f"<p>This dashboard serves this machine only, and was asked for as <code>{escape(host)}</code>. Open it as "
        "<code>127.0.0.1</code> or <code>localhost</code>.</p>"
        "<p>Behind a proxy that passes on its own name, or to be reached from elsewhere, start it with a token: "
        "<code>rlwatch dashboard --token …</code>, or <code>RLWATCH_DASHBOARD_TOKEN</code>.</p>"
    )
    return _page(403, "Not by this name", body)


def other_site() -> Response:
    """403: a page of another site asks."""
    body = (
        "<p>Another site asked for this. Only the dashboard's own pages may.</p><p>Behind a proxy, it has to pass on "
        "the <code>Host</code> that the browser asked for, or say it in <code>X-Forwarded-Host</code>.</p>"
    )
    return _page(403, "Not from another site", body)


def _page(status: int, title: str, body: str, script: str = "") -> Response:
    page = PAGE.format(title=title, body=body, script=script)
    return Response(page, status, {"Cache-Control": "no-store"}, content_type="text/html; charset=utf-8")
