"""Who may see the dashboard, asked with real requests: tokens, names, other sites, and a proxy in front."""

from __future__ import annotations

import contextlib
import doctest
import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

pytest.importorskip("dash", reason="the extra `dashboard` is not installed")

from rlwatch.cli import app
from rlwatch_dashboard import access, run_in_background, serve, server
from test_dashboard import new_run

TOKEN = "correct-horse-battery"
WRITE = {"Content-Type": "application/json"}


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode(errors="replace")

    @property
    def cookie(self) -> str:
        return str(self.headers["Set-Cookie"]).partition(";")[0]


def ask(url: str, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    """A request with just these headers (`_` for `-`); nothing is followed."""
    place = urlsplit(url)
    assert place.hostname is not None
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    with contextlib.closing(connection):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        return Answer(connection.getresponse())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    new_run(tmp_path, "a b", steps=3)
    return tmp_path


# A token

PATHS = [
    "/",
    "/run/a%20b",
    "/run/a%20b/completions",
    "/run/a%20b/text?step=1",
    "/run/a%20b/answer",
    "/assets/base.css",
    "/assets/nothing.js",
    "/_dash-layout",
    "/_dash-dependencies",
    "/_dash-component-suites/dash/dcc/async-graph.js",
    "/_favicon.ico",
    "/nothing/at/all",
    "//",
]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE"])
def test_without_the_token_nothing_is_answered(root: Path, method: str) -> None:
    with run_in_background(root, token=TOKEN) as url:
        for path in [*PATHS, "/_dash-update-component"]:
            answer = ask(url, path, method, b"{}" if method in ("POST", "PUT") else None)
            assert (answer.status, answer.headers["Set-Cookie"]) == (401, None), path
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            if method == "GET":
                assert "?token=" in answer.text
                assert "a b" not in answer.text


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "%C3%BC", "%00", "a" * 5000])
def test_a_wrong_token_is_none(root: Path, wrong: str) -> None:
    with run_in_background(root, token=TOKEN) as url:
        assert ask(url, f"/?token={wrong}").status == 401
        assert ask(url, "/", Cookie=f"rlwatch-token-{urlsplit(url).port}={wrong}").status == 401


def test_the_token_of_a_link_becomes_a_cookie_and_leaves_the_address(root: Path) -> None:
    with run_in_background(root, token=TOKEN) as url:
        port = urlsplit(url).port
        answer = ask(url, f"/run/a%20b%2Fc/completions?step=3&token={TOKEN}&q=x%26y")
        assert (answer.status, answer.headers["Location"]) == (303, "/run/a%20b%2Fc/completions?step=3&q=x%26y")
        said = answer.headers["Set-Cookie"]
        assert answer.cookie.startswith(f"rlwatch-token-{port}=")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in said.split(";")}
        assert TOKEN not in said + answer.text + answer.headers["Location"]
        assert answer.headers["Cache-Control"] == "no-store"
        for path in ("/", "/run/a%20b", "/assets/base.css", "/_dash-layout"):
            assert ask(url, path, Cookie=answer.cookie).status == 200, path
        assert ask(url, "/", Cookie=f"{answer.cookie}x").status == 401
        assert ask(url, "/?token=wrong", Cookie=answer.cookie).status == 200  # the cookie is right


def test_the_token_is_not_taken_in_a_write(root: Path) -> None:
    with run_in_background(root, token=TOKEN) as url:
        answer = ask(url, f"/_dash-update-component?token={TOKEN}", "POST", b"{}", **WRITE)
        assert (answer.status, answer.headers["Set-Cookie"]) == (401, None)


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example", "/%2Fevil.example"])
def test_the_way_on_stays_on_this_site(root: Path, path: str) -> None:
    with run_in_background(root, token=TOKEN) as url:
        where = ask(url, f"{path}?token={TOKEN}").headers["Location"]
        assert where.startswith("/")
        assert where[1:2] not in ("/", "\\")


def test_behind_https_the_cookie_is_for_https(root: Path) -> None:
    with run_in_background(root, token=TOKEN) as url:
        assert "Secure" in ask(url, f"/?token={TOKEN}", X_Forwarded_Proto="https").headers["Set-Cookie"]
        assert "Secure" not in ask(url, f"/?token={TOKEN}").headers["Set-Cookie"]


def test_the_token_is_nowhere_on_the_disk_or_in_a_log(
    root: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"), run_in_background(root, token=TOKEN) as url:
        ask(url, f"/?token={TOKEN}")
        ask(url, f"/?token={TOKEN}&token=other")
        ask(url, "/?token=wrong-but-close")
    assert TOKEN not in url
    said = "".join(capfd.readouterr()) + caplog.text + repr(access.Access(TOKEN))
    assert TOKEN not in said
    assert not [path for path in root.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


# Which address needs one


@pytest.mark.parametrize(
    ("host", "token", "needs"),
    [
        ("127.0.0.1", None, False),
        ("localhost", None, False),
        ("::1", None, False),
        ("127.0.0.1", TOKEN, True),
        ("0.0.0.0", None, True),
        ("::", None, True),
        ("192.168.1.5", None, True),
        ("gpu-box", None, True),
        ("", None, True),
    ],
)
def test_what_others_can_reach_has_a_token(host: str, token: str | None, needs: bool) -> None:
    made = access.Access.of(host, token).token
    assert bool(made) is needs
    assert made == TOKEN if token else made == "" or len(made) >= 40


def test_each_made_token_is_another_one() -> None:
    assert len({access.Access.of("0.0.0.0", None).token for _ in range(20)}) == 20


@pytest.mark.parametrize("token", ["", "short", "x" * 15, "ü" * 20, "a" * 20 + "\n", "\x00" * 20])
def test_a_token_that_can_be_guessed_or_typed_wrong_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token has 16"):
        access.Access.of("127.0.0.1", token)


def test_a_made_token_is_in_the_link_that_is_given_once_and_one_that_was_given_is_not(root: Path) -> None:
    links: list[str] = []

    def stop(url: str) -> None:
        links.append(url)
        raise KeyboardInterrupt

    for token in (None, TOKEN):
        with pytest.raises(KeyboardInterrupt):
            serve(root, "0.0.0.0", 0, token=token, base_path="/rl", on_ready=stop)
    made = urlsplit(links[0])
    assert made.path == "/rl/"
    assert len(made.query.removeprefix("token=")) >= 40
    assert urlsplit(links[1]).query == ""
    assert made.hostname not in ("0.0.0.0", None)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--token", "short"], "a token has 16"),
        (["--base-path", "/run"], "--base-path"),
        (["--base-path", "/a b"], "path"),
    ],
)
def test_the_command_says_what_is_wrong(root: Path, arguments: list[str], why: str) -> None:
    result = CliRunner().invoke(app, ["dashboard", str(root), "--port", "0", *arguments])
    assert (result.exit_code, why in result.output) == (2, True)
    assert "short" not in result.output


@pytest.mark.parametrize(("in_environment", "token"), [(TOKEN, TOKEN), ("", None)])
def test_the_command_takes_the_token_from_the_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch, in_environment: str, token: str | None
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("rlwatch_dashboard.serve", lambda roots, **given: seen.append(given))
    monkeypatch.setenv("RLWATCH_DASHBOARD_TOKEN", in_environment)
    assert CliRunner().invoke(app, ["dashboard", str(root), "--base-path", "/rl"]).exit_code == 0
    assert (seen[0]["token"], seen[0]["base_path"], seen[0]["host"]) == (token, "/rl", "127.0.0.1")
    assert TOKEN not in CliRunner().invoke(app, ["dashboard", "--help"]).output


# Names


def test_without_a_token_a_foreign_name_is_refused(root: Path) -> None:
    with run_in_background(root) as url:
        port = urlsplit(url).port
        for host in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
            assert ask(url, "/", Host=f"{host}:{port}").status == 200, host
            assert ask(url, "/", Host=host).status == 200, host
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[", "x@127.0.0.1.evil",
                     "10.0.0.1", "<img src=x>"):  # fmt: skip
            for path in ("/", "/assets/base.css", "/_dash-layout", "/_dash-update-component"):
                answer = ask(url, path, Host=f"{host}:{port}" if host else "")
                assert answer.status in (400, 403), (host, path)
            assert "<img" not in answer.text
        assert "127.0.0.1" in ask(url, "/", Host="evil.example").text


def test_with_a_token_the_name_does_not_matter(root: Path) -> None:
    with run_in_background(root, token=TOKEN) as url:
        letting_in = ask(url, f"/?token={TOKEN}", Host="rl.example")
        assert ask(url, "/", Host="rl.example", Cookie=letting_in.cookie).status == 200
        assert ask(url, "/", Host="rl.example").status == 401


# Other sites


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Sec_Fetch_Site": "same-origin"}, True),
        ({"Sec_Fetch_Site": "same-site"}, False),
        ({"Sec_Fetch_Site": "cross-site"}, False),
        ({"Sec_Fetch_Site": "none"}, False),
        ({"Sec_Fetch_Site": "cross-site", "Origin": "OURS"}, False),
        ({"Origin": "OURS"}, True),
        ({"Origin": "null"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://127.0.0.1"}, False),  # another port is another site's
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({"Origin": "https://rl.example", "X_Forwarded_Host": "rl.example"}, True),
        ({"Origin": "https://evil.example", "X_Forwarded_Host": "rl.example"}, False),
    ],
)
def test_what_another_site_sends_is_refused(root: Path, headers: dict[str, str], allowed: bool) -> None:
    with run_in_background(root) as url:
        given = {name: value.replace("OURS", url.rstrip("/")) for name, value in headers.items()}
        for path in ("/_dash-update-component", "/run/a%20b/answer"):
            answer = ask(url, path, "POST", b"{}", **WRITE, **given)
            assert ("Not from another site" in answer.text) is not allowed, (path, answer.text)
            assert (answer.status == 403) is not allowed
        assert ask(url, "/", **given).status == 200  # a link on another site may lead here


def test_a_large_body_is_refused(root: Path) -> None:
    with run_in_background(root) as url, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        answer = ask(url, "/_dash-update-component", "POST", b" " * (access.MOST_BYTES + 1), **WRITE)
        assert answer.status == 413


# Behind a proxy


@contextlib.contextmanager
def proxy(target: str, *, strips: bool, keeps_host: bool = True) -> Iterator[str]:
    """A reverse proxy that serves a site under /rlwatch, and nothing else; gives its address."""
    place = urlsplit(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            inside = self.path.removeprefix("/rlwatch")
            if inside == self.path or inside[:1] not in ("/", "?", ""):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = dict(self.headers)
            if not keeps_host:
                headers["X-Forwarded-Host"] = headers["Host"]
                headers["Host"] = str(place.netloc)
            headers["Connection"] = "close"
            connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
            with contextlib.closing(connection):
                connection.request(self.command, inside if strips else self.path, body, headers)
                answer = connection.getresponse()
                data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_HEAD = pass_on  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}/"
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join(10)


@pytest.mark.parametrize("strips", [True, False])
def test_behind_a_proxy_everything_is_under_its_path(root: Path, strips: bool) -> None:
    with run_in_background(root, base_path="/rlwatch/") as inner, proxy(inner, strips=strips) as url:
        page = ask(url, "/rlwatch/")
        assert page.status == 200
        assert "/rlwatch/assets/base.css" in page.text
        config = json.loads(page.text.split('id="_dash-config" type="application/json">')[1].split("</script>")[0])
        assert config["requests_pathname_prefix"] == "/rlwatch/"
        links = [part.split('"')[0] for part in page.text.split('src="')[1:] + page.text.split('href="')[1:]]
        ours = [link for link in links if link.startswith("/")]
        assert len(ours) > 5
        assert [link for link in ours if not link.startswith("/rlwatch/")] == []
        assert {ask(url, link).status for link in ours} == {200}
        assert ask(url, "/rlwatch").status in (200, 308)
        hrefs: list[str] = []
        json.loads(ask(url, "/rlwatch/_dash-layout").text, object_hook=lambda of: hrefs.append(of.get("href")) or of)
        assert "/rlwatch/" in hrefs
        assert [href for href in hrefs if href and not href.startswith("/rlwatch/")] == []


@pytest.mark.parametrize("strips", [True, False])
def test_behind_a_proxy_the_cookie_and_the_way_on_are_under_its_path(root: Path, strips: bool) -> None:
    serving = run_in_background(root, token=TOKEN, base_path="/rlwatch")
    with serving as inner, proxy(inner, strips=strips, keeps_host=False) as url:
        answer = ask(url, f"/rlwatch/run/a%20b?token={TOKEN}")
        assert (answer.status, answer.headers["Location"]) == (303, "/rlwatch/run/a%20b")
        assert "Path=/rlwatch/" in answer.headers["Set-Cookie"]
        assert ask(url, "/rlwatch/run/a%20b", Cookie=answer.cookie).status == 200
        assert ask(url, "/rlwatch/run/a%20b").status == 401


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", ""), ("/", ""), ("/rlwatch", "/rlwatch"), ("rl/watch/", "/rl/watch"), ("//a//b", "/a/b")],
)
def test_a_base_path_is_brought_into_shape(given: str, expected: str) -> None:
    assert server.checked_base(given) == expected


@pytest.mark.parametrize("given", ["/run", "/assets/x", "/_dash", "/a b", "/a/../b", "/<x>", "/ü", "/compare"])
def test_a_base_path_that_cannot_be_told_from_the_site_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="base-path"):
        server.checked_base(given)


def test_the_examples_are_right() -> None:
    for module in (access, server):
        result = doctest.testmod(module)
        assert (result.attempted > 0, result.failed) == (True, 0)
